"""Refused requests, strange drafters and rewritten sequences: nothing of them reaches another request, or stays."""

from __future__ import annotations

import gc
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import pytest

from adversarial_drafters import OracleDrafter
from tiny_hybrid import TinyHybrid, write_hybrid
from verispec.backends.native import NativeBackend
from verispec.backends.native_prediction import HEADS_KEPT
from verispec.drafting.mtp import MtpDrafter
from verispec.engine.batching.job import Job
from verispec.engine.batching.scheduler import Scheduler, SchedulerLimits
from verispec.engine.completion import Completion
from verispec.engine.loading import load
from verispec.engine.model import Model
from verispec.errors import OptionError

EVERY_TOKEN: dict[str, Any] = {
    "spec_mode": "mtp",
    "spec_draft_policy": "fixed",
    "spec_draft_p_min": 0.0,
    "spec_draft_max": 3,
    "ignore_eos": True,
}


@pytest.fixture(scope="module")
def hybrid(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Model]:
    path = tmp_path_factory.mktemp("hybrid") / "hybrid.gguf"
    write_hybrid(path, TinyHybrid(prediction=1, tokeniser=True))
    with load(path, threads=1, sequences=5) as model:
        yield model


def proposals(monkeypatch: pytest.MonkeyPatch) -> dict[int, Sequence[int]]:
    """Every proposal from here on, by the position of its anchor."""
    found: dict[int, Sequence[int]] = {}
    propose = MtpDrafter.propose

    def noting(self: MtpDrafter, limit: int) -> Any:
        proposal = propose(self, limit)
        if proposal:
            found[self._position] = tuple(proposal.tokens)
        return proposal

    monkeypatch.setattr(MtpDrafter, "propose", noting)
    return found


def test_a_request_refused_while_it_opens_gives_its_sequence_back(hybrid: Model) -> None:
    for _ in range(2 * hybrid.backend.capabilities.sequences):
        with pytest.raises(OptionError, match="spec_mtp_fr_vocab_size: expected at most 288"):
            hybrid.generate([1, 2], spec_mode="mtp", spec_mtp_fr_vocab_size=100_000)
    assert hybrid.generate([1, 2], max_tokens=2, ignore_eos=True).tokens


class UsingTheModel(OracleDrafter):
    """Evaluates something else while it is shown hidden states."""

    name = "using-the-model"
    taps = (-1,)

    def __init__(self, model: Model) -> None:
        super().__init__([])
        self.model = model

    def absorb(self, first: int, tokens: Sequence[int], hidden: Mapping[int, Any]) -> None:
        self.model.logits([5, 6, 7, 8, 9])


def in_company(model: Model, first: dict[str, Any]) -> list[Completion]:
    sampling: dict[str, Any] = {"temperature": 0.9, "max_tokens": 15, "ignore_eos": True, "logprobs": 0}
    asked = [([1, 2, 3], first), *(([4, 5, 6, tail], {"spec_mode": "off"}) for tail in range(3))]
    jobs = [
        Job(model.prepare(prompt, {**sampling, **options, "seed": seed}))
        for seed, (prompt, options) in enumerate(asked)
    ]
    scheduler = Scheduler(model, SchedulerLimits(parallel=4, prefix_cache_bytes=0))
    scheduler.submit(*jobs)
    ended: dict[Job, Completion] = {}
    while not scheduler.idle:
        for job, event in scheduler.step():
            if isinstance(event, Completion):
                ended[job] = event
    return [ended[job] for job in jobs]


def test_a_drafter_that_uses_the_model_changes_nothing_for_its_neighbours(hybrid: Model) -> None:
    undisturbed = in_company(hybrid, {"spec_mode": "off"})
    disturbed = in_company(hybrid, {"drafter": UsingTheModel(hybrid)})
    for alone, found in zip(undisturbed, disturbed, strict=True):
        assert (found.tokens, found.logprobs) == (alone.tokens, alone.logprobs)


def test_entries_of_a_text_end_where_another_was_written_over_it(
    hybrid: Model, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen = proposals(monkeypatch)
    with hybrid.conversation() as conversation:
        first = hybrid.start([1, 2, 3, 4, 5], conversation, {**EVERY_TOKEN, "max_tokens": 10}).result()
        plain: dict[str, Any] = {"spec_mode": "off", "ignore_eos": True}
        other = hybrid.start([9, 8, 7, 6, 5], conversation, {**plain, "max_tokens": 10}).result()
        assert len(first.tokens) == len(other.tokens)
        prompt = [*other.prompt_tokens, *other.tokens, 3, 4]
        seen.clear()
        third = hybrid.start(prompt, conversation, {**EVERY_TOKEN, "max_tokens": 8}).result()
        continued = dict(seen)
    seen.clear()
    fresh = hybrid.generate(prompt, **{**EVERY_TOKEN, "max_tokens": 8})
    assert third.tokens == fresh.tokens
    assert third.faults == ()
    shared = continued.keys() & seen.keys()
    assert shared
    assert {anchor: continued[anchor] for anchor in shared} == {anchor: seen[anchor] for anchor in shared}


def test_a_drafter_switched_off_leaves_no_prefix_to_go_on_from(hybrid: Model) -> None:
    scheduler = Scheduler(hybrid, SchedulerLimits(parallel=1))
    prompt = [(3 * i) % 250 + 1 for i in range(20)]
    late = {**EVERY_TOKEN, "max_tokens": 60, "drafter_deadline": 1e-9}
    (dead,) = _run(scheduler, hybrid, prompt, late)
    assert len(dead.faults) == 3
    longer = [*dead.prompt_tokens, *dead.tokens]
    (found,) = _run(scheduler, hybrid, longer, {**EVERY_TOKEN, "max_tokens": 8})
    fresh = hybrid.generate(longer, **{**EVERY_TOKEN, "max_tokens": 8})
    assert found.counters.reused_tokens <= 32
    assert (found.tokens, found.faults) == (fresh.tokens, ())


def _run(scheduler: Scheduler, model: Model, prompt: list[int], options: dict[str, Any]) -> list[Completion]:
    scheduler.submit(Job(model.prepare(prompt, options)))
    ended = []
    while not scheduler.idle:
        ended += [event for _, event in scheduler.step() if isinstance(event, Completion)]
    return ended


def test_heads_of_every_size_are_not_kept_for_ever(hybrid: Model) -> None:
    backend = hybrid.backend
    assert isinstance(backend, NativeBackend)
    assert backend._prediction is not None
    text = hybrid.generate([1, 2, 3], max_tokens=3, spec_mode="off", ignore_eos=True).tokens
    for size in range(1, 40):
        options = {**EVERY_TOKEN, "spec_mtp_fr_vocab_size": size}
        assert hybrid.generate([1, 2, 3], max_tokens=3, **options).tokens == text
    gc.collect()
    assert len(backend._prediction._blocks) == HEADS_KEPT
    assert not [name for name in backend._prediction._passes.weights.matrices if "rows" in name]


@pytest.mark.parametrize("taps", [(99,), (-5,), ("x",), [-1], None, 5])
def test_hidden_states_that_the_target_lacks_are_refused_by_name(hybrid: Model, taps: Any) -> None:
    drafter = OracleDrafter([])
    drafter.taps = taps
    with pytest.raises(OptionError, match="drafter: taps: expected a tuple of some of"):
        hybrid.generate([1, 2, 3], max_tokens=2, drafter=drafter)
