"""``verispec bench``: what a pass costs, what speculation brings, and how other engines do beside it."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from verispec.cli import generation_options as flags
from verispec.cli.output import JsonOption, print_json, print_table, size_text
from verispec.errors import OptionError

DEFAULT_ROWS = "1,2,3,4,6,8,12,16"

app = typer.Typer(
    name="bench", help="Measure passes, speculation and peers on this machine.", no_args_is_help=True
)

RowsOption = Annotated[str, typer.Option("--rows", help="Rows of a pass, comma-separated.")]
OutputOption = Annotated[Path | None, typer.Option("--output", help="Also write the report to this file.")]
PlotOption = Annotated[
    Path | None, typer.Option("--plot", help="Draw the result as this PNG (needs matplotlib).")
]
SuiteOption = Annotated[str, typer.Option("--suite", help="copy-heavy-12, chat-12 or a TOML file.")]
StrategiesOption = Annotated[
    str, typer.Option("--strategies", help="STRATEGY[:OPTION=VALUE...], comma-separated.")
]


@app.command("pass")
def bench_pass(
    model: flags.ModelArgument,
    rows: RowsOption = DEFAULT_ROWS,
    context: Annotated[int, typer.Option("--context", min=0, help="Tokens in front of the pass.")] = 256,
    repeats: Annotated[int, typer.Option("--repeats", min=1, help="Passes of each row count.")] = 50,
    threads: flags.ThreadsOption = None,
    output: OutputOption = None,
    plot: PlotOption = None,
    as_json: JsonOption = False,
) -> None:
    """Time one pass by its rows, beside a streaming read of as many bytes as the weights have."""
    from verispec.bench.conditions import conditions
    from verispec.bench.pass_curve import measure_pass_curve
    from verispec.engine.loading import load

    counts = _integers("rows", rows)
    with load(model, threads=threads) as loaded:
        facts = conditions(loaded, model)
        curve = measure_pass_curve(loaded, counts, context, repeats).as_dict()
    report = {**curve, "conditions": facts}
    _keep(report, output)
    if plot is not None:
        from verispec.bench.plots import plot_pass_curves

        plot_pass_curves([report], plot)
    if as_json:
        print_json(report)
        return
    bandwidth = size_text(report["bandwidth_bytes_per_second"])
    typer.echo(
        f"{size_text(report['bytes_read'])} read a pass; a streaming read gets {bandwidth} a second here"
    )
    print_table(
        ("ROWS", "MILLISECONDS", "MEDIAN", "T/T(FIRST)", "OF BANDWIDTH"),
        [
            (
                str(point["rows"]),
                f"{point['seconds'] * 1e3:.3f}",
                f"{point['median_seconds'] * 1e3:.3f}",
                f"{point['ratio']:.2f}",
                f"{point['share_of_bandwidth']:.0%}",
            )
            for point in report["curve"]
        ],
    )


@app.command("decode")
def bench_decode(
    model: flags.ModelArgument,
    suite: SuiteOption = "copy-heavy-12",
    strategies: StrategiesOption = "auto,suffix,prompt-lookup,ngram-context",
    repeats: Annotated[
        int, typer.Option("--repeats", min=1, help="Measured answers a prompt and strategy.")
    ] = 3,
    temperature: Annotated[float, typer.Option("--temperature", help="0 (default) is greedy.")] = 0.0,
    seed: flags.SeedOption = None,
    ctx: flags.ContextOption = None,
    threads: flags.ThreadsOption = None,
    output: OutputOption = None,
    as_json: JsonOption = False,
) -> None:
    """Answer a suite with every strategy beside `off`, in turns; exit 1 when an answer differs."""
    from verispec.bench.conditions import conditions
    from verispec.bench.decode import bench_decode, describe_bench
    from verispec.bench.strategy_setting import parse_settings
    from verispec.bench.suites import load_suite
    from verispec.cli.progress import CountBar
    from verispec.engine.loading import load

    wanted, settings = load_suite(suite), parse_settings(strategies)
    sampling = _sampling(temperature, seed)
    with load(model, ctx=ctx, threads=threads) as loaded:
        facts = conditions(loaded, model)
        with CountBar("decode") as bar:
            bench = bench_decode(loaded, wanted, settings, repeats, sampling, bar.update)
    report = {**describe_bench(bench), "conditions": facts}
    _keep(report, output)
    if as_json:
        print_json(report)
    else:
        _print_decode(report)
    if report["identical_runs"] < report["runs"]:
        raise typer.Exit(1)


@app.command("peers")
def bench_peers(
    model: flags.ModelArgument,
    peer_python: Annotated[
        list[str] | None,
        typer.Option(
            "--peer-python", help="NAME[@LABEL]=PATH: the Python that imports llama-cpp or transformers."
        ),
    ] = None,
    peer_binary: Annotated[
        list[str] | None, typer.Option("--peer-binary", help="NAME[@LABEL]=PATH of llama-server.")
    ] = None,
    rows: RowsOption = "1,4,8,16",
    contexts: Annotated[
        str, typer.Option("--contexts", help="Tokens in front of a pass, comma-separated.")
    ] = "256",
    suite: Annotated[str, typer.Option("--suite", help="Suite to write, or `none`.")] = "copy-heavy-12",
    strategies: StrategiesOption = "auto",
    turns: Annotated[
        int, typer.Option("--turns", min=1, help="Turns of every engine at each measurement.")
    ] = 5,
    threads: flags.ThreadsOption = None,
    output: OutputOption = None,
    plot: PlotOption = None,
    as_json: JsonOption = False,
) -> None:
    """Measure llama.cpp, llama-server and transformers beside verispec, on the same file, in one run."""
    from verispec.artifacts.resolve import resolve_model
    from verispec.backends.native_plan import default_threads
    from verispec.bench.conditions import conditions
    from verispec.bench.peer_bench import PEER_CONTEXT, PeerBenchPlan, bench_peers
    from verispec.bench.peers.location import locate_peers
    from verispec.bench.strategy_setting import parse_settings
    from verispec.bench.suites import load_suite
    from verispec.cli.progress import CountBar
    from verispec.engine.loading import load

    located, missing = locate_peers(peer_python or [], peer_binary or [])
    plan = PeerBenchPlan(
        _integers("rows", rows),
        _integers("contexts", contexts),
        turns,
        None if suite == "none" else load_suite(suite),
        parse_settings(strategies),
    )
    count = threads or default_threads()
    with load(model, ctx=PEER_CONTEXT, threads=count) as loaded:
        facts = conditions(loaded, model)
        path = resolve_model(model).path
        with CountBar("peers") as bar:
            report = bench_peers(loaded, path, count, located, missing, plan, bar.stage)
    report["conditions"] = facts
    _keep(report, output)
    if plot is not None:
        from verispec.bench.plots import plot_peers

        plot_peers(report, plot)
    if as_json:
        print_json(report)
    else:
        _print_peers(report)


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


def _print_peers(report: dict[str, Any]) -> None:
    print_table(
        ("WHAT", "OURS", "THEIRS", "", "RATIO", "BEST CONFIGURATION OF THE PEER"),
        [
            (
                entry["what"],
                f"{entry['ours']:.2f}",
                f"{entry['theirs']:.2f}",
                entry["unit"],
                f"{entry['ratio']:.2f}x",
                entry["configuration"],
            )
            for entry in report["ratios"]
        ],
    )
    for entry in report["not_measured"]:
        typer.secho(
            f"not measured: {entry['peer']}: {entry['reason']}; {entry['remedy']}", fg=typer.colors.YELLOW
        )


def _sampling(temperature: float, seed: int | None) -> dict[str, Any]:
    if temperature == 0.0:
        if seed is not None:
            raise OptionError("seed: not read at temperature 0; give --temperature too")
        return {}
    return {"temperature": temperature, "seed": 0 if seed is None else seed}


def _integers(name: str, text: str) -> list[int]:
    try:
        return [int(part) for part in text.split(",") if part.strip()]
    except ValueError as error:
        raise OptionError(f"{name}: expected integers separated by commas, found {text!r}") from error


def _keep(report: dict[str, Any], output: Path | None) -> None:
    if output is not None:
        import json

        output.parent.mkdir(parents=True, exist_ok=True)
        output.write_text(json.dumps(report, indent=1) + "\n", encoding="utf-8")
