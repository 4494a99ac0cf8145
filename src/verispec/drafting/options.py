"""Speculation options: what each is called, which values it takes, and what it means."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal

from verispec.errors import OptionError

Value = int | float | str | None


@dataclass(frozen=True, slots=True)
class Option:
    """One ``spec_*`` option. ``low`` and ``high``, included, bound a number; ``choices`` bounds a string."""

    name: str
    kind: Literal["integer", "number", "string"]
    default: Value
    meaning: str
    low: float = 0
    high: float = math.inf
    choices: tuple[str, ...] = ()

    def check(self, value: object) -> Value:
        """The value as the option's own type; OptionError when it is another or out of range."""
        if self.kind == "string":
            if not isinstance(value, str) or not value or (self.choices and value not in self.choices):
                raise self._refusal(value)
            return value
        number = (int, float) if self.kind == "number" else (int,)
        if isinstance(value, bool) or not isinstance(value, number) or not self.low <= value <= self.high:
            raise self._refusal(value)
        return float(value) if self.kind == "number" else value

    @property
    def expected(self) -> str:
        """The values it takes, in words."""
        if self.kind == "string":
            return "one of " + ", ".join(self.choices) if self.choices else "a non-empty string"
        article = "an integer" if self.kind == "integer" else "a number"
        return f"{article} from {self.low:g} to {self.high:g}"

    def _refusal(self, found: object) -> OptionError:
        return OptionError(f"{self.name}: expected {self.expected}, found {found!r}")


DRAFT_MAX = Option("spec_draft_max", "integer", 15, "most tokens proposed in a round (K)", 1, 64)
DRAFT_MIN = Option(
    "spec_draft_min", "integer", 0, "fewest tokens worth a proposal; shorter ones are dropped", 0, 64
)
DRAFT_P_MIN = Option(
    "spec_draft_p_min", "number", 0.2, "estimated probability under which a token ends the proposal", 0, 1
)
DRAFT_POLICY = Option(
    "spec_draft_policy",
    "string",
    "adaptive",
    "how much of a proposal to evaluate: all of it, or the width that pays most by measured cost",
    choices=("adaptive", "fixed"),
)
NGRAM_MIN = Option("spec_ngram_min", "integer", 1, "shortest context matched, in tokens", 1, 16)
NGRAM_MAX = Option("spec_ngram_max", "integer", 4, "longest context looked up, in tokens", 1, 16)
LOOKUP_CHOICE = Option(
    "spec_lookup_choice",
    "string",
    "recent",
    "which of equally long matches is copied",
    choices=("recent", "frequent"),
)
SUFFIX_MIN_MATCH = Option("spec_suffix_min_match", "integer", 1, "shortest suffix matched, in tokens", 1, 64)
SUFFIX_CORPUS = Option("spec_suffix_corpus", "string", None, "corpus file consulted besides the request")
CHAIN_P_MIN = Option(
    "spec_chain_p_min",
    "number",
    0.5,
    "confidence in the first token under which a chain asks its next strategy",
    0,
    1,
)
DRAFT_MODEL = Option("spec_draft_model", "string", None, "the admitted draft artifact: a draft model or head")
RECURRENT_SNAPSHOTS = Option(
    "spec_mtp_recurrent_snapshots",
    "integer",
    7,
    "states of a recurrent target kept before the live one, to roll back to without a replay (S)",
    0,
    64,
)
FR_VOCAB_SIZE = Option(
    "spec_mtp_fr_vocab_size",
    "integer",
    0,
    "tokens that the draft head scores: the first ids, or the first of the ranked list; 0: all",
    0,
    1 << 22,
)
FR_RANKING = Option(
    "spec_mtp_fr_ranking", "string", None, "file of token ids by frequency (`verispec rank-vocab`) to score"
)

WIDTH_OPTIONS = (DRAFT_MAX, DRAFT_MIN, DRAFT_P_MIN, DRAFT_POLICY)
"""Read by every strategy that proposes anything."""
