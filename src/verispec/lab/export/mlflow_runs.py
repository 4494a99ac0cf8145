"""Lanes as MLflow runs, where MLflow is installed; into a tracking store of the user's choice."""

from __future__ import annotations

import importlib
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from verispec.errors import OptionError, UnsupportedError
from verispec.lab.export.tables import lane_lines
from verispec.lab.ledger.ledger import Ledger

PARAMETERS = (
    "stage",
    "arm",
    "block",
    "device",
    "engine",
    "version",
    "model",
    "arguments",
    "suite",
    "max_tokens",
)
LONGEST = 500
"""Characters of a parameter that every MLflow store takes."""


def runs(ledger: Ledger, experiment: str | None = None) -> Iterator[dict[str, Any]]:
    """What each run would hold: name, parameters, metrics, tags."""
    for line in lane_lines(ledger, experiment):
        yield {
            "experiment": line["experiment"],
            "name": line["lane"],
            "parameters": {name: str(line[name])[:LONGEST] for name in PARAMETERS},
            "metrics": {
                name: float(value)
                for name, value in line.items()
                if isinstance(value, int | float) and not isinstance(value, bool) and name not in PARAMETERS
            },
            "tags": {
                "valid": str(line["valid"]),
                "failed_rules": line["failed_rules"],
                "passes_inferred": str(line["passes_inferred"]),
            },
        }


def write_runs(ledger: Ledger, tracking: str, experiment: str | None = None) -> int:
    """Logs every lane as a run in the store at the address ``tracking``, and gives how many.

    UnsupportedError where MLflow is not installed, OptionError for a store that it does not take.
    """
    try:
        mlflow = importlib.import_module("mlflow")
    except ImportError as error:
        raise UnsupportedError(
            "needs-mlflow", "export to MLflow: it is not installed", "pip install mlflow"
        ) from error
    try:
        return _write(mlflow, tracking, runs(ledger, experiment))
    except mlflow.exceptions.MlflowException as error:
        raise OptionError(f"MLflow at {tracking}: {error}") from error


def _write(mlflow: Any, tracking: str, found: Iterable[Mapping[str, Any]]) -> int:
    mlflow.set_tracking_uri(tracking)
    logged = list(found)
    for run in logged:
        mlflow.set_experiment(f"verispec lab {run['experiment']}")
        with mlflow.start_run(run_name=run["name"]):
            _log(mlflow, run)
    return len(logged)


def _log(mlflow: Any, run: Mapping[str, Any]) -> None:
    mlflow.log_params(run["parameters"])
    mlflow.log_metrics(run["metrics"])
    mlflow.set_tags(run["tags"])
