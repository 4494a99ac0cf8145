"""What a draft head goes on from is what was committed: not what another request wrote, nor what an interrupt left."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from drafting_targets import FEW, Artifacts, write_artifacts
from verispec.backends.native_dflash import NativeDFlash
from verispec.backends.native_eagle3 import NativeEagle3
from verispec.drafting.contract import Drafter, Proposal
from verispec.drafting.dflash import DFlashDrafter
from verispec.drafting.entry_chain import EntryChainDrafter
from verispec.engine.batching.job import Job
from verispec.engine.batching.prefixes import Prefixes
from verispec.engine.batching.scheduler import Scheduler, SchedulerLimits
from verispec.engine.completion import Completion
from verispec.engine.loading import load
from verispec.engine.model import Model
from verispec.engine.request import Request

SAMPLING = {"temperature": 0.9, "seed": 5, "ignore_eos": True, "logit_bias": FEW, "max_tokens": 12}
LONG = [(3 * i) % 250 + 1 for i in range(60)]
HEADS: dict[str, tuple[type[Drafter], type, str]] = {
    "eagle3": (EntryChainDrafter, NativeEagle3, "step"),
    "dflash": (DFlashDrafter, NativeDFlash, "predict"),
}


@pytest.fixture(scope="module")
def artifacts(tmp_path_factory: pytest.TempPathFactory) -> Artifacts:
    return write_artifacts(tmp_path_factory.mktemp("artifacts"))


@pytest.fixture
def model(artifacts: Artifacts) -> Iterator[Model]:
    with load(artifacts.target, threads=1) as model:
        for kind in HEADS:  # a head that fails while it is loaded is another story
            model.generate(LONG, max_tokens=1, **artifacts.options(kind))
        yield model


@pytest.fixture(params=HEADS)
def kind(request: pytest.FixtureRequest) -> str:
    return str(request.param)


def interrupted_once(patch: pytest.MonkeyPatch, owner: type, name: str) -> None:
    original = getattr(owner, name)
    calls = iter(range(1 << 20))

    def interrupted(*arguments: Any) -> Any:
        if next(calls) == 0:
            raise KeyboardInterrupt
        return original(*arguments)

    patch.setattr(owner, name, interrupted)


def failing(*arguments: Any) -> Any:
    raise RuntimeError("a page of the weights is gone")


def test_another_request_wrote_other_tokens_there(kind: str, model: Model, artifacts: Artifacts) -> None:
    """Up to exactly where the head had got, and without it."""
    options = SAMPLING | artifacts.options(kind)
    with model.conversation() as conversation:
        first = model.start(LONG[:20], conversation, options | {"max_tokens": 3}).result()
        known = len(first.prompt_tokens) + len(first.tokens) - 1
        other = LONG[:5] + [9] * 30
        model.start(other, conversation, SAMPLING | {"spec_mode": "off", "max_tokens": 3}).result()
        prompt = [*other[:known], 77, 78, 79]
        found = model.start(prompt, conversation, dict(options)).result()
    fresh = model.generate(prompt, **options)
    assert (found.tokens, found.rounds, found.faults) == (fresh.tokens, fresh.rounds, ())


def test_an_interrupt_before_a_prefix_is_kept(
    kind: str, model: Model, artifacts: Artifacts, monkeypatch: pytest.MonkeyPatch
) -> None:
    proposed: list[Proposal] = []
    owner = HEADS[kind][0]
    propose = owner.propose

    def noting(self: Any, limit: int) -> Proposal:
        proposed.append(propose(self, limit))
        return proposed[-1]

    monkeypatch.setattr(owner, "propose", noting)
    options = SAMPLING | artifacts.options(kind)
    fresh = model.generate(LONG, **options)
    expected = proposed.copy()
    scheduler = Scheduler(model, SchedulerLimits(parallel=1, prompt_rows=20))
    scheduler._rows = 20  # so that the prompt is read in several passes
    interrupted_once(monkeypatch, Prefixes, "keep")
    for reused in (0, 48):
        job = Job(model.prepare(LONG, options))
        proposed.clear()
        scheduler.submit(job)
        while not scheduler.idle:
            try:
                scheduler.step()
            except KeyboardInterrupt:
                continue
        found = job.outcome()
        assert isinstance(found, Completion)
        assert (found.tokens, found.rounds, found.faults) == (fresh.tokens, fresh.rounds, ())
        assert proposed[-len(expected) :] == expected
        assert job.request is not None
        assert job.request.counters.reused_tokens == reused


def test_an_interrupt_in_the_first_round_behind_a_prefix(
    kind: str, model: Model, artifacts: Artifacts, monkeypatch: pytest.MonkeyPatch
) -> None:
    options = SAMPLING | artifacts.options(kind)
    with model.conversation() as conversation:
        first = model.start([7, 1, 9], conversation, dict(options)).result()
        prompt = [*first.prompt_tokens, *first.tokens, *[4, 2] * 12]
        generation = model.start(prompt, conversation, dict(options))
        interrupted_once(monkeypatch, Request, "emit")
        with pytest.raises(KeyboardInterrupt):
            generation.result()
        found = generation.result()
    fresh = model.generate(prompt, **options)
    assert (found.tokens, found.rounds, found.faults) == (fresh.tokens, fresh.rounds, ())


def test_what_could_not_be_written_at_the_end_is_in_the_receipt_and_not_gone_on_from(
    kind: str, model: Model, artifacts: Artifacts, monkeypatch: pytest.MonkeyPatch
) -> None:
    drafter, head, _ = HEADS[kind]
    options = SAMPLING | artifacts.options(kind)
    with model.conversation() as conversation:
        with monkeypatch.context() as patch:
            patch.setattr(drafter, "propose", lambda self, limit: Proposal())
            patch.setattr(head, "absorb", failing)
            first = model.start([7, 1, 9], conversation, options | {"max_tokens": 6}).result()
        assert first.faults == ("settle raised RuntimeError: a page of the weights is gone",)
        prompt = [*first.prompt_tokens, *first.tokens, 4]
        found = model.start(prompt, conversation, dict(options)).result()
    fresh = model.generate(prompt, **options)
    assert (found.tokens, found.rounds, found.faults) == (fresh.tokens, fresh.rounds, ())


def test_a_head_that_fails_while_it_is_timed_costs_proposals_alone(
    kind: str, model: Model, artifacts: Artifacts, monkeypatch: pytest.MonkeyPatch
) -> None:
    options = SAMPLING | artifacts.options(kind)
    fixed = model.generate(LONG, **options)
    _, head, name = HEADS[kind]
    monkeypatch.setattr(head, name, failing)
    found = model.generate(LONG, **options | {"spec_draft_policy": "adaptive"})
    assert found.tokens == fixed.tokens
    assert found.faults == ("raised RuntimeError: a page of the weights is gone",) * 3
