"""Which tensor type suits a draft head: F16, Q8_0, Q4_0 and Q4_K of one head, in one run, on one suite.

Run as ``python -m benchmarks.drafter_quantisation --draft eagle3=PATH --output FILE`` on a quiet machine. ``PATH`` is
an admitted head in F32, F16 or BF16. Each type is exported, admitted, and drafts at one fixed width; all take
turns prompt by prompt with ``off``. A type is slower than the fastest one when the interval of its ratio, drawn over
prompts, lies below 1; the verdict is the smallest file that is not. Writes JSON. Exit status 1: a text differs.
"""

from __future__ import annotations

import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmarks.drafter_arguments import ask_for_output, ask_for_suite, ask_for_turns, program
from benchmarks.drafter_requests import Draft, checked_output, in_one_line, shortened
from benchmarks.drafter_suite import CONTEXT, OFF, different_texts, measure
from benchmarks.drafter_writer import DraftingWriter, describe_drafting, rate_ratio

from verispec.artifacts.draft_export import export_head
from verispec.artifacts.draft_file import DraftFile
from verispec.artifacts.draft_manifest import read_draft_manifest
from verispec.artifacts.resolve import resolve_model
from verispec.artifacts.tensor_types import TensorType
from verispec.bench.answers import Answer, summarise
from verispec.bench.comparison import Comparison
from verispec.bench.conditions import conditions
from verispec.cli.bench.report_file import write_report
from verispec.cli.output import print_table, size_text
from verispec.engine.admission import DRAFT_MODEL, admit
from verispec.engine.loading import load
from verispec.errors import OptionError

TYPES = (TensorType.F16, TensorType.Q8_0, TensorType.Q4_0, TensorType.Q4_K)
RESULTS = Path(__file__).parent / "results"


@dataclass(frozen=True, slots=True)
class Variant:
    """The head in one type. ``error`` is the root-mean-square error of its matrices relative to their values."""

    type: TensorType
    draft: Draft
    nbytes: int
    error: float
    stored: dict[str, int]
    """Bytes by the type that tensors really have: rows that are not whole blocks get what takes its place."""


def variants(target: Path, draft: Draft, folder: Path) -> list[Variant]:
    """The head in each of TYPES, admitted for ``target``, as files in ``folder``."""
    path = resolve_model(draft.path).path
    lost = [name for name in stored_types(path) if TensorType[name].is_quantised]
    if lost:
        raise OptionError(
            f"draft {path}: expected a head in F32, F16 or BF16, found one in {', '.join(lost)}"
        )
    source = read_draft_manifest(path).source
    made = []
    for kind in TYPES:
        output = folder / f"{draft.kind}-{kind.name.lower()}.gguf"
        with DraftFile.open(path) as file:
            exported = export_head(file, output, kind)
        admit(target, output, draft.kind, source).write(output)
        own = Draft(draft.kind, str(output))
        made.append(Variant(kind, own, exported.nbytes, exported.error, stored_types(output)))
    return made


def stored_types(path: Path) -> dict[str, int]:
    """Bytes of a head's tensors by their type."""
    found: dict[str, int] = {}
    with DraftFile.open(path) as file:
        for name, tensor in file.tensors.items():
            found[tensor.type.name] = found.get(tensor.type.name, 0) + file.data(name).nbytes
    return found


def describe(
    made: Sequence[Variant],
    writers: Sequence[DraftingWriter],
    comparison: Comparison,
    answers: Sequence[Answer],
) -> dict[str, Any]:
    """Every type with its figures, and the verdict."""
    records = {writer.name: comparison.writers[writer.name] for writer in writers}
    rates = {variant.type.name: records[variant.type.name].rate() for variant in made}
    fastest = max(rates, key=lambda name: rates[name])
    types = []
    for variant, writer in zip(made, writers[1:], strict=True):
        record = records[writer.name]
        to_fastest, to_off = rate_ratio(record, records[fastest]), rate_ratio(record, records[OFF])
        assert to_fastest is not None
        assert to_off is not None
        types.append(
            {
                "type": variant.type.name,
                "bytes": variant.nbytes,
                "stored_bytes_by_type": variant.stored,
                "relative_error": round(variant.error, 5),
                "tokens_per_second": round(rates[writer.name], 2),
                "ratio_to_fastest": to_fastest.as_dict(),
                "ratio_to_off": to_off.as_dict(),
                "slower_than_fastest": to_fastest.prompts > 1 and to_fastest.high < 1.0,
                "different_texts": different_texts(writer, answers),
                **describe_drafting(writer),
            }
        )
    kept = [one for one in types if not one["slower_than_fastest"]]
    return {
        "off_tokens_per_second": round(records[OFF].rate(), 2),
        "fastest": fastest,
        "verdict": min(kept, key=lambda one: one["bytes"])["type"],
        "types": types,
        "text": summarise(answers),
    }


def show(report: dict[str, Any]) -> None:
    print_table(
        ("TYPE", "FILE", "ERROR", "TOKENS/S", "TO FASTEST", "TOKENS/PASS", "ACCEPTED BY POSITION"),
        [
            (
                one["type"],
                size_text(one["bytes"]),
                f"{one['relative_error']:.2%}",
                f"{one['tokens_per_second']:.1f}",
                "{value:.3f} ({low:.3f} to {high:.3f})".format(**one["ratio_to_fastest"]),
                f"{one['tokens_per_pass']['value']:.3f}",
                " ".join(f"{place['value']:.1%}" for place in one["accepted_by_position"] if place),
            )
            for one in report["types"]
        ],
    )
    print(f"fastest {report['fastest']}; the smallest that is not slower: {report['verdict']}")


def main() -> int:
    parser = program("drafter_quantisation", __doc__)
    ask_for_suite(parser, tokens=512)
    parser.add_argument("--width", type=int, default=3, help="tokens of a proposal (default: %(default)s)")
    ask_for_turns(parser)
    ask_for_output(parser, RESULTS / "drafter-quantisation.json")
    asked = parser.parse_args()
    output = checked_output(asked.output)
    draft, suite = Draft.parse(asked.draft), shortened(asked.suite, asked.prompts, asked.tokens)
    if draft.kind == DRAFT_MODEL:
        raise OptionError(
            f"draft {asked.draft}: expected a head, found a model; `verispec quantize` takes one"
        )
    with (
        tempfile.TemporaryDirectory() as folder,
        load(asked.model, ctx=CONTEXT, threads=asked.threads) as model,
    ):
        facts = conditions(model, asked.model)
        made = variants(resolve_model(asked.model).path, draft, Path(folder))
        ways = {OFF: {"spec_mode": OFF}}
        ways |= {variant.type.name: variant.draft.options(asked.width) for variant in made}
        writers = [DraftingWriter(model, name, options) for name, options in ways.items()]
        comparison = Comparison(model.backend.capabilities.vocabulary)
        answers = measure(model, suite, writers, comparison, asked.turns)
        report = {
            "conditions": facts,
            "draft": draft.describe(),
            "suite": suite.identity(),
            "width": asked.width,
            "turns": asked.turns,
            **describe(made, writers, comparison, answers),
        }
    write_report(report, output)
    show(report)
    return 1 if any(one["different_texts"] for one in report["types"]) else 0


if __name__ == "__main__":
    raise SystemExit(in_one_line(main))
