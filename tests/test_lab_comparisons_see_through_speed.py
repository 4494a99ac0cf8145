"""Two lanes beside each other: the same recipe may write something else, and more accepted tokens may be slower."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

from lab_experiments import run, small_experiment
from lab_lanes import broken_rules, lane_request, measure, small_suite, small_target
from lab_simulated import simulate
from verispec.lab.client.stream import StreamClient
from verispec.lab.comparison import compare, lanes_called
from verispec.lab.experiment.measured import identical_servers
from verispec.lab.experiment.spec import CONTROL
from verispec.lab.gate.rules import RULES
from verispec.lab.identity.checkout import checkout
from verispec.lab.identity.collect import missing_fields
from verispec.lab.identity.compare import identity_difference
from verispec.lab.identity.report import ServerReport
from verispec.lab.lane.questions import ask_prompts
from verispec.lab.launch.server import ServerProcess
from verispec.lab.ledger.ledger import Ledger
from verispec.lab.metrics.outputs import compare_rows, output_digest
from verispec.lab.metrics.rates import row_metrics


def test_a_recipe_whose_text_drifts_is_seen(tmp_path: Path) -> None:
    """Greedy runs of one recipe differed in text, so in speed, and the spread passed for gains."""
    for _ in range(2):
        measure(tmp_path, small_target("--fault", "drifts"), small_suite(2))
    ledger = Ledger(tmp_path)
    names = [record["lane"] for _, record in ledger.records("lane")]
    first, second = (lanes_called(ledger, name) for name in names)
    outputs = compare(first, second)["outputs"]
    assert outputs["exactness"] == "differs"
    assert {one["position"] for one in outputs["differences"]} == {0}
    assert {one["unit"] for one in outputs["differences"]} == {"token"}
    assert identical_servers([*first, *second]) == 1


def test_more_tokens_a_pass_may_be_slower(tmp_path: Path) -> None:
    """Acceptance is one factor of speed; the other is what a pass takes. Passes are far enough apart that the first
    ones do not arrive together: what arrives first counts as one pass."""
    measure(tmp_path, small_target("--rows", "1", "--pace", "5"), small_suite(1), cap=104)
    measure(tmp_path, small_target("--rows", "4", "--pace", "40"), small_suite(1), cap=104)
    ledger = Ledger(tmp_path)
    first, second = (lanes_called(ledger, record["lane"]) for _, record in ledger.records("lane"))
    result = compare(first, second)
    assert result["outputs"]["exactness"] == "token-exact"
    speed, tokens, passes = (one["change_percent"] for one in result["factors"])
    assert tokens == pytest.approx(300, abs=5)
    assert passes < -75
    assert speed < 0
    assert result["metrics"]["rate_1_100"]["change_percent"] < 0
    assert "arguments" in result["identity"]


def test_a_sweep_that_keeps_its_server_is_not_fresh(tmp_path: Path) -> None:
    """A fixed seed asked one server the same prompts at every step of a sweep."""
    target = small_target("--fault", "repeats")
    request = lane_request(target, small_suite(2))
    with ServerProcess(target, "cpu", tmp_path / "log") as server:
        report = ServerReport(target.profile, server.url, server.log, None)
        client = StreamClient(server.url, target.profile.endpoint, 10.0)
        steps = []
        for _ in range(2):
            at_start = {name: report.metrics().get(name) for name in target.profile.fresh}
            rows = list(ask_prompts(request, "tiny", client, report))
            steps.append(({"metrics_at_start": at_start, "identity": {"process": {"listens": True}}}, rows))
    (first, rows), (second, again) = steps
    assert RULES["fresh-server"](first, rows) is None
    assert "it had answered before" in str(RULES["fresh-server"](second, again))
    assert RULES["nothing-cached"](first, rows) is None
    assert "cached tokens: p0 9, p1 9" in str(RULES["nothing-cached"](second, again))


def row(tokens: list[int] | None, text: str = "abc") -> dict[str, object]:
    events = [
        [index, 1, None if tokens is None else [token], "", ""] for index, token in enumerate(tokens or [0])
    ]
    return {"prompt": "p", "events": [*events, [9, 0, [], text, ""]]}


@pytest.mark.parametrize(
    ("first", "second", "outcome", "position", "unit"),
    [
        (row([1, 2]), row([1, 2]), "token-exact", None, None),
        (row([1, 2]), row([1, 3]), "differs", 1, "token"),
        (row([1, 2]), row([1, 2, 3]), "differs", 2, "token"),
        (row(None), row([1, 2]), "text-exact", None, None),
        (row(None), row(None, "abd"), "differs", 2, "character"),
        (row(None), row(None, "ab"), "differs", 2, "character"),
        (row(None, "a\ud83d"), row(None, "a\ud83e"), "differs", 1, "character"),  # half a character
    ],
)
def test_outputs_are_equal_by_tokens_by_text_or_not(
    first: dict[str, object], second: dict[str, object], outcome: str, position: int | None, unit: str | None
) -> None:
    found = compare_rows(first, second)
    assert (found.outcome, found.position, found.unit) == (outcome, position, unit)
    assert (output_digest([first]) == output_digest([second])) == (found.outcome == "token-exact")


def test_rates_are_what_the_definitions_say() -> None:
    """100 tokens a tenth of a second apart, the first after 0.5 s: 9.9 s from first to last."""
    events = [[int(5e8 + 1e8 * one), 1, None, "w ", ""] for one in range(100)]
    found = row_metrics({"prompt": "p", "events": events, "counts": {"passes": 50.0}})
    assert found.ttft == 0.5
    assert found.rate_1_100 == pytest.approx(99 / 9.9)
    assert found.rate_1_100_by_100 == pytest.approx(100 / 9.9)
    assert found.full == pytest.approx(99 / 9.9)
    assert found.wall == pytest.approx(100 / 10.4)
    assert found.tokens_per_pass == pytest.approx(99 / 49)
    assert found.tokens_per_pass / found.seconds_per_pass == pytest.approx(found.full)  # type: ignore[operator]


def test_arms_are_balanced_over_devices(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    lanes = simulate(monkeypatch, {CONTROL: 100.0, "same": 100.0}, noise=0.05)
    stages = {"screen": 2, "confirmation": 0}
    run(tmp_path, small_experiment({"same": ()}, devices=("cpu:0", "cpu:1"), stages=stages))
    screened = [(one.arm, one.device, one.wave) for one in lanes.requests if one.stage == "screen"]
    for arm in (CONTROL, "same"):
        assert sorted(device for found, device, _ in screened if found == arm) == [
            "cpu:0",
            "cpu:0",
            "cpu:1",
            "cpu:1",
        ]
    for wave in range(4):
        assert {arm for arm, _, found in screened if found == wave} == {CONTROL, "same"}


def test_identities_differ_in_what_was_changed(tmp_path: Path) -> None:
    first = measure(tmp_path, small_target(), small_suite(1))
    again = measure(tmp_path, small_target(), small_suite(1))
    second = measure(tmp_path, small_target("--unroll", "4"), small_suite(1))
    assert broken_rules(first) == broken_rules(second) == {}
    assert identity_difference(first["identity"], again["identity"]) == {}
    assert set(identity_difference(first["identity"], second["identity"])) == {
        "arguments",
        "options.info.options.unroll",
    }


def test_what_a_server_draws_anew_is_no_difference() -> None:
    """llama-server marks media by a random text: with it no candidate could be seen to be a second control."""
    first, second = (
        {"options": {"props": {"media_marker": marker, "total_slots": 1}}} for marker in ("<a>", "<b>")
    )
    assert identity_difference(first, second) == {}


@pytest.mark.skipif(shutil.which("git") is None, reason="needs git")
def test_a_checkout_is_known_with_what_it_adds(tmp_path: Path) -> None:
    def git(*arguments: str) -> None:
        who = ["-c", "user.name=a", "-c", "user.email=a@example.org"]
        subprocess.run(["git", "-C", str(tmp_path), *who, *arguments], check=True, capture_output=True)

    assert checkout(tmp_path) is None
    git("init")
    (tmp_path / "kernel.c").write_text("one")
    git("add", "kernel.c")
    git("commit", "-m", "first")
    clean = checkout(tmp_path)
    assert clean is not None
    assert (clean["dirty"], clean["diff_sha256"], len(clean["commit"])) == (False, "", 40)
    (tmp_path / "kernel.c").write_text("two")
    changed = checkout(tmp_path)
    (tmp_path / "new.c").write_text("three")
    added = checkout(tmp_path)
    assert changed is not None
    assert added is not None
    assert changed["dirty"]
    assert len({clean["diff_sha256"], changed["diff_sha256"], added["diff_sha256"]}) == 3
    (tmp_path / ".git" / "index").write_bytes(b"no index")
    unknown = checkout(tmp_path)
    assert unknown == {"commit": clean["commit"], "dirty": None, "diff_sha256": None}  # which is not clean
    target = small_target(source=str(tmp_path))
    assert "source.diff_sha256" in missing_fields({"source": unknown}, target)
    assert "source.diff_sha256" not in missing_fields({"source": clean}, target)
