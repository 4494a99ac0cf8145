"""``verispec lab candidate``: try a configuration, an artifact or a patch, and look up what was tried."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from verispec.cli.lab.ledger_option import LedgerOption, open_ledger
from verispec.cli.lab.observing import careful_lanes, observer
from verispec.cli.lab.wording import day_text, decided_interval, percent_text
from verispec.cli.output import JsonOption, print_json, print_table
from verispec.errors import OptionError

if TYPE_CHECKING:
    from verispec.lab.candidates.candidate import Candidate
    from verispec.lab.ledger.ledger import Ledger

app = typer.Typer(
    name="candidate",
    help="Configurations, artifacts and source patches, each tried against a control and archived.",
    no_args_is_help=True,
)
FileArgument = Annotated[Path, typer.Argument(metavar="FILE", help="A candidate in TOML (docs/lab.md).")]
GOOD = ("improvement", "promoted")


@app.command("run")
def run(
    file: FileArgument,
    again: Annotated[bool, typer.Option("--again", help="Even when the same was tried before.")] = False,
    dry_run: Annotated[
        bool,
        typer.Option("--dry-run", help="Say what would be run, what is missing and what it could find; end."),
    ] = False,
    lab: LedgerOption = None,
    as_json: JsonOption = False,
) -> None:
    """Build it in a clean copy, measure it, decide, and archive what came of it.

    Exit status 1 when it is no improvement, or was tried before; of a dry run, when something is missing.
    """
    from verispec.lab.candidates.archive import tried_before
    from verispec.lab.candidates.candidate import load_candidate
    from verispec.lab.candidates.run import run_candidate

    ledger, candidate = open_ledger(lab), load_candidate(file)
    before = tried_before(ledger, candidate)
    if before and not again:
        if as_json:
            print_json({"tried_before": before})
        else:
            typer.echo("tried before (--again tries it once more):")
            _print_list(before)
        raise typer.Exit(1)
    if dry_run or not as_json:
        outlook = _outlook(ledger, candidate, as_json)
        if dry_run:
            raise typer.Exit(1 if outlook["missing"] else 0)
    record = run_candidate(ledger, candidate, observer(as_json), careful_lanes())
    if as_json:
        print_json(record)
    else:
        typer.echo("")
        print_candidate(record)
    if record["verdict"] not in GOOD:
        raise typer.Exit(1)


def _outlook(ledger: Ledger, candidate: Candidate, as_json: bool) -> dict[str, Any]:
    """Printed; of what is missing, what the build will make is left out."""
    from verispec.cli.lab.outlook_text import print_outlook
    from verispec.lab.candidates.run import NOT_BUILT, planned_experiment
    from verispec.lab.experiment.needs import is_checkout
    from verispec.lab.experiment.outlook import experiment_outlook

    experiment = planned_experiment(ledger, candidate)
    outlook = experiment_outlook(ledger, experiment)
    outlook["missing"] = [one for one in outlook["missing"] if f"{NOT_BUILT}/" not in one]
    if candidate.source is not None and not is_checkout(candidate.source.repository):
        found = f"source: repository: expected a git checkout, found none at {candidate.source.repository}"
        outlook["missing"].append(found)
    if as_json:
        print_json({**experiment.record(), "outlook": outlook})
    else:
        print_outlook(experiment, outlook)
    return outlook


@app.command("build")
def build(
    file: FileArgument,
    into: Annotated[
        Path | None, typer.Option(help="Keep the copy in this new folder; without it, it is removed.")
    ] = None,
    unpatched: Annotated[bool, typer.Option("--unpatched", help="The base alone.")] = False,
    as_json: JsonOption = False,
) -> None:
    """Build a patch in a clean copy, and say what came out. Nothing is measured or written down."""
    from verispec.lab.candidates.build import build as build_copy
    from verispec.lab.candidates.candidate import load_candidate

    source = load_candidate(file).source
    if source is None:
        raise OptionError(f"{file}: source: expected a table that says what to build, found none")
    if into is not None and into.exists():
        raise OptionError(f"--into: expected a folder that does not exist yet, found {into}")
    with tempfile.TemporaryDirectory(prefix="verispec-candidate-") as name:
        built = build_copy(source, (into or Path(name) / "copy").resolve(), not unpatched)
        record = {**built.record(), "files": [one.record() for one in built.files]}
        if as_json:
            print_json(record)
            return
        typer.echo(f"{built.commit} built in {built.seconds:.1f} s")
        for one in built.files:
            typer.echo(f"  {one.path} +{one.added} -{one.removed}")
        for product, digest in built.products.items():
            typer.echo(f"{product} {digest[:16]}")


@app.command("list")
def list_all(lab: LedgerOption = None, as_json: JsonOption = False) -> None:
    """Every candidate that was tried, the newest last."""
    found = [record for _, record in open_ledger(lab).records("candidate")]
    if as_json:
        print_json(found)
    elif not found:
        typer.echo("nothing has been tried yet; `verispec lab candidate run FILE` tries one (docs/lab.md)")
    else:
        _print_list(found)


@app.command("show")
def show(
    name: Annotated[
        str, typer.Argument(help="A candidate's name, its experiment, or the beginning of either.")
    ],
    lab: LedgerOption = None,
    as_json: JsonOption = False,
) -> None:
    """The note on one candidate; the newest, when there are several of one name."""
    records = [record for _, record in open_ledger(lab).records("candidate")]
    found = [one for one in records if name in (one["name"], one["experiment"])] or [
        one for one in records if one["name"].startswith(name) or one["experiment"].startswith(name)
    ]
    if not found:
        raise OptionError(f"candidate: expected the name of one that was tried, found {name!r}")
    if as_json:
        print_json(found[-1])
    else:
        print_candidate(found[-1])


def print_candidate(record: dict[str, Any]) -> None:
    """A note for people: why, what it touches, what each stage said."""
    typer.echo(
        f"{record['name']} ({record['candidate_kind']}), experiment {record['experiment']}: {record['verdict']}"
    )
    typer.echo(record["intent"])
    source = record["source"]
    if source is not None:
        typer.echo(
            f"patch {source['patch_sha256'][:12]} on {source['base'][:12]}, control: {source['control']}"
        )
        for one in source["files"]:
            typer.echo(f"  {one['path']} +{one['added']} -{one['removed']}")
    if record["table"]:
        print_table(
            ("stage", "lanes", "effect", "interval", "shrunken", "output", "verdict"),
            [
                (
                    line["stage"],
                    f"{line['control_lanes']} + {line['candidate_lanes']}",
                    percent_text(line["effect_percent"]),
                    decided_interval(line),
                    percent_text(line["shrunken_percent"]),
                    line["outputs"] or "-",
                    line["verdict"],
                )
                for line in record["table"]
            ],
        )
    for reason in record["reasons"]:
        typer.echo(f"  {reason}")


def _print_list(records: list[dict[str, Any]]) -> None:
    print_table(
        ("tried", "experiment", "kind", "candidate", "verdict", "intent"),
        [
            (
                day_text(one["began"]),
                one["experiment"],
                one["candidate_kind"],
                one["name"],
                one["verdict"],
                one["intent"][:60],
            )
            for one in records
        ],
    )
