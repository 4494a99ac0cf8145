"""What all commands print the same way: JSON, sizes, tables, errors."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from typing import Annotated

import typer

INTERRUPTED = 130
"""The exit status after Ctrl-C."""

JsonOption = Annotated[bool, typer.Option("--json", help="Print one JSON object instead of text.")]


def print_json(value: object) -> None:
    """One JSON value on standard output, keys in the order given."""
    typer.echo(json.dumps(value, indent=2, allow_nan=False))


def print_error(message: str) -> None:
    """One red line on standard error."""
    typer.secho(f"error: {' '.join(message.split())}", fg=typer.colors.RED, err=True)


def print_table(header: Sequence[str], rows: Iterable[Sequence[str]]) -> None:
    """Columns as wide as their longest cell, two spaces apart."""
    lines = [list(header), *(list(row) for row in rows)]
    widths = [max(len(line[column]) for line in lines) for column in range(len(header))]
    for index, line in enumerate(lines):
        cells = [cell.ljust(width) for cell, width in zip(line, widths, strict=True)]
        typer.secho("  ".join(cells).rstrip(), bold=index == 0)


def printable(text: str) -> str:
    """Text from a file with control characters escaped, so that it cannot command the terminal."""
    return "".join(character if character.isprintable() else ascii(character)[1:-1] for character in text)


def printable_text(text: str) -> str:
    """Text that a model wrote, unable to command the terminal; lines and tabs stay."""
    return "".join(one if one in "\n\t" else printable(one) for one in text)


def size_text(count: int) -> str:
    """Bytes for people: 98.4 MB, decimal units."""
    if count < 1000:
        return f"{count} B"
    size = float(count)
    for unit in ("kB", "MB", "GB", "TB"):
        size /= 1000
        if size < 999.95 or unit == "TB":
            break
    return f"{size:.1f} {unit}"
