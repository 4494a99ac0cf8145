"""``verispec convert-draft``: a published draft head as a GGUF file, quantised if it is to be small."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from verispec.cli.output import JsonOption, print_json, size_text
from verispec.cli.output_file import ForceOption, check_new_output


def command(
    draft: Annotated[Path, typer.Argument(metavar="DRAFT", help="A published folder, or a GGUF file.")],
    output: Annotated[Path, typer.Argument(metavar="OUT", help="The GGUF file to write.")],
    kind: Annotated[
        str | None,
        typer.Option(
            "--type", help="Type of the matrices, such as f16, q8_0, q4_0 or q4_k; by default their own."
        ),
    ] = None,
    force: ForceOption = False,
    as_json: JsonOption = False,
) -> None:
    """Write an EAGLE-3, DFlash or DSpark head as one GGUF file. It has to be admitted anew."""
    from verispec.artifacts.draft_export import export_head
    from verispec.artifacts.draft_file import DraftFile
    from verispec.artifacts.tensor_types import TensorType, supported_type_names
    from verispec.errors import ArtifactError, OptionError

    if not draft.exists():
        raise ArtifactError(draft, "input", "a published folder or a GGUF file", "nothing there")
    if kind is not None and kind.upper() not in TensorType.__members__:
        raise OptionError(f"type: expected one of {supported_type_names()}, found {kind!r}")
    check_new_output("output", output, force, [draft, *draft.glob("*")])
    with DraftFile.open(draft) as file:
        exported = export_head(file, output, TensorType[kind.upper()] if kind else None)
    if as_json:
        print_json({"path": str(output), "bytes": exported.nbytes, "relative_error": exported.error})
        return
    typer.echo(f"{output}: {file.kind}, {size_text(exported.nbytes)}, error {exported.error:.2%}")
