"""``verispec train``: a drafter for a target, from text that the target writes itself."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from verispec.cli.output import INTERRUPTED, JsonOption, print_json, size_text


def command(
    kind: Annotated[
        str, typer.Argument(metavar="KIND", help="What to train: draft-model, eagle3, dflash or dspark.")
    ],
    target: Annotated[str, typer.Option("--target", help="The model to draft for: a name or a GGUF file.")],
    output: Annotated[
        Path, typer.Option("--output", help="Folder of the run and of what comes of it; one begun goes on.")
    ],
    tokens: Annotated[
        int, typer.Option("--tokens", min=1, help="Tokens of answers to learn from.")
    ] = 4_000_000,
    texts: Annotated[
        Path | None,
        typer.Option(
            "--texts", help="Folder of the written texts, which runs may share; default: OUTPUT/texts."
        ),
    ] = None,
    prompts: Annotated[
        Path | None,
        typer.Option(
            "--prompts", help="JSONL with `prompt` in each line; default: the target invents its own."
        ),
    ] = None,
    longest_prompt: Annotated[
        int, typer.Option("--longest-prompt", min=1, max=1 << 20, help="Most tokens of an invented prompt.")
    ] = 128,
    longest_answer: Annotated[
        int, typer.Option("--longest-answer", min=8, max=1 << 20, help="Most tokens of an answer.")
    ] = 512,
    outputs: Annotated[
        int | None,
        typer.Option(
            "--outputs",
            min=1,
            max=1 << 22,
            help="Tokens that a head can propose: the most frequent ones; default: 16384. Not for draft-model.",
        ),
    ] = None,
    epochs: Annotated[
        int, typer.Option("--epochs", min=1, max=1000, help="How often every text is learned from.")
    ] = 1,
    depth: Annotated[
        int | None,
        typer.Option(
            "--depth",
            min=1,
            max=16,
            help="Proposals in a row: those that eagle3 learns, and those that a check of draft-model asks for; "
            "default: 5. Not for dflash and dspark, whose block has its own width.",
        ),
    ] = None,
    batch_tokens: Annotated[
        int, typer.Option("--batch-tokens", min=64, max=1 << 20, help="Tokens of a step.")
    ] = 4096,
    check_every: Annotated[
        int, typer.Option("--check-every", min=1, help="Steps between two looks at held-out texts.")
    ] = 100,
    tensor_type: Annotated[
        str, typer.Option("--type", help="Tensor type of the artifact, such as f16, q8_0 or q4_0.")
    ] = "q8_0",
    license_: Annotated[str, typer.Option("--license", help="The artifact's license.")] = "not stated",
    seed: Annotated[
        int, typer.Option("--seed", min=0, max=2**32 - 1, help="Of the texts and of the training.")
    ] = 1,
    threads: Annotated[
        int | None, typer.Option("--threads", min=1, max=256, help="Threads to compute with.")
    ] = None,
    as_json: JsonOption = False,
) -> None:
    """Train a drafter of KIND, admitted and ready for --spec-draft-model. Begun again, it goes on where it was."""
    from verispec.artifacts.tensor_types import TensorType, supported_type_names
    from verispec.cli.progress import StageBar
    from verispec.errors import OptionError
    from verispec.training.plan import TrainingPlan, check_read
    from verispec.training.requirements import check_requirements
    from verispec.training.settings import TrainingSettings
    from verispec.training.writing import Lengths

    if tensor_type.upper() not in TensorType.__members__:
        raise OptionError(f"type: expected one of {supported_type_names()}, found {tensor_type!r}")
    plan = TrainingPlan(
        kind=kind,
        target=target,
        output=output,
        texts=texts or output / "texts",
        tokens=tokens,
        prompts=prompts,
        lengths=Lengths(longest_prompt, longest_answer),
        vocabulary=outputs or TrainingPlan.vocabulary,
        tensor_type=TensorType[tensor_type.upper()],
        license=license_,
        threads=threads,
        settings=TrainingSettings(
            seed=seed,
            epochs=epochs,
            batch_tokens=batch_tokens,
            depth=depth or TrainingSettings.depth,
            check_every=check_every,
        ),
    )
    check_read(kind, {"outputs": outputs, "depth": depth})
    check_requirements()
    from verispec.training.pipeline import train_drafter

    try:
        with StageBar() as bar:
            made = train_drafter(plan, bar.show)
    except KeyboardInterrupt:
        typer.echo(
            f"interrupted; the same command goes on from the last finished text or checkpoint of {output}",
            err=True,
        )
        raise typer.Exit(INTERRUPTED) from None
    if as_json:
        files = {"artifact": made.path, "manifest": made.manifest, "statement": made.statement}
        facts = {"kind": kind, "bytes": made.nbytes, "acceptance": made.acceptance}
        print_json({**{name: str(path) for name, path in files.items()}, **facts})
        return
    typer.echo(f"{made.path}: {size_text(made.nbytes)}, admitted as {kind}")
    typer.echo(f"what it was made from, and how good it is: {made.statement}")
    typer.echo(f"use it: verispec run {target} PROMPT --spec-mode {kind} --spec-draft-model {made.path}")
