"""The flags of commands that generate text, and how they join with a TOML file: a flag wins over the file."""

from __future__ import annotations

import tomllib
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Any

import typer

from verispec.cli.text_file import read_json, read_text
from verispec.errors import GrammarError, OptionError

ModelArgument = Annotated[
    str,
    typer.Argument(
        metavar="MODEL", help="A name from `verispec models`, a GGUF file, or hf:OWNER/REPO/FILE."
    ),
]
ConfigOption = Annotated[
    Path | None, typer.Option("--config", help="TOML file with option names as keys; flags win over it.")
]
ContextOption = Annotated[
    int | None, typer.Option("--ctx", help="Positions to hold (default: 4096 or the model's).")
]
ThreadsOption = Annotated[
    int | None, typer.Option("--threads", help="Threads (default: the physical cores).")
]
BackendOption = Annotated[str | None, typer.Option("--backend", help="native (default) or transformers.")]
MaxTokensOption = Annotated[int | None, typer.Option("--max-tokens", help="Most tokens to write.")]
TemperatureOption = Annotated[float | None, typer.Option("--temperature", help="0 (default) is greedy.")]
SeedOption = Annotated[
    int | None, typer.Option("--seed", help="Seed of the sampler; drawn and shown when absent.")
]
TopKOption = Annotated[int | None, typer.Option("--top-k")]
TopPOption = Annotated[float | None, typer.Option("--top-p")]
MinPOption = Annotated[float | None, typer.Option("--min-p")]
RepetitionOption = Annotated[float | None, typer.Option("--repetition-penalty")]
PresenceOption = Annotated[float | None, typer.Option("--presence-penalty")]
FrequencyOption = Annotated[float | None, typer.Option("--frequency-penalty")]
LogprobsOption = Annotated[
    int | None,
    typer.Option("--logprobs", help="Report log-probabilities with this many alternatives."),
]
StopOption = Annotated[
    list[str] | None, typer.Option("--stop", help="Stop string; may be given several times.")
]
IgnoreEosOption = Annotated[bool | None, typer.Option("--ignore-eos", help="Write on past the end token.")]
GrammarOption = Annotated[
    Path | None,
    typer.Option("--grammar", help="File with a grammar (Lark or GBNF) that the answer must match."),
]
JsonSchemaOption = Annotated[
    Path | None, typer.Option("--json-schema", help="File with a JSON schema that the answer must match.")
]
SpecModeOption = Annotated[
    str | None,
    typer.Option(
        "--spec-mode",
        help="Strategy: auto (default), off, one of `verispec capabilities`, or a chain such as suffix+eagle3.",
    ),
]
DraftMaxOption = Annotated[
    int | None, typer.Option("--spec-draft-max", help="Most tokens proposed in a round (K).")
]
DraftMinOption = Annotated[
    int | None, typer.Option("--spec-draft-min", help="Fewest tokens worth proposing.")
]
DraftPMinOption = Annotated[
    float | None, typer.Option("--spec-draft-p-min", help="Confidence under which a proposal is cut.")
]
PolicyOption = Annotated[
    str | None, typer.Option("--spec-draft-policy", help="Draft width: adaptive (default) or fixed.")
]
CorpusOption = Annotated[
    str | None, typer.Option("--spec-suffix-corpus", help="Corpus file for the suffix strategy.")
]
SnapshotsOption = Annotated[
    int | None,
    typer.Option(
        "--spec-mtp-recurrent-snapshots", help="Rollback window S of a recurrent model (default: 7)."
    ),
]
DraftHeadOption = Annotated[
    int | None,
    typer.Option("--spec-mtp-fr-vocab-size", help="Tokens that mtp's draft head scores (default: all)."),
]
RankingOption = Annotated[
    str | None,
    typer.Option("--spec-mtp-fr-ranking", help="File of `verispec rank-vocab`: which tokens those are."),
]
ArtifactOption = Annotated[
    str | None,
    typer.Option("--spec-draft-model", help="Draft model or head, admitted with `verispec admit`."),
]
ChainOption = Annotated[
    float | None,
    typer.Option("--spec-chain-p-min", help="Confidence under which a chain asks its next strategy."),
]
StrictOption = Annotated[
    bool | None, typer.Option("--strict-drafter", help="Fail the request when its drafter fails.")
]

LOAD_NAMES = ("ctx", "threads", "backend", "snapshots")


def gather_options(config: Path | None, flags: Mapping[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
    """(options of ``load``, options of ``generate``) from a TOML file and the flags that were given."""
    options = read_config(config) if config is not None else {}
    options |= {name: value for name, value in flags.items() if value is not None and value != []}
    loading = {name: options.pop(name) for name in LOAD_NAMES if name in options}
    return loading, options


def grammar_options(grammar: Path | None, json_schema: Path | None) -> dict[str, Any]:
    """The option ``grammar`` from the file that was given, or nothing; what a file holds is checked."""
    if grammar is not None and json_schema is not None:
        raise OptionError("grammar, json-schema: expected one of them, found both")
    if grammar is not None:
        from verispec.text.grammar import Grammar

        text = read_text(grammar)
        with _naming(grammar):
            return {"grammar": Grammar.ebnf(text)}
    if json_schema is not None:
        from verispec.text.grammar import Grammar

        schema = read_json(json_schema)
        with _naming(json_schema):
            return {"grammar": Grammar.json_schema(schema)}
    return {}


@contextmanager
def _naming(path: Path) -> Iterator[None]:
    """What is wrong with a grammar is said with the name of its file."""
    try:
        yield
    except GrammarError as error:
        raise GrammarError(f"{path}: {error}") from error


def read_config(path: Path) -> dict[str, Any]:
    """The table of options in a TOML file; which names mean something is decided where they are read."""
    try:
        options = tomllib.loads(read_text(path))
    except tomllib.TOMLDecodeError as error:
        raise OptionError(f"{path}: expected TOML, found {error}") from error
    for name, value in options.items():
        if isinstance(value, dict) and name != "logit_bias":
            raise OptionError(f"{path}: found a table [{name}]; keys stand at the top level")
    bias = options.get("logit_bias")
    if isinstance(bias, dict):  # TOML has no keys but text
        options["logit_bias"] = {int(key) if key.isdecimal() else key: value for key, value in bias.items()}
    return options
