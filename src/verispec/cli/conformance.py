"""``verispec conformance``: does a backend keep the contracts on a model?"""

from __future__ import annotations

from typing import Annotated

import typer

from verispec.cli import generation_options as flags
from verispec.cli.output import JsonOption, print_json


def command(
    adapter: Annotated[str, typer.Argument(metavar="ADAPTER", help="native or transformers.")],
    model: flags.ModelArgument,
    max_tokens: Annotated[int, typer.Option("--max-tokens", min=8)] = 48,
    ctx: flags.ContextOption = None,
    threads: flags.ThreadsOption = None,
    as_json: JsonOption = False,
) -> None:
    """Run C1, C2 and the fault suite; exit 1 when a contract that the backend promises does not hold."""
    from dataclasses import asdict

    from verispec.cli.progress import CountBar
    from verispec.conformance.suite import run_conformance
    from verispec.engine.loading import load

    with load(model, ctx=ctx, threads=threads, backend=adapter) as loaded:
        with CountBar("conformance") as bar:
            checks = run_conformance(loaded, max_tokens, bar.stage)
        exactness = loaded.backend.capabilities.exactness
    failed = [check for check in checks if check.required and not check.holds]
    if as_json:
        results = [{**asdict(check), "holds": check.holds} for check in checks]
        print_json({"adapter": adapter, "exactness": exactness, "checks": results, "conforms": not failed})
    else:
        typer.echo(f"adapter {adapter} ({exactness})")
        for check in checks:
            verdict = "holds" if check.holds else "FAILS" if check.required else "not promised"
            typer.echo(f"{check.name}: {verdict}, {check.passed} of {check.cases}")
            for difference in check.differences[:3]:
                typer.echo(f"  {difference}")
    if failed:
        raise typer.Exit(1)
