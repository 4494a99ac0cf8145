"""``verispec lab run``: a whole experiment, from the smoke stage to a verdict."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from verispec.cli.lab import decision_options as flags
from verispec.cli.lab.ledger_option import LedgerOption, open_ledger
from verispec.cli.lab.observing import careful_lanes, observer
from verispec.cli.output import JsonOption, print_json
from verispec.errors import OptionError

if TYPE_CHECKING:
    from verispec.lab.experiment.spec import Experiment

FileArgument = Annotated[
    Path | None,
    typer.Argument(metavar="FILE", help="An experiment in TOML (docs/lab.md).", show_default=False),
]
TargetOption = Annotated[Path | None, typer.Option(help="Target in TOML that the others are compared with.")]
CandidatesOption = Annotated[list[Path] | None, typer.Option(help="Target in TOML; may be repeated.")]


def command(
    file: FileArgument = None,
    control: TargetOption = None,
    candidate: CandidatesOption = None,
    name: Annotated[str | None, typer.Option(help="What to call it (default: the file's name).")] = None,
    intent: Annotated[str | None, typer.Option(help="Why it is run, in a sentence.")] = None,
    suite: Annotated[str | None, typer.Option(help="Prompts: a name or a TOML file.")] = None,
    canaries: Annotated[str | None, typer.Option(help="Canaries: a name or a TOML file.")] = None,
    device: Annotated[list[str] | None, typer.Option(help="Where lanes run: cpu, cpu:0,1 or 0.")] = None,
    effects: flags.EffectsOption = "1,2,5",
    dry_run: Annotated[
        bool,
        typer.Option("--dry-run", help="Say what would be run, what is missing and what it could find; end."),
    ] = False,
    lab: LedgerOption = None,
    as_json: JsonOption = False,
) -> None:
    """Measure candidates against a control, each lane on a fresh server, and say what that allows to conclude.

    Exit status 1 when no candidate is an improvement; of a dry run, when something is missing that it needs.
    """
    from verispec.lab.experiment.run import run_experiment

    overrides = {"name": name, "intent": intent, "suite": suite, "canaries": canaries, "devices": device}
    given = {key: value for key, value in overrides.items() if value not in (None, [])}
    experiment = _experiment(file, control, candidate or [], given, lab)
    ledger = open_ledger(lab)
    if dry_run or not as_json:
        from verispec.lab.experiment.outlook import experiment_outlook

        outlook = experiment_outlook(ledger, experiment, flags.effect_shares(effects))
        if as_json:
            print_json({**experiment.record(), "outlook": outlook})
        else:
            from verispec.cli.lab.outlook_text import print_outlook

            print_outlook(experiment, outlook)
        if dry_run:
            raise typer.Exit(1 if outlook["missing"] else 0)
    record = run_experiment(ledger, experiment, observer(as_json), careful_lanes())
    if as_json:
        print_json(record)
    else:
        from verispec.cli.lab.experiment_text import print_experiment

        print_experiment(record)
    good = ("improvement", "promoted")
    if not any(one["verdict"] in good for one in record["verdicts"].values()):
        raise typer.Exit(1)


def _experiment(
    file: Path | None, control: Path | None, candidates: list[Path], given: dict[str, Any], lab: Path | None
) -> Experiment:
    from verispec.lab.experiment.spec import parse_experiment, read_experiment

    if (file is None) == (control is None):
        raise OptionError("lab run: expected a file, or --control and --candidate, found both or neither")
    if file is not None:
        if candidates:
            raise OptionError("lab run: expected candidates in the file, found --candidate beside it")
        return parse_experiment({**read_experiment(file), **given}, str(file), lab)
    assert control is not None
    from verispec.lab.targets.loading import read_target

    tables = [read_target(path) for path in candidates]
    content = {"name": control.stem, "control": read_target(control), "candidate": tables, **given}
    content["control"].pop("name", None)
    return parse_experiment(content, str(control), lab)
