"""``verispec admit``: a draft artifact checked against its target, and the manifest without which it is not loaded."""

from __future__ import annotations

from typing import Annotated

import typer

from verispec.cli.output import JsonOption, print_json


def command(
    target: Annotated[
        str, typer.Argument(metavar="TARGET", help="The model to draft for: a name, a file, or a folder.")
    ],
    draft: Annotated[
        str,
        typer.Argument(metavar="DRAFT", help="The draft artifact: a GGUF file, a folder, or a model's name."),
    ],
    kind: Annotated[str, typer.Option("--kind", help="draft-model, eagle3, dflash or dspark.")],
    source: Annotated[str, typer.Option("--source", help="Where it is from: a URL.")],
    revision: Annotated[str, typer.Option("--revision", help="Which revision of it.")],
    license_: Annotated[str, typer.Option("--license", help="Its license, such as an SPDX identifier.")],
    acceptance: Annotated[
        float | None,
        typer.Option(
            "--acceptance", min=0, max=1, help="Share of its proposals that was accepted, if known."
        ),
    ] = None,
    as_json: JsonOption = False,
) -> None:
    """Check DRAFT as a drafter for TARGET and write its manifest beside it. Refusals name their reason.

    The manifest of a model in the store is kept in the store. Admitting again replaces it.
    """
    from verispec.artifacts.draft_manifest import KINDS, Source, draft_manifest_path
    from verispec.artifacts.resolve import resolve_model
    from verispec.engine.admission import admit
    from verispec.errors import OptionError

    if kind not in KINDS:
        raise OptionError(f"kind: expected one of {', '.join(KINDS)}, found {kind!r}")
    for name, value in (("source", source), ("revision", revision), ("license", license_)):
        if not value.strip():
            raise OptionError(f"{name}: expected something, found nothing")
    path = resolve_model(draft).path
    manifest = admit(resolve_model(target).path, path, kind, Source(source, revision, license_), acceptance)
    written = manifest.write(path)
    if as_json:
        print_json({"manifest_path": str(draft_manifest_path(path)), "kind": kind, "sha256": manifest.sha256})
        return
    checked = len(manifest.vector["expected"]) if manifest.vector else 0
    typer.echo(f"{path}: admitted as {kind}, SHA-256 {manifest.sha256}")
    bound = f"{manifest.target.architecture}, {manifest.target.layers} layers"
    how = "token by token" if manifest.same_tokens else "by encoding text again: its tokens are others"
    proof = f"test vector of {checked} tokens" if manifest.vector else f"drafts {how}"
    typer.echo(f"{written}: bound to a target of {bound}; {proof}")
