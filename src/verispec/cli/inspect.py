"""``verispec inspect``: what a model file holds, and whether it would run here."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from verispec.cli.output import JsonOption, print_json, print_table, printable, size_text

if TYPE_CHECKING:
    from pathlib import Path

    from verispec.artifacts.inspect import Inspection
    from verispec.backends.native_plan import ModelPlan


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
    plan, obstacles = examine(path, inspection)
    if as_json:
        verdict = {"runs": not obstacles, "obstacles": obstacles, "memory": memory_dict(plan)}
        print_json({**inspection.as_dict(), **verdict})
        return
    show_summary(inspection)
    show_types(inspection)
    if tensors:
        show_tensors(inspection)
    show_verdict(plan, obstacles)


def examine(path: Path, inspection: Inspection) -> tuple[ModelPlan | None, list[str]]:
    """What running the file would take, or why it does not run."""
    from verispec.artifacts.draft_file import ARCHITECTURES

    if inspection.architecture in ARCHITECTURES:
        return None, [describe_head(path)]
    return (None, inspection.faults) if inspection.faults else plan_run(path)


def describe_head(path: Path) -> str:
    """Why a draft head does not run by itself, or what is wrong with it."""
    from verispec.artifacts.draft_file import DraftFile
    from verispec.errors import ArtifactError

    try:
        with DraftFile.open(path) as head:
            return f"it is a draft head of kind {head.kind}; `verispec admit` checks it for its target"
    except ArtifactError as error:
        return f"{error.where}: expected {error.expected}, found {error.found}"


def plan_run(path: Path) -> tuple[ModelPlan | None, list[str]]:
    """What running the file would take, or why verispec cannot run it: its graph, tensors or tokeniser."""
    from verispec.backends.native_plan import plan_decoder, plan_model
    from verispec.errors import ArtifactError
    from verispec.text.tokenizer import Tokenizer

    try:
        plan = plan_model(path)
        plan_decoder(plan)
        Tokenizer.from_gguf(plan.file.metadata, str(path))
    except ArtifactError as error:
        return None, [f"{error.where}: expected {error.expected}, found {error.found}"]
    return plan, []


def memory_dict(plan: ModelPlan | None) -> dict[str, int] | None:
    """Bytes by purpose, and the context and sequences they are for; None for a file that does not run."""
    if plan is None:
        return None
    need, limits = plan.need, plan.limits
    room = {"context": limits.context, "sequences": limits.sequences}
    parts = {"weights": need.weights, "cache": need.cache, "workspace": need.workspace, "states": need.states}
    return {**parts, **room, "snapshots": limits.window}


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
        "format": f"GGUF version {inspection.gguf_version}" if inspection.gguf_version else "safetensors",
        "sha256": inspection.sha256,
        "derived from": inspection.derived_from,
        "recipe": f"{inspection.recipe} ({inspection.recipe_sha256})" if inspection.recipe else "",
        "tokeniser": f"{tokeniser.model or 'none'} {tokeniser.pre_tokeniser}",
        "vocabulary": f"{tokeniser.tokens} tokens, {ids}",
        "chat template": "yes" if tokeniser.chat_template else "no",
        "draft head": ", ".join(f"{one.name} {one.type}" for one in inspection.draft_heads),
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


def show_verdict(plan: ModelPlan | None, obstacles: list[str]) -> None:
    if plan is not None:
        room = f"a context of {plan.limits.context} and {plan.limits.sequences} sequences"
        if plan.need.states:
            room += f" of {plan.limits.window + 2} states each (S = {plan.limits.window})"
        if plan.model.prediction_layers:
            typer.echo(f"{'prediction:':15}{plan.model.prediction_layers} block, for strategy mtp")
        typer.echo(f"{'memory:':15}{plan.need.describe()}, for {room}")
        typer.secho("runs: yes, on the native backend", fg=typer.colors.GREEN)
    for obstacle in obstacles:
        typer.secho(f"runs: no; {printable(obstacle)}", fg=typer.colors.RED)
