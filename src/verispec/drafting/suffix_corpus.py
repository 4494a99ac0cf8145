"""A corpus of token ids in a file, sorted so that the longest match of a context is found by bisection.

The file holds the texts, each written backwards behind a mark, and the order of all places in them: a suffix
array of the reversed texts. Read backwards, the longest suffix of a context is the longest prefix of an
entry, and what followed it in the text stands just before it. The file is mapped, and nothing is indexed when
it is opened.
"""

from __future__ import annotations

import struct
from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Sequence
from pathlib import Path

import numpy as np
import numpy.typing as npt

from verispec.drafting.confidence import copy_confidence
from verispec.drafting.contract import NOTHING, Proposal
from verispec.drafting.corpus_file import MOST_TOKENS, read_corpus_file, write_corpus_file
from verispec.errors import OptionError

LONGEST_MATCH = 32
"""Places are sorted by this many tokens, and matches are told apart up to it."""
_OCCURRENCES = 16
"""Occurrences of a match that are asked what followed: what bounds the time of a proposal."""
_WIDTH = 4
"""Bytes of a stored token: its id and one more, big-endian, so that bytes sort as tokens do. 0 is a text's
mark."""
_MARK = bytes(_WIDTH)


class SuffixCorpus:
    """An open corpus, shared by any number of drafters."""

    longest_match = LONGEST_MATCH

    def __init__(self, text: memoryview, order: npt.NDArray[np.uint32]) -> None:
        self._text = text
        self._order = memoryview(order.data)

    @classmethod
    def open(cls, path: Path, tokenizer_digest: str) -> SuffixCorpus:
        """Map ``path``. ArtifactError when it is damaged or was built with another tokeniser."""
        return cls(*read_corpus_file(path, tokenizer_digest))

    def propose(self, context: Sequence[int], limit: int, min_match: int, p_min: float) -> Proposal:
        """What most often followed the context's longest suffix in the corpus, of ``min_match`` tokens or
        more."""
        places, match = self._occurrences(context, max(min_match, 1))
        tokens: list[int] = []
        confidences: list[float] = []
        while places and len(tokens) < limit:
            places, agreed, total = self._agreeing(places, len(tokens) + 1)
            confidence = copy_confidence(len(places), total, match + len(tokens))
            if agreed == _MARK or confidence < p_min:
                break
            tokens.append(int.from_bytes(agreed, "big") - 1)
            confidences.append(confidence)
        return Proposal(tokens, confidences) if tokens else NOTHING

    def _agreeing(self, places: list[int], distance: int) -> tuple[list[int], bytes, int]:
        """The places with the most frequent token ``distance`` tokens on, that token as stored, and all
        places."""
        followed: dict[bytes, list[int]] = {}
        for place in places:
            at = place - _WIDTH * distance
            followed.setdefault(bytes(self._text[at : at + _WIDTH]), []).append(place)
        token = max(followed, key=lambda token: (len(followed[token]), token))
        return followed[token], token, len(places)

    def _occurrences(self, context: Sequence[int], min_match: int) -> tuple[list[int], int]:
        """Where in the text, in bytes, the context's longest suffix stands (some places, spread), and its
        length."""
        order = self._order
        key = _stored(context[: -LONGEST_MATCH - 1 : -1])
        at = bisect_left(order, key, key=self._entry)
        neighbours = (self._entry(order[index]) for index in (at - 1, at) if 0 <= index < len(order))
        match = max((_shared(key, entry) for entry in neighbours), default=0)
        if match < min_match:
            return [], 0
        size = _WIDTH * match
        low = bisect_left(order, key[:size], hi=at, key=lambda place: self._entry(place)[:size])
        high = bisect_right(order, key[:size], lo=at, key=lambda place: self._entry(place)[:size])
        step = -(-(high - low) // _OCCURRENCES)
        return [_WIDTH * order[index] for index in range(low, high, step)], match

    def _entry(self, place: int) -> bytes:
        return bytes(self._text[_WIDTH * place : _WIDTH * (place + LONGEST_MATCH)])


def build_corpus(path: Path, texts: Iterable[Sequence[int]], tokenizer_digest: str) -> int:
    """Write a corpus of ``texts`` (token ids) and return its length in tokens, a mark for each text included.

    OptionError when there are more than MOST_TOKENS.
    """
    stored: list[int] = []
    for text in texts:
        stored += [0, *(token + 1 for token in reversed(text))]
        if len(stored) > MOST_TOKENS:
            raise OptionError(f"corpus: expected at most {MOST_TOKENS} tokens, found more")
    ids = np.array(stored, dtype=np.int64)
    write_corpus_file(path, ids, _sorted_places(ids), tokenizer_digest)
    return len(stored)


def _sorted_places(ids: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
    """Places ordered by the LONGEST_MATCH ids that start there, by prefix doubling."""
    rank = np.unique(ids, return_inverse=True)[1].astype(np.int64) + 1
    width = 1
    while width < LONGEST_MATCH:
        following = np.zeros_like(rank)
        following[:-width] = rank[width:]
        rank = np.unique(rank * (len(ids) + 1) + following, return_inverse=True)[1].astype(np.int64) + 1
        width *= 2
    return np.argsort(rank, kind="stable")


def _stored(tokens: Sequence[int]) -> bytes:
    return struct.pack(f">{len(tokens)}I", *[token + 1 for token in tokens])


def _shared(left: bytes, right: bytes) -> int:
    """Tokens that two stored sequences have in common at their start."""
    length = min(len(left), len(right)) // _WIDTH
    for index in range(length):
        if left[_WIDTH * index : _WIDTH * (index + 1)] != right[_WIDTH * index : _WIDTH * (index + 1)]:
            return index
    return length
