"""The strategy vocabulary: what each strategy reads, what it needs, and how its drafters are made."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from verispec.drafting import options as opt
from verispec.drafting import requirements as req
from verispec.drafting.contract import Drafter
from verispec.drafting.mtp import MtpDrafter
from verispec.drafting.ngram_context import NgramContextDrafter
from verispec.drafting.prompt_lookup import PromptLookupDrafter
from verispec.drafting.sources import DraftSources
from verispec.drafting.suffix import SuffixDrafter

Settings = Mapping[str, Any]
"""Every option a strategy reads, by name, checked."""


@dataclass(frozen=True, slots=True)
class Strategy:
    """A name of the vocabulary. ``make(settings, sources)`` gives one request's drafter, None under ``off``.

    ``keeps_entries``: it reads the target's hidden states and keeps a cache of its own beside the target's, so that it
    can only go on from a prefix that was evaluated with it.
    """

    name: str
    meaning: str
    options: tuple[opt.Option, ...]
    requirements: tuple[req.Requirement, ...]
    make: Callable[[Settings, DraftSources], Drafter | None]
    keeps_entries: bool = False

    def options_on(self, target: req.TargetFacts) -> tuple[opt.Option, ...]:
        """What it reads: on a recurrent target, whoever proposes anything goes by the rollback window."""
        return (*self.options, opt.RECURRENT_SNAPSHOTS) if target.recurrent and self.options else self.options

    def missing(self, target: req.TargetFacts, settings: Settings) -> list[req.Requirement]:
        """The requirements that target and settings do not meet, the decisive one first."""
        return [requirement for requirement in self.requirements if not requirement.met(target, settings)]


def _no_drafter(settings: Settings, sources: DraftSources) -> None:
    return None


def _prompt_lookup(settings: Settings, sources: DraftSources) -> Drafter:
    return PromptLookupDrafter(
        settings[opt.NGRAM_MIN.name],
        settings[opt.NGRAM_MAX.name],
        settings[opt.LOOKUP_CHOICE.name],
        settings[opt.DRAFT_P_MIN.name],
    )


def _ngram_context(settings: Settings, sources: DraftSources) -> Drafter:
    return NgramContextDrafter(
        settings[opt.NGRAM_MIN.name], settings[opt.NGRAM_MAX.name], settings[opt.DRAFT_P_MIN.name]
    )


def _suffix(settings: Settings, sources: DraftSources) -> Drafter:
    path = settings[opt.SUFFIX_CORPUS.name]
    corpus = None if path is None else sources.corpus(Path(path))
    return SuffixDrafter(settings[opt.SUFFIX_MIN_MATCH.name], settings[opt.DRAFT_P_MIN.name], corpus)


def _mtp(settings: Settings, sources: DraftSources) -> Drafter:
    block = sources.prediction_block(settings)
    return MtpDrafter(block, sources.sequence, sources.choose, settings[opt.DRAFT_P_MIN.name])


_NGRAM_OPTIONS = (*opt.WIDTH_OPTIONS, opt.NGRAM_MIN, opt.NGRAM_MAX)
_SUFFIX_OPTIONS = (*opt.WIDTH_OPTIONS, opt.SUFFIX_MIN_MATCH, opt.SUFFIX_CORPUS)
_DRAFT_OPTIONS = (*opt.WIDTH_OPTIONS, opt.DRAFT_MODEL)
_MTP_OPTIONS = (*opt.WIDTH_OPTIONS, opt.FR_VOCAB_SIZE, opt.FR_RANKING)
_CROPS = (req.CROPPABLE_CACHE,)
_MODEL_BACKED = (req.ADAPTER, req.DRAFT_ARTIFACT)
_MTP_NEEDS = (req.PREDICTION_TENSORS,)

OFF = Strategy("off", "the target alone", (), (), _no_drafter)
STRATEGIES = (
    OFF,
    Strategy(
        "prompt-lookup",
        "copies what followed the longest earlier n-gram",
        (*_NGRAM_OPTIONS, opt.LOOKUP_CHOICE),
        _CROPS,
        _prompt_lookup,
    ),
    Strategy(
        "ngram-context", "follows the request's n-gram statistics", _NGRAM_OPTIONS, _CROPS, _ngram_context
    ),
    Strategy(
        "suffix", "follows the longest suffix seen before, by frequency", _SUFFIX_OPTIONS, _CROPS, _suffix
    ),
    Strategy("draft-model", "a smaller model drafts", _DRAFT_OPTIONS, _MODEL_BACKED, _no_drafter),
    Strategy(
        "mtp", "the target's own prediction block drafts", _MTP_OPTIONS, _MTP_NEEDS, _mtp, keeps_entries=True
    ),
    Strategy("eagle3", "an EAGLE-3 head drafts", _DRAFT_OPTIONS, _MODEL_BACKED, _no_drafter),
    Strategy("dflash", "a block-diffusion model drafts", _DRAFT_OPTIONS, _MODEL_BACKED, _no_drafter),
    Strategy(
        "dspark", "a semi-autoregressive block model drafts", _DRAFT_OPTIONS, _MODEL_BACKED, _no_drafter
    ),
)
BY_NAME = {strategy.name: strategy for strategy in STRATEGIES}
AUTO = "auto"
AUTO_ORDER = ("mtp", "suffix", "prompt-lookup", "ngram-context", "off")
"""What ``auto`` prefers, the best first."""
VOCABULARY = ("off", AUTO, *(strategy.name for strategy in STRATEGIES[1:]))
