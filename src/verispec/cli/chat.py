"""``verispec chat``: a conversation in the terminal."""

from __future__ import annotations

import typer

from verispec.cli import generation_options as flags


def command(
    model: flags.ModelArgument,
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
    strict_drafter: flags.StrictOption = None,
) -> None:
    """Talk to a model. The state of what was said is kept: only new text is evaluated.

    Ctrl-C ends an answer, Ctrl-D or /exit the conversation.
    """
    given = {name: value for name, value in locals().items() if name not in ("model", "system", "config")}
    loading, options = flags.gather_options(config, given)

    from verispec.cli.streaming import show, summary
    from verispec.engine.loading import load

    with load(model, options=options, **loading) as loaded, loaded.conversation() as conversation:
        if system is not None:
            conversation.messages.append({"role": "system", "content": system})
        while (text := _read()) is not None:
            with conversation.send(text, **options) as generation:
                completion = show(generation)
            reused = completion.counters.reused_tokens
            note = f", {reused} of {len(completion.prompt_tokens)} prompt tokens kept"
            typer.secho(summary(completion) + note, dim=True, err=True)


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
