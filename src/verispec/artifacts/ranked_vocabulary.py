"""A list of the token ids that a corpus uses most: which rows of its head a drafter needs to score.

One safetensors file: the int64 tensor ``d2t`` holds absolute token ids, the most frequent first, so that row ``i`` of a
drafter stands for token ``d2t[i]``. Its header says for which tokeniser and from which corpus it was made.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from safetensors import SafetensorError, safe_open
from safetensors.numpy import save

from verispec.artifacts.files import write_atomically
from verispec.errors import ArtifactError, OptionError

TENSOR = "d2t"
FORMAT, VERSION = "verispec-ranked-vocabulary", "1"

Ids = NDArray[np.int64]
Counts = NDArray[np.int64]


@dataclass(frozen=True)
class RankedVocabulary:
    """``ids`` int64 ``[size]``, each once, the most frequent first; ``coverage`` is what its maker reported."""

    ids: Ids
    vocabulary: int
    tokenizer_sha256: str
    corpus_sha256: str
    coverage: dict[str, dict[str, float]]

    def write(self, path: Path) -> None:
        """Writes the list to ``path``, in one step."""
        metadata = {
            "format": FORMAT,
            "version": VERSION,
            "vocabulary": str(self.vocabulary),
            "tokenizer_sha256": self.tokenizer_sha256,
            "corpus_sha256": self.corpus_sha256,
            "coverage": json.dumps(self.coverage, sort_keys=True),
        }
        write_atomically(path, save({TENSOR: self.ids}, metadata))


def rank(counts: Counts, size: int, always: Iterable[int] = ()) -> Ids:
    """The ``size`` most frequent ids of ``counts`` (how often each id occurs), the lowest id first among equals.

    ``always`` are in the list however rare they are: a text's end occurs once in it. Raises OptionError for a size that
    is not from 1 to the vocabulary, or too small for them.
    """
    kept = sorted(set(always))
    if not max(1, len(kept)) <= size <= counts.size:
        expected = f"{max(1, len(kept))} to {counts.size}, the vocabulary"
        raise OptionError(f"size: expected {expected}, found {size}")
    order = np.argsort(-counts, kind="stable")
    order = order[~np.isin(order, kept)][: size - len(kept)]
    chosen = np.concatenate([order, np.asarray(kept, np.int64)])
    return chosen[np.lexsort((chosen, -counts[chosen]))].astype(np.int64)


def coverage(counts: Counts, ids: Ids) -> float:
    """The share of a text's tokens (``counts`` by id) that ``ids`` contain."""
    total = int(counts.sum())
    return float(counts[ids].sum() / total) if total else 0.0


def load(path: Path, tokenizer_digest: str, vocabulary: int) -> Ids:
    """The ids in ``path``, int64 ``[size]``, each once, the most frequent first.

    Raises ArtifactError for a file that is no such list, or one made for another tokeniser or vocabulary.
    """
    return read(path, tokenizer_digest, vocabulary).ids


def read(path: Path, tokenizer_digest: str, vocabulary: int) -> RankedVocabulary:
    """The whole file, checked as ``load`` does."""
    try:
        with safe_open(path, "numpy") as file:
            metadata: Mapping[str, str] = file.metadata() or {}
            if metadata.get("format") != FORMAT or metadata.get("version") != VERSION:
                found = f"{metadata.get('format')} {metadata.get('version')}"
                raise ArtifactError(path, "metadata format", f"{FORMAT} {VERSION}", found)
            ids = file.get_tensor(TENSOR) if TENSOR in file.keys() else None  # noqa: SIM118 - no mapping
    except (SafetensorError, OSError) as error:
        raise ArtifactError(path, "file", "a ranked vocabulary", str(error)) from error
    if metadata.get("tokenizer_sha256") != tokenizer_digest:
        expected = f"the tokeniser {tokenizer_digest} of the model"
        raise ArtifactError(
            path, "metadata tokenizer_sha256", expected, str(metadata.get("tokenizer_sha256"))
        )
    if metadata.get("vocabulary") != str(vocabulary):
        raise ArtifactError(path, "metadata vocabulary", str(vocabulary), str(metadata.get("vocabulary")))
    checked = check_ids(path, ids, vocabulary)
    try:
        covered = json.loads(metadata.get("coverage", "{}"))
    except ValueError as error:
        raise ArtifactError(path, "metadata coverage", "a JSON object", str(error)) from error
    return RankedVocabulary(checked, vocabulary, tokenizer_digest, metadata.get("corpus_sha256", ""), covered)


def check_ids(path: Path, ids: object, vocabulary: int) -> Ids:
    """``ids`` when they are int64, one-dimensional, each once and within the vocabulary."""
    where = f"tensor {TENSOR}"
    if not isinstance(ids, np.ndarray) or ids.dtype != np.int64 or ids.ndim != 1 or not ids.size:
        found = "none" if not isinstance(ids, np.ndarray) else f"{ids.dtype} {list(ids.shape)}"
        raise ArtifactError(path, where, "a list of int64", found)
    if ids.min() < 0 or ids.max() >= vocabulary:
        found = f"{int(ids.min())} to {int(ids.max())}"
        raise ArtifactError(path, where, f"ids from 0 to {vocabulary - 1}", found)
    values, times = np.unique(ids, return_counts=True)
    if values.size != ids.size:
        raise ArtifactError(path, where, "every id once", f"{int(values[times > 1][0])} several times")
    return ids
