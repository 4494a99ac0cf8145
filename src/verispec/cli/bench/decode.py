"""``verispec bench decode``: every strategy beside ``off``."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from verispec.cli import generation_options as flags
from verispec.cli.bench.options import OutputOption, StrategiesOption, SuiteOption
from verispec.cli.bench.report_file import check_report_path, write_report
from verispec.cli.output import JsonOption, print_json, print_table
from verispec.errors import OptionError


def command(
    model: flags.ModelArgument,
    suite: SuiteOption = "copy-heavy-12",
    strategies: StrategiesOption = "auto,suffix,prompt-lookup,ngram-context",
    repeats: Annotated[
        int, typer.Option("--repeats", min=1, help="Measured answers a prompt and strategy.")
    ] = 3,
    precision: Annotated[
        float | None,
        typer.Option("--precision", min=0.0, help="Repeat until each prompt's ratio is known within this."),
    ] = None,
    most: Annotated[int, typer.Option("--most", min=1, help="Most repeats for the precision.")] = 60,
    temperature: Annotated[float, typer.Option("--temperature", help="0 (default) is greedy.")] = 0.0,
    seed: flags.SeedOption = None,
    ctx: flags.ContextOption = None,
    threads: flags.ThreadsOption = None,
    output: OutputOption = None,
    as_json: JsonOption = False,
) -> None:
    """Answer a suite with every strategy beside `off`, in turns; exit 1 when an answer differs."""
    from verispec.bench.conditions import conditions
    from verispec.bench.decode import Effort, bench_decode, describe_bench
    from verispec.bench.strategy_setting import parse_settings
    from verispec.bench.suites import load_suite
    from verispec.cli.progress import CountBar
    from verispec.engine.loading import load

    check_report_path(output)
    wanted, settings = load_suite(suite), parse_settings(strategies)
    sampling, effort = _sampling(temperature, seed), Effort(repeats, precision, most)
    with load(model, ctx=ctx, threads=threads) as loaded:
        facts = conditions(loaded, model)
        with CountBar("decode") as bar:
            bench = bench_decode(loaded, wanted, settings, effort, sampling, bar.update)
    report = {**describe_bench(bench), "conditions": facts}
    write_report(report, output)
    if as_json:
        print_json(report)
    else:
        _print_decode(report)
    if report["identical_runs"] < report["runs"]:
        raise typer.Exit(1)


def _print_decode(report: dict[str, Any]) -> None:
    text = report["text"]
    typer.echo(
        f"{text['prompts_measured']} of {text['prompts']} prompts, {text['tokens_measured']} tokens before any loop; "
        f"{report['identical_runs']} of {report['runs']} answers identical to off"
    )
    print_table(
        ("STRATEGY", "TOKENS/S", "TO OFF", "PASSES", "ACCEPTED/PASS", "WORST PROMPT (TIME)"),
        [
            (
                entry["name"],
                f"{entry['tokens_per_second']:.1f}",
                f"{entry['ratio_to_off']:.2f}x",
                str(entry["passes"]),
                f"{entry['accepted_per_pass']:.2f}",
                f"{entry['worst_prompt']['id']} {entry['worst_prompt']['seconds_ratio']['median']:.3f}",
            )
            for entry in report["strategies"]
        ],
    )
    print_table(
        ("PROMPT", "TOKENS", "MEASURED", "LOOP AT", "REPEATED 8-GRAMS"),
        [
            (
                answer["id"],
                str(answer["tokens"]),
                str(answer["measured_tokens"]),
                "none" if answer["loop_starts_at"] is None else str(answer["loop_starts_at"]),
                f"{answer['repeated_8grams']:.0%} ({answer['repeated_8grams_measured']:.0%} measured)",
            )
            for answer in report["prompts"]
        ],
    )


def _sampling(temperature: float, seed: int | None) -> dict[str, Any]:
    if temperature == 0.0:
        if seed is not None:
            raise OptionError("seed: not read at temperature 0; give --temperature too")
        return {}
    return {"temperature": temperature, "seed": 0 if seed is None else seed}
