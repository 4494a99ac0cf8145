"""Where a grammar turns out to be too large depends on the answer, and on nothing that was drafted or taken back."""

from __future__ import annotations

import gc
import random
from threading import Thread
from weakref import ref

import pytest
from llguidance import LLMatcher

from small_vocabularies import byte_level
from verispec.errors import GrammarError
from verispec.text.grammar import Grammar
from verispec.text.grammar_bounds import LIMITS
from verispec.text.grammar_lookahead import KEPT, CompiledGrammars
from verispec.text.grammar_matcher import GrammarMatcher
from verispec.text.grammar_state import GrammarState, Ids
from verispec.text.grammar_tokenizer import grammar_tokenizer
from verispec.text.tokenizer import Tokenizer

# Its automaton has 2^18 states, of which a text of random letters meets a new one with almost every letter.
MANY_STATES = Grammar.regex("([ab]*a[ab]{18}c)+")
TOKENIZER = Tokenizer.from_gguf(byte_level())
LETTERS = [TOKENIZER.encode(letter, add_bos=False)[0] for letter in "ab"]


class Detours:
    """What a schedule may do beside writing the answer, before each of its tokens."""

    def look_ahead(self, matcher: GrammarMatcher, position: int) -> None:
        legal = matcher.legal_prefix(random.Random(-position - 1).choices(LETTERS, k=12))
        assert legal == 12 or position > 10
        matcher.forced()

    def go_back(self, matcher: GrammarMatcher, position: int) -> None:
        """A round that wrote something else and was undone."""
        if position in (500, 1000):
            mark = matcher.checkpoint()
            for token in random.Random(position).choices(LETTERS, k=40):
                matcher.allowed()
                matcher.accept(token)
            matcher.restore(mark)

    def follow_another(self, matcher: GrammarMatcher, position: int) -> None:
        """Another answer to the same grammar, in company."""
        if position == 0:
            self.other = MANY_STATES.matcher(TOKENIZER, TOKENIZER.vocabulary_size)
        if position < 1000:
            self.other.accept(random.Random(1_000_000 + position).choice(LETTERS))
            self.look_ahead(self.other, position)

    def nothing(self, matcher: GrammarMatcher, position: int) -> None:
        pass


def write(matcher: GrammarMatcher, masked: bool, detour: str = "nothing") -> None:
    """Accepts one text, without an end."""
    text, wander = random.Random(1), getattr(Detours(), detour)
    while True:
        wander(matcher, matcher.checkpoint())
        if masked:
            matcher.allowed()
        matcher.accept(text.choice(LETTERS))


def bound(detour: str, masked: bool) -> int:
    """How many tokens the grammar takes before it fails."""
    matcher = MANY_STATES.matcher(TOKENIZER, TOKENIZER.vocabulary_size)
    with pytest.raises(GrammarError, match="lexer error"):
        write(matcher, masked, detour)
    return matcher.checkpoint()


@pytest.mark.parametrize("masked", [False, True], ids=["asked", "masked"])
@pytest.mark.parametrize("detour", ["look_ahead", "go_back", "follow_another"])
def test_the_bound_is_met_at_the_same_token_under_every_schedule(detour: str, masked: bool) -> None:
    expected = bound("nothing", masked)
    assert expected > 1000
    assert bound(detour, masked) == expected


def test_where_the_bounds_end_looking_ahead_the_answer_goes_on() -> None:
    matcher = MANY_STATES.matcher(TOKENIZER, TOKENIZER.vocabulary_size)
    text = random.Random(1)
    while matcher.legal_prefix(random.Random(matcher.checkpoint()).choices(LETTERS, k=200)):
        matcher.accept(text.choice(LETTERS))
    for _ in range(20):
        assert matcher.forced() == []
        matcher.accept(text.choice(LETTERS))
    # and the next answer to the same grammar is looked ahead in again
    assert MANY_STATES.matcher(TOKENIZER, TOKENIZER.vocabulary_size).legal_prefix(LETTERS) == 2


def test_a_failed_answer_can_go_back_and_be_written_again() -> None:
    matcher = MANY_STATES.matcher(TOKENIZER, TOKENIZER.vocabulary_size)
    with pytest.raises(GrammarError, match="lexer error"):
        write(matcher, masked=True)
    failed = matcher.checkpoint()
    matcher.restore(failed - 1)
    matcher.allowed()


def state(text: str) -> GrammarState:
    library = grammar_tokenizer(TOKENIZER).tokenizer
    matcher = LLMatcher(library, LLMatcher.grammar_from_regex(text), log_level=0, limits=LIMITS)
    return GrammarState(matcher, Ids.of(TOKENIZER, TOKENIZER.vocabulary_size), "regex")


def test_what_looks_ahead_is_compiled_once_for_a_grammar_and_the_last_are_kept() -> None:
    compiled: list[str] = []

    def begin(text: str) -> GrammarState:
        compiled.append(text)
        return state(text)

    grammars = CompiledGrammars()
    for text in ("a", "b", "a", "a", *map(str, range(KEPT - 1)), "a", "b"):
        grammars.get(text, lambda text=text: begin(text))  # type: ignore[misc]
    assert compiled == ["a", "b", *map(str, range(KEPT - 1)), "b"]


def test_answers_of_several_threads_share_it() -> None:
    found: list[list[int]] = []
    grammar = Grammar.regex("(hello|hell){40}")

    def follow() -> None:
        matcher = grammar.matcher(TOKENIZER, TOKENIZER.vocabulary_size)
        for _ in range(30):
            matcher.accept(matcher.forced()[0] if matcher.forced() else TOKENIZER.encode("hell")[-1])
        found.append([matcher.legal_prefix(TOKENIZER.encode("hello" * 9, add_bos=False)), *matcher.forced()])

    threads = [Thread(target=follow) for _ in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert found == [found[0]] * 6


def test_a_tokeniser_that_is_no_longer_used_is_freed() -> None:
    tokenizer = Tokenizer.from_gguf(byte_level())
    matcher = Grammar.regex("hello|hell").matcher(tokenizer, tokenizer.vocabulary_size)
    matcher.accept(tokenizer.encode("hell", add_bos=False)[0])
    gone = ref(tokenizer)
    del tokenizer, matcher
    gc.collect()
    assert gone() is None


def test_a_matcher_keeps_its_tokeniser() -> None:
    tokenizer = Tokenizer.from_gguf(byte_level())
    matcher = Grammar.regex("hello").matcher(tokenizer, tokenizer.vocabulary_size)
    del tokenizer
    gc.collect()
    assert matcher.forced()
