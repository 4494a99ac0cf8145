"""``verispec parity``: does every strategy give the answer of ``off`` on these prompts?"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated, Any

import typer

from verispec.cli import generation_options as flags
from verispec.cli.number_list import parse_numbers
from verispec.cli.output import JsonOption, print_json
from verispec.cli.text_file import read_text
from verispec.errors import OptionError


def command(
    model: flags.ModelArgument,
    prompts: Annotated[
        Path,
        typer.Option("--prompts", help="Text file, one prompt a line, or JSONL with `prompt` or `messages`."),
    ],
    strategies: Annotated[
        str | None,
        typer.Option("--strategies", help="Comma-separated (default: all that run on the model)."),
    ] = None,
    widths: Annotated[str, typer.Option("--widths", help="Draft widths K, comma-separated.")] = "1,3,7",
    seeds: Annotated[
        int, typer.Option("--seeds", min=1, help="How many seeds, 0 to N-1, where they matter.")
    ] = 2,
    temperatures: Annotated[str, typer.Option("--temperatures", help="Comma-separated.")] = "0,0.8",
    max_tokens: Annotated[int, typer.Option("--max-tokens", min=1)] = 64,
    logprobs: flags.LogprobsOption = None,
    spec_draft_model: flags.ArtifactOption = None,
    raw: Annotated[bool, typer.Option("--raw", help="Complete prompts without the chat template.")] = False,
    ctx: flags.ContextOption = None,
    threads: flags.ThreadsOption = None,
    backend: flags.BackendOption = None,
    as_json: JsonOption = False,
) -> None:
    """Compare token ids, text, logprobs and finish reason of every combination with `off`; exit 1 on a difference."""
    from verispec.cli.progress import CountBar
    from verispec.conformance.parity import run_parity, running_strategies
    from verispec.engine.loading import DEFAULT_BACKEND, load

    with load(model, ctx=ctx, threads=threads, backend=backend or DEFAULT_BACKEND) as loaded:
        texts = read_prompts(prompts, chat=loaded.template is not None and not raw)
        with CountBar("parity") as bar:
            report = run_parity(
                loaded,
                texts,
                running_strategies(loaded) if strategies is None else split_names(strategies),
                parse_numbers("widths", widths, int),
                range(seeds),
                parse_numbers("temperatures", temperatures, float),
                max_tokens,
                logprobs,
                speculation={} if spec_draft_model is None else {"spec_draft_model": spec_draft_model},
                progress=bar.update,
            )
    if as_json:
        print_json(report.as_dict())
    else:
        _print_report(report)
    if report.first_differences:
        raise typer.Exit(1)


def split_names(listed: str) -> list[str]:
    return [name.strip() for name in listed.split(",") if name.strip()]


def _print_report(report: Any) -> None:
    typer.echo(f"{report.identical} of {report.cases} cases identical to off")
    for difference in report.first_differences:
        case = difference.case
        margin = f", logit margin {difference.margin:g}" if difference.margin is not None else ""
        typer.echo(
            f"prompt {case.prompt}, {case.strategy} K={case.width}, seed {case.seed}, T={case.temperature:g}: "
            f"{difference.what} at {difference.position}: expected {difference.expected}, "
            f"found {difference.found}{margin}"
        )


def read_prompts(path: Path, chat: bool) -> list[Any]:
    """Prompts of a file: plain lines, or JSON objects with ``prompt`` or ``messages``."""
    prompts: list[Any] = []
    for number, line in enumerate(read_text(path).splitlines(), 1):
        if not line.strip():
            continue
        prompt: Any = line
        if path.suffix == ".jsonl":
            prompt = _json_prompt(path, number, line)
        prompts.append([{"role": "user", "content": prompt}] if chat and isinstance(prompt, str) else prompt)
    if not prompts:
        raise OptionError(f"{path}: expected at least one prompt, found none")
    return prompts


def _json_prompt(path: Path, number: int, line: str) -> Any:
    try:
        entry = json.loads(line)
    except json.JSONDecodeError as error:
        raise OptionError(f"{path}, line {number}: expected a JSON object, found {error}") from error
    if not isinstance(entry, dict) or not ("prompt" in entry or "messages" in entry):
        raise OptionError(f"{path}, line {number}: expected `prompt` or `messages`, found {line[:60]!r}")
    return entry.get("messages", entry.get("prompt"))
