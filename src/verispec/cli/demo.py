"""``verispec demo``: one real answer, written with speculation off and on, and the proof that it is the same."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from verispec.cli import generation_options as flags
from verispec.cli.output import INTERRUPTED, JsonOption, print_json
from verispec.cli.output_file import check_output

if TYPE_CHECKING:
    from verispec.engine.completion import Completion
    from verispec.engine.prompt import Prompt

PROMPT = (
    "Correct the spelling mistakes in this text and write the whole text again:\n\n"
    "The old lighthouse stod on the cliff above the harbor. Every evening the keeper climbed the ninety steps, "
    "lit the great lamp and rote the weather in a thick blue book. On calm nights he could here the fishing boats "
    "far out on the water. When the fog came in he rang the brass bell every two minits until the sun came up and "
    "the boats were safe in the harbor again."
)


def command(
    model: Annotated[
        str, typer.Argument(help="A name from `verispec models`, or a GGUF file.")
    ] = "smollm2-135m",
    prompt: Annotated[str, typer.Option("--prompt", help="What to ask.")] = PROMPT,
    max_tokens: Annotated[int, typer.Option("--max-tokens", min=2)] = 128,
    spec_mode: Annotated[str, typer.Option("--spec-mode", help="What to compare with off.")] = "auto",
    threads: flags.ThreadsOption = None,
    receipt: Annotated[Path, typer.Option("--receipt", help="Where to write the receipt.")] = Path(
        "demo-receipt.json"
    ),
    as_json: JsonOption = False,
) -> None:
    """Stream one answer twice, with speculation off and on, then compare, measure and prove it."""
    from verispec.artifacts.catalog import CATALOG
    from verispec.artifacts.store import Store
    from verispec.cli.pull import fetch
    from verispec.cli.streaming import completion_dict, show
    from verispec.engine.loading import load

    check_output("receipt", receipt)
    if model in CATALOG and not Store().has_named(model):
        fetch(model)
    with load(model, threads=threads) as loaded:
        asked: Prompt = prompt if loaded.template is None else [{"role": "user", "content": prompt}]
        loaded.generate(asked, max_tokens=8, spec_mode=spec_mode)  # captures the passes
        answers = {}
        for mode in ("off", spec_mode):
            if not as_json:
                typer.secho(f"\n--- spec_mode {mode}", bold=True)
            answers[mode] = show(loaded.stream(asked, max_tokens=max_tokens, spec_mode=mode), quiet=as_json)
            if answers[mode].finish_reason == "cancelled":  # half an answer compares with nothing
                raise typer.Exit(INTERRUPTED)
        off, on = answers["off"], answers[spec_mode]
        loaded.receipt(on, include_text=True).write(receipt)
    identical = (off.tokens, off.text, off.finish_reason) == (on.tokens, on.text, on.finish_reason)
    if as_json:
        facts = {"off": completion_dict(off), "on": completion_dict(on)}
        print_json({"identical": identical, **facts, "receipt": str(receipt)})
    else:
        _print_comparison(identical, off, on, receipt)
    if not identical:
        raise typer.Exit(1)


def _print_comparison(identical: bool, off: Completion, on: Completion, receipt: Path) -> None:
    from verispec.cli.streaming import rate

    rates = rate(off), rate(on)
    typer.echo("")
    typer.secho(f"identical         {'yes' if identical else 'NO'}", bold=True)
    typer.echo(f"strategy          {on.strategy}")
    shown = ["not measured (one pass)" if one is None else f"{one:.1f}" for one in rates]
    ratio = f" ({rates[1] / rates[0]:.2f}x)" if rates[0] and rates[1] else ""
    typer.echo(f"tokens/s          {shown[0]} off, {shown[1]} on{ratio}")
    typer.echo(f"target passes     {off.passes} off, {on.passes} on, for {len(on.tokens)} tokens")
    typer.echo(
        f"accepted per pass {on.accepted_per_pass:.2f} of {on.drafted / max(on.passes, 1):.2f} drafted"
    )
    typer.echo(f"receipt           {receipt} (check it: verispec verify {receipt})")
