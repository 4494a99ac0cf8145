"""Company at its worst: faults, cancels, late requests and wrong drafters beside one another, a prefix cache that is
always full, failing passes. Whoever stays answers as alone; whoever fails fails alone, behind a true beginning."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

import tiny_models
from adversarial_drafters import (
    OracleDrafter,
    OutOfVocabularyDrafter,
    RaisingDrafter,
    WrongAtDrafter,
    WrongDrafter,
)
from tiny_llama import VOCABULARY, tiny_llama
from tiny_models import TinyModel, write_model
from verispec.backends.contract import Evaluation, Row
from verispec.backends.native import NativeBackend
from verispec.backends.slots import Ring, Slots, SlotState
from verispec.conformance.faults import STEPS, FaultInjector, InjectedFaultError
from verispec.drafting.contract import Drafter
from verispec.engine.batching.job import Job
from verispec.engine.batching.scheduler import Scheduler, SchedulerLimits
from verispec.engine.completion import Chunk, Completion
from verispec.engine.loading import load
from verispec.engine.model import Model
from verispec.engine.replay import ModelReplayer
from verispec.engine.request import Request
from verispec.errors import BackendError, DeadlineError, GrammarError, VerispecError
from verispec.evidence.verify import Verdict, verify
from verispec.text.grammar import Grammar

WORDS = ("the ", "an ", "on ", "re", "in", "xyz ", "é日", " 1 2 3 ", "\n")
GRAMMARS = (
    Grammar.regex("(the|an|on)+ [0-9]{5}x"),
    Grammar.regex("yes|yes!"),
    Grammar.regex("é{3}日本"),
    Grammar.ebnf('start: ""'),
    Grammar.ebnf('start: "The answer is " ("yes" | "no") "."'),
    Grammar.ebnf('start: a "xyz"\na[max_tokens=3]: /[a-z]*/'),
    Grammar.ebnf('start: "x" start'),
    Grammar.json_object(),
)


@dataclass(eq=False)
class Guest:
    """A job, what becomes of it, and what the same request alone gives (an error included)."""

    job: Job
    alone: Completion | VerispecError
    fate: str | None
    chunks: list[Chunk] = field(default_factory=list)
    end: Completion | Exception | None = None

    @property
    def tokens(self) -> tuple[int, ...]:
        return tuple(token for chunk in self.chunks for token in chunk.tokens)

    @property
    def text(self) -> str:
        return "".join(chunk.text for chunk in self.chunks)


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Model]:
    path = tmp_path_factory.mktemp("hostile") / "tiny.gguf"
    path.write_bytes(tiny_llama())
    with load(path, ctx=128, threads=2, sequences=17) as loaded:
        yield loaded


def facts(answer: Completion) -> tuple[object, ...]:
    """Everything of an answer that must not depend on company."""
    names = ("tokens", "text", "finish_reason", "stop_string", "logprobs", "prompt_tokens", "prompt_logprobs")
    return tuple(getattr(answer, name) for name in names)


def alone(model: Model, prompt: Sequence[int], options: dict[str, Any]) -> Completion | VerispecError:
    try:
        return model.generate(prompt, spec_mode="off", **options)
    except GrammarError as error:
        return error


def drawn_prompt(draws: random.Random, model: Model) -> list[int]:
    """Some begin alike, some end at the context's edge or behind an end token."""
    shared = model.tokenizer.encode("".join(random.Random(draws.randrange(2)).choices(WORDS, k=60)))
    own = model.tokenizer.encode("".join(draws.choices(WORDS, k=draws.randint(1, 6))))
    prompt = shared[: draws.choice((0, 16, 17, 32, 63, 90, 126))] + own
    if draws.random() < 0.1:
        prompt.append(min(model.tokenizer.eos_ids))
    return prompt[: draws.choice((127, 126, 100))]


def drawn_options(draws: random.Random, end: int) -> dict[str, Any]:
    choices: dict[str, tuple[Any, ...]] = {
        "max_tokens": (None, 1, 2, 3, 5, 9, 20),
        "temperature": (0.0, 0.0, 0.5, 1.2),
        "logprobs": (None, None, 0, 20),
        "prompt_logprobs": (None, None, None, 2),
        "frequency_penalty": (0.0, 0.0, 2.0),
        "repetition_penalty": (1.0, 1.0, 1.3),
        "top_p": (1.0, 1.0, 0.5),
        "choice": (0, 3),
        "stop": (None, None, ["e", "the"], ["\ufffd"], ["12", "x"]),
        "ignore_eos": (False, False, True),
        "logit_bias": (None, {end: 5.0}, {end: 20.0}, {100: -9.0}),
        "shown_tokens": (None, [end]),
        "grammar": (None, None, *GRAMMARS),
    }
    options = {name: draws.choice(values) for name, values in choices.items()}
    if draws.random() < 0.1:
        options |= {"max_tokens": 0, "prompt_logprobs": 1}
    return {"seed": draws.randrange(3), **options}


def drawn_speculation(draws: random.Random, text: Sequence[int], end: int) -> dict[str, Any]:
    """A strategy, or a drafter that is right, wrong, faulty, or sure that the answer ends any moment."""
    speculation: dict[str, Any] = {"spec_draft_policy": draws.choice(("fixed", "fixed", "adaptive"))}
    speculation["spec_draft_max"] = draws.choice((1, 4, 16))
    if draws.random() < 0.4:
        return speculation | {"spec_mode": draws.choice(("auto", "suffix", "prompt-lookup", "ngram-context"))}
    method = draws.choice(("propose", "observe", "checkpoint", "restore"))
    drafters: tuple[Callable[[], Drafter], ...] = (
        lambda: OracleDrafter([*text, end, end]),
        lambda: OracleDrafter([token if place % 5 else end for place, token in enumerate(text)]),
        lambda: WrongDrafter(text, VOCABULARY),
        lambda: WrongAtDrafter(text, VOCABULARY, draws.randrange(4)),
        lambda: OutOfVocabularyDrafter(draws.choice((-1, VOCABULARY))),
        lambda: RaisingDrafter(text, method, draws.choice((None, [1]))),
    )
    return speculation | {"drafter": draws.choice(drafters)()}


def faulty_begin(job: Job, draws: random.Random) -> Callable[[Request], None]:
    """``job.begin``, and one step of some round will raise."""
    begin, step = job.begin, draws.choice(STEPS)
    place, after = draws.randrange(3), draws.random() < 0.5

    def with_fault(request: Request) -> None:
        begin(request)
        FaultInjector(request, step, place, after)

    return with_fault


def drawn_guest(draws: random.Random, model: Model) -> Guest:
    end = min(model.tokenizer.eos_ids)
    prompt, options = drawn_prompt(draws, model), drawn_options(draws, end)
    reference = alone(model, prompt, options)
    answer = reference.tokens if isinstance(reference, Completion) else ()
    speculation = drawn_speculation(draws, [*prompt, *answer], end)
    prepared = model.prepare(prompt, options | speculation)
    job = Job(prepared, identity=draws.choice("ab"), cache_prompt=draws.random() < 0.8)
    guest = Guest(job, reference, draws.choice((None, None, None, "cancel", "fault", "late")))
    if guest.fate == "fault":
        job.begin = faulty_begin(job, draws)  # type: ignore[method-assign]
    return guest


def serve(scheduler: Scheduler, guests: Sequence[Guest], draws: random.Random) -> None:
    """Serves them all; they come, are cancelled and run late at random moments."""
    coming = list(guests)
    by_job = {guest.job: guest for guest in guests}
    while coming or not scheduler.idle:
        if coming and (scheduler.idle or draws.random() < 0.5):
            scheduler.submit(coming.pop().job)
        for guest in guests:
            if guest.fate == "cancel" and draws.random() < 0.1:
                guest.job.cancel()
            if guest.fate == "late" and draws.random() < 0.1:
                guest.job.deadline = 0.0
        for job, event in scheduler.step():
            if isinstance(event, Chunk):
                by_job[job].chunks.append(event)
            else:
                by_job[job].end = event


def check_end(guest: Guest) -> None:
    """What came is the whole answer, or a beginning of it behind which its own end stands."""
    end, expected = guest.end, guest.alone
    if isinstance(expected, VerispecError):
        if guest.fate is None:
            assert str(end) == str(expected)
        return
    assert guest.tokens == expected.tokens[: len(guest.tokens)]
    assert expected.text.startswith(guest.text)
    if isinstance(end, Completion):
        assert (end.tokens, end.text) == (guest.tokens, guest.text)
        if guest.fate != "cancel":
            assert facts(end) == facts(expected)
    else:
        assert guest.fate in ("cancel", "fault", "late"), repr(end)
        assert guest.fate == "cancel" or isinstance(end, (InjectedFaultError, DeadlineError)), repr(end)


def assert_all_free(model: Model) -> None:
    found = [model.backend.open_sequence() for _ in range(model.backend.capabilities.sequences)]
    for sequence in found:
        model.backend.close_sequence(sequence)


@pytest.mark.parametrize("seed", range(4))
def test_whoever_stays_answers_as_alone(model: Model, seed: int) -> None:
    draws = random.Random(seed)
    replayer = ModelReplayer(model)
    seen: set[str | None] = set()
    for _ in range(14):
        limits = SchedulerLimits(
            parallel=draws.choice((2, 3, 8, 16)),
            prompt_rows=draws.choice((1, 7, 64, 128)),
            prefix_cache_bytes=draws.choice((0, 3_000, 200_000)),
        )
        guests = [drawn_guest(draws, model) for _ in range(draws.choice((3, 6, 12)))]
        serve(Scheduler(model, limits), guests, draws)
        for guest in guests:
            check_end(guest)
            seen.add(guest.fate if isinstance(guest.end, Exception) else "answered")
            if isinstance(guest.end, Completion) and guest.tokens and draws.random() < 0.2:
                receipt = model.receipt(guest.end, include_text=True)
                assert verify(receipt, lambda _: replayer).verdict is Verdict.VERIFIED
        assert_all_free(model)
    assert seen >= {"answered", "fault", "late"}


class FailingPassError(Exception):
    """Raised in place of an evaluation."""


def failing_passes(
    scheduler: Scheduler, doomed: Job, when: str, draws: random.Random
) -> Callable[..., Evaluation]:
    """``evaluate``, which often fails where rows of ``doomed`` take part: before, half way through or behind."""
    evaluate = scheduler.model.backend.evaluate

    def failing(
        rows: Sequence[Row], outputs: Sequence[int], want_logits: bool, taps: Sequence[int] = ()
    ) -> Evaluation:
        request = doomed.request
        met = request is not None and any(row.sequence == request.target.sequence for row in rows)
        if not met or doomed not in scheduler._running or doomed.ended or draws.random() < 0.6:
            return evaluate(rows, outputs, want_logits, taps)
        done = {"before": 0, "half way": len(rows) // 2, "behind": len(rows)}[when]
        if done:
            evaluate(rows[:done], [row for row in outputs if row < done], want_logits, taps)
        raise FailingPassError

    return failing


@pytest.mark.parametrize("when", ["before", "half way", "behind"])
def test_a_pass_that_fails_for_one_fails_that_one_alone(
    model: Model, when: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    draws = random.Random(when)
    failed = 0
    for _ in range(6):
        guests = [drawn_guest(draws, model) for _ in range(5)]
        prompt = drawn_prompt(draws, model)
        doomed = Guest(
            Job(model.prepare(prompt, {"max_tokens": 30})), alone(model, prompt, {"max_tokens": 30}), None
        )
        scheduler = Scheduler(model, SchedulerLimits(parallel=6, prompt_rows=20, prefix_cache_bytes=4_000))
        with monkeypatch.context() as patched:
            patched.setattr(model.backend, "evaluate", failing_passes(scheduler, doomed.job, when, draws))
            serve(scheduler, [*guests, doomed], draws)
        for guest in guests:
            check_end(guest)
        assert isinstance(doomed.alone, Completion)
        assert doomed.tokens == doomed.alone.tokens[: len(doomed.tokens)]
        failed += isinstance(doomed.end, FailingPassError)
        assert_all_free(model)
    assert failed >= 3


def test_rings_bear_rejected_proposals_behind_a_full_prefix_cache(
    model: Model, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Sliding windows shorter than the prompts; every proposal is wrong and displaces what a ring keeps."""
    monkeypatch.setattr(tiny_models, "VOCABULARY", VOCABULARY)
    path = tmp_path / "windows.gguf"
    write_model(path, TinyModel("gemma3", layers=4, window=20, period=2, context=420), seed=3)
    draws = random.Random(1)
    base = [draws.randrange(280) for _ in range(400)]
    with Model(NativeBackend.load(path, threads=2, sequences=5), model.tokenizer, None, {}) as windowed:
        assert windowed.backend.capabilities.rollback < 200
        guests = []
        for index in range(10):
            prompt = [*base[: draws.choice((150, 200, 350))], index]
            options = {
                "max_tokens": draws.choice((4, 20)),
                "temperature": draws.choice((0.0, 1.0)),
                "seed": 1,
            }
            reference = windowed.generate(prompt, spec_mode="off", **options)
            wrong = WrongDrafter([*prompt, *reference.tokens], VOCABULARY)
            speculation = {
                "drafter": wrong,
                "spec_draft_max": draws.choice((7, 31)),
                "spec_draft_policy": "fixed",
            }
            guests.append(Guest(Job(windowed.prepare(prompt, options | speculation)), reference, None))
        limits = SchedulerLimits(parallel=4, prompt_rows=50, prefix_cache_bytes=600_000)
        scheduler = Scheduler(windowed, limits)
        serve(scheduler, guests, draws)
        for guest in guests:
            check_end(guest)
        assert scheduler.statistics.prefix_hit_tokens > 0


class RestatedLayer:
    """What one layer keeps: ``cells[position % kept]`` is (position, who wrote it)."""

    def __init__(self, ring: Ring) -> None:
        self.ring = ring
        self.cells: dict[int, tuple[int, int]] = {}

    def write(self, position: int, writer: int) -> None:
        self.cells[position % self.ring.kept] = (position, writer)

    def holds(self, writers: Sequence[int]) -> bool:
        """Whether a row behind ``writers`` finds every key it sees, as they wrote it."""
        first = max(0, len(writers) - self.ring.window + 1)
        positions = range(first, len(writers))
        return all(self.cells.get(p % self.ring.kept) == (p, writers[p]) for p in positions)


def test_slots_go_back_only_to_what_is_still_there() -> None:
    for seed in range(300):
        walk_slots(random.Random(seed))


def walk_slots(draws: random.Random) -> None:
    """Against every cell of every layer: what slots allow is there, and no rejection is refused."""
    context, most = 60, draws.randint(1, 5)
    rings = [Ring(window + most, window) for window in draws.choices(range(1, 9), k=draws.randint(0, 2))]
    layers = [RestatedLayer(ring) for ring in [Ring(context, context + 1), *rings]]
    slots = Slots(1, rings)
    slots.open()
    committed: list[int] = []  # who wrote each position
    pending: list[int] = []
    marks: list[tuple[SlotState, list[int]]] = [(slots.checkpoint(0), [])]
    for writer in range(80):
        step = draws.choice(("evaluate", "commit", "commit", "mark", "restore"))
        wanted = None
        try:
            if step == "evaluate" and len(committed) < context:
                rows = min(draws.randint(1, most), context - len(committed))
                slots.begin(0)
                slots.wrote(0, len(committed) + rows)
                pending = [writer] * rows
                for position in range(len(committed), len(committed) + rows):
                    for layer in layers:
                        layer.write(position, writer)
            elif step == "commit":
                back = draws.choice((0, 0, 0, draws.randint(0, len(pending)), draws.randint(0, 12)))
                evaluated = [*committed, *pending]
                wanted = evaluated[: max(0, len(evaluated) - back)]
                slots.commit(0, len(wanted))
            elif step == "mark":
                marks.append((slots.checkpoint(0), committed))
            elif step == "restore":
                state, wanted = draws.choice(marks[-3:])
                slots.restore(0, len(wanted), state)
        except BackendError:
            assert step != "commit" or wanted is None or len(wanted) < len(committed)
            continue
        if wanted is not None:
            committed, pending = wanted, []
            assert slots.state(0).length == len(committed)
            assert not committed or all(layer.holds(committed) for layer in layers)
