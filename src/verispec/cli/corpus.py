"""``verispec corpus``: make the corpus file that the suffix strategy can consult beside the request."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from verispec.cli import generation_options as flags
from verispec.cli.output import JsonOption, print_json, size_text
from verispec.cli.output_file import ForceOption, check_new_output
from verispec.cli.text_file import read_text


def command(
    model: flags.ModelArgument,
    texts: Annotated[list[Path], typer.Argument(help="UTF-8 text files; each is one text.")],
    output: Annotated[Path, typer.Option("--output", help="The corpus file to write.")],
    force: ForceOption = False,
    as_json: JsonOption = False,
) -> None:
    """Build a corpus from text files, bound to MODEL's tokeniser. Use it with `--spec-suffix-corpus FILE`."""
    from verispec.artifacts.gguf import GgufFile
    from verispec.artifacts.resolve import resolve_model
    from verispec.drafting.suffix_corpus import build_corpus
    from verispec.text.tokenizer import Tokenizer

    path = resolve_model(model).path
    check_new_output("output", output, force, [path, *texts])
    tokenizer = Tokenizer.from_gguf(GgufFile.open(path).metadata, str(path))
    encoded = [tokenizer.encode(read_text(text), add_bos=False) for text in texts]
    build_corpus(output, encoded, tokenizer.digest)
    facts = {
        "path": str(output),
        "texts": len(encoded),
        "tokens": sum(map(len, encoded)),
        "size": output.stat().st_size,
    }
    if as_json:
        print_json(facts)
    else:
        typer.echo(
            f"{output}: {facts['texts']} texts, {facts['tokens']} tokens, {size_text(output.stat().st_size)}"
        )
