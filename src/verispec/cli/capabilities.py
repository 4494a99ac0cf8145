"""``verispec capabilities``: which strategies run on a model, and why the others do not."""

from __future__ import annotations

from verispec.cli import generation_options as flags
from verispec.cli.output import JsonOption, print_json, print_table


def command(
    model: flags.ModelArgument,
    ctx: flags.ContextOption = None,
    threads: flags.ThreadsOption = None,
    backend: flags.BackendOption = None,
    spec_draft_model: flags.ArtifactOption = None,
    as_json: JsonOption = False,
) -> None:
    """Show every strategy with its status on MODEL, the reason where it cannot run, and what would make it work.

    With --spec-draft-model the artifact is opened and checked, and shown is what runs with it.
    """
    from verispec.engine.loading import DEFAULT_BACKEND, load

    with load(model, ctx=ctx, threads=threads, backend=backend or DEFAULT_BACKEND) as loaded:
        matrix = loaded.capabilities(spec_draft_model)
        identity = loaded.backend.identity()
    if as_json:
        print_json({"model": model, **matrix, "identity": identity})
        return
    print(
        f"backend {matrix['backend']} ({matrix['exactness']}), {matrix['architecture']}, context {matrix['context']}"
    )
    print_table(
        ("STRATEGY", "STATUS", "REASON", "DETAIL"),
        [
            (
                row["name"],
                row["status"],
                ", ".join(row["reasons"]) or "-",
                f"{row['detail']}. {row['remedy']}" if row["remedy"] else row["detail"],
            )
            for row in matrix["strategies"]
        ],
    )
