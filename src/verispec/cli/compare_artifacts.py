"""``verispec compare-artifacts``: what one artifact of a model loses against another."""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from verispec.cli import generation_options as flags
from verispec.cli.output import JsonOption, print_json, print_table, size_text
from verispec.cli.text_file import read_text

if TYPE_CHECKING:
    from verispec.artifacts.manifest import RoleSize

WindowOption = Annotated[
    int,
    typer.Option("--window", min=16, help="Tokens evaluated together; the second half of them is scored."),
]
WindowsOption = Annotated[
    int | None, typer.Option("--windows", min=1, help="Score no more windows than this.")
]


def command(
    a: Annotated[str, typer.Argument(metavar="A", help="The artifact to measure against.")],
    b: Annotated[str, typer.Argument(metavar="B", help="The artifact that is measured.")],
    text: Annotated[Path, typer.Option("--text", help="UTF-8 text to run through both.")],
    window: WindowOption = 512,
    windows: WindowsOption = None,
    threads: flags.ThreadsOption = None,
    as_json: JsonOption = False,
) -> None:
    """Compare two artifacts of a model: size, bits per weight, perplexity, KL divergence, top-1 agreement."""
    from verispec.bench.artifact_comparison import compare
    from verispec.cli.progress import CountBar
    from verispec.engine.loading import load

    written = read_text(text)
    sizes = {"a": describe_artifact(a), "b": describe_artifact(b)}
    with (
        load(a, ctx=window, threads=threads, sequences=1) as first,
        load(b, ctx=window, threads=threads, sequences=1) as second,
        CountBar("comparing") as bar,
    ):
        comparison = compare(first, second, written, window, windows, bar.update)
    digest = hashlib.sha256(written.encode()).hexdigest()
    measured = {"text": {"file": str(text), "sha256": digest}, "window": window, **comparison.as_dict()}
    if as_json:
        print_json({**sizes, **measured})
        return
    show_sizes(sizes)
    show_measured(measured)


def describe_artifact(model: str) -> dict[str, Any]:
    """File, digest, size, bits per weight, and the same by role."""
    from verispec.artifacts.derived_file import sizes_of
    from verispec.artifacts.model_file import open_model_file
    from verispec.artifacts.resolve import resolve_model

    path = resolve_model(model).path
    with open_model_file(path) as file:
        roles = sizes_of(file)
        digest = file.sha256()
    nbytes, parameters = (
        sum(one.nbytes for one in roles.values()),
        sum(one.parameters for one in roles.values()),
    )
    return {
        "model": model,
        "sha256": digest,
        "bytes": nbytes,
        "parameters": parameters,
        "bits_per_weight": 8 * nbytes / parameters,
        "roles": {role: describe_role(size) for role, size in roles.items()},
    }


def describe_role(size: RoleSize) -> dict[str, Any]:
    return {
        "tensors": size.tensors,
        "parameters": size.parameters,
        "bytes": size.nbytes,
        "bits_per_weight": size.bits_per_weight,
        "types": size.types,
    }


def show_sizes(sizes: dict[str, dict[str, Any]]) -> None:
    a, b = sizes["a"], sizes["b"]
    rows = [("all", a, b)]
    empty = {"bytes": 0, "bits_per_weight": 0.0}
    for role in dict.fromkeys((*a["roles"], *b["roles"])):
        rows.append((role, a["roles"].get(role, empty), b["roles"].get(role, empty)))
    print_table(
        ("ROLE", "A", "BITS/WEIGHT", "B", "BITS/WEIGHT"),
        [
            (
                role,
                size_text(one["bytes"]),
                f"{one['bits_per_weight']:.2f}",
                size_text(other["bytes"]),
                f"{other['bits_per_weight']:.2f}",
            )
            for role, one, other in rows
        ],
    )


def show_measured(measured: dict[str, Any]) -> None:
    scored = f"{measured['scored_tokens']} tokens in {measured['windows']} windows of {measured['window']}"
    typer.echo(f"scored: {scored}")
    typer.echo(
        f"perplexity: A {measured['perplexity_a']:.4f}, B {measured['perplexity_b']:.4f}, "
        f"ratio {measured['perplexity_ratio']:.4f} ± {measured['perplexity_ratio_error']:.4f}"
    )
    typer.echo(
        f"KL(A || B): mean {measured['kl_mean']:.5f} ± {measured['kl_mean_error']:.5f}, "
        f"median {measured['kl_p50']:.5f}, p99 {measured['kl_p99']:.5f}, greatest {measured['kl_max']:.5f} nats"
    )
    typer.echo(f"top-1 agreement: {measured['top1_agreement']:.2%}")
