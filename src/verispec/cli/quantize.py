"""``verispec quantize``: a model in the tensor types that a recipe names."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from verispec.cli.output import JsonOption, print_json, print_table, size_text
from verispec.cli.output_file import ForceOption, check_new_output

if TYPE_CHECKING:
    from verispec.artifacts.derived_file import Derived

AllowOption = Annotated[
    bool,
    typer.Option(
        "--allow-requantize", help="Take a model that is quantised already; the errors of both add up."
    ),
]


def command(
    model: Annotated[
        str,
        typer.Argument(metavar="IN", help="A GGUF file, a folder of safetensors, or the name of a model."),
    ],
    output: Annotated[Path, typer.Argument(metavar="OUT", help="The GGUF file to write.")],
    recipe: Annotated[
        str,
        typer.Option("--recipe", help="q8, q6_k, q4_k_m, tbq4, or a TOML file: a type for each tensor role."),
    ],
    allow_requantize: AllowOption = False,
    force: ForceOption = False,
    as_json: JsonOption = False,
) -> None:
    """Quantise a model by a recipe. The result names its parent and its recipe, in itself and in a manifest."""
    from verispec.artifacts.model_file import open_model_file
    from verispec.artifacts.quantise import quantise
    from verispec.artifacts.recipe import load_recipe
    from verispec.artifacts.resolve import resolve_model
    from verispec.cli.progress import CountBar

    wanted = load_recipe(recipe)
    path = resolve_model(model).path
    check_new_output("output", output, force, [path])
    parent = open_model_file(path)
    with CountBar(f"quantising to {wanted.name}") as bar:
        derived = quantise(parent, output, wanted, allow_requantize=allow_requantize, progress=bar.update)
    show_derived(derived, as_json)


def show_derived(derived: Derived, as_json: bool) -> None:
    """What was made, as text or JSON; substitutions are said on standard error too, since nobody asked for them."""
    from verispec.artifacts.manifest import manifest_path

    manifest = manifest_path(derived.path)
    for message in say_substitutions(derived.substituted):
        typer.secho(message, fg=typer.colors.YELLOW, err=True)
    if as_json:
        paths = {"path": str(derived.path), "manifest_path": str(manifest)}
        print_json({**paths, **derived.manifest, "relative_error": derived.errors})
        return
    print_table(
        ("ROLE", "TENSORS", "TYPES", "SIZE", "BITS/WEIGHT", "ERROR"),
        [
            (
                role,
                str(size.tensors),
                ", ".join(f"{count} {kind}" for kind, count in size.types.items()),
                size_text(size.nbytes),
                f"{size.bits_per_weight:.2f}",
                f"{derived.errors[role]:.2%}" if role in derived.errors else "none",
            )
            for role, size in derived.roles.items()
        ],
    )
    artifact = derived.manifest["artifact"]
    typer.echo(f"{derived.path}: {size_text(artifact['size'])}, SHA-256 {artifact['sha256']}")
    typer.echo(f"{manifest}: derived from {derived.manifest['parent']['sha256']}")


def say_substitutions(substituted: list[dict[str, str]]) -> list[str]:
    """One line for each kind of tensor that could not get the type it was to have."""
    from verispec.artifacts.tensor_roles import block_of

    kinds = Counter((block_of(one["tensor"])[1], one["wanted"], one["given"]) for one in substituted)
    return [
        f"{part} ({count}): rows are not whole {wanted} blocks; written as {given}"
        for (part, wanted, given), count in kinds.items()
    ]
