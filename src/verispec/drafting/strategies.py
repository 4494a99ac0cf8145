"""The strategy vocabulary: what each strategy reads, what it needs, and how its drafters are made."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from verispec.backends.draft_block import DraftBlock
from verispec.backends.prediction_block import PredictionBlock
from verispec.drafting import options as opt
from verispec.drafting import requirements as req
from verispec.drafting.contract import Drafter
from verispec.drafting.draft_model import DraftModelDrafter
from verispec.drafting.draft_text import DraftText
from verispec.drafting.head_drafter import make_head_drafter
from verispec.drafting.mtp import MtpDrafter
from verispec.drafting.ngram_context import NgramContextDrafter
from verispec.drafting.prompt_lookup import PromptLookupDrafter
from verispec.drafting.rewriting_drafter import RewritingDrafter
from verispec.drafting.sources import DraftSources
from verispec.drafting.suffix import SuffixDrafter

Settings = Mapping[str, Any]
"""Every option a strategy reads, by name, checked."""

Part = PredictionBlock | DraftBlock | DraftText
"""What a strategy drafts with, where that is more than a table of the text."""


@dataclass(frozen=True, slots=True)
class Strategy:
    """A name of the vocabulary. ``make(settings, sources)`` gives one request's drafter, None under ``off``.

    ``part(settings, sources)`` gives what it drafts with: a part of the target or a model of its own, which takes time
    to run. ``keeps_entries``: it reads the target's hidden states and keeps a cache of its own beside the target's, so
    that it can only go on from a prefix that was evaluated with it.
    """

    name: str
    meaning: str
    options: tuple[opt.Option, ...]
    requirements: tuple[req.Requirement, ...]
    make: Callable[[Settings, DraftSources], Drafter | None]
    part: Callable[[Settings, DraftSources], Part] | None = None
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


def _prediction_block(settings: Settings, sources: DraftSources) -> Part:
    return sources.prediction_block(settings)


def _mtp(settings: Settings, sources: DraftSources) -> Drafter:
    block = sources.prediction_block(settings)
    return MtpDrafter(block, sources.sequence, sources.choose, settings[opt.DRAFT_P_MIN.name])


def _draft_text(settings: Settings, sources: DraftSources) -> Part:
    return sources.draft_text(settings)


def _draft_model(settings: Settings, sources: DraftSources) -> Drafter:
    text, p_min = sources.draft_text(settings), settings[opt.DRAFT_P_MIN.name]
    if text.rewriter is not None:
        return RewritingDrafter(text, text.rewriter, p_min)
    return DraftModelDrafter(text, sources.choose, p_min)


def _head_strategy(name: str, meaning: str) -> Strategy:
    """A strategy whose artifact is a head of its own kind."""

    def part(settings: Settings, sources: DraftSources) -> Part:
        return sources.draft_head(name, settings).head

    def make(settings: Settings, sources: DraftSources) -> Drafter:
        head, taps = sources.draft_head(name, settings)
        return make_head_drafter(head, taps, sources.sequence, sources.choose, settings[opt.DRAFT_P_MIN.name])

    needs = (req.CROPPABLE_CACHE, req.DRAFT_HEADS, req.DRAFT_ARTIFACT)
    return Strategy(name, meaning, _DRAFT_OPTIONS, needs, make, part, keeps_entries=True)


_NGRAM_OPTIONS = (*opt.WIDTH_OPTIONS, opt.NGRAM_MIN, opt.NGRAM_MAX)
_SUFFIX_OPTIONS = (*opt.WIDTH_OPTIONS, opt.SUFFIX_MIN_MATCH, opt.SUFFIX_CORPUS)
_DRAFT_OPTIONS = (*opt.WIDTH_OPTIONS, opt.DRAFT_MODEL)
_MTP_OPTIONS = (*opt.WIDTH_OPTIONS, opt.FR_VOCAB_SIZE, opt.FR_RANKING)
_CROPS = (req.CROPPABLE_CACHE,)
_MODEL_NEEDS = (req.CROPPABLE_CACHE, req.DRAFT_ARTIFACT)
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
    Strategy(
        "draft-model", "a smaller model drafts", _DRAFT_OPTIONS, _MODEL_NEEDS, _draft_model, _draft_text
    ),
    Strategy(
        "mtp",
        "the target's own prediction block drafts",
        _MTP_OPTIONS,
        _MTP_NEEDS,
        _mtp,
        _prediction_block,
        keeps_entries=True,
    ),
    _head_strategy("eagle3", "an EAGLE-3 head drafts"),
    _head_strategy("dflash", "a block-diffusion head drafts"),
    _head_strategy("dspark", "a semi-autoregressive block head drafts"),
)
BY_NAME = {strategy.name: strategy for strategy in STRATEGIES}
AUTO = "auto"
AUTO_ORDER = ("mtp", "suffix", "prompt-lookup", "ngram-context", "off")
"""What ``auto`` prefers, the best first."""
BEFORE_ARTIFACT = "suffix"
"""What ``auto`` asks before a draft artifact."""
VOCABULARY = ("off", AUTO, *(strategy.name for strategy in STRATEGIES[1:]))
