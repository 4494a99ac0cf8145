"""``verispec serve``: a model behind OpenAI's protocol."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from verispec.cli import generation_options as flags

ServedModel = Annotated[
    str | None,
    typer.Argument(
        metavar="MODEL",
        help="A name from `verispec models`, a GGUF file, or hf:OWNER/REPO/FILE.",
        show_default=False,
    ),
]
DraftOption = Annotated[
    str | None,
    typer.Option("--draft", help="How to draft: a strategy, a chain, or an admitted draft artifact."),
]


def command(
    model: ServedModel = None,
    config: flags.ConfigOption = None,
    host: Annotated[str | None, typer.Option(help="Address to listen on (default: 127.0.0.1).")] = None,
    port: Annotated[int | None, typer.Option(help="Port; 0 takes a free one (default: 8080).")] = None,
    alias: Annotated[
        list[str] | None, typer.Option(help="Further name of the model; may be repeated.")
    ] = None,
    ctx: flags.ContextOption = None,
    threads: flags.ThreadsOption = None,
    backend: flags.BackendOption = None,
    draft: DraftOption = None,
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
    parallel: Annotated[
        int | None, typer.Option(help="Answers written at the same time (default: 8).")
    ] = None,
    queue: Annotated[int | None, typer.Option(help="Answers that may wait (default: 64).")] = None,
    prefix_cache: Annotated[
        float | None, typer.Option(help="MiB of prompt prefixes kept; 0 keeps none (default: 256).")
    ] = None,
    deadline: Annotated[float | None, typer.Option(help="Most seconds of a request (default: 600).")] = None,
    drain: Annotated[
        float | None, typer.Option(help="Seconds for running answers at shutdown (default: 30).")
    ] = None,
    api_keys: Annotated[
        str | None, typer.Option(help="File with one API key a line; VERISPEC_API_KEYS adds more.")
    ] = None,
    open_metrics: Annotated[
        bool | None, typer.Option("--open-metrics", help="/metrics needs no key.")
    ] = None,
    allow_origin: Annotated[
        list[str] | None, typer.Option(help="Origin of a web page that may call the server; may be repeated.")
    ] = None,
    allow_host: Annotated[
        list[str] | None,
        typer.Option(help="Further name of a loopback server without keys; may be repeated."),
    ] = None,
    receipts: Annotated[int | None, typer.Option(help="Receipts kept (default: 1000).")] = None,
    max_body: Annotated[float | None, typer.Option(help="MiB of a request's body (default: 4).")] = None,
    max_requests: Annotated[int | None, typer.Option(help="Requests handled at once (default: 256).")] = None,
    max_connections: Annotated[int | None, typer.Option(help="Connections at once (default: 1024).")] = None,
    header_timeout: Annotated[float | None, typer.Option(help="Seconds for headers (default: 10).")] = None,
    body_timeout: Annotated[float | None, typer.Option(help="Seconds for a body (default: 30).")] = None,
    write_timeout: Annotated[
        float | None, typer.Option(help="Seconds an answer may go unread (default: 30).")
    ] = None,
    keep_alive: Annotated[
        float | None, typer.Option(help="Seconds an idle connection stays open (default: 75).")
    ] = None,
    ray: Annotated[
        bool | None, typer.Option("--ray", help="Run replicas of the engine on Ray Serve.")
    ] = None,
    replicas: Annotated[int | None, typer.Option(help="Replicas under --ray (default: 2).")] = None,
    ray_address: Annotated[
        str | None, typer.Option(help="Ray cluster to run them on (default: one of this machine's own).")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print one line of JSON when ready.")] = False,
) -> None:
    """Serve a model at /v1/chat/completions and /v1/completions, to this machine alone unless --host says otherwise.

    SIGTERM or Ctrl-C lets running answers finish; a second one ends at once.
    """
    given = {name: value for name, value in locals().items() if name not in ("config", "as_json")}
    from verispec.serving.settings import ServerSettings

    options = gather_settings(config, given)
    settings = ServerSettings.of(options)
    if "model" not in options:
        _fetch_when_missing(settings.model)

    if settings.ray:
        from verispec.serving.replicas.start import serve_replicas

        serve_replicas(settings, as_json)
        return

    from verispec.serving.start import serve

    serve(settings, as_json)


def gather_settings(config: Path | None, given: dict[str, Any]) -> dict[str, Any]:
    """The file's options under the flags that were given."""
    options = flags.read_config(config) if config is not None else {}
    return options | {name: value for name, value in given.items() if value not in (None, [])}


def _fetch_when_missing(name: str) -> None:
    """The default model comes by itself; one that was named is pulled on purpose."""
    from verispec.artifacts.store import Store
    from verispec.cli.pull import fetch

    if not Store().has_named(name):
        fetch(name)
