"""A run that was killed and begun again ends with the bits of an unbroken one; what it cannot go on with is refused."""

from __future__ import annotations

import json
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from training_targets import FEW, plan_for, say_nothing, write_target
from verispec.artifacts.draft_manifest import KINDS
from verispec.artifacts.lock import exclusive
from verispec.errors import OptionError, TrainingError
from verispec.training import dflash, loop, pipeline
from verispec.training.batches import Batch
from verispec.training.draft_training import Losses
from verispec.training.eagle3 import Eagle3Training
from verispec.training.pipeline import train_drafter
from verispec.training.plan import TrainingPlan

STEPS = 6


@pytest.fixture(scope="module")
def target(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_target(tmp_path_factory.mktemp("target"))


@pytest.fixture(scope="module")
def texts(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("texts")


def plan_of(kind: str, target: Path, output: Path, texts: Path, **changes: Any) -> TrainingPlan:
    """Two steps an epoch, of which each decides by chance what it looks at."""
    plain = {"tokens": 200, "batch_tokens": 256, "epochs": 3, "check_every": 2, "stride": 2}
    return plan_for(target, output, kind, **{"texts": texts, **plain, **changes})


@pytest.fixture(autouse=True)
def few_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(dflash, "ANCHORS", 4)


class Killer:
    """Ends a run behind a step, which its checkpoint does not hold yet."""

    def __init__(self, step: int) -> None:
        self.step = step

    def __call__(self, stage: str, done: int, total: int, line: str) -> None:
        if stage == "training":
            assert total == STEPS
            if done == self.step:
                raise KeyboardInterrupt


@pytest.mark.parametrize("kind", KINDS)
def test_killed_and_begun_again_is_unbroken(
    kind: str, target: Path, texts: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(loop, "SECONDS_BETWEEN_CHECKPOINTS", 0)
    unbroken = train_drafter(plan_of(kind, target, tmp_path / "unbroken", texts), say_nothing)
    plan = plan_of(kind, target, tmp_path / "killed", texts)
    for step in (1, 4):  # before the first checkpoint, and behind one
        with pytest.raises(KeyboardInterrupt):
            train_drafter(plan, Killer(step))
        with open(plan.output / "log.jsonl", "a") as log:
            log.write('{"step": 6, "los')  # what is cut off when a process dies
    found = train_drafter(plan, say_nothing)
    assert found.path.read_bytes() == unbroken.path.read_bytes()
    one, other = (torch.load(path.parent / "checkpoint.pt") for path in (found.path, unbroken.path))
    assert one["step"] == other["step"] == STEPS
    assert all(torch.equal(one["module"][name], value) for name, value in other["module"].items())
    logs = [(made.path.parent / "log.jsonl").read_text() for made in (found, unbroken)]
    assert logs[0] == logs[1]
    steps = [json.loads(line)["step"] for line in logs[0].splitlines()]
    assert sorted(set(steps)) == list(range(1, STEPS + 1))


@pytest.fixture(scope="module")
def finished(target: Path, texts: Path, tmp_path_factory: pytest.TempPathFactory) -> TrainingPlan:
    plan = plan_of("eagle3", target, tmp_path_factory.mktemp("finished"), texts)
    train_drafter(plan, say_nothing)
    return plan


def test_two_runs_in_one_folder_take_turns(finished: TrainingPlan) -> None:
    said = []
    other = ExitStack()
    other.enter_context(exclusive(finished.output / pipeline.LOCK))

    def until_it_is_done(stage: str, done: int, total: int, line: str) -> None:
        said.append(line)
        other.close()

    train_drafter(finished, until_it_is_done)
    assert said[0] == pipeline.WAITING
    assert pipeline.WAITING not in said[1:]


def test_a_loss_that_is_not_finite_ends_the_run_and_leaves_its_checkpoint(
    target: Path, texts: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(loop, "SECONDS_BETWEEN_CHECKPOINTS", 0)
    plan = plan_of("eagle3", target, tmp_path, texts)
    losses = Eagle3Training.losses

    def spoilt(training: Eagle3Training, batch: Batch, random: np.random.Generator) -> Losses:
        found = losses(training, batch, random)
        lost = (tmp_path / "checkpoint.pt").exists()
        return Losses(found.total * (float("nan") if lost else 1), found.shown)

    monkeypatch.setattr(Eagle3Training, "losses", spoilt)
    says = r"step 2: expected a finite loss and gradient, found loss nan .* from texts \d+(, \d+)*$"
    with pytest.raises(TrainingError, match=says):
        train_drafter(plan, say_nothing)
    saved = torch.load(tmp_path / "checkpoint.pt")
    assert saved["step"] == 1
    assert all(value.isfinite().all() for value in saved["module"].values())


def test_a_finished_run_gives_its_artifact_again(finished: TrainingPlan) -> None:
    content = finished.artifact.read_bytes()
    finished.artifact.unlink()
    assert train_drafter(finished, Killer(1)).path.read_bytes() == content


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"epochs": 4}, "epochs: expected 4, as asked for now, found 3"),
        ({"vocabulary": 20}, "outputs: expected 20, as asked for now, found"),
        ({"kind": "dflash"}, "kind: expected 'dflash', as asked for now, found 'eagle3'"),
        ({"tokens": 250}, "texts: expected"),
    ],
)
def test_a_checkpoint_of_another_run_is_refused(
    changes: dict[str, Any], says: str, finished: TrainingPlan, target: Path, texts: Path
) -> None:
    before = (finished.output / "checkpoint.pt").read_bytes()
    kind = changes.pop("kind", "eagle3")
    with pytest.raises(OptionError, match=rf"checkpoint\.pt: {says}.*name another --output"):
        train_drafter(plan_of(kind, target, finished.output, texts, **changes), say_nothing)
    assert (finished.output / "checkpoint.pt").read_bytes() == before


def test_a_checkpoint_of_as_many_other_texts_is_refused(
    finished: TrainingPlan, target: Path, tmp_path: Path
) -> None:
    others = plan_of("eagle3", target, finished.output, tmp_path, lengths=replace(FEW, prompt=11))
    with pytest.raises(OptionError, match=r"checkpoint\.pt: written: expected"):
        train_drafter(others, say_nothing)
