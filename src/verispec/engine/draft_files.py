"""Files and model parts that drafters are made from, opened when they are first asked for and kept for all requests."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from verispec.artifacts import ranked_vocabulary
from verispec.backends.contract import BackendAdapter
from verispec.backends.prediction_block import PredictionBlock
from verispec.drafting.draft_text import DraftText
from verispec.drafting.options import DRAFT_MODEL, FR_RANKING, FR_VOCAB_SIZE
from verispec.drafting.sources import Choose, DraftHead
from verispec.drafting.suffix_corpus import SuffixCorpus
from verispec.engine.draft_artifacts import DraftArtifacts
from verispec.errors import OptionError
from verispec.text.tokenizer import Tokenizer


class DraftFiles:
    """What one model's requests have asked for so far, as it was when it was first asked for."""

    def __init__(self, backend: BackendAdapter, tokenizer: Tokenizer) -> None:
        self.artifacts = DraftArtifacts(backend, tokenizer)
        self._backend = backend
        self._tokenizer_digest = tokenizer.digest
        self._corpora: dict[Path, SuffixCorpus] = {}
        self._rankings: dict[Path, npt.NDArray[np.int64]] = {}

    def corpus(self, path: Path) -> SuffixCorpus:
        if path not in self._corpora:
            self._corpora[path] = SuffixCorpus.open(path, self._tokenizer_digest)
        return self._corpora[path]

    def prediction_block(self, size: int, ranking: str | None) -> PredictionBlock:
        """The block with a head over all tokens (``size`` 0), the first ids, or the first of a ranked list."""
        vocabulary = self._backend.capabilities.vocabulary
        if ranking is None:
            if size > vocabulary:
                raise OptionError(f"{FR_VOCAB_SIZE.name}: expected at most {vocabulary} tokens, found {size}")
            return self._backend.prediction_block(size or None, None)
        ids = self._ranking(Path(ranking), vocabulary)
        if size > len(ids):
            raise OptionError(
                f"{FR_VOCAB_SIZE.name}: expected at most {len(ids)}, the tokens listed in {ranking}, found {size}"
            )
        return self._backend.prediction_block(None, ids[: size or None])

    def _ranking(self, path: Path, vocabulary: int) -> npt.NDArray[np.int64]:
        if path not in self._rankings:
            self._rankings[path] = ranked_vocabulary.load(path, self._tokenizer_digest, vocabulary)
        return self._rankings[path]


@dataclass(frozen=True)
class RequestSources:
    """One request's ``DraftSources``."""

    files: DraftFiles
    sequence: int
    choose: Choose

    def corpus(self, path: Path) -> SuffixCorpus:
        return self.files.corpus(path)

    def draft_head(self, kind: str, settings: Mapping[str, Any]) -> DraftHead:
        return self.files.artifacts.head(settings[DRAFT_MODEL.name], kind)

    def draft_text(self, settings: Mapping[str, Any]) -> DraftText:
        return self.files.artifacts.text(settings[DRAFT_MODEL.name], self.sequence)

    def prediction_block(self, settings: Mapping[str, Any]) -> PredictionBlock:
        return self.files.prediction_block(settings[FR_VOCAB_SIZE.name], settings[FR_RANKING.name])


def no_choice(logits: npt.NDArray[np.float32], position: int) -> int:
    """Of sources that nothing is drafted with."""
    raise AssertionError("expected nothing to be drafted here")
