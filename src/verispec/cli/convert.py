"""``verispec convert``: a published folder of safetensors as a GGUF file."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

import typer

from verispec.cli.output import JsonOption
from verispec.cli.output_file import ForceOption, check_new_output


def command(
    folder: Annotated[
        Path, typer.Argument(metavar="FOLDER", help="config.json, *.safetensors, tokenizer.json.")
    ],
    output: Annotated[Path, typer.Argument(metavar="OUT", help="The GGUF file to write.")],
    kind: Annotated[
        Literal["bf16", "f16", "f32"] | None,
        typer.Option("--type", help="Type of the matrices; by default the one they were published in."),
    ] = None,
    force: ForceOption = False,
    as_json: JsonOption = False,
) -> None:
    """Convert a Hugging Face folder to GGUF, prediction block and tokeniser included, as llama.cpp would."""
    from verispec.artifacts.convert import CONVERTED_TYPES, convert
    from verispec.cli.progress import CountBar
    from verispec.cli.quantize import show_derived

    check_new_output("output", output, force, folder.glob("*"))
    with CountBar("converting") as bar:
        derived = convert(folder, output, CONVERTED_TYPES[kind] if kind else None, bar.update)
    show_derived(derived, as_json)
