"""``verispec inspect``: what a model file holds, and whether it would run here."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from verispec.cli.output import JsonOption, print_json, print_table, printable, size_text

if TYPE_CHECKING:
    from pathlib import Path

    from verispec.artifacts.inspect import Inspection


def command(
    model: Annotated[
        str, typer.Argument(metavar="MODEL", help="A path, a name, hf:OWNER/REPO/FILE or sha256:PREFIX.")
    ],
    tensors: Annotated[bool, typer.Option("--tensors", help="List every tensor.")] = False,
    as_json: JsonOption = False,
) -> None:
    """Show a file's architecture, tensors, types, sizes, tokeniser and digest, and what would run."""
    from verispec.artifacts.inspect import inspect_file
    from verispec.artifacts.resolve import resolve_model

    path = resolve_model(model).path
    inspection = inspect_file(path)
    obstacles = inspection.faults or find_obstacles(path)
    if as_json:
        print_json({**inspection.as_dict(), "runs": not obstacles, "obstacles": obstacles})
        return
    show_summary(inspection)
    show_types(inspection)
    if tensors:
        show_tensors(inspection)
    show_verdict(obstacles)


def find_obstacles(path: Path) -> list[str]:
    """Why verispec cannot run the file: its graph, its tensors or its tokeniser; nothing when it can."""
    from verispec.artifacts.gguf import GgufFile
    from verispec.errors import ArtifactError
    from verispec.models.hyperparameters import read_hyperparameters
    from verispec.models.tensors import EMBEDDING, check_tensors
    from verispec.text.tokenizer import Tokenizer

    with GgufFile.open(path) as file:
        try:
            embedding = file.tensors.get(EMBEDDING)
            vocabulary = embedding.shape[0] if embedding else 0
            check_tensors(path, read_hyperparameters(path, file.metadata, vocabulary), file.tensors)
            Tokenizer.from_gguf(file.metadata, str(path))
        except ArtifactError as error:
            return [f"{error.where}: expected {error.expected}, found {error.found}"]
    return []


def show_summary(inspection: Inspection) -> None:
    tokeniser = inspection.tokeniser
    ids = ", ".join(f"{name} {value}" for name, value in tokeniser.special_ids.items())
    facts = {
        "file": inspection.file,
        "name": inspection.name,
        "licence": inspection.licence,
        "architecture": inspection.architecture or "none declared",
        "parameters": f"{inspection.parameters / 1e6:.1f} million in {len(inspection.tensors)} tensors",
        "size": f"{size_text(inspection.size)} ({inspection.size} bytes)",
        "format": f"GGUF version {inspection.gguf_version}",
        "sha256": inspection.sha256,
        "derived from": inspection.derived_from,
        "tokeniser": f"{tokeniser.model or 'none'} {tokeniser.pre_tokeniser}",
        "vocabulary": f"{tokeniser.tokens} tokens, {ids}",
        "chat template": "yes" if tokeniser.chat_template else "no",
    }
    for label, fact in facts.items():
        if fact:
            typer.echo(f"{label + ':':15}{printable(fact)}")


def show_types(inspection: Inspection) -> None:
    print_table(
        ("TYPE", "TENSORS", "PARAMETERS", "BYTES", "SUPPORTED"),
        [
            (
                report.type,
                str(report.tensors),
                f"{report.parameters / 1e6:.2f} M",
                "unknown" if report.nbytes is None else size_text(report.nbytes),
                "yes" if report.supported else "no",
            )
            for report in inspection.types
        ],
    )


def show_tensors(inspection: Inspection) -> None:
    print_table(
        ("TENSOR", "SHAPE", "TYPE", "BYTES"),
        [
            (
                printable(tensor.name),
                " x ".join(str(size) for size in tensor.shape),
                tensor.type,
                "unknown" if tensor.nbytes is None else size_text(tensor.nbytes),
            )
            for tensor in inspection.tensors
        ],
    )


def show_verdict(obstacles: list[str]) -> None:
    if not obstacles:
        typer.secho("runs: yes, on the native backend", fg=typer.colors.GREEN)
    for obstacle in obstacles:
        typer.secho(f"runs: no; {printable(obstacle)}", fg=typer.colors.RED)
