"""Lanes that an interrupted search has measured already are taken from the ledger, so that it goes on where it was."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from verispec.lab.lane.request import LaneRequest
from verispec.lab.lane.run import LaneRunner, Progress, run_lane
from verispec.lab.ledger.ledger import Ledger

Record = dict[str, Any]
Place = tuple[str, str, str]
"""Stage, block and arm: where a lane stands in its search."""


class RecalledLanes:
    """Runs lanes as ``otherwise`` does, but for those of experiment ``number`` that are known.

    Only whole blocks are taken: lanes of one block are compared with each other, so they ran one after the other.
    """

    def __init__(self, ledger: Ledger, number: str, otherwise: LaneRunner | None = None) -> None:
        ledger.refresh_index()
        self._otherwise = otherwise or run_lane
        self._measured: dict[Place, tuple[str, Record]] = {}
        self._wanted: set[Place] = set()
        for digest in ledger.index.of_experiment(number, "lane"):
            record = ledger.get(digest)
            if not any(fault["name"] == "interrupted" for fault in record["faults"]):
                self._measured[record["stage"], record["block"], record["arm"]] = (digest, record)

    def expect(self, stage: str, arms: Sequence[str]) -> None:
        """The next lanes are of ``stage``, each of whose blocks holds ``arms``."""
        blocks = {block for known, block, _ in self._measured if known == stage}
        whole = [block for block in blocks if all((stage, block, arm) in self._measured for arm in arms)]
        self._wanted = {(stage, block, arm) for block in whole for arm in arms}

    def __call__(self, ledger: Ledger, request: LaneRequest, progress: Progress) -> tuple[str, Record]:
        place = (request.stage, request.block, request.arm)
        if place in self._wanted:
            return self._measured[place]
        return self._otherwise(ledger, request, progress)
