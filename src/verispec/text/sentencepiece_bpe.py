"""SentencePiece BPE (``tokenizer.ggml.model`` = ``llama``): merges by piece scores, byte fallback.

A GGUF file holds scores, not the ranked pairs that the ``tokenizers`` library wants; deriving those takes
longer for Gemma's 262,144 tokens than reading the model, so the published algorithm runs here: among all
neighbours whose concatenation is a piece, join the best-scored, leftmost first, until none is left. Words
are cached, since no piece spans most spaces.
"""

from __future__ import annotations

import heapq
import re

from verispec.text.added_tokens import cut_at
from verispec.text.vocabulary import BYTE, CONTROL, NORMAL, UNKNOWN, UNUSED, USER_DEFINED, Vocabulary

SPACE = "▁"  # stands for a space in pieces
MERGED_TYPES = frozenset((0, NORMAL, UNUSED))
CACHED_WORDS = 1 << 16
CACHED_LENGTH = 64
SCAN_LENGTH = 24  # up to here scanning all neighbours beats a priority queue


class SentencePieceBpe:
    """Encodes text that holds no control tokens any more."""

    add_bos = True

    def __init__(self, vocabulary: Vocabulary) -> None:
        if not vocabulary.scores:
            vocabulary.fail("scores", "one score for each token", "none")
        self._vocabulary = vocabulary
        self.space_prefix = vocabulary.add_space_prefix is not False
        self._bytes = self._byte_tokens()
        fixed = [token for token in vocabulary.of_type(USER_DEFINED) if vocabulary.tokens[token]]
        self._fixed = {vocabulary.tokens[token].replace(" ", SPACE): token for token in fixed}
        facts = zip(vocabulary.tokens, vocabulary.types, vocabulary.scores, strict=True)
        self._scores = {text: score for text, kind, score in facts if kind in MERGED_TYPES}
        self._cut_words = self._word_boundary()
        self._cache: dict[str, tuple[int, ...]] = {}

    def _byte_tokens(self) -> list[int]:
        """The token of each byte value; -1 where there is none."""
        vocabulary = self._vocabulary
        tokens = [-1] * 256
        for token in vocabulary.of_type(BYTE):
            text = vocabulary.tokens[token]
            if not re.fullmatch("<0x[0-9A-F]{2}>", text):
                vocabulary.fail("tokens", "byte tokens like <0x0A>", f"{text!a} at {token}")
            tokens[int(text[3:5], 16)] = token
        if -1 in tokens and "unknown" not in vocabulary.special:
            vocabulary.fail("tokens", "256 byte tokens or an unknown token", "neither")
        return tokens

    def _word_boundary(self) -> re.Pattern[str]:
        """Matches (with no width) where text may be cut: before a space that no piece joins to what precedes
        it.
        """
        separator = "\ud800"  # no decoded text holds a lone surrogate
        inner = re.findall(f"([^{separator}])(?={SPACE})", separator.join(self._scores))
        joiners = "".join(sorted(set(inner)))
        return re.compile(f"(?<![{re.escape(joiners)}])(?={SPACE})" if joiners else f"(?={SPACE})")

    def encode(self, text: str, prefix: bool = False) -> list[int]:
        """Token ids of ``text``; ``prefix`` puts the space before it that some models expect at the start."""
        text = text.replace(" ", SPACE)
        if prefix and text:
            text = SPACE + text
        ids: list[int] = []
        for part, token in cut_at(text, self._fixed):
            if part:
                for word in self._cut_words.split(part):
                    ids += self._word(word)
            if token is not None:
                ids.append(token)
        return ids

    def _word(self, word: str) -> tuple[int, ...]:
        ids = self._cache.get(word)
        if ids is None:
            pieces = self._scan(word) if len(word) <= SCAN_LENGTH else self._queue(word)
            ids = tuple(token for piece in pieces for token in self._tokens(piece))
            if len(word) <= CACHED_LENGTH:
                if len(self._cache) >= CACHED_WORDS:
                    self._cache = {}
                self._cache[word] = ids
        return ids

    def _tokens(self, piece: str) -> list[int]:
        if piece in self._scores:
            return [self._vocabulary.ids[piece]]
        tokens = [self._bytes[byte] for byte in piece.encode("utf-8")]
        return tokens if -1 not in tokens else [self._vocabulary.special["unknown"]]

    def _scan(self, word: str) -> list[str]:
        """Joins the best neighbours until none are left, looking at all of them each time."""
        pieces = list(word)
        scores = self._scores
        while True:
            best, at = None, 0
            for index in range(len(pieces) - 1):
                score = scores.get(pieces[index] + pieces[index + 1])
                if score is not None and (best is None or score > best):
                    best, at = score, index
            if best is None:
                return pieces
            pieces[at : at + 2] = [pieces[at] + pieces[at + 1]]

    def _queue(self, word: str) -> list[str]:
        """The same joins for long words: O(n log n). A queued pair is stale when either side has changed
        since.
        """
        pieces = list(word)
        following = [*range(1, len(pieces)), -1]
        preceding = list(range(-1, len(pieces) - 1))
        scores = self._scores
        queue: list[tuple[float, int, int, str]] = []

        def offer(left: int, right: int) -> None:
            joined = pieces[left] + pieces[right]
            score = scores.get(joined)
            if score is not None:
                heapq.heappush(queue, (-score, left, right, joined))

        for index in range(len(pieces) - 1):
            offer(index, index + 1)
        while queue:
            _, left, right, joined = heapq.heappop(queue)
            if not pieces[left] or not pieces[right] or len(pieces[left]) + len(pieces[right]) != len(joined):
                continue
            pieces[left], pieces[right] = joined, ""
            after = following[left] = following[right]
            if after >= 0:
                preceding[after] = left
                offer(left, after)
            if preceding[left] >= 0:
                offer(preceding[left], left)
        return [piece for piece in pieces if piece]

    def token_bytes(self, token: int) -> bytes:
        text = self._vocabulary.tokens[token]
        kind = self._vocabulary.types[token]
        if kind == BYTE:
            return bytes([int(text[3:5], 16)])
        if kind not in (CONTROL, UNKNOWN):
            text = text.replace(SPACE, " ")
        return text.encode("utf-8", "surrogatepass")
