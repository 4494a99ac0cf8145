"""A named condition of a promotion, and whether it holds."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class Status(StrEnum):
    """``NOT_SHOWN``: nothing says that it fails, and nothing says that it holds. Only ``MET`` lets a promotion pass."""

    MET = "met"
    NOT_SHOWN = "not shown"
    FAILED = "failed"


@dataclass(frozen=True, slots=True)
class Requirement:
    name: str
    status: Status
    detail: str

    def as_dict(self) -> dict[str, str]:
        return {"name": self.name, "status": str(self.status), "detail": self.detail}
