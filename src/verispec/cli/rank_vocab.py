"""``verispec rank-vocab``: the token ids that a corpus uses most, for a smaller draft head."""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from verispec.cli.output import JsonOption, print_json, print_table
from verispec.cli.output_file import ForceOption, check_new_output
from verispec.cli.text_file import read_text
from verispec.errors import OptionError

if TYPE_CHECKING:
    from verispec.artifacts.ranked_vocabulary import Counts
    from verispec.text.tokenizer import Tokenizer

CHUNK_CHARACTERS = 1 << 20

CheckOption = Annotated[
    list[str] | None,
    typer.Option(
        "--check", help="Report coverage of this text too, without ranking by it: [LANG=]FILE, repeated."
    ),
]


def command(
    corpus: Annotated[
        list[str], typer.Argument(help="UTF-8 text files, each as LANG=FILE to report it by language.")
    ],
    model: Annotated[str, typer.Option("--model", help="The model whose tokeniser counts.")],
    size: Annotated[int, typer.Option("--size", min=1, help="How many token ids to keep.")],
    output: Annotated[Path, typer.Option("--out", help="The list to write.")],
    check: CheckOption = None,
    force: ForceOption = False,
    as_json: JsonOption = False,
) -> None:
    """Rank a vocabulary by a corpus, for a draft head of SIZE rows; the target always scores all tokens.

    Reports what share of each language's tokens the list covers, and what the first SIZE ids would. Tokens that end a
    text are always in the list. Coverage of the corpus itself is flattering: --check takes texts it was not made from.
    """
    import numpy as np

    from verispec.artifacts.model_file import open_model_file
    from verispec.artifacts.ranked_vocabulary import RankedVocabulary, coverage, rank
    from verispec.artifacts.resolve import resolve_model
    from verispec.text.tokenizer import Tokenizer

    path = resolve_model(model).path
    check_new_output("out", output, force, [path, *(labelled(one)[1] for one in (*corpus, *(check or [])))])
    with open_model_file(path) as file:
        tokenizer = Tokenizer.from_gguf(file.metadata, str(path))
    ranked = count_tokens(tokenizer, corpus)
    checked = count_tokens(tokenizer, check or [])
    total: Counts = np.sum(list(ranked.values()), axis=0)
    if not total.any():
        raise OptionError("corpus: expected text, found none")
    ids = rank(total, size, tokenizer.eos_ids)
    prefix = np.arange(size)
    covered = {
        label: {
            "tokens": int(counts.sum()),
            "ranked": coverage(counts, ids),
            "prefix": coverage(counts, prefix),
        }
        for label, counts in {**ranked, **{f"{label} (check)": one for label, one in checked.items()}}.items()
    }
    RankedVocabulary(ids, tokenizer.vocabulary_size, tokenizer.digest, corpus_digest(corpus), covered).write(
        output
    )
    facts: dict[str, Any] = {"path": str(output), "size": size, "vocabulary": tokenizer.vocabulary_size}
    if as_json:
        print_json({**facts, "seen": int(np.count_nonzero(total)), "coverage": covered})
        return
    print_table(
        ("TEXT", "TOKENS", "RANKED", "PREFIX"),
        [
            (label, str(one["tokens"]), f"{one['ranked']:.2%}", f"{one['prefix']:.2%}")
            for label, one in covered.items()
        ],
    )
    typer.echo(f"{output}: {size} of {facts['vocabulary']} tokens, {np.count_nonzero(total)} of them seen")


def labelled(argument: str) -> tuple[str, Path]:
    """``LANG=FILE`` in two; a file's own name labels it otherwise."""
    label, separator, path = argument.partition("=")
    if not separator or Path(argument).exists():
        return Path(argument).name, Path(argument)
    if not label or not path:
        raise OptionError(f"corpus: expected FILE or LANG=FILE, found {argument!r}")
    return label, Path(path)


def count_tokens(tokenizer: Tokenizer, arguments: list[str]) -> dict[str, Counts]:
    """How often each token id occurs, by label; int64 ``[vocabulary]`` each."""
    import numpy as np

    counts: dict[str, Counts] = {}
    for argument in arguments:
        label, path = labelled(argument)
        total = counts.setdefault(label, np.zeros(tokenizer.vocabulary_size, np.int64))
        for piece in pieces(read_text(path)):
            ids = tokenizer.encode(piece, add_bos=False)
            total += np.bincount(ids, minlength=total.size)
    return counts


def pieces(text: str) -> list[str]:
    """A long text cut between lines, so that no more than about a million characters are encoded at a time."""
    cut, lines, held = [], [], 0
    for line in text.splitlines(keepends=True):
        lines.append(line)
        held += len(line)
        if held >= CHUNK_CHARACTERS:
            cut.append("".join(lines))
            lines, held = [], 0
    return [*cut, "".join(lines)] if lines else cut


def corpus_digest(arguments: list[str]) -> str:
    """SHA-256 over the labels and contents of the corpus, whatever order its files are named in."""
    from verispec.artifacts.digests import file_sha256

    lines = sorted(f"{file_sha256(path)}  {label}\n" for label, path in map(labelled, arguments))
    return hashlib.sha256("".join(lines).encode()).hexdigest()
