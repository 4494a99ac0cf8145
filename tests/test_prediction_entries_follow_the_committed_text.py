"""What ``mtp`` proposes is a function of the committed tokens: not of rejections, replays, chunks or company."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tiny_hybrid import TinyHybrid, write_hybrid
from verispec.drafting.contract import Proposal
from verispec.drafting.mtp import MtpDrafter
from verispec.engine.batching.job import Job
from verispec.engine.batching.scheduler import Scheduler, SchedulerLimits
from verispec.engine.completion import Completion
from verispec.engine.loading import load
from verispec.engine.model import Model

PROMPT = [7, 1, 9, 4, 4, 2, 8] * 5
OPTIONS: dict[str, Any] = {
    "spec_mode": "mtp",
    "spec_draft_policy": "fixed",
    "spec_draft_p_min": 0.0,
    "spec_draft_max": 4,
    "temperature": 0.9,
    "seed": 5,
    "ignore_eos": True,
}
Proposals = dict[int, tuple[tuple[int, ...], tuple[float, ...]]]


@pytest.fixture(scope="module")
def hybrid(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Model]:
    path = tmp_path_factory.mktemp("hybrid") / "hybrid.gguf"
    write_hybrid(path, TinyHybrid(prediction=1, tokeniser=True))
    with load(path, threads=1) as model:
        yield model


@pytest.fixture
def seen(monkeypatch: pytest.MonkeyPatch) -> Proposals:
    """Every proposal by the position of its anchor."""
    found: Proposals = {}
    propose = MtpDrafter.propose

    def noting(self: MtpDrafter, limit: int) -> Proposal:
        proposal = propose(self, limit)
        if proposal and limit >= OPTIONS["spec_draft_max"]:
            found[self._position] = tuple(proposal.tokens), tuple(proposal.confidences)
        return proposal

    monkeypatch.setattr(MtpDrafter, "propose", noting)
    return found


def fresh(model: Model, tokens: tuple[int, ...], seen: Proposals) -> Proposals:
    """What requests that have evaluated nothing but ``tokens`` propose, at every anchor behind the prompt."""
    expected: Proposals = {}
    for end in range(len(PROMPT), len(tokens) - 1):
        seen.clear()
        model.generate(list(tokens[:end]), max_tokens=8, **OPTIONS)
        if end in seen:
            expected[end] = seen[end]
    return expected


@pytest.mark.parametrize("window", [4, 2, 0])
def test_a_long_answer_proposes_what_a_fresh_request_would(
    hybrid: Model, seen: Proposals, window: int
) -> None:
    options = OPTIONS | {"spec_mtp_recurrent_snapshots": window, "spec_draft_max": 4}
    whole = hybrid.generate(PROMPT, max_tokens=24, **options)
    proposed = dict(seen)
    expected = fresh(hybrid, whole.prompt_tokens + whole.tokens, seen)
    shared = proposed.keys() & expected.keys()
    assert len(shared) >= (4 if window == 4 else 1)
    assert {anchor: proposed[anchor] for anchor in shared} == {anchor: expected[anchor] for anchor in shared}


def test_prompts_in_chunks_company_and_prefixes_propose_alike(hybrid: Model, seen: Proposals) -> None:
    prompt = [(3 * i) % 250 + 1 for i in range(75)]
    whole = hybrid.generate(prompt, max_tokens=12, **OPTIONS)
    alone = dict(seen)
    assert alone
    scheduler = Scheduler(hybrid, SchedulerLimits(parallel=3, prompt_rows=20))
    for _ in range(2):
        seen.clear()
        jobs = [Job(hybrid.prepare(prompt, OPTIONS | {"max_tokens": 12}))]
        scheduler.submit(*jobs)
        found = [event for _, event in drain(scheduler) if isinstance(event, Completion)]
        assert (found[0].tokens, found[0].rounds, found[0].faults) == (whole.tokens, whole.rounds, ())
        assert seen == alone
    assert scheduler.current_statistics().prefix_hit_tokens == 64
    seen.clear()
    longer = [*prompt, 9]
    expected = hybrid.generate(longer, max_tokens=12, **OPTIONS)
    alone = dict(seen)
    seen.clear()
    scheduler.submit(Job(hybrid.prepare(longer, OPTIONS | {"max_tokens": 12})))
    found = [event for _, event in drain(scheduler) if isinstance(event, Completion)]
    assert (found[0].tokens, found[0].rounds) == (expected.tokens, expected.rounds)
    assert seen == alone


def drain(scheduler: Scheduler) -> list[tuple[Job, Any]]:
    events: list[tuple[Job, Any]] = []
    while not scheduler.idle:
        events += scheduler.step()
    return events


def test_a_prefix_evaluated_without_the_block_is_not_gone_on_from(hybrid: Model, seen: Proposals) -> None:
    prompt = [(3 * i) % 250 + 1 for i in range(75)]
    scheduler = Scheduler(hybrid, SchedulerLimits(parallel=1))
    scheduler.submit(Job(hybrid.prepare(prompt, {"spec_mode": "off", "max_tokens": 2})))
    drain(scheduler)
    scheduler.submit(Job(hybrid.prepare(prompt, OPTIONS | {"max_tokens": 12})))
    ended = [event for _, event in drain(scheduler) if isinstance(event, Completion)]
    assert ended[0].faults == ()
    assert ended[0].counters.reused_tokens == 0
    scheduler.submit(Job(hybrid.prepare(prompt, {"spec_mode": "off", "max_tokens": 2})))
    ended = [event for _, event in drain(scheduler) if isinstance(event, Completion)]
    assert ended[0].counters.reused_tokens == 64


def test_a_conversation_goes_on_with_its_entries_or_without_its_prefix(
    hybrid: Model, seen: Proposals
) -> None:
    colons = {25: 40.0, 26: 39.0, 27: 39.0}  # an answer of these is encoded again as it was
    options = OPTIONS | {"max_tokens": 12, "logit_bias": colons, "top_k": 3}
    for first in (options, {**options, "spec_mode": "off"} | dict.fromkeys(WIDTHS)):
        with hybrid.conversation() as conversation:
            conversation.send("one two three", **first).result()
            seen.clear()
            second = conversation.send(" four five", **options).result()
            continued = dict(seen)
        seen.clear()
        again = hybrid.generate(list(second.prompt_tokens), **options)
        assert second.tokens == again.tokens
        assert second.faults == ()
        assert (second.counters.reused_tokens > 0) == (first is options)
        shared = continued.keys() & seen.keys()
        assert shared
        assert {anchor: continued[anchor] for anchor in shared} == {anchor: seen[anchor] for anchor in shared}


WIDTHS = ("spec_draft_policy", "spec_draft_p_min", "spec_draft_max")


def test_p_min_and_n_min_end_and_drop_proposals(hybrid: Model) -> None:
    whole = hybrid.generate(PROMPT, max_tokens=20, **OPTIONS)
    none = hybrid.generate(PROMPT, max_tokens=20, **(OPTIONS | {"spec_draft_p_min": 1.0}))
    some = hybrid.generate(PROMPT, max_tokens=20, **(OPTIONS | {"spec_draft_min": 4}))
    assert whole.tokens == none.tokens == some.tokens
    assert none.drafted == 0
    assert {drafted for drafted, _ in some.rounds} <= {0, 4}
    assert whole.drafted > 0


def test_a_full_context_ends_alike(hybrid: Model, tmp_path: Path) -> None:
    path = tmp_path / "short.gguf"
    write_hybrid(path, TinyHybrid(prediction=1, tokeniser=True))
    with load(path, threads=1, ctx=48) as short:
        off = short.generate(PROMPT, spec_mode="off", temperature=0.9, seed=5, ignore_eos=True)
        found = short.generate(PROMPT, **OPTIONS)
        assert (found.tokens, found.finish_reason, found.faults) == (off.tokens, "context", ())
