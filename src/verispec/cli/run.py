"""``verispec run``: one prompt, one answer, shown as it is written."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated, Any

import typer

from verispec.cli import generation_options as flags
from verispec.cli.output import INTERRUPTED, JsonOption, print_json
from verispec.cli.output_file import check_output
from verispec.errors import OptionError


def command(
    model: flags.ModelArgument,
    prompt: Annotated[str | None, typer.Argument(help="The prompt; standard input when absent.")] = None,
    raw: Annotated[
        bool, typer.Option("--raw", help="Complete the prompt as it stands, without the chat template.")
    ] = False,
    config: flags.ConfigOption = None,
    ctx: flags.ContextOption = None,
    threads: flags.ThreadsOption = None,
    backend: flags.BackendOption = None,
    max_tokens: flags.MaxTokensOption = None,
    temperature: flags.TemperatureOption = None,
    top_k: flags.TopKOption = None,
    top_p: flags.TopPOption = None,
    min_p: flags.MinPOption = None,
    repetition_penalty: flags.RepetitionOption = None,
    presence_penalty: flags.PresenceOption = None,
    frequency_penalty: flags.FrequencyOption = None,
    seed: flags.SeedOption = None,
    logprobs: flags.LogprobsOption = None,
    stop: flags.StopOption = None,
    ignore_eos: flags.IgnoreEosOption = None,
    grammar: flags.GrammarOption = None,
    json_schema: flags.JsonSchemaOption = None,
    spec_mode: flags.SpecModeOption = None,
    spec_draft_max: flags.DraftMaxOption = None,
    spec_draft_min: flags.DraftMinOption = None,
    spec_draft_p_min: flags.DraftPMinOption = None,
    spec_draft_policy: flags.PolicyOption = None,
    spec_suffix_corpus: flags.CorpusOption = None,
    spec_mtp_recurrent_snapshots: flags.SnapshotsOption = None,
    spec_mtp_fr_vocab_size: flags.DraftHeadOption = None,
    spec_mtp_fr_ranking: flags.RankingOption = None,
    spec_draft_model: flags.ArtifactOption = None,
    spec_chain_p_min: flags.ChainOption = None,
    strict_drafter: flags.StrictOption = None,
    receipt: Annotated[Path | None, typer.Option("--receipt", help="Write the receipt to this file.")] = None,
    include_text: Annotated[
        bool, typer.Option("--include-text", help="Store prompt and answer in the receipt.")
    ] = False,
    as_json: JsonOption = False,
) -> None:
    """Answer one prompt. The text is the same whatever the strategy; only the speed differs."""
    given = {name: value for name, value in locals().items() if name not in _OWN}
    loading, options = flags.gather_options(config, given)
    options |= flags.grammar_options(grammar, json_schema)
    if include_text and receipt is None:
        raise OptionError("include-text: not read without --receipt FILE")
    if receipt is not None:
        check_output("receipt", receipt)
    if options.get("logprobs") is not None and not as_json and receipt is None:
        raise OptionError("logprobs: shown only with --json")
    text = prompt if prompt is not None else read_prompt()
    answer(model, text, raw, loading, options, receipt, include_text, as_json)


_OWN = {"model", "prompt", "raw", "grammar", "json_schema", "config", "receipt", "include_text", "as_json"}


def read_prompt() -> str:
    """The prompt from standard input. Raises OptionError when there is none."""
    if sys.stdin.isatty():
        typer.secho("reading the prompt from standard input; Ctrl-D ends it", dim=True, err=True)
    text = sys.stdin.read()
    if not text:
        raise OptionError("prompt: expected text, found nothing")
    return text


def answer(
    name: str,
    text: str,
    raw: bool,
    loading: dict[str, Any],
    options: dict[str, Any],
    receipt: Path | None,
    include_text: bool,
    as_json: bool,
) -> None:
    """Loads the model, shows its answer as it is written, and writes the receipt where one is wanted.

    After Ctrl-C that is as much as there is of the answer; the exit status then says so.
    """
    from verispec.cli.streaming import completion_dict, show, summary
    from verispec.engine.loading import load

    with load(name, options=options, **loading) as model:
        prompt: Any = text if raw or model.template is None else [{"role": "user", "content": text}]
        generation = model.stream(prompt, **options)
        completion = show(generation, quiet=as_json)
        written = None
        if receipt is not None:
            model.receipt(completion, include_text=include_text).write(receipt)
            written = str(receipt)
        if as_json:
            print_json({**completion_dict(completion), "receipt": written})
        else:
            typer.secho(summary(completion), dim=True, err=True)
            if written:
                typer.secho(f"receipt: {written}", dim=True, err=True)
        if completion.finish_reason == "cancelled":
            raise typer.Exit(INTERRUPTED)
