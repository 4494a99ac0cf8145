"""Whoever watches an experiment: told what begins, what is over, and what was decided."""

from __future__ import annotations

from typing import Any

from verispec.lab.decision import Decision


class Observer:
    """Watches in silence; commands override what they show."""

    def stage(self, name: str, lanes: int) -> None:
        """A stage begins that runs at most so many lanes."""

    def lane(self, arm: str, device: str) -> None:
        """A lane begins."""

    def prompts(self, arm: str, done: int, total: int) -> None:
        """A lane has answered so many of its prompts."""

    def measured(self, record: dict[str, Any]) -> None:
        """A lane is over."""

    def noticed(self, text: str) -> None:
        """Something that whoever reads the verdict should know."""

    def decided(self, stage: str, arm: str, decision: Decision) -> None:
        """What an arm's lanes say so far, after each round."""

    def settled(self, stage: str, arm: str, decision: Decision) -> None:
        """What a stage came to for an arm; it is in the ledger."""
