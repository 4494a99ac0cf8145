"""``bench peers``: opens ours and every peer on one file, measures all of them in turns, and gives the report."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import ExitStack, closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from verispec.bench.answers import Answer, summarise, write_answers
from verispec.bench.comparison import Comparison, compare_passes, compare_prompt, compare_writers
from verispec.bench.comparison_report import curves, ratio_rows, writing
from verispec.bench.own_engine import OwnEngine
from verispec.bench.peers.location import NotMeasured, PeerLocation
from verispec.bench.peers.opening import PeerTarget, open_peer
from verispec.bench.strategy_setting import StrategySetting
from verispec.bench.subject import Subject, Writer
from verispec.bench.suites import Suite
from verispec.engine.model import Model

CONTEXT = 2048
"""Positions that every engine is opened with."""
PROMPT_TOKENS = 512

Progress = Callable[[str, int, int], None]


@dataclass(frozen=True, slots=True)
class PeerBenchPlan:
    """What to measure. ``turns`` is how often every engine gets its turn at each measurement."""

    rows: Sequence[int]
    contexts: Sequence[int]
    turns: int
    suite: Suite | None
    strategies: Sequence[StrategySetting]


def bench_peers(
    model: Model,
    path: Path,
    threads: int,
    located: Sequence[PeerLocation],
    missing: Sequence[NotMeasured],
    plan: PeerBenchPlan,
    progress: Progress,
) -> dict[str, Any]:
    """The report: ``ratios``, ``curves``, ``writing``, ``engines`` and ``not_measured``."""
    target = PeerTarget(str(path), CONTEXT, threads)
    comparison = Comparison(model.backend.capabilities.vocabulary, failed=list(missing))
    with ExitStack() as opened:
        peers = _open_all(located, target, comparison, opened)
        own = OwnEngine(model, "verispec (off)", spec_mode="off")
        subjects: list[Subject] = [
            own,
            *(peer for peer in peers if isinstance(peer, Subject) and not peer.speculates),
        ]
        _measure_passes(comparison, subjects, plan, progress)
        answers = _measure_writing(comparison, model, own, peers, plan, progress)
        engines = {name: dict(engine.describe()) for name, engine in comparison.engines.items()}
    return {
        "ratios": ratio_rows(comparison),
        "curves": curves(comparison),
        "prompt": {
            "tokens": PROMPT_TOKENS,
            "seconds": {name: samples.as_dict(digits=6) for name, samples in comparison.prompt.items()},
        },
        "writing": writing(comparison),
        "suite": None if plan.suite is None else {**plan.suite.identity(), "text": summarise(answers)},
        "answers": [answer.as_dict() for answer in answers],
        "engines": engines,
        "not_measured": [entry.as_dict() for entry in comparison.failed],
    }


def _open_all(
    located: Sequence[PeerLocation], target: PeerTarget, comparison: Comparison, opened: ExitStack
) -> list[Writer]:
    peers: list[Writer] = []
    for location in located:
        writers, failed = open_peer(location, target)
        peers += [opened.enter_context(closing(writer)) for writer in writers]
        comparison.failed += failed
    return peers


def _measure_passes(
    comparison: Comparison, subjects: Sequence[Subject], plan: PeerBenchPlan, progress: Progress
) -> None:
    for index, context in enumerate(plan.contexts):
        progress(f"passes behind {context}", index, len(plan.contexts))
        compare_passes(comparison, subjects, plan.rows, context, plan.turns)
    progress("prompt", 0, 1)
    compare_prompt(comparison, subjects, PROMPT_TOKENS, plan.turns)


def _measure_writing(
    comparison: Comparison,
    model: Model,
    own: OwnEngine,
    peers: Sequence[Writer],
    plan: PeerBenchPlan,
    progress: Progress,
) -> list[Answer]:
    if plan.suite is None:
        return []
    answers = write_answers(model, plan.suite)
    strategies = [OwnEngine(model, f"verispec ({s.name})", **s.options) for s in plan.strategies]
    compare_writers(
        comparison,
        [own, *strategies, *peers],
        answers,
        plan.suite.max_tokens,
        sorted(model.tokenizer.eos_ids),
        plan.turns,
        lambda done, total: progress("writing", done, total),
    )
    return answers
