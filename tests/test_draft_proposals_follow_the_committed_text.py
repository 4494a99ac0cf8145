"""What an artifact proposes is a function of the committed tokens: not of rejections, chunks, company or turns."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from drafting_targets import FEW, KINDS, Artifacts, write_artifacts
from verispec.drafting.contract import Drafter, Proposal
from verispec.drafting.dflash import DFlashDrafter
from verispec.drafting.draft_model import DraftModelDrafter
from verispec.drafting.entry_chain import EntryChainDrafter
from verispec.engine.batching.job import Job
from verispec.engine.batching.scheduler import Scheduler, SchedulerLimits
from verispec.engine.completion import Completion
from verispec.engine.loading import load
from verispec.engine.model import Model

PROMPT = [7, 1, 9, 4, 4, 2, 8] * 5
LONG = [(3 * i) % 250 + 1 for i in range(75)]
SAMPLING = {"temperature": 0.9, "seed": 5, "ignore_eos": True, "logit_bias": FEW, "max_tokens": 20}
CLASSES: dict[str, type[Drafter]] = {
    "eagle3": EntryChainDrafter,
    "dflash": DFlashDrafter,
    "dspark": DFlashDrafter,
    "draft-model": DraftModelDrafter,
}
Proposals = dict[int, tuple[tuple[int, ...], tuple[float, ...]]]


@pytest.fixture(scope="module")
def artifacts(tmp_path_factory: pytest.TempPathFactory) -> Artifacts:
    return write_artifacts(tmp_path_factory.mktemp("artifacts"))


@pytest.fixture(scope="module")
def model(artifacts: Artifacts) -> Iterator[Model]:
    with load(artifacts.target, threads=1) as model:
        for kind in KINDS:  # loading a head has it draft its test vector, which no test here is about
            model.generate(PROMPT, max_tokens=1, **artifacts.options(kind))
        yield model


@pytest.fixture(params=KINDS)
def kind(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def seen(kind: str, monkeypatch: pytest.MonkeyPatch) -> Proposals:
    """Every whole proposal by how many tokens were committed."""
    found: Proposals = {}
    owner = CLASSES[kind]
    propose = owner.propose

    def noting(self: Any, limit: int) -> Proposal:
        proposal = propose(self, limit)
        if proposal and limit >= 4:
            found[self.checkpoint()[0]] = tuple(proposal.tokens), tuple(proposal.confidences)
        return proposal

    monkeypatch.setattr(owner, "propose", noting)
    return found


def drain(scheduler: Scheduler) -> list[Completion]:
    ended = []
    while not scheduler.idle:
        ended += [event for _, event in scheduler.step() if isinstance(event, Completion)]
    return ended


def test_a_long_answer_proposes_what_a_fresh_request_would(
    kind: str, model: Model, artifacts: Artifacts, seen: Proposals
) -> None:
    options = SAMPLING | artifacts.options(kind)
    whole = model.generate(PROMPT, **options)
    proposed = dict(seen)
    text = list(whole.prompt_tokens + whole.tokens)
    expected: Proposals = {}
    for end in range(len(PROMPT) + 1, len(text) - 1):
        seen.clear()
        model.generate(text[: end - 1], **(options | {"max_tokens": 8}))
        if end in seen:
            expected[end] = seen[end]
    shared = proposed.keys() & expected.keys()
    assert len(shared) >= 4
    assert {anchor: proposed[anchor] for anchor in shared} == {anchor: expected[anchor] for anchor in shared}


def test_prompts_in_chunks_and_company_propose_alike(
    kind: str, model: Model, artifacts: Artifacts, seen: Proposals
) -> None:
    options = SAMPLING | artifacts.options(kind)
    whole = model.generate(LONG, **options)
    alone = dict(seen)
    assert alone
    scheduler = Scheduler(model, SchedulerLimits(parallel=3, prompt_rows=20))
    for _ in range(2):  # the second time every sequence has been used, and the prompt has been seen
        seen.clear()
        others = [Job(model.prepare(PROMPT, SAMPLING | {"spec_mode": "off"})) for _ in range(2)]
        job = Job(model.prepare(LONG, options))
        scheduler.submit(job, *others)
        drain(scheduler)
        found = job.outcome()
        assert isinstance(found, Completion)
        assert (found.tokens, found.rounds, found.faults) == (whole.tokens, whole.rounds, ())
        assert seen == alone
    assert scheduler.current_statistics().prefix_hit_tokens >= 64
    assert job.request is not None
    assert job.request.counters.reused_tokens == 64


def test_two_requests_draft_beside_each_other(kind: str, model: Model, artifacts: Artifacts) -> None:
    options = SAMPLING | artifacts.options(kind)
    alone = [model.generate(prompt, **options) for prompt in (PROMPT, LONG)]
    scheduler = Scheduler(model, SchedulerLimits(parallel=2))
    jobs = [Job(model.prepare(prompt, options)) for prompt in (PROMPT, LONG)]
    scheduler.submit(*jobs)
    drain(scheduler)
    for job, expected in zip(jobs, alone, strict=True):
        found = job.outcome()
        assert isinstance(found, Completion)
        assert (found.tokens, found.faults) == (expected.tokens, ())


def test_a_conversation_goes_on_with_what_it_has_drafted_from(
    kind: str, model: Model, artifacts: Artifacts, seen: Proposals
) -> None:
    colons = {25: 40.0, 26: 39.0, 27: 39.0}  # an answer of these is encoded again as it was
    options = SAMPLING | {"max_tokens": 12, "logit_bias": colons, "top_k": 3} | artifacts.options(kind)
    plain = {name: value for name, value in options.items() if not name.startswith("spec_")}
    for first in (options, {**plain, "spec_mode": "off"}):
        with model.conversation() as conversation:
            conversation.send("one two three", **first).result()
            seen.clear()
            second = conversation.send(" four five", **options).result()
            continued = dict(seen)
        seen.clear()
        again = model.generate(list(second.prompt_tokens), **options)
        assert second.tokens == again.tokens
        assert second.faults == ()
        if kind != "draft-model":  # which reads the text by itself
            assert (second.counters.reused_tokens > 0) == (first is options)
        shared = continued.keys() & seen.keys()
        assert shared
        assert {anchor: continued[anchor] for anchor in shared} == {anchor: seen[anchor] for anchor in shared}


def test_prefixes_behind_a_heads_context_are_shared_without_it(tmp_path: Path, kind: str) -> None:
    artifacts = write_artifacts(tmp_path, context=40)  # ends within a block of the prompt's prefix
    options = SAMPLING | artifacts.options(kind)
    with load(artifacts.target, threads=1) as model:
        expected = model.generate(LONG, **options)
        scheduler = Scheduler(model, SchedulerLimits(parallel=1, prompt_rows=20))
        for reused in (0, 64):
            job = Job(model.prepare(LONG, options))
            scheduler.submit(job)
            drain(scheduler)
            found = job.outcome()
            assert isinstance(found, Completion)
            assert (found.tokens, found.rounds, found.faults) == (expected.tokens, expected.rounds, ())
            assert found.counters.reused_tokens == reused


def test_one_that_is_asked_now_and_then_proposes_what_one_asked_always_does(
    kind: str, model: Model, artifacts: Artifacts, seen: Proposals, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What was put off in between, in any number of rounds, is made up for."""
    options = SAMPLING | {"max_tokens": 60} | artifacts.options(kind)
    propose = CLASSES[kind].propose
    proposed: dict[int, Proposals] = {}
    for pause in (1, 2, 7, 23):
        calls = iter(range(1 << 20))

        def asked_now_and_then(self: Any, limit: int, calls: Any = calls, pause: int = pause) -> Proposal:
            if next(calls) % pause == pause - 1:
                propose(self, limit)
            return Proposal()  # so that every round commits one token

        monkeypatch.setattr(CLASSES[kind], "propose", asked_now_and_then)
        seen.clear()
        assert model.generate(PROMPT, **options).faults == ()
        proposed[pause] = dict(seen)
    always = proposed.pop(1)
    for pause, rarely in proposed.items():
        assert len(rarely) >= 40 // pause
        assert rarely == {anchor: always[anchor] for anchor in rarely}


def test_a_conversation_goes_on_from_what_was_put_off(
    kind: str, model: Model, artifacts: Artifacts, monkeypatch: pytest.MonkeyPatch
) -> None:
    options = SAMPLING | {"max_tokens": 5} | artifacts.options(kind)
    monkeypatch.setattr(CLASSES[kind], "propose", lambda self, limit: Proposal())
    with model.conversation() as conversation:
        first = model.start([7, 1, 9], conversation, dict(options)).result()
        monkeypatch.undo()
        prompt = [*first.prompt_tokens, *first.tokens, 4, 4]
        generation = model.start(prompt, conversation, dict(options))
        second = generation.result()
    assert second.faults == ()
    assert generation.request.counters.reused_tokens == len(first.prompt_tokens) + len(first.tokens) - 1
    fresh = model.generate(prompt, **options)
    assert (second.tokens, second.rounds) == (fresh.tokens, fresh.rounds)
