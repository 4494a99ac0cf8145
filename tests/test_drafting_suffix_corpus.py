"""The corpus file: finds what a search finds, belongs to one tokeniser, and is refused when damaged."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from verispec.drafting import suffix_corpus
from verispec.drafting.suffix import SuffixDrafter
from verispec.drafting.suffix_corpus import SuffixCorpus, build_corpus
from verispec.errors import ArtifactError, OptionError

TEXTS = st.lists(st.lists(st.integers(0, 3), max_size=20), max_size=4)


@given(texts=TEXTS, context=st.lists(st.integers(0, 3), max_size=12))
@settings(deadline=None)
def test_finds_the_longest_suffix_of_the_context(
    tmp_path_factory: pytest.TempPathFactory, texts: list[list[int]], context: list[int]
) -> None:
    path = tmp_path_factory.mktemp("corpus") / "corpus"
    build_corpus(path, texts, "digest")
    proposal = SuffixCorpus.open(path, "digest").propose(context, 4, 1, 0.0)
    following, longest = Counter[int | None](), 0
    for text in texts:
        for end in range(1, len(text) + 1):
            length = 0
            while length < min(end, len(context)) and text[end - 1 - length] == context[-1 - length]:
                length += 1
            if length > longest:
                following, longest = Counter(), length
            if length == longest > 0:
                following[text[end] if end < len(text) else None] += 1
    if proposal.tokens and sum(following.values()) <= 16:
        assert following[proposal.tokens[0]] == max(following.values())
    elif not proposal.tokens:
        assert not following or following[None] > 0 or sum(following.values()) > 16


def open_corpus(path: Path, texts: list[list[int]]) -> SuffixCorpus:
    build_corpus(path, texts, "digest")
    return SuffixCorpus.open(path, "digest")


def test_continues_a_text_to_its_end_and_no_further(tmp_path: Path) -> None:
    corpus = open_corpus(tmp_path / "corpus", [[1, 2, 3, 4, 5], [9, 8, 7]])
    assert corpus.propose([0, 1, 2], 9, 1, 0.0).tokens == [3, 4, 5]
    assert not corpus.propose([9, 8, 7], 9, 1, 0.0).tokens
    assert corpus.propose([0, 1, 2], 2, 1, 0.0).tokens == [3, 4]
    assert not corpus.propose([0, 1, 2], 2, 3, 0.0).tokens
    assert not corpus.propose([], 2, 1, 0.0).tokens


def test_follows_what_most_texts_say_and_trusts_it_by_their_share(tmp_path: Path) -> None:
    corpus = open_corpus(tmp_path / "corpus", [[1, 2, 3], [1, 2, 3], [1, 2, 4]])
    proposal = corpus.propose([1, 2], 1, 1, 0.0)
    alone = open_corpus(tmp_path / "alone", [[1, 2, 3]]).propose([1, 2], 1, 1, 0.0)
    assert proposal.tokens == alone.tokens == [3]
    assert 0.4 < proposal.confidences[0] < 0.6 < alone.confidences[0] + 0.1


def test_request_wins_unless_the_corpus_knows_a_longer_match(tmp_path: Path) -> None:
    corpus = open_corpus(tmp_path / "corpus", [[1, 2, 3, 9]])
    drafter = SuffixDrafter(corpus=corpus)
    drafter.observe([2, 3, 4, 2, 3])
    assert drafter.propose(1).tokens == [4]
    drafter.observe([4, 1, 2, 3])
    assert drafter.propose(1).tokens == [9]


def test_corpus_of_another_tokeniser_is_refused(tmp_path: Path) -> None:
    build_corpus(tmp_path / "corpus", [[1, 2]], "one")
    with pytest.raises(ArtifactError, match="tokenizer: expected two, found one"):
        SuffixCorpus.open(tmp_path / "corpus", "two")


@pytest.mark.parametrize("texts", [[], [[]], [[1]]])
def test_tiny_corpora_work(tmp_path: Path, texts: list[list[int]]) -> None:
    assert not open_corpus(tmp_path / "corpus", texts).propose([1, 1], 3, 1, 0.0).tokens


def test_any_changed_byte_and_any_missing_end_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "corpus"
    build_corpus(path, [[1, 2, 3, 4]], "digest")
    whole = path.read_bytes()
    for index in range(len(whole)):
        for damaged in (whole[:index], whole[:index] + bytes([whole[index] ^ 1]) + whole[index + 1 :]):
            path.write_bytes(damaged)
            with pytest.raises(ArtifactError):
                SuffixCorpus.open(path, "digest")


def test_missing_file_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ArtifactError, match="a readable suffix corpus"):
        SuffixCorpus.open(tmp_path / "none", "digest")


def test_size_is_bounded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(suffix_corpus, "MOST_TOKENS", 10)
    with pytest.raises(OptionError, match="expected at most 10 tokens, found more"):
        build_corpus(tmp_path / "corpus", [[1, 2, 3, 4]] * 3, "digest")
    assert not (tmp_path / "corpus").exists()
