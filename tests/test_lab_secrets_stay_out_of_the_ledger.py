"""What looks like a secret is written down as a digest alone, wherever it was given and whatever becomes of it."""

from __future__ import annotations

from pathlib import Path

import pytest

from lab_lanes import broken_rules, measure, small_suite, small_target
from verispec.lab.candidates.archive import archive
from verispec.lab.candidates.candidate import parse_candidate
from verispec.lab.export.localmaxxing import payload
from verispec.lab.export.tables import lane_lines
from verispec.lab.ledger.ledger import Ledger
from verispec.lab.secrets import arguments_shown, is_secret, shown

SECRET = "s3cr3t-of-mine"
KEY = "-x9f-begins-with-a-dash"


@pytest.mark.parametrize(
    ("name", "secret"),
    [
        ("HF_TOKEN", True), ("--api-key", True), ("PGPASSWD", True), ("--ssl-passphrase", True), ("X_AUTH", True),
        ("DB_PASS", True), ("AWS_SECRET", True), ("TOKENIZERS_PARALLELISM", False), ("--tokenizer", False),
        ("--max-num-batched-tokens", False), ("--passes", False), ("OMP_NUM_THREADS", False),
    ],
)  # fmt: skip
def test_secrets_are_known_by_their_names(name: str, secret: bool) -> None:
    assert is_secret(name) is secret
    once = shown(name, SECRET)
    assert (once != SECRET) is secret
    assert shown(name, once) == once


def test_a_command_line_loses_its_secrets_and_nothing_else() -> None:
    parts = ["-c", "8", "--api-key", SECRET, "other", f"--auth={SECRET}", "--token", KEY, "-t", "2"]
    told = arguments_shown(parts)
    assert SECRET not in " ".join(told)
    assert KEY not in told
    assert told[:3] == parts[:3]
    assert told[4].startswith("sha256:")  # a flag may take several
    assert told[6] == "--token"
    assert told[8:] == parts[8:]


def everything(home: Path) -> str:
    return "".join(path.read_text(errors="replace") for path in home.rglob("*") if path.is_file())


def test_no_secret_is_in_the_ledger_of_a_lane(tmp_path: Path) -> None:
    probes = [{"knob": "--p-min", "waived": "no matter"}, {"knob": "LAB_*", "waived": "no matter"}]
    target = small_target(
        "--p-min=1", environment={"LAB_TEST_KERNEL_TOKEN": SECRET}, activation=probes, request={"api_key": SECRET}
    )  # fmt: skip
    record = measure(tmp_path, target, small_suite(1))
    assert "LAB_TEST_KERNEL_TOKEN" in broken_rules(record)["knobs-read"]  # nothing reads it; it was recorded
    assert SECRET not in everything(tmp_path)


def test_a_secret_on_a_command_line_is_in_no_record_proof_complaint_or_export(tmp_path: Path) -> None:
    probe = {"knob": "--style-key", "source": "log:{value}"}
    target = small_target(
        "--style-key", SECRET, activation=[probe]
    )  # which the server does not know, and says so
    record = measure(tmp_path, target, small_suite(1))
    assert "server-crashed-at-start" in broken_rules(record)["no-fault"]
    ledger = Ledger(tmp_path)
    assert SECRET not in everything(tmp_path)
    assert SECRET not in str(list(lane_lines(ledger)))
    content = {"name": "c", "intent": "why", "target": {"profile": "vllm", "model": "m"}}
    content |= {"candidate": {"arguments": ["--api-key", SECRET], "environment": {"HF_TOKEN": SECRET}}}
    candidate = parse_candidate(content, tmp_path, "here")
    ended = {"experiment": "e", "began": 0.0, "decisions": [], "verdicts": {}}
    assert SECRET not in str(archive(ledger, candidate, {}, {}, ended))
    assert SECRET not in str(payload(ledger, record["lane"], {}))
