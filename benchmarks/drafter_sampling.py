"""What shared noise costs and brings at temperature 1: acceptance by place in the proposal, by the way it is drawn.

Run as ``python -m benchmarks.drafter_sampling --draft eagle3=PATH --output FILE``. The target writes an answer to each
prompt; behind every token of it the same head proposes four times, by the target's distribution and its own as the
native backend computes them:

  coupled      drawn with the noise that the target's choice is drawn with (the engine's way)
  rejection    drawn from q, accepted with probability min(1, p / q), up to the first rejection
  independent  drawn with other noise, accepted where the target draws the same token
  greedy       the most probable token, accepted where the target draws it

For each prompt the engine also writes with the head, and every round of it must have accepted what ``coupled`` says.
Nothing is timed. Intervals draw the prompts again. Exit status 1: the engine accepted otherwise.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from benchmarks.drafter_anchors import Walks
from benchmarks.drafter_arguments import ask_for_output, ask_for_suite, program
from benchmarks.drafter_intervals import share
from benchmarks.drafter_requests import Draft, as_turn, checked_output, in_one_line, shortened
from benchmarks.drafter_rules import COUPLED, RULES, Accepted, accept

from verispec.bench.conditions import conditions
from verispec.bench.suites import Suite
from verispec.cli.bench.report_file import write_report
from verispec.cli.output import print_table
from verispec.cli.progress import CountBar
from verispec.engine.completion import Completion
from verispec.engine.loading import load
from verispec.engine.model import Model
from verispec.errors import OptionError

CONTEXT = 2048
SEED = 41
OTHER_SEED = 90_001


@dataclass(frozen=True, slots=True)
class Sampled:
    """One prompt's answer, how much of each proposal was accepted, and the rounds of the engine that were held against
    it."""

    name: str
    tokens: int
    accepted: Accepted
    rounds_compared: int
    rounds_different: int


def measure(model: Model, draft: Draft, suite: Suite, width: int) -> list[Sampled]:
    """Every prompt whose answer is longer than a proposal."""
    found = []
    with Walks(model, draft) as walks, CountBar("prompts") as bar:
        for index, prompt in enumerate(suite.prompts):
            bar.update(index, len(suite.prompts))
            asked = model.encode(as_turn(model, prompt.text))
            sampling = {"temperature": 1.0, "seed": SEED + index, "max_tokens": suite.max_tokens}
            answer = model.generate(asked, spec_mode="off", **sampling).tokens
            with walks.begin([*asked, *answer], len(asked)) as walk:
                accepted = accept(walk, len(asked), width, SEED + index, OTHER_SEED + index)
            engine = model.generate(asked, **draft.options(width), **sampling)
            compared, different = held_against(engine, accepted.lengths[COUPLED], width)
            different += engine.tokens != answer
            if accepted.overlap:
                found.append(Sampled(prompt.id, len(answer), accepted, compared, different))
    if not found:
        raise OptionError(f"tokens: expected an answer of more than {width} tokens, found none")
    return found


def held_against(engine: Completion, coupled: Sequence[int], width: int) -> tuple[int, int]:
    """How many rounds of the engine began where a proposal was looked at, and how many accepted another number.

    A round is compared when it proposed ``width`` tokens; ``coupled`` has an entry for each anchor from the prompt's
    last token on.
    """
    compared = different = anchor = 0
    for drafted, accepted in engine.rounds:
        if drafted == width and anchor < len(coupled):
            compared += 1
            different += accepted != coupled[anchor]
        anchor += accepted + 1
    return compared, different


def describe(sampled: Sequence[Sampled], width: int) -> dict[str, Any]:
    """The table: for each rule the share of all proposals accepted up to each place, and tokens a proposal."""
    anchors = [len(one.accepted.overlap) for one in sampled]
    table = {}
    for rule in RULES:
        lengths = [one.accepted.lengths[rule] for one in sampled]
        through = [[sum(length > place for length in one) for one in lengths] for place in range(width)]
        table[rule] = {
            "accepted_by_position": [share(counts, anchors).as_dict() for counts in through],
            "accepted_behind_accepted": [
                share(counts, before).as_dict() if any(before) else None
                for counts, before in zip(through, [anchors, *through], strict=False)
            ],
            "tokens_accepted_of_a_proposal": share([sum(one) for one in lengths], anchors).as_dict(),
        }
    return {
        "width": width,
        "proposals": sum(anchors),
        "rules": table,
        "most_possible_in_first_place": share(
            [sum(one.accepted.overlap) for one in sampled], anchors
        ).as_dict(),
        "rounds_of_the_engine_compared": sum(one.rounds_compared for one in sampled),
        "rounds_of_the_engine_different": sum(one.rounds_different for one in sampled),
        "prompts": [
            {"id": one.name, "tokens": one.tokens, "proposals": len(one.accepted.overlap)} for one in sampled
        ],
    }


def show(report: dict[str, Any]) -> None:
    places = [f"PLACE {place + 1}" for place in range(report["width"])]
    print_table(
        ("DRAWN", *places, "TOKENS A PROPOSAL"),
        [
            (
                rule,
                *map(_interval, entry["accepted_by_position"]),
                _interval(entry["tokens_accepted_of_a_proposal"]),
            )
            for rule, entry in report["rules"].items()
        ],
    )
    print(f"most possible in the first place: {_interval(report['most_possible_in_first_place'])}")
    print(
        f"rounds of the engine that accepted what coupled says: "
        f"{report['rounds_of_the_engine_compared'] - report['rounds_of_the_engine_different']} of "
        f"{report['rounds_of_the_engine_compared']}"
    )


def _interval(found: dict[str, float]) -> str:
    return f"{found['value']:.3f} ({found['low']:.3f} to {found['high']:.3f})"


def main() -> int:
    parser = program("drafter_sampling", __doc__)
    ask_for_suite(parser, tokens=256)
    parser.add_argument("--width", type=int, default=5, help="tokens of a proposal (default: %(default)s)")
    ask_for_output(parser)
    asked = parser.parse_args()
    output = checked_output(asked.output)
    draft, suite = Draft.parse(asked.draft), shortened(asked.suite, asked.prompts, asked.tokens)
    if not draft.same_tokens:
        raise OptionError(
            f"draft {asked.draft}: expected one with the target's tokens, found one that writes text"
        )
    with load(asked.model, ctx=CONTEXT, threads=asked.threads) as model:
        facts = conditions(model, asked.model)
        model.prepare([1], draft.options(asked.width))
        report = describe(measure(model, draft, suite, asked.width), asked.width)
    report = {"conditions": facts, "draft": draft.describe(), "suite": suite.identity(), **report}
    write_report(report, output)
    show(report)
    return 1 if report["rounds_of_the_engine_different"] else 0


if __name__ == "__main__":
    raise SystemExit(in_one_line(main))
