"""The ledger is append-only and content-addressed; kills, full disks, torn lines and lost indexes leave it whole."""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from verispec.lab.ledger.ledger import Ledger
from verispec.lab.ledger.objects import LedgerError
from verispec.lab.verification import verify


def note(number: int) -> dict[str, object]:
    return {"kind": "note", "name": f"note {number}", "number": number}


def numbers(ledger: Ledger) -> list[object]:
    return [record["number"] for _, record in ledger.records("note")]


def test_what_goes_in_comes_out_in_order_and_unchanged(tmp_path: Path) -> None:
    ledger = Ledger(tmp_path)
    digests = [ledger.add(note(one)) for one in range(5)]
    assert len(set(digests)) == 5
    assert numbers(Ledger(tmp_path)) == [0, 1, 2, 3, 4]
    assert ledger.get(digests[2]) == note(2)
    assert verify(ledger).holds


WRITER = """
import sys
from pathlib import Path
from verispec.lab.ledger.ledger import Ledger
ledger = Ledger(Path(sys.argv[1]))
ledger.adopt()
print("ready", flush=True)
number = 0
while True:
    number += 1
    ledger.add({"kind": "note", "name": "x" * 500, "by": sys.argv[2], "number": number})
"""


def test_a_kill_at_any_point_leaves_it_whole(tmp_path: Path) -> None:
    pauses = random.Random(5)
    for run in range(5):
        command = [sys.executable, "-c", WRITER, str(tmp_path), str(run)]
        with subprocess.Popen(command, stdout=subprocess.PIPE) as process:
            assert process.stdout is not None
            process.stdout.readline()
            time.sleep(pauses.uniform(0.0, 0.02))
            process.send_signal(signal.SIGKILL)
        assert verify(Ledger(tmp_path)).holds
    ledger = Ledger(tmp_path)
    before = len(numbers(ledger))
    ledger.adopt()
    assert verify(ledger).unnamed == ()
    ledger.add(note(1))
    assert len(numbers(ledger)) > before


@pytest.mark.parametrize("cut", [1, 20, 60])
def test_a_torn_line_is_cut_off_and_its_evidence_is_named_again(tmp_path: Path, cut: int) -> None:
    ledger = Ledger(tmp_path)
    for one in range(3):
        ledger.add(note(one))
    journal = tmp_path / "journal"
    os.truncate(journal, journal.stat().st_size - cut)
    assert numbers(ledger) == [0, 1]
    assert len(verify(ledger).unnamed) == 1
    assert len(ledger.adopt()) == 1
    ledger.add(note(3))
    assert numbers(ledger) == [0, 1, 2, 3]
    assert verify(ledger).holds


def test_altered_evidence_is_found(tmp_path: Path) -> None:
    ledger = Ledger(tmp_path)
    digest = ledger.add(note(1))
    path = ledger.objects.path(digest)
    path.write_bytes(path.read_bytes().replace(b'"number":1', b'"number":2'))
    (finding,) = verify(ledger).findings
    assert finding.where == digest
    assert "altered" in finding.what


def test_evidence_that_is_gone_is_found(tmp_path: Path) -> None:
    ledger = Ledger(tmp_path)
    digest = ledger.add(note(1))
    ledger.objects.path(digest).unlink()
    assert "missing" in verify(ledger).findings[0].what


def test_an_entry_cannot_be_dropped_or_changed(tmp_path: Path) -> None:
    ledger = Ledger(tmp_path)
    for one in range(4):
        ledger.add(note(one))
    journal = tmp_path / "journal"
    lines = journal.read_bytes().splitlines(keepends=True)
    for changed in (lines[:1] + lines[2:], [lines[0].replace(b"note", b"kept"), *lines[1:]], lines[::-1]):
        journal.write_bytes(b"".join(changed))
        with pytest.raises(LedgerError, match="altered"):
            list(ledger.entries())
        assert not verify(ledger).holds


def test_the_index_is_made_again_from_the_evidence(tmp_path: Path) -> None:
    ledger = Ledger(tmp_path)
    for one in range(3):
        ledger.add(note(one))
    ledger.refresh_index()
    first = ledger.index.all("note")
    for damage in (lambda path: path.unlink(), lambda path: path.write_bytes(b"no database" * 500)):
        damage(tmp_path / "index.sqlite")
        ledger.refresh_index()
        assert ledger.index.all("note") == first
    ledger.add(note(3))
    ledger.refresh_index()
    assert len(ledger.index.all("note")) == 4
    assert ledger.find("note 3")[1] == note(3)
    with pytest.raises(LedgerError, match="expected one record"):
        ledger.find("note")


def test_writers_take_turns(tmp_path: Path) -> None:
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(lambda one: Ledger(tmp_path).add(note(one)), range(40)))
    ledger = Ledger(tmp_path)
    assert sorted(map(int, numbers(ledger))) == list(range(40))  # type: ignore[call-overload]
    assert verify(ledger).holds


def test_numbers_that_json_cannot_say_are_refused(tmp_path: Path) -> None:
    ledger = Ledger(tmp_path)
    with pytest.raises(ValueError, match="JSON"):
        ledger.add({"kind": "note", "number": float("nan")})
    assert numbers(ledger) == []
    assert json.loads(ledger.objects.path(ledger.add(note(1))).read_text())["number"] == 1
