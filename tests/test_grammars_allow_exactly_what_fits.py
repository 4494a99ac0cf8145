"""A matcher allows the tokens that keep the text within the grammar, and restoring it leaves no trace."""

from __future__ import annotations

import random

import numpy as np
import numpy.typing as npt
import pytest

from small_vocabularies import byte_level, sentencepiece
from verispec.engine.model import Model
from verispec.errors import GrammarError
from verispec.text.grammar import Grammar
from verispec.text.grammar_matcher import GrammarMatcher
from verispec.text.tokenizer import Tokenizer

TOKENIZERS = [Tokenizer.from_gguf(byte_level()), Tokenizer.from_gguf(sentencepiece(add_space_prefix=True))]

# every text of the language, so that what is allowed can be worked out by looking
LANGUAGE = ["hello", "hell", "hello ab", "hehe", "a", "abab", "aé", "<tool>", "<|im", "\n\n"]
AS_GRAMMARS = [
    Grammar.regex("|".join(text.replace("|", r"\|") for text in LANGUAGE)),
    Grammar.ebnf("start: " + " | ".join(f'"{text}"'.replace("\n", "\\n") for text in LANGUAGE)),
    Grammar.ebnf("root ::= " + " | ".join(f'"{text}"'.replace("\n", "\\n") for text in LANGUAGE)),
]


def tokens_of(words: npt.NDArray[np.uint32]) -> list[int]:
    return [int(i) for i in np.flatnonzero(np.unpackbits(words.view(np.uint8), bitorder="little"))]


def by_looking(tokenizer: Tokenizer, text: bytes) -> list[int]:
    language = [item.encode() for item in LANGUAGE]
    allowed = []
    for token in range(tokenizer.vocabulary_size):
        if token in tokenizer.eos_ids:
            fits = text in language
        else:
            piece = tokenizer.token_bytes(token)
            fits = bool(piece) and not tokenizer.is_control(token)
            fits = fits and any(item.startswith(text + piece) for item in language)
        if fits:
            allowed.append(token)
    return allowed


@pytest.mark.parametrize("tokenizer", TOKENIZERS, ids=["byte-level", "sentencepiece"])
@pytest.mark.parametrize("grammar", AS_GRAMMARS, ids=["regex", "lark", "gbnf"])
def test_allowed_tokens_are_those_that_looking_finds(grammar: Grammar, tokenizer: Tokenizer) -> None:
    matcher = grammar.matcher(tokenizer, tokenizer.vocabulary_size + 70)
    seen = 0

    def visit(text: bytes, path: list[int]) -> None:
        nonlocal seen
        seen += 1
        expected, allowed, forced = (
            by_looking(tokenizer, text),
            tokens_of(matcher.allowed()),
            matcher.forced(),
        )
        if forced:
            assert allowed == forced[:1]
            assert set(allowed) <= set(expected)
        else:
            assert allowed == expected
        assert matcher.accepting == any(token in tokenizer.eos_ids for token in expected)
        assert matcher.finished == all(token in tokenizer.eos_ids for token in expected)
        asked = grammar.matcher(tokenizer, tokenizer.vocabulary_size + 70)  # single tokens, without a mask
        for token in path:
            asked.accept(token)
        for token in range(seen % 11, tokenizer.vocabulary_size + 80, 11):
            assert matcher.allows(token) == asked.allows(token) == (token in allowed)
        mark = matcher.checkpoint()
        for token in allowed:
            matcher.accept(token)
            if token in tokenizer.eos_ids:
                assert matcher.finished
                assert tokens_of(matcher.allowed()) == sorted(tokenizer.eos_ids)
            else:
                visit(text + tokenizer.token_bytes(token), [*path, token])
            matcher.restore(mark)

    visit(b"", [])
    assert seen > 20


SCHEMA = {
    "type": "object",
    "properties": {
        "name": {"type": "string", "maxLength": 20},
        "kind": {"enum": ["alpha", "alphabet", "beta"]},
        "counts": {"type": "array", "items": {"type": "integer", "minimum": -5}, "maxItems": 3},
    },
    "required": ["name", "kind"],
    "additionalProperties": False,
}
GRAMMARS = {
    "schema": Grammar.json_schema(SCHEMA),
    "object": Grammar.json_object(),
    "regex": Grammar.regex(r"(foo|foobar)+ [a-z]{3,9}( é)? \d\d:\d\d"),
    "lark": Grammar.ebnf('start: a+ "the end."\na: "the cat" | "dogs " /[0-9]+/ | <|im_start|> "x"'),
    "gbnf": Grammar.ebnf('root ::= item+\nitem ::= "- " [^\\n]+ "\\n"'),
    "limited": Grammar.ebnf(
        'start: a "xyz"\na[max_tokens=3]: /[a-z]*/'
    ),  # the library cannot go back in these
}


@pytest.mark.parametrize("name", GRAMMARS)
def test_going_back_and_forth_leaves_no_trace(smollm2: Model, name: str) -> None:
    """A matcher led about at random gives, at every point, the masks of one that went there directly."""
    tokenizer, vocabulary = smollm2.tokenizer, smollm2.backend.capabilities.vocabulary
    rng = random.Random(name)
    matcher = GRAMMARS[name].matcher(tokenizer, vocabulary)
    path: list[int] = []
    masks: dict[tuple[int, ...], bytes] = {}
    for _ in range(80):
        mask = matcher.allowed().tobytes()
        assert masks.setdefault(tuple(path), mask) == mask
        allowed = tokens_of(matcher.allowed())
        proposal = [*rng.choices(allowed, k=2), rng.randrange(vocabulary)]
        assert matcher.legal_prefix(proposal) >= 1
        assert matcher.forced() in ([], allowed) or matcher.forced()[:1] == allowed
        if path and rng.random() < 0.3:
            path = path[: rng.randrange(len(path))]
            matcher.restore(len(path))
        else:
            path.append(rng.choice(allowed))
            matcher.accept(path[-1])
    direct = GRAMMARS[name].matcher(tokenizer, vocabulary)
    for length in range(len(path)):
        if tuple(path[:length]) in masks:
            assert masks[tuple(path[:length])] == direct.allowed().tobytes()
        direct.accept(path[length])


def walk(matcher: GrammarMatcher, tokenizer: Tokenizer, text: str) -> None:
    for token in tokenizer.encode(text, add_bos=False):
        matcher.accept(token)


def test_forced_tokens_are_the_tokenisers_own_and_the_only_ones_allowed(smollm2: Model) -> None:
    tokenizer = smollm2.tokenizer
    matcher = GRAMMARS["schema"].matcher(tokenizer, smollm2.backend.capabilities.vocabulary)
    forced = matcher.forced()
    assert tokenizer.decode(forced) == '{"name":'
    assert forced == tokenizer.encode('{"name":', add_bos=False)
    assert matcher.checkpoint() == 0
    for token in forced:
        assert tokens_of(matcher.allowed()) == [token]
        matcher.accept(token)


def test_a_legal_prefix_ends_where_the_grammar_or_the_answer_ends(smollm2: Model) -> None:
    tokenizer = smollm2.tokenizer
    end, bracket = min(tokenizer.eos_ids), tokenizer.encode("]", add_bos=False)
    yes = tokenizer.encode("yes", add_bos=False)
    matcher = Grammar.regex("yes|yes!").matcher(tokenizer, smollm2.backend.capabilities.vocabulary)
    assert matcher.legal_prefix([*yes, *bracket, end]) == len(yes)
    assert matcher.legal_prefix([*yes, end]) == len(yes) + 1
    assert matcher.legal_prefix([end, *yes]) == 0
    assert matcher.legal_prefix([-1, 10**9]) == 0
    assert matcher.legal_prefix([]) == 0


def test_restoring_goes_over_the_end(smollm2: Model) -> None:
    tokenizer = smollm2.tokenizer
    matcher = Grammar.regex("yes|yes!").matcher(tokenizer, smollm2.backend.capabilities.vocabulary)
    walk(matcher, tokenizer, "yes")
    mark, mask = matcher.checkpoint(), matcher.allowed().tobytes()
    assert not matcher.finished
    matcher.accept(min(tokenizer.eos_ids))
    assert matcher.finished
    matcher.restore(mark)
    assert not matcher.finished
    walk(matcher, tokenizer, "!")
    assert matcher.finished
    matcher.restore(mark)
    assert matcher.allowed().tobytes() == mask


def test_a_token_that_is_not_allowed_is_refused_and_leaves_no_trace(smollm2: Model) -> None:
    tokenizer = smollm2.tokenizer
    matcher = Grammar.json_object().matcher(tokenizer, smollm2.backend.capabilities.vocabulary)
    mask = matcher.allowed().tobytes()
    for token in (*tokenizer.encode("no", add_bos=False), min(tokenizer.eos_ids), 10**6, -1):
        with pytest.raises(GrammarError, match="not allowed"):
            matcher.accept(token)
    assert matcher.allowed().tobytes() == mask


def test_an_empty_text_may_be_all_there_is(smollm2: Model) -> None:
    matcher = Grammar.regex("").matcher(smollm2.tokenizer, smollm2.backend.capabilities.vocabulary)
    assert matcher.finished
    assert tokens_of(matcher.allowed()) == sorted(smollm2.tokenizer.eos_ids)


def test_a_vocabulary_smaller_than_the_tokenisers_bounds_what_is_allowed(smollm2: Model) -> None:
    matcher = Grammar.regex("[a-z ]+").matcher(smollm2.tokenizer, 1000)
    assert len(matcher.allowed()) == 32
    assert max(tokens_of(matcher.allowed())) < 1000
    assert not matcher.allows(5000)


@pytest.mark.parametrize("name", GRAMMARS)
def test_what_a_receipt_stores_is_the_grammar(name: str) -> None:
    assert Grammar.from_dict(GRAMMARS[name].as_dict()) == GRAMMARS[name]


def test_the_order_of_properties_is_part_of_a_schema(smollm2: Model) -> None:
    for order in (["b", "a"], ["a", "b"]):
        schema = {"properties": {key: {"type": "null"} for key in order}, "required": order, "type": "object"}
        stored = Grammar.from_dict(Grammar.json_schema(schema).as_dict())
        matcher = stored.matcher(smollm2.tokenizer, smollm2.backend.capabilities.vocabulary)
        assert smollm2.tokenizer.decode(matcher.forced()).startswith('{"' + order[0])
