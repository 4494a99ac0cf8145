"""What an external drafter brings: every way to use it beside ``off``, ``suffix`` and llama.cpp, in one run.

Run as ``python -m benchmarks.drafter_suite --draft eagle3=PATH --peer-binary llama-server=BINARY --output FILE`` on a
quiet machine. The modes take turns prompt by prompt, the order turning each time: ``off``, ``suffix``, the artifact at
fixed widths and at the adaptive one, ``suffix`` before it, and llama.cpp without speculation and with each of its
n-gram modes, on the same file. Text counts up to where it falls into a loop, or all of it (``--text whole``). A ratio
is taken prompt by prompt and averaged; its interval draws the prompts again. Writes JSON, and a plot beside it. Exit
status 1: a text differs.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import ExitStack, closing
from pathlib import Path
from typing import Any

from benchmarks.drafter_arguments import ask_for_output, ask_for_suite, ask_for_turns, program
from benchmarks.drafter_requests import BEFORE, Draft, checked_output, in_one_line, shortened
from benchmarks.drafter_suite_plot import plot
from benchmarks.drafter_writer import DraftingWriter, describe_drafting, median_seconds, rate_ratio

from verispec.artifacts.resolve import resolve_model
from verispec.bench.answers import FEWEST_TOKENS, Answer, summarise, write_answers
from verispec.bench.comparison import Comparison, WriterRuns, before_loop, compare_writers
from verispec.bench.conditions import conditions
from verispec.bench.peers.catalog import TRANSFORMERS
from verispec.bench.peers.location import locate_peers
from verispec.bench.peers.opening import PeerTarget, open_peer
from verispec.bench.subject import Writer
from verispec.bench.suites import Suite
from verispec.cli.bench.report_file import write_report
from verispec.cli.number_list import parse_numbers
from verispec.cli.output import print_table
from verispec.cli.progress import CountBar
from verispec.engine.loading import load
from verispec.engine.model import Model
from verispec.errors import OptionError

CONTEXT = 2048
OFF = "off"
Length = Callable[[Sequence[int]], int]
LENGTHS: dict[str, Length] = {"before-loop": before_loop, "whole": len}
"""How much of an answer counts, by the name that ``--text`` takes."""
RESULTS = Path(__file__).parent / "results"


def modes(draft: Draft, widths: Sequence[int]) -> dict[str, dict[str, Any]]:
    """Our ways to write, by name; ``off`` is the first."""
    fixed = {f"{draft.kind}, width {width}": draft.options(width) for width in widths}
    return {
        OFF: {"spec_mode": OFF},
        BEFORE: {"spec_mode": BEFORE},
        **fixed,
        f"{draft.kind}, adaptive": draft.options(None),
        f"{BEFORE}+{draft.kind}": draft.options(None, chained=True),
    }


def open_peers(
    pythons: Sequence[str],
    binaries: Sequence[str],
    target: PeerTarget,
    comparison: Comparison,
    opened: ExitStack,
) -> list[Writer]:
    """llama.cpp in all its configurations; what is missing is listed in ``comparison``."""
    located, missing = locate_peers(pythons, binaries)
    comparison.failed += [one for one in missing if one.peer != TRANSFORMERS]
    peers: list[Writer] = []
    for location in located:
        if location.kind.name != TRANSFORMERS:
            writers, failed = open_peer(location, target)
            peers += [opened.enter_context(closing(writer)) for writer in writers]
            comparison.failed += failed
    return peers


def measure(
    model: Model,
    suite: Suite,
    writers: Sequence[Writer],
    comparison: Comparison,
    turns: int,
    length: Length = before_loop,
) -> list[Answer]:
    """Everybody in turns; the answers of ``off``. ``length``: how many tokens of an answer count.

    OptionError when no answer is long enough to be timed.
    """
    answers = write_answers(model, suite)
    if not any(length(answer.tokens) for answer in answers):
        raise OptionError(
            f"suite: expected an answer of {FEWEST_TOKENS} tokens before any loop, found none; ask for more tokens"
        )
    ends = sorted(model.tokenizer.eos_ids)
    with CountBar("suite") as bar:
        compare_writers(comparison, writers, answers, suite.max_tokens, ends, turns, bar.update, length)
    return answers


def describe(
    own: Sequence[DraftingWriter], peers: Sequence[Writer], comparison: Comparison, answers: Sequence[Answer]
) -> dict[str, Any]:
    """The report: ``modes``, ``llama_cpp``, ``prompts`` and what was not measured."""
    records = {name: record for name, record in comparison.writers.items() if record.runs}
    best = max(
        (peer.name for peer in peers if peer.name in records),
        key=lambda name: records[name].rate(),
        default=None,
    )
    return {
        "modes": [
            _describe_mode(writer, records, records.get(best or ""), answers)
            for writer in own
            if writer.name in records
        ],
        "best_of_llama_cpp": best,
        "llama_cpp": [
            {
                "name": peer.name,
                **peer.describe(),
                "tokens_per_second": round(records[peer.name].rate(), 2),
                "prompts": len(records[peer.name].runs),
                "tokens": sum(records[peer.name].measured[prompt] for prompt in records[peer.name].runs),
            }
            for peer in peers
            if peer.name in records
        ],
        "prompts": [
            {
                **answer.as_dict(),
                "tokens_per_second": {
                    name: round(1 / median_seconds(record, answer.prompt.id), 2)
                    for name, record in records.items()
                    if answer.prompt.id in record.runs
                },
            }
            for answer in answers
        ],
        "text": summarise(answers),
        "not_measured": [one.as_dict() for one in comparison.failed],
    }


def _describe_mode(
    writer: DraftingWriter, records: dict[str, WriterRuns], peer: WriterRuns | None, answers: Sequence[Answer]
) -> dict[str, Any]:
    record = records[writer.name]
    to_off = rate_ratio(record, records[OFF])
    to_peer = rate_ratio(record, peer) if peer is not None else None
    return {
        "name": writer.name,
        "options": dict(writer.describe()),
        "tokens_per_second": round(record.rate(), 2),
        "ratio_to_off": to_off.as_dict() if to_off else None,
        "ratio_to_best_of_llama_cpp": to_peer.as_dict() if to_peer else None,
        "different_texts": different_texts(writer, answers),
        **describe_drafting(writer),
    }


def different_texts(writer: DraftingWriter, answers: Sequence[Answer]) -> list[str]:
    """The prompts on which any answer is not the one of ``off``."""
    return [
        answer.prompt.id
        for answer in answers
        if any(
            written.run.tokens != answer.tokens[: len(written.run.tokens)]
            or len(written.run.tokens) not in (len(answer.tokens), answer.measured)
            for written in writer.written[answer.prompt_tokens]
        )
    ]


def show(report: dict[str, Any]) -> None:
    print_table(
        ("MODE", "TOKENS/S", "TO OFF", "TO LLAMA.CPP", "TOKENS/PASS", "DRAFTING", "ACCEPTED BY POSITION"),
        [
            (
                mode["name"],
                f"{mode['tokens_per_second']:.1f}",
                _interval(mode["ratio_to_off"]),
                _interval(mode["ratio_to_best_of_llama_cpp"]),
                f"{mode['tokens_per_pass']['value']:.2f}",
                f"{mode['drafter_share_of_time']['value']:.0%}" if mode["drafter_share_of_time"] else "",
                " ".join(f"{one['value']:.0%}" for one in mode["accepted_by_position"] if one),
            )
            for mode in report["modes"]
        ],
    )
    for peer in report["llama_cpp"]:
        best = ", the best" if peer["name"] == report["best_of_llama_cpp"] else ""
        print(f"{peer['name']}: {peer['tokens_per_second']:.1f} tokens/s{best}")
    for one in report["not_measured"]:
        print(f"not measured: {one['peer']}: {one['reason']}; {one['remedy']}")


def _interval(found: dict[str, float] | None) -> str:
    return "" if found is None else f"{found['value']:.2f} ({found['low']:.2f} to {found['high']:.2f})"


def main() -> int:
    parser = program("drafter_suite", __doc__)
    ask_for_suite(parser, tokens=512)
    parser.add_argument("--widths", default="1,2,3,4,5", help="fixed widths (default: %(default)s)")
    ask_for_turns(parser)
    parser.add_argument(
        "--text",
        choices=LENGTHS,
        default="before-loop",
        help="what counts of an answer: up to where it falls into a loop, or all of it (default: %(default)s)",
    )
    parser.add_argument(
        "--peer-python",
        action="append",
        default=[],
        metavar="llama-cpp[@LABEL]=PYTHON",
        help="the Python that imports llama_cpp",
    )
    parser.add_argument(
        "--peer-binary", action="append", default=[], metavar="llama-server[@LABEL]=PATH", help="llama-server"
    )
    ask_for_output(parser, RESULTS / "drafter-suite.json")
    asked = parser.parse_args()
    output = checked_output(asked.output)
    draft, suite = Draft.parse(asked.draft), shortened(asked.suite, asked.prompts, asked.tokens)
    named = modes(draft, parse_numbers("widths", asked.widths, int))
    with load(asked.model, ctx=CONTEXT, threads=asked.threads) as model, ExitStack() as opened:
        facts = conditions(model, asked.model)
        own = [DraftingWriter(model, name, options) for name, options in named.items()]
        comparison = Comparison(model.backend.capabilities.vocabulary)
        target = PeerTarget(str(resolve_model(asked.model).path), CONTEXT, asked.threads)
        peers = open_peers(asked.peer_python, asked.peer_binary, target, comparison, opened)
        answers = measure(model, suite, [*own, *peers], comparison, asked.turns, LENGTHS[asked.text])
        report = {
            "conditions": facts,
            "draft": draft.describe(),
            "suite": suite.identity(),
            "turns": asked.turns,
            "text_measured": asked.text,
            **describe(own, peers, comparison, answers),
        }
    write_report(report, output)
    plot(report, output.with_suffix(".png"))
    show(report)
    return 1 if any(mode["different_texts"] for mode in report["modes"]) else 0


if __name__ == "__main__":
    raise SystemExit(in_one_line(main))
