"""A drafter that fails costs proposals and nothing else: the text is the target's own, alone and in a chain, and the
receipt counts what happened and names its cause."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from drafting_targets import HEADS, KINDS, Artifacts, write_artifacts
from verispec.backends.native_dflash import NativeDFlash, NativeDSpark
from verispec.backends.native_eagle3 import NativeEagle3
from verispec.drafting.contract import Drafter
from verispec.drafting.dflash import DFlashDrafter
from verispec.drafting.draft_model import DraftModelDrafter
from verispec.drafting.draft_text import DraftText
from verispec.drafting.dspark import DSparkDrafter
from verispec.drafting.entry_chain import EntryChainDrafter
from verispec.engine.batching.job import Job
from verispec.engine.batching.scheduler import Scheduler, SchedulerLimits
from verispec.engine.completion import Completion
from verispec.engine.loading import load
from verispec.engine.model import Model
from verispec.engine.replay import ModelReplayer
from verispec.errors import AdmissionError, DrafterFaultError
from verispec.evidence.verify import Verdict, verify

PROMPT = [7, 1, 9, 4, 4, 2, 8] * 5
SAMPLING = {"max_tokens": 20, "ignore_eos": True, "temperature": 0.9, "seed": 4}
FIRST_STEP: dict[str, tuple[type, str]] = {
    "eagle3": (NativeEagle3, "first"),
    "dflash": (NativeDFlash, "predict"),
    "dspark": (NativeDSpark, "predict"),
    "draft-model": (DraftText, "read"),
}
"""What every proposal begins with."""
DRAFTERS: dict[str, type[Drafter]] = {
    "eagle3": EntryChainDrafter,
    "dflash": DFlashDrafter,
    "dspark": DSparkDrafter,
    "draft-model": DraftModelDrafter,
}
SURE = {"spec_chain_p_min": 1.0}
"""In a chain: whoever is asked first is hardly ever sure enough, so that the artifact is asked too."""
Step = Callable[..., Any]


@pytest.fixture(scope="module")
def artifacts(tmp_path_factory: pytest.TempPathFactory) -> Artifacts:
    return write_artifacts(tmp_path_factory.mktemp("artifacts"))


@pytest.fixture(scope="module")
def model(artifacts: Artifacts) -> Iterator[Model]:
    with load(artifacts.target, threads=1) as model:
        for kind in KINDS:  # a head that fails while it is loaded is another story
            model.generate(PROMPT, max_tokens=1, **artifacts.options(kind))
        yield model


@pytest.fixture(params=KINDS)
def kind(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture(params=[False, True], ids=["alone", "in a chain"])
def options(request: pytest.FixtureRequest, kind: str, artifacts: Artifacts) -> dict[str, Any]:
    plain = artifacts.options(kind, spec_draft_max=2)
    return plain | ({"spec_mode": f"suffix+{kind}", **SURE} if request.param else {})


def replace_step(kind: str, patch: pytest.MonkeyPatch, fails: Callable[[Step, int], Any]) -> None:
    """From the next call on, ``fails(step, number)`` stands in for a drafter's first step; calls count from 0."""
    owner, name = FIRST_STEP[kind]
    original = getattr(owner, name)
    calls = iter(range(1 << 20))

    def failing(*arguments: Any, **named: Any) -> Any:
        return fails(lambda: original(*arguments, **named), next(calls))

    patch.setattr(owner, name, failing)


def written(
    model: Model, options: dict[str, Any], prompt: list[int] = PROMPT
) -> tuple[Completion, list[str]]:
    """The answer, which is that of ``off``, and the faults in its receipt, which verifies without the drafter."""
    off = model.generate(prompt, spec_mode="off", **SAMPLING)
    found = model.generate(prompt, **options, **SAMPLING)
    assert (found.tokens, found.text, found.finish_reason) == (off.tokens, off.text, off.finish_reason)
    receipt = model.receipt(found, include_text=True)
    assert verify(receipt, lambda _: ModelReplayer(model)).verdict is Verdict.VERIFIED
    faults: list[str] = receipt.body["attested"]["faults"]
    assert faults == list(found.faults)
    return found, faults


def test_one_that_begins_to_raise(
    kind: str, options: dict[str, Any], model: Model, monkeypatch: pytest.MonkeyPatch
) -> None:
    def from_the_ninth(step: Step, number: int) -> Any:
        if number >= 8:
            raise RuntimeError("a page of the weights is gone")
        return step()

    replace_step(kind, monkeypatch, from_the_ninth)
    found, faults = written(model, options)
    assert faults == ["raised RuntimeError: a page of the weights is gone"] * 3
    assert found.drafted > 0


def test_one_that_begins_to_stall(
    kind: str, options: dict[str, Any], model: Model, monkeypatch: pytest.MonkeyPatch
) -> None:
    def from_the_ninth(step: Step, number: int) -> Any:
        if number >= 8:
            time.sleep(0.12)
        return step()

    replace_step(kind, monkeypatch, from_the_ninth)
    found, faults = written(model, {**options, "drafter_deadline": 0.1})
    assert faults == ["took longer than 0.1 s"] * 3
    assert found.drafted > 0


def test_one_whose_numbers_are_none(
    kind: str, options: dict[str, Any], model: Model, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Weights that were read as something else may give anything: what cannot be a proposal is none."""

    def not_a_number(step: Step, number: int) -> Any:
        found = step()
        if isinstance(found, np.ndarray):
            return np.full_like(found, np.nan)
        return found._replace(logits=np.full_like(found.logits, np.nan))

    replace_step(kind, monkeypatch, not_a_number)
    found, faults = written(model, options)
    assert len(faults) == 3
    assert all("nan" in fault or "finite" in fault for fault in faults), faults
    assert found.drafted == 0 or "suffix" in found.sources


def test_one_that_cannot_write_what_it_had_put_off(
    kind: str, options: dict[str, Any], model: Model, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Asked to before its cache is copied into the prefix cache: the text goes on without it."""

    def failing(self: Any) -> None:
        raise RuntimeError("a page of the weights is gone")

    off = model.generate(PROMPT, spec_mode="off", **SAMPLING)
    monkeypatch.setattr(DRAFTERS[kind], "settle", failing)
    scheduler = Scheduler(model, SchedulerLimits(parallel=1))
    job = Job(model.prepare(PROMPT, {**options, **SAMPLING}))
    scheduler.submit(job)
    while not scheduler.idle:
        scheduler.step()
    found = job.outcome()
    assert isinstance(found, Completion)
    assert found.tokens == off.tokens
    assert found.faults[-1] == "settle raised RuntimeError: a page of the weights is gone"


def test_under_strict_it_fails_the_request_with_its_cause(
    kind: str, options: dict[str, Any], model: Model, monkeypatch: pytest.MonkeyPatch
) -> None:
    def failing(step: Step, number: int) -> Any:
        raise RuntimeError("a page of the weights is gone")

    replace_step(kind, monkeypatch, failing)
    with pytest.raises(DrafterFaultError, match="a page of the weights is gone"):
        model.generate(PROMPT, strict_drafter=True, **options, **SAMPLING)


@pytest.mark.parametrize("chained", [False, True], ids=["alone", "in a chain"])
@pytest.mark.parametrize("head", HEADS)
def test_one_that_crosses_its_context_limit(head: str, chained: bool, tmp_path: Path) -> None:
    artifacts = write_artifacts(tmp_path, context=48)
    options = artifacts.options(head) | ({"spec_mode": f"suffix+{head}", **SURE} if chained else {})
    with load(artifacts.target, threads=1) as model:
        found, faults = written(model, options, (PROMPT * 2)[:36])
        counts = model.receipt(found).body["recomputed-with-drafter"]["counts"]
    assert faults == []
    assert counts["declined"] == dict(found.declined)
    assert set(counts["declined"]) == {"context-limit"}
    assert 0 < counts["declined"]["context-limit"] < found.passes  # it drafted before it had come there


def test_a_misread_one_fails_its_own_request_alone(
    artifacts: Artifacts, monkeypatch: pytest.MonkeyPatch
) -> None:
    from verispec.ops import native_weights

    plain = native_weights._vector_values

    def shifted(file: Any, tensor: Any) -> Any:
        return plain(file, tensor) + (1 if tensor.name == "output_norm.weight" else 0)

    with load(artifacts.target, threads=1) as model:
        off = model.generate(PROMPT, spec_mode="off", **SAMPLING)
        monkeypatch.setattr(native_weights, "_vector_values", shifted)
        scheduler = Scheduler(model, SchedulerLimits(parallel=4))
        modes = [artifacts.options(head) for head in HEADS]
        jobs = [Job(model.prepare(PROMPT, {**one, **SAMPLING})) for one in ({"spec_mode": "suffix"}, *modes)]
        scheduler.submit(*jobs)
        while not scheduler.idle:
            scheduler.step()
        neighbour, *refused = [job.outcome() for job in jobs]
        assert isinstance(neighbour, Completion)
        assert neighbour.tokens == off.tokens
        assert [getattr(one, "code", "") for one in refused] == ["misread-head"] * len(HEADS)
        assert all(
            isinstance(one, AdmissionError) and "expected the head to propose" in str(one) for one in refused
        )
        assert scheduler.current_statistics().finished["error"] == len(HEADS)
