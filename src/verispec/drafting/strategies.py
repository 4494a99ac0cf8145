"""The strategy vocabulary: what each strategy reads, what it needs, and how its drafters are made."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from verispec.drafting import options as opt
from verispec.drafting import requirements as req
from verispec.drafting.contract import Drafter
from verispec.drafting.ngram_context import NgramContextDrafter
from verispec.drafting.prompt_lookup import PromptLookupDrafter
from verispec.drafting.suffix import SuffixDrafter
from verispec.drafting.suffix_corpus import SuffixCorpus

OpenCorpus = Callable[[Path], SuffixCorpus]
"""Opens a corpus file for the model's tokeniser; a file that many requests read is opened once."""
Settings = Mapping[str, Any]
"""Every option a strategy reads, by name, checked."""


@dataclass(frozen=True, slots=True)
class Strategy:
    """A name of the vocabulary. ``make(settings, open_corpus)`` gives one request's drafter, None under ``off``."""

    name: str
    meaning: str
    options: tuple[opt.Option, ...]
    requirements: tuple[req.Requirement, ...]
    make: Callable[[Settings, OpenCorpus], Drafter | None]

    def missing(self, target: req.TargetFacts, settings: Settings) -> list[req.Requirement]:
        """The requirements that target and settings do not meet, the decisive one first."""
        return [requirement for requirement in self.requirements if not requirement.met(target, settings)]


def _no_drafter(settings: Settings, open_corpus: OpenCorpus) -> None:
    return None


def _prompt_lookup(settings: Settings, open_corpus: OpenCorpus) -> Drafter:
    return PromptLookupDrafter(
        settings[opt.NGRAM_MIN.name],
        settings[opt.NGRAM_MAX.name],
        settings[opt.LOOKUP_CHOICE.name],
        settings[opt.DRAFT_P_MIN.name],
    )


def _ngram_context(settings: Settings, open_corpus: OpenCorpus) -> Drafter:
    return NgramContextDrafter(
        settings[opt.NGRAM_MIN.name], settings[opt.NGRAM_MAX.name], settings[opt.DRAFT_P_MIN.name]
    )


def _suffix(settings: Settings, open_corpus: OpenCorpus) -> Drafter:
    path = settings[opt.SUFFIX_CORPUS.name]
    corpus = None if path is None else open_corpus(Path(path))
    return SuffixDrafter(settings[opt.SUFFIX_MIN_MATCH.name], settings[opt.DRAFT_P_MIN.name], corpus)


_NGRAM_OPTIONS = (*opt.WIDTH_OPTIONS, opt.NGRAM_MIN, opt.NGRAM_MAX)
_SUFFIX_OPTIONS = (*opt.WIDTH_OPTIONS, opt.SUFFIX_MIN_MATCH, opt.SUFFIX_CORPUS)
_DRAFT_OPTIONS = (*opt.WIDTH_OPTIONS, opt.DRAFT_MODEL)
_MTP_OPTIONS = (*opt.WIDTH_OPTIONS, opt.RECURRENT_SNAPSHOTS)
_CROPS = (req.CROPPABLE_CACHE,)
_MODEL_BACKED = (req.ADAPTER, req.DRAFT_ARTIFACT)
_MTP_NEEDS = (req.ADAPTER, req.PREDICTION_TENSORS)

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
    Strategy("mtp", "the target's own prediction block drafts", _MTP_OPTIONS, _MTP_NEEDS, _no_drafter),
    Strategy("eagle3", "an EAGLE-3 head drafts", _DRAFT_OPTIONS, _MODEL_BACKED, _no_drafter),
    Strategy("dflash", "a block-diffusion model drafts", _DRAFT_OPTIONS, _MODEL_BACKED, _no_drafter),
    Strategy(
        "dspark", "a semi-autoregressive block model drafts", _DRAFT_OPTIONS, _MODEL_BACKED, _no_drafter
    ),
)
BY_NAME = {strategy.name: strategy for strategy in STRATEGIES}
AUTO = "auto"
AUTO_ORDER = ("suffix", "prompt-lookup", "ngram-context", "off")
"""What ``auto`` prefers, the best first."""
VOCABULARY = ("off", AUTO, *(strategy.name for strategy in STRATEGIES[1:]))
