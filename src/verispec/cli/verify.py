"""``verispec verify``: replay a receipt with the target alone and compare."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from verispec.cli import generation_options as flags
from verispec.cli.output import JsonOption, print_json
from verispec.cli.text_file import read_json, read_text
from verispec.errors import FetchError, OptionError

if TYPE_CHECKING:
    from verispec.engine.model import Model
    from verispec.engine.replay import ModelReplayer


def command(
    receipt: Annotated[Path, typer.Argument(help="A receipt file.")],
    prompt: Annotated[
        Path | None,
        typer.Option("--prompt", help="File with the prompt: text, or chat messages in a .json file."),
    ] = None,
    model: Annotated[
        str | None, typer.Option("--model", help="The target, when the store does not hold it.")
    ] = None,
    public_key: Annotated[
        str | None, typer.Option("--public-key", help="Ed25519 key (hex) that must have signed the receipt.")
    ] = None,
    threads: flags.ThreadsOption = None,
    as_json: JsonOption = False,
) -> None:
    """Check that a receipt is unaltered and that its target, run alone, gives the same tokens.

    Exit 0 only for the verdict `verified`.
    """
    from verispec.evidence.verify import Verdict, verify

    opened: list[Model] = []

    def load_target(facts: Mapping[str, Any]) -> ModelReplayer:
        return _load_target(facts, model, threads, opened)

    try:
        data = receipt.read_bytes()
        outcome = verify(data, load_target, _read_prompt(prompt), _read_key(public_key))
    finally:
        for one in opened:
            one.close()
    if as_json:
        print_json(outcome.as_dict())
    else:
        hint = "; give it with --prompt FILE" if outcome.verdict is Verdict.PROMPT_REQUIRED else ""
        where = f" (output token {outcome.position})" if outcome.position is not None else ""
        typer.secho(f"{outcome.verdict}: {outcome.reason}{where}{hint}", bold=True)
        typer.echo(
            f"signature {outcome.signature}" + (f", by {outcome.signed_by}" if outcome.signed_by else "")
        )
    if outcome.verdict is not Verdict.VERIFIED:
        raise typer.Exit(1)


def _load_target(
    facts: Mapping[str, Any], model: str | None, threads: int | None, opened: list[Model]
) -> ModelReplayer:
    from verispec.artifacts.store import Store
    from verispec.engine.loading import BACKENDS, DEFAULT_BACKEND, load
    from verispec.engine.replay import ModelReplayer

    backend = str(facts["runtime"].get("backend"))
    digest = str(facts["artifacts"].get("target", ""))
    if model is None and not Store().blob_path(digest).is_file():
        raise FetchError(
            f"the receipt's target (SHA-256 {digest[:16]}...) is not in the store; name its file with --model FILE"
        )
    loaded = load(
        model or f"sha256:{digest}",
        ctx=facts["prompt"]["tokens"] + max(facts["output"]["tokens"], 1),
        threads=threads,
        # a name that is none here: `verify` finds another backend's arithmetic and says so
        backend=backend if backend in BACKENDS else DEFAULT_BACKEND,
    )
    opened.append(loaded)
    return ModelReplayer(loaded)


def _read_prompt(path: Path | None) -> Any:
    if path is None:
        return None
    return read_json(path) if path.suffix == ".json" else read_text(path)


def _read_key(text: str | None) -> bytes | None:
    try:
        return None if text is None else bytes.fromhex(text)
    except ValueError as error:
        raise OptionError(f"public-key: expected hexadecimal digits, found {text!r}") from error
