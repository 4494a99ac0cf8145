"""``verispec chat``: a conversation in the terminal."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Annotated, Any

import typer

from verispec.cli import generation_options as flags
from verispec.errors import OptionError


def command(
    model: Annotated[
        str | None,
        typer.Argument(
            metavar="MODEL",
            help="A name from `verispec models`, a GGUF file, or hf:OWNER/REPO/FILE; none beside --url.",
        ),
    ] = None,
    url: Annotated[
        str | None, typer.Option("--url", help="Talk to a server of OpenAI's protocol instead.")
    ] = None,
    key_env: Annotated[
        str | None, typer.Option("--key-env", help="Environment variable with the key for --url.")
    ] = None,
    served_model: Annotated[
        str | None,
        typer.Option("--model", help="Model of the server at --url (default: the first it names)."),
    ] = None,
    system: str | None = typer.Option(None, "--system", help="System message."),
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
    stop: flags.StopOption = None,
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
) -> None:
    """Talk to a model. The state of what was said is kept: only new text is evaluated.

    Ctrl-C ends an answer, Ctrl-D or /exit the conversation.
    """
    given = {name: value for name, value in locals().items() if name not in _OWN}
    loading, options = flags.gather_options(config, given)
    if url is not None:
        if model is not None:
            raise OptionError("MODEL: not read beside --url; --model names one of the server's")
        if loading:
            raise OptionError(f"{', '.join(loading)}: not read beside --url: the server has loaded its model")
        talk_to_server(url, _key(key_env), served_model, system, options)
        return
    for name, value in (("key-env", key_env), ("model", served_model)):
        if value is not None:
            raise OptionError(f"{name}: not read without --url")
    if model is None:
        raise OptionError("MODEL: expected a model, or --url with a server's address")
    talk_to_model(model, system, loading, options)


_OWN = {"model", "url", "key_env", "served_model", "system", "config"}


def talk_to_model(
    name: str, system: str | None, loading: Mapping[str, Any], options: Mapping[str, Any]
) -> None:
    """The conversation with a model of this process."""
    from verispec.cli.streaming import show, summary
    from verispec.engine.loading import load

    with load(name, options=options, **loading) as loaded, loaded.conversation() as conversation:
        if system is not None:
            conversation.messages.append({"role": "system", "content": system})
        while (text := _read()) is not None:
            with conversation.send(text, **options) as generation:
                completion = show(generation)
            reused = completion.counters.reused_tokens
            note = f", {reused} of {len(completion.prompt_tokens)} prompt tokens kept"
            typer.secho(summary(completion) + note, dim=True, err=True)


def talk_to_server(
    url: str, key: str | None, model: str | None, system: str | None, options: Mapping[str, Any]
) -> None:
    """The conversation with a server. What it refuses is said, and the conversation goes on."""
    from verispec.cli.output import print_error
    from verispec.cli.remote_chat import RemoteConversation, RemoteError, show_answer

    with RemoteConversation(url, key, model, options) as conversation:
        if system is not None:
            conversation.messages.append({"role": "system", "content": system})
        while (text := _read()) is not None:
            try:
                typer.secho(show_answer(conversation, text), dim=True, err=True)
            except RemoteError as error:
                print_error(str(error))


def _key(variable: str | None) -> str | None:
    if variable is None:
        return None
    if not os.environ.get(variable):
        raise OptionError(f"key-env: expected a key in the environment variable {variable}, found none")
    return os.environ[variable]


def _read() -> str | None:
    """The next message; None at the end of input, at /exit or at Ctrl-C on an empty line."""
    while True:
        try:
            text = input("> ").strip()
        except (EOFError, KeyboardInterrupt):
            typer.echo("", err=True)
            return None
        if text == "/exit":
            return None
        if text:
            return text
