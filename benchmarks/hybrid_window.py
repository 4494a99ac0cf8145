"""Draft width K against rollback window S on a hybrid model with a prediction block.

Run as ``python -m benchmarks.hybrid_window MODEL --output FILE --plot FILE`` on a quiet machine. Three parts: ``off``,
K3/S3, K7/S7 and K7/S6 in tokens per pass, acceptance by position, passes, replays and seconds; the whole plane K x S as
a heat map; the time of a pass by how many states it keeps. Settings take turns prompt by prompt, each prompt's least
time counts, and every answer must be that of ``off``.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from pathlib import Path
from typing import Any

from benchmarks.held_out_prompts import held_out_prompts

from verispec.backends.contract import chain
from verispec.bench.conditions import conditions
from verispec.engine.completion import Completion
from verispec.engine.loading import load
from verispec.engine.model import Model

WIDEST = 7
NAMED = ((3, 3), (7, 7), (7, 6))
OFF = "off"
ROWS = WIDEST + 1
CONTEXT = 256
PASS_TURNS = 200


def setting(width: int, window: int) -> dict[str, Any]:
    """Every token is proposed and evaluated: nothing but K and S decides."""
    return {
        "spec_mode": "mtp",
        "spec_draft_max": width,
        "spec_mtp_recurrent_snapshots": window,
        "spec_draft_policy": "fixed",
        "spec_draft_p_min": 0.0,
    }


def settings() -> dict[str, dict[str, Any]]:
    """``off`` and the whole plane; a window over the width keeps no more than the width asks for."""
    plane = {
        f"K{width}/S{window}": setting(width, window)
        for width in range(1, WIDEST + 1)
        for window in range(width + 1)
    }
    return {OFF: {"spec_mode": OFF}, **plane}


class Track:
    """All runs of one setting: the quickest answer of each prompt."""

    def __init__(self) -> None:
        self.best: dict[int, Completion] = {}

    def take(self, prompt: int, answer: Completion) -> None:
        best = self.best.get(prompt)
        if best is None or _writing(answer) < _writing(best):
            self.best[prompt] = answer

    def describe(self) -> dict[str, Any]:
        answers = [self.best[prompt] for prompt in sorted(self.best)]
        tokens = sum(len(answer.tokens) - _first(answer) for answer in answers)
        rounds = [one for answer in answers for one in answer.rounds if one[0]]
        seconds = sum(map(_writing, answers))
        return {
            "tokens_per_second": tokens / seconds,
            "tokens_per_pass": sum(len(a.tokens) for a in answers) / sum(a.passes for a in answers),
            "passes": sum(answer.passes for answer in answers),
            "seconds": seconds,
            "draft_seconds": sum(answer.timings.draft for answer in answers),
            "accepted_by_position": [
                sum(accepted > place for _, accepted in rounds)
                / max(1, sum(drafted > place for drafted, _ in rounds))
                for place in range(max((drafted for drafted, _ in rounds), default=0))
            ],
            "replays": sum(answer.counters.replays for answer in answers),
            "most_replays_of_a_request": max(answer.counters.replays for answer in answers),
            "guarded_requests": sum(answer.counters.guarded_round is not None for answer in answers),
        }


def _first(answer: Completion) -> int:
    """Tokens of the first round, which also waits for the prompt."""
    return answer.rounds[0][1] + 1


def _writing(answer: Completion) -> float:
    return answer.timings.total - answer.timings.first_token


def measure(model: Model, texts: list[str], tokens: int, turns: int) -> dict[str, Any]:
    """Every setting in turns, forwards and backwards."""
    tracks = {name: Track() for name in settings()}
    for turn in range(turns):
        for prompt, text in enumerate(texts):
            expected = None
            for name, options in list(settings().items())[:: 1 if turn % 2 == 0 else -1]:
                found = model.generate(text, max_tokens=tokens, ignore_eos=True, **options)
                expected = expected or found.tokens
                if found.tokens != expected:
                    raise SystemExit(
                        f"prompt {prompt}: {name} wrote another text than the settings before it"
                    )
                tracks[name].take(prompt, found)
        print(f"turn {turn + 1} of {turns}", file=sys.stderr, flush=True)
    return {name: track.describe() for name, track in tracks.items()}


def pass_seconds(model: Model) -> list[dict[str, float]]:
    """The least time of a pass over eight rows behind CONTEXT positions, keeping S states, for S = 0 .. 7."""
    backend = model.backend
    sequence = backend.open_sequence()
    try:
        backend.evaluate(chain(sequence, 0, [1] * CONTEXT), (), False)
        backend.commit(sequence, CONTEXT)
        rows = chain(sequence, CONTEXT, range(1, ROWS + 1))
        least = [float("inf")] * ROWS
        for turn in range(PASS_TURNS):
            for window in range(ROWS)[:: 1 if turn % 2 == 0 else -1]:
                backend.keep_states(sequence, window)
                started = time.perf_counter()
                backend.evaluate(rows, range(ROWS), False)
                least[window] = min(least[window], time.perf_counter() - started)
        return [{"states": window, "seconds": seconds} for window, seconds in enumerate(least)]
    finally:
        backend.close_sequence(sequence)


def plot(report: dict[str, Any], path: Path) -> None:
    """Rate over that of ``off``, and passes, over K and S."""
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    measured = report["settings"]
    figure, axes = plt.subplots(1, 3, figsize=(16, 5), layout="constrained")
    rate = {
        name: one["tokens_per_second"] / measured[OFF]["tokens_per_second"] for name, one in measured.items()
    }
    replays = {name: float(one["replays"]) for name, one in measured.items()}
    passes = {name: one["tokens_per_pass"] for name, one in measured.items()}
    panels = (
        (rate, "rate / off", "{:.2f}"),
        (passes, "tokens per pass", "{:.2f}"),
        (replays, "replays", "{:.0f}"),
    )
    for axis, (values, title, form) in zip(axes, panels, strict=True):
        grid = [
            [values.get(f"K{width}/S{window}", float("nan")) for width in range(1, WIDEST + 1)]
            for window in range(WIDEST + 1)
        ]
        shown = axis.imshow(grid, origin="lower", aspect="auto", cmap="viridis")
        for window, line in enumerate(grid):
            for column, value in enumerate(line):
                if value == value:
                    colour = "black" if shown.norm(value) > 0.6 else "white"
                    axis.text(
                        column, window, form.format(value), ha="center", va="center", color=colour, fontsize=9
                    )
        axis.set(xlabel="draft width K", ylabel="rollback window S", title=title)
        axis.set_xticks(range(WIDEST), range(1, WIDEST + 1))
    host = report["conditions"]["host"]
    figure.suptitle(
        f"{report['conditions']['model']}, {report['prompts']} prompts, {host['cpu']}", fontsize=10
    )
    figure.savefig(path, dpi=130)


def study(path: str, count: int, tokens: int, turns: int, threads: int | None) -> dict[str, Any]:
    texts = held_out_prompts(count)
    with load(path, threads=threads, snapshots=WIDEST) as model:
        facts = conditions(model, Path(path).stem)
        for text in texts[:3]:
            model.generate(text, max_tokens=tokens, **setting(WIDEST, WIDEST))
        measured = measure(model, texts, tokens, turns)
        kept = pass_seconds(model)
        memory = model.backend.memory.describe() if hasattr(model.backend, "memory") else ""
    return {
        "conditions": facts,
        "prompts": len(texts),
        "tokens": tokens,
        "turns": turns,
        "memory": memory,
        "settings": measured,
        "named": {name: measured[name] for name in (OFF, *(f"K{k}/S{s}" for k, s in NAMED))},
        "pass_of_8_rows_by_states_kept": kept,
    }


if __name__ == "__main__":
    parser = argparse.ArgumentParser(prog="python -m benchmarks.hybrid_window", description=__doc__)
    parser.add_argument("model")
    parser.add_argument("--prompts", type=int, default=40)
    parser.add_argument("--tokens", type=int, default=128)
    parser.add_argument("--turns", type=int, default=3)
    parser.add_argument("--threads", type=int, default=None)
    parser.add_argument("--output", type=Path, required=True)
    parser.add_argument("--plot", type=Path, default=None)
    arguments = parser.parse_args()
    result = study(arguments.model, arguments.prompts, arguments.tokens, arguments.turns, arguments.threads)
    arguments.output.write_text(json.dumps(result, indent=2) + "\n", encoding="utf-8")
    if arguments.plot is not None:
        plot(result, arguments.plot)
    print(json.dumps(result["named"], indent=2))
