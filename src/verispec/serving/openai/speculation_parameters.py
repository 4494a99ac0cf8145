"""The ``spec_*`` parameters. None of them can change an answer, only how fast it comes."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import Field

from verispec.drafting import options as spec
from verispec.serving.openai.parameters import Name, Parameters, not_implemented

_SERVER_FILE = "it names a file of the server's, which only whoever starts the server chooses."


def _bounds(option: spec.Option) -> Any:
    return Field(ge=option.low, le=option.high)


def _meaning(option: spec.Option) -> Any:
    return Field(None, description=f"{option.meaning[0].upper()}{option.meaning[1:]}.")


class SpeculationParameters(Parameters):
    """As ``drafting/options.py`` has them, but for those that name files."""

    spec_mode: Name | None = Field(
        None,
        description="The strategy: auto, off, one of those that /health lists as available, or several of these joined "
        "by + (the first that is sure enough drafts).",
    )
    spec_draft_max: Annotated[int, _bounds(spec.DRAFT_MAX)] | None = _meaning(spec.DRAFT_MAX)
    spec_draft_min: Annotated[int, _bounds(spec.DRAFT_MIN)] | None = _meaning(spec.DRAFT_MIN)
    spec_draft_p_min: Annotated[float, _bounds(spec.DRAFT_P_MIN)] | None = _meaning(spec.DRAFT_P_MIN)
    spec_draft_policy: Literal["adaptive", "fixed"] | None = _meaning(spec.DRAFT_POLICY)
    spec_ngram_min: Annotated[int, _bounds(spec.NGRAM_MIN)] | None = _meaning(spec.NGRAM_MIN)
    spec_ngram_max: Annotated[int, _bounds(spec.NGRAM_MAX)] | None = _meaning(spec.NGRAM_MAX)
    spec_lookup_choice: Literal["recent", "frequent"] | None = _meaning(spec.LOOKUP_CHOICE)
    spec_suffix_min_match: Annotated[int, _bounds(spec.SUFFIX_MIN_MATCH)] | None = _meaning(
        spec.SUFFIX_MIN_MATCH
    )
    spec_mtp_recurrent_snapshots: Annotated[int, _bounds(spec.RECURRENT_SNAPSHOTS)] | None = _meaning(
        spec.RECURRENT_SNAPSHOTS
    )
    spec_mtp_fr_vocab_size: Annotated[int, _bounds(spec.FR_VOCAB_SIZE)] | None = _meaning(spec.FR_VOCAB_SIZE)
    spec_chain_p_min: Annotated[float, _bounds(spec.CHAIN_P_MIN)] | None = _meaning(spec.CHAIN_P_MIN)
    spec_mtp_fr_ranking: None = not_implemented(_SERVER_FILE)
    spec_suffix_corpus: None = not_implemented(_SERVER_FILE)
    spec_draft_model: None = not_implemented(_SERVER_FILE)
