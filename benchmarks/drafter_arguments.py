"""The flags that the programs which measure external drafters share."""

from __future__ import annotations

import argparse
from pathlib import Path

from verispec.backends.native_plan import default_threads
from verispec.engine.loading import DEFAULT_MODEL


def program(name: str, about: str) -> argparse.ArgumentParser:
    """The parser of ``benchmarks.NAME``, with the target and how it runs."""
    parser = argparse.ArgumentParser(
        prog=f"python -m benchmarks.{name}",
        description=about,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--model", default=DEFAULT_MODEL, help="the target (default: %(default)s)")
    parser.add_argument(
        "--threads", type=int, default=default_threads(), help="of a pass (default here: %(default)s)"
    )
    return parser


def ask_for_output(parser: argparse.ArgumentParser, usual: Path | None = None) -> None:
    """Where the result goes, which has to be said where there is no usual place."""
    where = f" (default: results/{usual.name})" if usual else ""
    parser.add_argument(
        "--output", type=Path, default=usual, required=usual is None, help=f"the result, as JSON{where}"
    )


def ask_for_suite(parser: argparse.ArgumentParser, tokens: int) -> None:
    """One artifact, and the prompts that it drafts the answers to."""
    parser.add_argument("--draft", required=True, metavar="KIND=PATH", help="the admitted artifact")
    parser.add_argument("--suite", default="realistic-12", help="name or file (default: %(default)s)")
    parser.add_argument(
        "--prompts", type=int, default=None, help="the first so many of the suite (default: all)"
    )
    parser.add_argument("--tokens", type=int, default=tokens, help="most of an answer (default: %(default)s)")


def ask_for_turns(parser: argparse.ArgumentParser) -> None:
    """How often everything is measured."""
    parser.add_argument(
        "--turns", type=int, default=3, help="timed answers of each to a prompt (default: %(default)s)"
    )
