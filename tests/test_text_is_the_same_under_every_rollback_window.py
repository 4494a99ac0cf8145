"""C2 on recurrent targets: K and S, replays and the guard change what a request costs and never what it says."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import product
from pathlib import Path
from typing import Any

import pytest

from adversarial_drafters import OracleDrafter
from tiny_hybrid import HYBRIDS, TinyHybrid, write_hybrid
from verispec.backends.native import NativeBackend
from verispec.backends.native_plan import plan_model
from verispec.conformance.faults import STEPS, resume_after_fault
from verispec.conformance.parity import Case, first_difference
from verispec.drafting.mtp import MtpDrafter
from verispec.engine.batching.job import Job
from verispec.engine.batching.scheduler import Scheduler, SchedulerLimits
from verispec.engine.completion import Completion
from verispec.engine.loading import load
from verispec.engine.model import Model
from verispec.errors import DrafterFaultError, MemoryLimitError, OptionError

PROMPT = [7, 1, 9, 4, 4, 2, 8]
NO_DRAFT = None
SAMPLING: dict[str, Any] = {"temperature": 0.8, "seed": 3, "logprobs": 1, "ignore_eos": True}
MIXED = {"prediction": 1, "tokeniser": True}


class PatternDrafter(OracleDrafter):
    """Right for as many tokens as each round's entry says, then wrong up to the limit; nothing where it is None."""

    name = "pattern"

    def __init__(self, text: Sequence[int], vocabulary: int, pattern: Sequence[int | None]) -> None:
        super().__init__(text)
        self.vocabulary = vocabulary
        self.pattern = list(pattern)

    def guess(self, limit: int) -> list[int]:
        right = self.pattern.pop(0) if self.pattern else limit
        tokens = super().guess(limit)
        if right is NO_DRAFT:
            return []
        return [*tokens[:right], *((token + 1) % self.vocabulary for token in tokens[right:])]


@pytest.fixture(scope="module")
def hybrid(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Model]:
    path = tmp_path_factory.mktemp("hybrid") / "hybrid.gguf"
    write_hybrid(path, TinyHybrid(**MIXED))  # type: ignore[arg-type]
    with load(path, threads=1) as model:
        yield model


def same(reference: Completion, found: Completion) -> None:
    assert first_difference(Case(0, "", 0, 0, 0.0), reference, found) is None


def with_pattern(
    model: Model, reference: Completion, pattern: Sequence[int | None], **options: Any
) -> Completion:
    text = [*reference.prompt_tokens, *reference.tokens]
    drafter = PatternDrafter(text, model.backend.capabilities.vocabulary, pattern)
    fixed = {"spec_draft_policy": "fixed", "spec_draft_p_min": 0.0}
    return model.generate(
        PROMPT, max_tokens=len(reference.tokens), drafter=drafter, **fixed, **SAMPLING, **options
    )


def replay_rounds(completion: Completion, window: int) -> list[int]:
    """The rounds whose rejection goes back further than the window, the last one aside: nothing comes behind it."""
    return [
        number
        for number, (drafted, accepted) in enumerate(completion.rounds[:-1])
        if drafted - accepted > window
    ]


@pytest.mark.parametrize(
    ("width", "window"), [(7, 7), (7, 6), (7, 2), (7, 1), (7, 0), (3, 3), (3, 1), (1, 1), (1, 0)]
)
def test_every_rejection_pattern_gives_the_text_of_off_with_one_replay_at_most(
    hybrid: Model, width: int, window: int
) -> None:
    reference = hybrid.generate(PROMPT, spec_mode="off", max_tokens=26, **SAMPLING)
    options = {"spec_draft_max": width, "spec_mtp_recurrent_snapshots": window}
    depth = {7: 2, 3: 3, 1: 5}[width]
    for pattern in product([NO_DRAFT, *range(width + 1)], repeat=depth):
        found = with_pattern(hybrid, reference, pattern, **options)
        same(reference, found)
        outside = replay_rounds(found, window)
        assert found.counters.replays == len(outside) <= 1
        assert found.counters.guarded_round == (outside[0] if outside else None)
        if outside:
            assert all(drafted <= window for drafted, _ in found.rounds[outside[0] + 1 :])


@pytest.mark.parametrize("name", HYBRIDS)
def test_every_family_takes_back_what_was_rejected(name: str, tmp_path: Path) -> None:
    path = tmp_path / "hybrid.gguf"
    write_hybrid(path, HYBRIDS[name])
    with load_untokenised(path) as backend:
        tokens = [(5 * i) % 200 + 1 for i in range(40)]
        whole = evaluated(backend, tokens, [len(tokens)], lambda rows: rows)
        for keep in (8, 5, 2, 1):
            assert evaluated(backend, tokens, [8] * 60, lambda rows, keep=keep: min(rows, keep)) == whole


def load_untokenised(path: Path) -> Any:
    from contextlib import closing

    return closing(NativeBackend.load(path, threads=1))


def evaluated(backend: NativeBackend, tokens: Sequence[int], chunks: Sequence[int], kept: Any) -> bytes:
    """The bytes of the logits behind ``tokens``, evaluated chunk by chunk, of which so many rows are kept."""
    from verispec.backends.contract import chain

    sequence = backend.open_sequence()
    try:
        for chunk in chunks:
            length = backend.length(sequence)
            part = tokens[length : length + chunk]
            rows = chain(sequence, length, part)
            found = backend.evaluate(rows, [len(rows) - 1], True).logits
            assert found is not None
            last = found.tobytes()
            backend.commit(sequence, length + min(len(part), kept(len(part))))
            if backend.length(sequence) == len(tokens):
                return last
        raise AssertionError("the chunks do not reach the end")
    finally:
        backend.close_sequence(sequence)


@pytest.mark.parametrize("window", [7, 2, 0])
@pytest.mark.parametrize("mode", ["mtp", "suffix", "prompt-lookup", "auto"])
@pytest.mark.parametrize("policy", ["fixed", "adaptive"])
def test_every_strategy_gives_the_text_of_off(hybrid: Model, mode: str, window: int, policy: str) -> None:
    for temperature in (0.0, 0.8, 1.3):
        sampling = {**SAMPLING, "temperature": temperature}
        reference = hybrid.generate(PROMPT * 4, spec_mode="off", max_tokens=30, **sampling)
        options = {"spec_draft_max": 7, "spec_mtp_recurrent_snapshots": window, "spec_draft_policy": policy}
        found = hybrid.generate(PROMPT * 4, spec_mode=mode, max_tokens=30, **sampling, **options)
        same(reference, found)
        assert found.counters.replays <= 1
        assert found.faults == ()


def test_a_cancel_anywhere_leaves_a_conversation_that_goes_on_alike(hybrid: Model) -> None:
    options: dict[str, Any] = {
        "spec_draft_max": 7,
        "spec_mtp_recurrent_snapshots": 2,
        "spec_draft_p_min": 0.0,
    }
    for chunks in range(1, 9):
        with hybrid.conversation() as conversation:
            with conversation.send(
                "one two", max_tokens=30, spec_mode="mtp", **SAMPLING, **options
            ) as answer:
                for _, _chunk in zip(range(chunks), answer, strict=False):
                    pass
                answer.cancel()
            prompt = [*conversation.messages, {"role": "user", "content": " three"}]
            second = conversation.send(
                " three", max_tokens=12, spec_mode="mtp", **SAMPLING, **options
            ).result()
            same(hybrid.generate(prompt, max_tokens=12, spec_mode="off", **SAMPLING), second)
            assert second.faults == ()


def test_a_stop_string_inside_a_block_truncates_through_the_window(hybrid: Model) -> None:
    reference = hybrid.generate(PROMPT, spec_mode="off", max_tokens=40, **SAMPLING)
    stop = reference.text[7:10]
    stopped = hybrid.generate(PROMPT, spec_mode="off", max_tokens=40, stop=stop, **SAMPLING)
    for window in (7, 1, 0):
        text = [*reference.prompt_tokens, *reference.tokens]
        found = hybrid.generate(
            PROMPT,
            drafter=OracleDrafter(text),
            max_tokens=40,
            stop=stop,
            spec_draft_max=7,
            spec_mtp_recurrent_snapshots=window,
            spec_draft_policy="fixed",
            **SAMPLING,
        )
        same(stopped, found)


@pytest.mark.parametrize("cache_bytes", [0, 64 << 20])
@pytest.mark.parametrize("mode", ["mtp", "suffix", "off"])
def test_company_and_cached_prefixes_change_nothing(hybrid: Model, mode: str, cache_bytes: int) -> None:
    shared = [(3 * i) % 250 + 1 for i in range(70)]
    prompts = [[*shared, 5, 6, tail, *range(tail % 9)] for tail in range(10, 22)]
    options: dict[str, Any] = {"max_tokens": 14, "spec_mode": mode, **SAMPLING}
    if mode != "off":
        options |= {"spec_draft_max": 5, "spec_mtp_recurrent_snapshots": 3, "spec_draft_p_min": 0.0}
        options |= {"spec_draft_policy": "fixed"}
    scheduler = Scheduler(hybrid, SchedulerLimits(parallel=4, prompt_rows=32, prefix_cache_bytes=cache_bytes))
    jobs = [Job(hybrid.prepare(prompt, options)) for prompt in prompts]
    scheduler.submit(*jobs)
    ended: dict[int, Completion] = {}
    while not scheduler.idle:
        for job, event in scheduler.step():
            if isinstance(event, Completion):
                ended[jobs.index(job)] = event
            assert not isinstance(event, Exception)
    for index, prompt in enumerate(prompts):
        same(hybrid.generate(prompt, max_tokens=14, spec_mode="off", **SAMPLING), ended[index])
        assert ended[index].faults == ()
    counted = scheduler.current_statistics()
    assert (counted.prefix_hit_tokens > 0) == (cache_bytes > 0)
    assert (counted.replays > 0) == (mode != "off")
    assert counted.guarded_requests == counted.replays


@pytest.mark.parametrize("window", [6, 2, 0])
@pytest.mark.parametrize("step", STEPS)
def test_a_fault_at_any_step_of_any_round_leaves_no_trace(hybrid: Model, step: str, window: int) -> None:
    reference = hybrid.generate(PROMPT, spec_mode="off", max_tokens=20, **SAMPLING)
    options: dict[str, Any] = {"spec_mode": "mtp", "spec_draft_policy": "fixed", "spec_draft_p_min": 0.0}
    options |= {"spec_draft_max": 7, "spec_mtp_recurrent_snapshots": window}
    whole = hybrid.generate(PROMPT, max_tokens=20, **SAMPLING, **options)
    for index in range(len(whole.rounds)):
        for after in (False, True):
            generation = hybrid.stream(PROMPT, max_tokens=20, **SAMPLING, **options)
            found = resume_after_fault(generation, step, index, after)
            same(reference, found)
            assert (found.rounds, found.counters.replays) == (whole.rounds, whole.counters.replays)


def test_replays_and_guarded_requests_are_counted_and_in_the_receipt(hybrid: Model) -> None:
    reference = hybrid.generate(PROMPT, spec_mode="off", max_tokens=26, **SAMPLING)
    found = with_pattern(hybrid, reference, [7, 0], spec_draft_max=7, spec_mtp_recurrent_snapshots=6)
    counts = hybrid.receipt(found).body["recomputed-with-drafter"]["counts"]
    assert (counts["replays"], counts["guarded_round"]) == (1, 1)


def test_a_guard_of_zero_spares_the_block_its_work(hybrid: Model, monkeypatch: pytest.MonkeyPatch) -> None:
    absorbed: list[int] = []
    absorb = MtpDrafter.absorb

    def counting(self: MtpDrafter, first: int, *rest: Any) -> None:
        absorbed.append(first)
        absorb(self, first, *rest)

    monkeypatch.setattr(MtpDrafter, "absorb", counting)
    options = {"spec_draft_max": 7, "spec_mtp_recurrent_snapshots": 0, "spec_draft_p_min": 0.0}
    found = hybrid.generate(
        PROMPT, spec_mode="mtp", spec_draft_policy="fixed", max_tokens=30, **SAMPLING, **options
    )
    assert found.counters.guarded_round is not None
    assert len(absorbed) <= found.counters.guarded_round + 1
    assert len(found.rounds) > len(absorbed) + 10


def test_a_failing_restore_under_strict_does_not_hide_behind_a_replay(hybrid: Model) -> None:
    class Lost(PatternDrafter):
        def absorb(self, first: int, tokens: Sequence[int], hidden: object) -> None:
            raise ValueError("lost")

    reference = hybrid.generate(PROMPT, spec_mode="off", max_tokens=10, **SAMPLING)
    lost = Lost([*reference.prompt_tokens, *reference.tokens], 288, [7])
    lost.taps = (-1,)
    with pytest.raises(DrafterFaultError, match="absorb raised ValueError: lost"):
        hybrid.generate(PROMPT, max_tokens=10, drafter=lost, strict_drafter=True, **SAMPLING)
    lost = Lost([*reference.prompt_tokens, *reference.tokens], 288, [7])
    lost.taps = (-1,)
    found = hybrid.generate(PROMPT, max_tokens=10, drafter=lost, **SAMPLING)
    same(reference, found)
    assert found.faults == ("absorb raised ValueError: lost",)


def test_memory_of_the_window_is_stated_and_refused_when_over_the_limit(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "hybrid.gguf"
    write_hybrid(path, TinyHybrid(**MIXED))  # type: ignore[arg-type]
    needs = [plan_model(path, sequences=2, snapshots=snapshots).need for snapshots in (0, 7, 64)]
    floats = (128 * 3 + 4 * 16 * 16) * 3  # convolution and recurrent state of three layers
    place = -(-floats * 4 // 4096) * 4096
    assert [need.states for need in needs] == [2 * (snapshots + 2) * place for snapshots in (0, 7, 64)]
    monkeypatch.setattr("verispec.backends.native.available_memory", lambda: needs[1].total)
    NativeBackend.load(path, sequences=2, snapshots=7).close()
    with pytest.raises(MemoryLimitError, match="recurrent states"):
        NativeBackend.load(path, sequences=2, snapshots=64)


def test_a_window_is_refused_where_nothing_recurs(smollm2_path: Path) -> None:
    with pytest.raises(OptionError, match="snapshots: not read by a model of architecture llama"):
        load(smollm2_path, snapshots=3)
