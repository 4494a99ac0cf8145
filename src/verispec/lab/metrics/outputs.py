"""Did two lanes write the same? Token by token where the server gives tokens, character by character where not."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from verispec.lab.metrics.token_times import row_text, token_ids

TOKEN_EXACT, TEXT_EXACT, DIFFERS = "token-exact", "text-exact", "differs"


@dataclass(frozen=True, slots=True)
class OutputComparison:
    """One prompt in two lanes. ``position`` is where they first differ: a token's index, or a character's where
    ``unit`` says so; None where they do not."""

    prompt: str
    outcome: str
    position: int | None = None
    unit: str | None = None

    def record(self) -> dict[str, Any]:
        return asdict(self)


def compare_rows(first: Mapping[str, Any], second: Mapping[str, Any]) -> OutputComparison:
    """Two rows of one prompt."""
    prompt = str(first["prompt"])
    ids, other_ids = token_ids(first), token_ids(second)
    if ids is not None and other_ids is not None:
        position = _first_difference(ids, other_ids)
        if position is None:
            return OutputComparison(prompt, TOKEN_EXACT)
        return OutputComparison(prompt, DIFFERS, position, "token")
    position = _first_difference(row_text(first), row_text(second))
    if position is None:
        return OutputComparison(prompt, TEXT_EXACT)
    return OutputComparison(prompt, DIFFERS, position, "character")


def compare_lanes(
    first: Sequence[Mapping[str, Any]], second: Sequence[Mapping[str, Any]]
) -> list[OutputComparison]:
    """Every prompt that both lanes answered, in the first one's order."""
    others = {row["prompt"]: row for row in second}
    return [compare_rows(row, others[row["prompt"]]) for row in first if row["prompt"] in others]


def exactness(comparisons: Sequence[OutputComparison]) -> str | None:
    """The weakest outcome of all; None when nothing was compared."""
    outcomes = {one.outcome for one in comparisons}
    return next((one for one in (DIFFERS, TEXT_EXACT, TOKEN_EXACT) if one in outcomes), None)


def output_digest(rows: Sequence[Mapping[str, Any]]) -> str:
    """SHA-256 over what every prompt got, in the order of prompt ids: equal for lanes that wrote the same."""
    written = sorted((row["prompt"], token_ids(row) or row_text(row)) for row in rows)
    text = json.dumps(written, ensure_ascii=False)
    return hashlib.sha256(
        text.encode("utf-8", "surrogatepass")
    ).hexdigest()  # half a character, if a server sends it


def _first_difference(first: Sequence[Any], second: Sequence[Any]) -> int | None:
    for index, (one, other) in enumerate(zip(first, second, strict=False)):
        if one != other:
            return index
    return None if len(first) == len(second) else min(len(first), len(second))
