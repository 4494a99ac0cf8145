"""``bench decode``: what speculation brings on a suite, every strategy beside ``off`` on the same text."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from verispec.bench.answers import Answer, summarise, write_answers
from verispec.bench.own_engine import OwnEngine
from verispec.bench.paired import PairedRatio, paired_ratio
from verispec.bench.strategy_setting import StrategySetting
from verispec.bench.subject import DecodeRun
from verispec.bench.suites import Suite
from verispec.engine.model import Model

OFF = StrategySetting("off", {"spec_mode": "off"})
Progress = Callable[[int, int], None]


@dataclass(slots=True)
class Track:
    """All runs of one strategy on one prompt."""

    runs: list[DecodeRun] = field(default_factory=list)

    @property
    def per_token(self) -> list[float]:
        """Seconds per token of each run: strategies differ in how many tokens their first round brings."""
        return [run.seconds_per_token for run in self.runs]


@dataclass(slots=True)
class DecodeBench:
    """The runs of a suite: ``tracks[strategy][prompt id]``."""

    suite: Suite
    answers: list[Answer]
    tracks: dict[str, dict[str, Track]]
    sampling: dict[str, Any]

    def measured(self) -> list[Answer]:
        return [answer for answer in self.answers if answer.measured]

    def identical(self) -> int:
        """Runs whose tokens are those of ``off``."""
        return sum(
            run.tokens == answer.tokens[: answer.measured]
            for tracks in self.tracks.values()
            for answer in self.measured()
            for run in tracks[answer.prompt.id].runs
        )

    def runs(self) -> int:
        return sum(len(track.runs) for tracks in self.tracks.values() for track in tracks.values())

    def unsettled(self, precision: float) -> list[Answer]:
        """Prompts whose ratio to ``off`` is not yet known well enough, for any strategy."""
        return [
            answer
            for answer in self.measured()
            if any(self.slowdown(name, answer).half_width > precision for name in self.tracks)
        ]

    def slowdown(self, strategy: str, answer: Answer) -> PairedRatio:
        """Seconds per token against ``off`` on one prompt; over 1 is slower."""
        prompt = answer.prompt.id
        return paired_ratio(self.tracks[strategy][prompt].per_token, self.tracks[OFF.name][prompt].per_token)


@dataclass(frozen=True, slots=True)
class Effort:
    """How often to repeat: at least ``repeats`` times, then on until every prompt's ratio to ``off`` is known within
    ``precision`` (half the width of its interval), at most ``most`` times."""

    repeats: int
    precision: float | None = None
    most: int = 0


def bench_decode(
    model: Model,
    suite: Suite,
    settings: Sequence[StrategySetting],
    effort: Effort,
    sampling: dict[str, Any] | None = None,
    progress: Progress | None = None,
) -> DecodeBench:
    """Answers each prompt with every strategy and ``off``, one after another, in turning order, again and again.

    A text that falls into a loop is measured up to there. ``sampling`` are sampling options; greedy without.
    """
    sampling = sampling or {}
    answers = write_answers(model, suite, **sampling)
    named = {setting.name: setting for setting in (OFF, *settings)}
    engines = {
        name: OwnEngine(model, name, **{**sampling, **setting.options}) for name, setting in named.items()
    }
    tracks = {name: {answer.prompt.id: Track() for answer in answers if answer.measured} for name in engines}
    bench = DecodeBench(suite, answers, tracks, sampling)
    for answer in bench.measured():  # a first time untimed: passes are captured, costs measured
        for engine in engines.values():
            engine.decode(answer.prompt_tokens, answer.measured, ())
    most = max(effort.repeats, effort.most if effort.precision is not None else 0)
    for turn in range(most):
        unsettled = bench.measured() if turn < effort.repeats else bench.unsettled(effort.precision or 0.0)
        for index, answer in enumerate(unsettled):
            if progress is not None:
                progress(turn * len(bench.measured()) + index, most * len(bench.measured()))
            for name in _turned(list(engines), turn):
                run = engines[name].decode(answer.prompt_tokens, answer.measured, ())
                tracks[name][answer.prompt.id].runs.append(run)
    return bench


def _turned(names: list[str], turn: int) -> list[str]:
    start = turn % len(names)
    order = names[start:] + names[:start]
    return order if turn % 2 else order[::-1]


def describe_bench(bench: DecodeBench) -> dict[str, Any]:
    """The report: fields ``strategies`` and ``prompts``."""
    return {
        "suite": bench.suite.identity(),
        "sampling": bench.sampling or {"temperature": 0},
        "text": summarise(bench.answers),
        "identical_runs": bench.identical(),
        "runs": bench.runs(),
        "strategies": [_describe_strategy(bench, name) for name in bench.tracks],
        "prompts": [_describe_prompt(bench, answer) for answer in bench.answers],
    }


def _describe_strategy(bench: DecodeBench, name: str) -> dict[str, Any]:
    """Request-wide: the tokens of all prompts over the median seconds of all prompts."""
    rate, off_rate = _suite_rate(bench, name), _suite_rate(bench, OFF.name)
    last = [track.runs[-1] for track in bench.tracks[name].values()]
    passes = sum(run.passes or 0 for run in last)
    drafted, accepted = sum(run.drafted or 0 for run in last), sum(run.accepted or 0 for run in last)
    slowdowns = {answer.prompt.id: bench.slowdown(name, answer) for answer in bench.measured()}
    worst = max(slowdowns, key=lambda prompt: slowdowns[prompt].median)
    return {
        "name": name,
        "tokens_per_second": round(rate, 2),
        "ratio_to_off": round(rate / off_rate, 4),
        "passes": passes,
        "tokens_per_pass": round(sum(len(run.tokens) for run in last) / passes, 4),
        "accepted_per_pass": round(accepted / passes, 4),
        "accepted_of_drafted": round(accepted / drafted, 4) if drafted else None,
        "worst_prompt": {"id": worst, "seconds_ratio": slowdowns[worst].as_dict()},
    }


def _suite_rate(bench: DecodeBench, name: str) -> float:
    per_token = [sorted(track.per_token)[len(track.runs) // 2] for track in bench.tracks[name].values()]
    tokens = [answer.measured for answer in bench.measured()]
    return sum(tokens) / sum(count * each for count, each in zip(tokens, per_token, strict=True))


def _describe_prompt(bench: DecodeBench, answer: Answer) -> dict[str, Any]:
    facts = answer.as_dict()
    if answer.measured:
        facts["strategies"] = {
            name: {
                "tokens_per_second": round(1 / sorted(tracks[answer.prompt.id].per_token)[len(runs) // 2], 2),
                "passes": runs[-1].passes,
                "accepted": runs[-1].accepted,
                "seconds_ratio_to_off": bench.slowdown(name, answer).as_dict(),
            }
            for name, tracks in bench.tracks.items()
            if (runs := tracks[answer.prompt.id].runs)
        }
    return facts
