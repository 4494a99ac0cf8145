"""An experiment on the terminal while it runs: a line a lane, a line a decision, and where it stands."""

from __future__ import annotations

import math
import sys
import threading
from typing import Any

import typer

from verispec.cli.lab.wording import interval_text, percent_text
from verispec.lab.decision import Decision
from verispec.lab.decision.decision import percent
from verispec.lab.experiment.observer import Observer
from verispec.lab.gate.rules import failures
from verispec.lab.wording import counted


class TerminalObserver(Observer):
    """Lines go to standard output. What changes while a lane runs goes to standard error, if that is a terminal."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._live = sys.stderr.isatty()

    def stage(self, name: str, lanes: int) -> None:
        self._line(f"{name}: {counted(lanes, 'lane')} at most" if lanes else name)

    def lane(self, arm: str, device: str) -> None:
        self._status(f"  {arm} on {device}: starting")

    def prompts(self, arm: str, done: int, total: int) -> None:
        self._status(f"  {arm}: {done} of {total} prompts")

    def measured(self, record: dict[str, Any]) -> None:
        rate = record["summary"]["rate_1_100"]
        if record["valid"]:
            said = f"median {rate['median']:.2f} tokens/s, p10 {rate['p10']:.2f}" if rate else "no rate"
        else:
            failed = failures(record["gate"])
            said = f"INVALID  {failed[0]}" + (f" (and {len(failed) - 1} more)" if len(failed) > 1 else "")
        self._line(f"  {record['lane']}  {record['arm']:<16} {record['device']:<8} {said}")

    def decided(self, stage: str, arm: str, decision: Decision) -> None:
        if decision.effect is None:
            self._line(f"  {arm}: {decision.text}")
            return
        interval = interval_text([percent(end) if math.isfinite(end) else None for end in decision.interval])
        self._line(f"  {arm}: {decision.text}, {percent_text(percent(decision.effect))} ({interval})")

    def noticed(self, text: str) -> None:
        self._line(f"  note: {text}")

    def settled(self, stage: str, arm: str, decision: Decision) -> None:
        if stage in ("smoke", "promotion"):
            self.decided(stage, arm, decision)

    def _line(self, text: str) -> None:
        with self._lock:
            self._clear()
            typer.echo(text)

    def _status(self, text: str) -> None:
        if self._live:
            with self._lock:
                self._clear()
                typer.echo(text, nl=False, err=True)

    def _clear(self) -> None:
        if self._live:
            typer.echo("\r\033[K", nl=False, err=True)
