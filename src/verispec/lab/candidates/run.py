"""From a candidate's description to its note: clean copies are built, measured, and gone again."""

from __future__ import annotations

import tempfile
import time
import uuid
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from verispec.lab.candidates.archive import archive, touched_text
from verispec.lab.candidates.build import Build, BuildError, build
from verispec.lab.candidates.candidate import Candidate
from verispec.lab.candidates.source_patch import UNPATCHED
from verispec.lab.decision.decide import invalid
from verispec.lab.experiment.decisions import DecisionInput, decision_record
from verispec.lab.experiment.measured import StageLanes
from verispec.lab.experiment.observer import Observer
from verispec.lab.experiment.run import run_experiment
from verispec.lab.experiment.spec import Experiment
from verispec.lab.lane.run import LaneRunner
from verispec.lab.launch.server_log import kept_log
from verispec.lab.ledger.ledger import Ledger
from verispec.lab.secrets import secret_values

Record = dict[str, Any]
NOT_BUILT = Path("COPY")


def run_candidate(
    ledger: Ledger,
    candidate: Candidate,
    observer: Observer | None = None,
    run_one_lane: LaneRunner | None = None,
) -> Record:
    """Builds, measures, decides, and keeps the note, which it gives.

    Source that does not build is a verdict like any other. The copies are removed whatever happens: there is nothing to
    revert. Raises OptionError for a repository or commit that does not exist.
    """
    ledger.adopt()
    watching = observer or Observer()
    with tempfile.TemporaryDirectory(prefix="verispec-candidate-", ignore_cleanup_errors=True) as name:
        folder = Path(name)
        builds: dict[str, Build] = {}
        logs: dict[str, str] = {}
        try:
            for which in _needed(candidate):
                watching.stage(f"build, {which}", 0)
                builds[which] = _build(ledger, candidate, folder / which, logs, watching)
        except BuildError as error:
            experiment = _experiment(ledger, candidate, folder, builds)
            ended = _refuse(ledger, experiment, candidate.name, [str(error)], watching)
        else:
            experiment = _experiment(ledger, candidate, folder, builds)
            ended = run_experiment(ledger, experiment, watching, run_one_lane)
        return archive(ledger, candidate, builds, logs, ended)


def planned_experiment(ledger: Ledger, candidate: Candidate) -> Experiment:
    """What ``run_candidate`` would measure; targets name copies in the folder ``NOT_BUILT``, which there is not."""
    return _experiment(ledger, candidate, NOT_BUILT, {})


def _needed(candidate: Candidate) -> Sequence[str]:
    if candidate.source is None:
        return ()
    return ("patched", "unpatched") if candidate.source.control == UNPATCHED else ("patched",)


def _build(
    ledger: Ledger, candidate: Candidate, folder: Path, logs: dict[str, str], observer: Observer
) -> Build:
    assert candidate.source is not None

    def waiting(device: str) -> None:
        observer.noticed(f"{device}: a lane runs there; the build waits until it ends")

    try:
        return build(candidate.source, folder, folder.name == "patched", waiting)
    finally:
        with suppress(FileNotFoundError):  # it did not come to a build
            log = folder.with_name(f"{folder.name}.log")
            log.stat()
            secrets = secret_values((), candidate.source.recipe.environment)
            logs[folder.name] = ledger.add_log(kept_log(log, secrets))


def _experiment(ledger: Ledger, candidate: Candidate, folder: Path, builds: dict[str, Build]) -> Experiment:
    """Where nothing was built, targets name folders that are not there; such an experiment is only written down."""
    if candidate.source is None:
        return candidate.experiment(None, None, ledger.home, f"candidate of kind {candidate.kind}")
    source = candidate.source
    patched = builds.get("patched")
    notes = f"patch {source.digest[:12]} on {source.base}"
    if patched is not None:
        notes = f"patch {source.digest[:12]} on {patched.commit[:12]}: {touched_text(patched.files)}"
    unpatched = folder / "unpatched" if source.control == UNPATCHED else None
    return candidate.experiment(folder / "patched", unpatched, ledger.home, notes)


def _refuse(
    ledger: Ledger, experiment: Experiment, arm: str, reasons: Sequence[str], observer: Observer
) -> Record:
    """The record of an experiment that ended before its first lane."""
    number = uuid.uuid4().hex[:10]
    facts = {"experiment": number, **experiment.record(), "began": time.time()}
    ledger.add({"kind": "experiment-begun", **facts})
    decision = invalid(reasons)
    given = DecisionInput(number, "build", arm, experiment.metric, experiment.plan)
    record = {
        "kind": "experiment",
        **facts,
        "ended": time.time(),
        "decisions": [ledger.add(decision_record(given, decision, StageLanes()))],
        "verdicts": {arm: decision.as_dict()},
        "verdict": f"{arm}: {decision.text}",
    }
    ledger.add(record)
    observer.settled("smoke", arm, decision)
    return record
