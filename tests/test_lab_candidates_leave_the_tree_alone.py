"""A patch is built in a clean copy, measured against its control and archived; the tree stays as it was."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from lab_lanes import PROFILE, SERVER
from verispec.cli import main
from verispec.errors import OptionError
from verispec.lab.candidates.archive import tried_before
from verispec.lab.candidates.candidate import load_candidate
from verispec.lab.candidates.run import run_candidate
from verispec.lab.ledger.ledger import Ledger
from verispec.lab.questions import ask
from verispec.lab.verification import verify

SUITE = """
name = "two"
version = 1
max_tokens = 104
prompts = [{ id = "a", class = "x", text = "Write a." }, { id = "b", class = "y", text = "Write b." }]
"""
PASS = "            time.sleep(given.pace / 1000)\n"
HELPS = PASS.replace("given.pace", '(given.pace / 2 if os.environ.get("LAB_HURRY") else given.pace)')
IDLE = PASS + '            os.environ.get("LAB_HURRY")\n'
CRASHES = PASS + '            os.environ.get("LAB_HURRY") and os.abort()\n'


def git(folder: Path, *arguments: str) -> str:
    identity = ("-c", "user.name=t", "-c", "user.email=t@t")
    done = subprocess.run(
        ["git", *identity, "-C", str(folder), *arguments], capture_output=True, text=True, check=True
    )
    return done.stdout


class Repository:
    """An engine of one file, whose build copies it; its working tree holds changes that nobody may touch or see."""

    def __init__(self, folder: Path) -> None:
        self.path = folder / "engine"
        self.path.mkdir()
        self.server = SERVER.read_text()
        assert PASS in self.server
        git(self.path, "init", "--quiet", "--initial-branch", "main")
        (self.path / "server.py").write_text(self.server)
        git(self.path, "add", ".")
        git(self.path, "commit", "--quiet", "-m", "engine")
        (folder / "two.toml").write_text(SUITE)

    def patch(self, changed: str) -> str:
        """The diff that puts ``changed`` where a pass takes its time."""
        (self.path / "server.py").write_text(self.server.replace(PASS, changed))
        diff = git(self.path, "diff")
        git(self.path, "checkout", "--quiet", ".")
        return diff

    def dirty(self) -> None:
        (self.path / "server.py").write_text("raise SystemExit('the working tree is not what is measured')\n")
        (self.path / "own.txt").write_text("mine")

    def state(self) -> tuple[str, ...]:
        files = sorted(path for path in self.path.rglob("*") if path.is_file() and ".git" not in path.parts)
        inside = sorted(str(path) for path in (self.path / ".git").rglob("*") if "index" not in path.name)
        head, status = git(self.path, "rev-parse", "HEAD"), git(self.path, "status", "--porcelain")
        return head, status, *map(str, files), *(path.read_text() for path in files), *inside


def describe(folder: Path, patch: str, **more: str) -> Path:
    (folder / "change.patch").write_text(patch)
    command = [part.replace(str(SERVER), "{copy}/built.py") for part in PROFILE["command"]]
    parts = {
        "control": "switch",
        "switch": '[switch]\nenvironment = { LAB_HURRY = "1" }',
        "command": "cp server.py built.py",
        "confirmation": "6",
        **more,
    }
    text = f"""
name = "hurry"
intent = "Passes sleep for no reason."
suite = "{folder / "two.toml"}"
canaries = "{folder / "canaries.toml"}"
[source]
repository = "engine"
base = "main"
patch = "change.patch"
control = "{parts["control"]}"
[source.build]
commands = ["{parts["command"]}"]
products = ["built.py"]
seconds = 20
[target]
profile = {_value({**PROFILE, "command": command})}
model = "tiny"
binary = "{sys.executable}"
arguments = ["--pace", "6", "--rows", "4"]
environment = {{ PYTHONDONTWRITEBYTECODE = "1" }}
silence_seconds = 10.0
{parts["switch"]}
[stages]
smoke_prompts = 1
screen = 0
screen_cap = 104
confirmation = {parts["confirmation"]}
confirmation_cap = 104
repeat = 0
"""
    (folder / "candidate.toml").write_text(text)
    from importlib import resources

    canaries = resources.files("verispec.lab.suites") / "data" / "canaries-small.toml"
    (folder / "canaries.toml").write_text(canaries.read_text().replace("repeats = 8", "repeats = 1"))
    return folder / "candidate.toml"


def _value(value: Any) -> str:
    if isinstance(value, dict):
        return "{" + ", ".join(f'"{name}" = {_value(one)}' for name, one in value.items()) + "}"
    if isinstance(value, list):
        return "[" + ", ".join(map(_value, value)) + "]"
    return str(value).lower() if isinstance(value, bool) else repr(value).replace("'", '"')


@pytest.fixture
def repository(tmp_path: Path) -> Repository:
    return Repository(tmp_path)


def test_a_patch_that_helps_is_found_and_archived_and_nothing_of_it_is_left(
    tmp_path: Path, repository: Repository
) -> None:
    file = describe(tmp_path, repository.patch(HELPS))
    repository.dirty()
    before = repository.state()
    ledger = Ledger(tmp_path / "lab")
    record = run_candidate(ledger, load_candidate(file))
    assert record["verdict"] == "improvement", record["reasons"]
    assert record["source"]["files"] == [{"path": "server.py", "added": 1, "removed": 1}]
    assert record["table"][-1]["stage"] == "confirmation"
    assert record["table"][-1]["outputs"] == "token-exact"
    assert repository.state() == before
    lanes = [one for _, one in ledger.records("lane") if one["valid"]]
    assert {one["identity"]["source"]["commit"] for one in lanes} == {
        git(repository.path, "rev-parse", "main").strip()
    }
    assert len({one["identity"]["source"]["diff_sha256"] for one in lanes}) == 1  # one build, two arms
    assert not any(Path(one["target"]["source"]).exists() for one in lanes)
    assert [one.verdict for one in ask(ledger, "server.py")] == ["improvement"]
    assert [one["verdict"] for one in tried_before(ledger, load_candidate(file))] == ["improvement"]
    assert verify(ledger).holds
    assert main(["lab", "candidate", "run", str(file), "--lab", str(tmp_path / "lab")]) == 1  # tried before


@pytest.mark.parametrize(
    ("changed", "verdict", "reason"),
    [(CRASHES, "invalid", "crashed: server-died"), (IDLE, "cannot tell", "")],
    ids=["crashes", "does nothing"],
)
def test_a_patch_that_crashes_is_invalid_and_one_that_does_nothing_is_no_gain(
    tmp_path: Path, repository: Repository, changed: str, verdict: str, reason: str
) -> None:
    file = describe(tmp_path, repository.patch(changed), confirmation="1")
    record = run_candidate(Ledger(tmp_path / "lab"), load_candidate(file))
    assert record["verdict"].startswith(verdict)
    assert reason in str(record["reasons"])


def test_a_switch_that_nothing_reads_voids_the_candidate(tmp_path: Path, repository: Repository) -> None:
    switch = '[switch]\nenvironment = { LAB_HURRRY = "1" }'
    file = describe(tmp_path, repository.patch(HELPS), switch=switch)
    record = run_candidate(Ledger(tmp_path / "lab"), load_candidate(file))
    assert record["verdict"] == "invalid"
    assert "LAB_HURRRY" in str(record["reasons"])


def test_a_dry_run_builds_nothing_and_says_what_would_run(
    tmp_path: Path, repository: Repository, capsys: pytest.CaptureFixture[str]
) -> None:
    file = describe(tmp_path, repository.patch(HELPS), confirmation="1")
    command = ["lab", "candidate", "run", str(file), "--dry-run", "--lab", str(tmp_path / "lab")]
    assert main(command) == 0
    said = capsys.readouterr().out
    assert "COPY/patched/built.py" in said
    assert "this plan can never decide anything" in said
    assert not (tmp_path / "lab").exists()
    file.write_text(file.read_text().replace('repository = "engine"', 'repository = "nowhere"'))
    assert main(command) == 1
    assert "MISSING  source: repository: expected a git checkout" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("more", "patch", "reason"),
    [
        ({"command": "false"}, None, "build: false: exit status 1"),
        ({"command": "no-such-compiler x"}, None, "exit status 127: no-such-compiler"),
        ({"command": "true"}, None, "expected it to make built.py"),
        ({}, "--- a/server.py\n+++ b/server.py\n@@ -1 +1 @@\n-not there\n+new\n", "does not apply"),
    ],
)
def test_source_that_does_not_build_is_a_verdict_that_can_be_asked_for(
    tmp_path: Path, repository: Repository, more: dict[str, str], patch: str | None, reason: str
) -> None:
    ledger = Ledger(tmp_path / "lab")
    file = describe(tmp_path, patch or repository.patch(IDLE), **more)
    record = run_candidate(ledger, load_candidate(file))
    assert (record["verdict"], record["table"][0]["stage"]) == ("invalid", "build")
    assert reason in record["reasons"][0]
    (found,) = ask(ledger, "passes sleep")
    assert reason in found.reasons[0]
    assert verify(ledger).holds


def test_an_unpatched_control_is_a_build_of_its_own(tmp_path: Path, repository: Repository) -> None:
    always = repository.patch(PASS.replace("1000", "4000"))
    ledger = Ledger(tmp_path / "lab")
    file = describe(tmp_path, always, control="unpatched", switch="", confirmation="0")
    record = run_candidate(ledger, load_candidate(file))
    assert set(record["builds"]) == {"patched", "unpatched"}
    assert record["builds"]["patched"]["products"] != record["builds"]["unpatched"]["products"]
    lanes = {one["arm"]: one for _, one in ledger.records("lane")}
    assert lanes["control"]["valid"], lanes["control"]["gate"]
    assert lanes["hurry"]["valid"], lanes["hurry"]["gate"]
    assert (
        lanes["hurry"]["identity"]["source"]["diff_sha256"]
        != lanes["control"]["identity"]["source"]["diff_sha256"]
    )


def test_a_build_that_never_ends_is_stopped(tmp_path: Path, repository: Repository) -> None:
    file = describe(tmp_path, repository.patch(IDLE), command="sleep 60")
    file.write_text(file.read_text().replace("seconds = 20", "seconds = 0.2"))
    record = run_candidate(Ledger(tmp_path / "lab"), load_candidate(file))
    assert "sleep 60: took longer than 0.2 s" in record["reasons"][0]


@pytest.mark.parametrize(
    ("before", "after", "complaint"),
    [
        ("[switch]", "[other]", "control and candidate would be one"),
        ("intent", "goal", "intent"),
        ('base = "main"', 'base = "nowhere"', "base: expected a commit"),
        ('control = "switch"', 'control = "none"', "control: expected switch or unpatched"),
        ('patch = "change.patch"', 'patch = "lost.patch"', "patch: expected a file"),
    ],
)
def test_a_description_that_cannot_be_meant_is_refused(
    tmp_path: Path, repository: Repository, before: str, after: str, complaint: str
) -> None:
    file = describe(tmp_path, repository.patch(IDLE))
    file.write_text(file.read_text().replace(before, after, 1))
    with pytest.raises(OptionError, match=complaint):
        run_candidate(Ledger(tmp_path / "lab"), load_candidate(file))
