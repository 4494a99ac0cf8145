"""``verispec lab``: measure strictly, decide honestly, for any engine. One file a command; each is registered below."""

from __future__ import annotations

import typer

from verispec.cli.lab import (
    analyse,
    ask,
    audit,
    candidate,
    compare,
    concurrency,
    export,
    import_log,
    log,
    plan,
    profile,
    quality,
    report,
    run,
    show,
    simulate,
    smoke,
    tune,
    ui,
    verify,
)

app = typer.Typer(
    name="lab",
    help="Strict measurements and honest decisions about any engine.",
    no_args_is_help=True,
)
app.command("smoke")(smoke.command)
app.command("run")(run.command)
app.command("log")(log.command)
app.command("show")(show.command)
app.command("compare")(compare.command)
app.command("ask")(ask.command)
app.command("verify")(verify.command)
app.command("report")(report.command)
app.command("ui")(ui.command)
app.command("tune")(tune.command)
app.command("quality")(quality.command)
app.command("audit")(audit.command)
app.command("concurrency")(concurrency.command)
app.add_typer(profile.app)
app.add_typer(candidate.app)
app.add_typer(export.app)
app.add_typer(import_log.app)
app.command("analyse")(analyse.command)
app.command("plan")(plan.command)
app.command("simulate")(simulate.command)
