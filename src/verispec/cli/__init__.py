"""The command line. One file a command; each is registered below and imports what it needs when it runs.

A command file holds a function ``command`` whose signature and docstring are its options and help. It raises
VerispecError for whatever the user should read as one line, and ``typer.Exit(1)`` when its answer is no.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated

import typer

from verispec import __version__
from verispec.cli import (
    admit,
    bench,
    capabilities,
    chat,
    compare_artifacts,
    conformance,
    convert,
    convert_draft,
    corpus,
    demo,
    inspect,
    lab,
    models,
    parity,
    pull,
    quantize,
    rank_vocab,
    run,
    serve,
    train,
    verify,
)
from verispec.cli.output import INTERRUPTED, print_error
from verispec.errors import VerispecError

FAILED = 2

app = typer.Typer(
    name="verispec",
    help="Speculative decoding whose output is, token for token, what the model would have written alone.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
)


def _print_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"verispec {__version__}")
        raise typer.Exit


@app.callback()
def _options(
    version: Annotated[
        bool, typer.Option("--version", is_eager=True, callback=_print_version, help="Print the version.")
    ] = False,
) -> None:
    """What stands before a command."""


app.command("pull")(pull.command)
app.command("models")(models.command)
app.command("inspect")(inspect.command)
app.command("run")(run.command)
app.command("chat")(chat.command)
app.command("serve")(serve.command)
app.command("demo")(demo.command)
app.command("capabilities")(capabilities.command)
app.command("verify")(verify.command)
app.command("parity")(parity.command)
app.command("corpus")(corpus.command)
app.command("conformance")(conformance.command)
app.command("convert")(convert.command)
app.command("quantize")(quantize.command)
app.command("compare-artifacts")(compare_artifacts.command)
app.command("rank-vocab")(rank_vocab.command)
app.command("admit")(admit.command)
app.command("train")(train.command)
app.command("convert-draft")(convert_draft.command)
app.add_typer(bench.app)
app.add_typer(lab.app)


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs one command (from ``sys.argv`` when no arguments are given) and returns the exit status.

    0: done. 1: the command's answer is no, such as a difference found. 2: an error, said in one line, or
    wrong usage. 130: interrupted.
    """
    try:
        app(args=arguments)
    except SystemExit as end:
        return end.code if isinstance(end.code, int) else int(end.code is not None)
    except VerispecError as error:
        print_error(str(error))
    except OSError as error:
        print_error(f"{error.filename}: {error.strerror}" if error.filename else str(error))
    except KeyboardInterrupt:
        return INTERRUPTED
    return FAILED
