"""The prefix cache against a plain restatement: the longest stored prefix, the bound, who goes first."""

from __future__ import annotations

import time

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from verispec.backends.contract import PrefixBlock
from verispec.engine.prefix_cache import PrefixCache
from verispec.errors import OptionError

BLOCK = 2
PROMPTS = st.lists(st.sampled_from([0, 1, 2**31 - 1]), max_size=5 * BLOCK + 1)
IDENTITIES = st.sampled_from(["", "0", "a"])
SIZES = st.integers(1, 4)

Prefix = tuple[str, tuple[int, ...]]


def store(cache: PrefixCache, identity: str, tokens: list[int], index: int, block: PrefixBlock) -> bool:
    """Block ``index`` of ``tokens``, behind those that are held of what it follows."""
    path = cache.find(identity, tokens, index)
    size = cache.block
    return len(path) == index and cache.extend(path, tokens[index * size : (index + 1) * size], lambda: block)


def held(cache: PrefixCache, identity: str, tokens: list[int]) -> int:
    return len(cache.find(identity, tokens, len(tokens) // cache.block))


def match(cache: PrefixCache, identity: str, tokens: list[int]) -> list[PrefixBlock]:
    return cache.blocks(cache.match(identity, tokens))


def made(index: int, nbytes: int, state: object = None) -> PrefixBlock:
    return PrefixBlock("layout", index, nbytes, state)


def prefixes(identity: str, tokens: list[int], blocks: int) -> list[Prefix]:
    """What ``blocks`` blocks of ``tokens`` stand for, each with all before it."""
    return [(identity, tuple(tokens[: (index + 1) * BLOCK])) for index in range(blocks)]


class RestatedCache:
    """A dictionary of whole prefixes, and the time each was last used."""

    def __init__(self, max_bytes: int) -> None:
        self.max_bytes = max_bytes
        self.sizes: dict[Prefix, int] = {}
        self.used: dict[Prefix, int] = {}
        self.clock = self.stored = self.evicted = 0

    def longest(self, wanted: list[Prefix]) -> list[Prefix]:
        missing = [index for index, prefix in enumerate(wanted) if prefix not in self.sizes]
        return wanted[: missing[0]] if missing else wanted

    def use(self, path: list[Prefix]) -> None:
        self.clock += 1
        self.used.update(dict.fromkeys(path, self.clock))

    def store(self, path: list[Prefix], nbytes: int) -> bool:
        *before, new = path
        if new in self.sizes:
            self.use(path)
            return True
        if self.longest(before) != before or sum(map(self.sizes.get, before)) + nbytes > self.max_bytes:
            return False
        self.use(before)
        while sum(self.sizes.values()) + nbytes > self.max_bytes:
            self.evict()
        self.sizes[new] = nbytes
        self.stored += 1
        self.use(path)
        return True

    def evict(self) -> None:
        """The least recently used of those that nothing stored follows."""
        followed = {(identity, tokens[:-BLOCK]) for identity, tokens in self.sizes}
        victim = min(self.sizes.keys() - followed, key=self.used.__getitem__)
        del self.sizes[victim], self.used[victim]
        self.evicted += 1


class CachesAgree(RuleBasedStateMachine):
    @initialize(max_bytes=st.integers(0, 14))
    def begin(self, max_bytes: int) -> None:
        self.cache = PrefixCache(BLOCK, max_bytes)
        self.restated = RestatedCache(max_bytes)
        self.queried = self.hit = 0

    @rule(identity=IDENTITIES, tokens=PROMPTS, nbytes=SIZES)
    def store_one(self, identity: str, tokens: list[int], nbytes: int) -> None:
        """The last whole block alone, whether or not what it follows is there."""
        if blocks := len(tokens) // BLOCK:
            self.store(identity, tokens, blocks - 1, nbytes)

    @rule(identity=IDENTITIES, tokens=PROMPTS, nbytes=SIZES)
    def store_missing(self, identity: str, tokens: list[int], nbytes: int) -> None:
        """As a request does with its prompt."""
        for index in range(held(self.cache, identity, tokens), len(tokens) // BLOCK):
            self.store(identity, tokens, index, nbytes)

    def store(self, identity: str, tokens: list[int], index: int, nbytes: int) -> None:
        path = prefixes(identity, tokens, index + 1)
        expected = self.restated.store(path, nbytes)
        assert store(self.cache, identity, tokens, index, made(index, nbytes, path[-1])) is expected

    @rule(identity=IDENTITIES, tokens=PROMPTS)
    def match(self, identity: str, tokens: list[int]) -> None:
        """Never the last token: its row must be evaluated."""
        expected = self.restated.longest(prefixes(identity, tokens, max(len(tokens) - 1, 0) // BLOCK))
        self.restated.use(expected)
        assert [block.state for block in match(self.cache, identity, tokens)] == expected
        self.queried += len(tokens)
        self.hit += len(expected) * BLOCK

    @rule(identity=IDENTITIES, tokens=PROMPTS)
    def held(self, identity: str, tokens: list[int]) -> None:
        """All whole blocks, the last token's too, and no use of them."""
        expected = self.restated.longest(prefixes(identity, tokens, len(tokens) // BLOCK))
        assert held(self.cache, identity, tokens) == len(expected)

    @rule()
    def clear(self) -> None:
        self.cache.clear()
        self.restated.sizes.clear()

    @invariant()
    def the_bound_and_the_counters_hold(self) -> None:
        cache, restated = self.cache, self.restated
        assert cache.bytes == sum(restated.sizes.values()) <= cache.max_bytes
        assert cache.held_blocks == len(restated.sizes)
        assert (cache.stored_blocks, cache.evicted_blocks) == (restated.stored, restated.evicted)
        assert (cache.query_tokens, cache.hit_tokens) == (self.queried, self.hit)


CachesAgree.TestCase.settings = settings(max_examples=100, stateful_step_count=30, deadline=None)
test_it_agrees_with_its_restatement = CachesAgree.TestCase


def test_a_prompt_is_never_found_whole() -> None:
    cache = PrefixCache(BLOCK, 100)
    for index in range(2):
        assert store(cache, "a", [1, 2, 3, 4], index, made(index, 1))
    found = {length: len(match(cache, "a", [1, 2, 3, 4, 5][:length])) for length in range(6)}
    assert found == {0: 0, 1: 0, 2: 0, 3: 1, 4: 1, 5: 2}
    assert held(cache, "a", [1, 2, 3, 4]) == 2


def test_another_identity_finds_nothing() -> None:
    cache = PrefixCache(BLOCK, 100)
    store(cache, "a", [1, 2], 0, made(0, 1))
    store(cache, "a", [1, 2, 1, 2], 1, made(1, 1))
    for other in ("", "A", "a ", "0", "1"):
        assert match(cache, other, [1, 2, 1, 2, 1]) == []
        assert held(cache, other, [1, 2]) == 0
        assert not store(cache, other, [1, 2, 1, 2], 1, made(1, 1))


def test_a_match_keeps_its_whole_path() -> None:
    """Three prompts share a beginning; the two not asked for again go first, the beginning after all of them."""
    cache = PrefixCache(BLOCK, 4)
    prompts = [[0, 0, name, name] for name in (1, 2, 3)]
    for prompt in prompts:
        for index in range(2):
            assert store(cache, "a", prompt, index, made(index, 1))
    match(cache, "a", [*prompts[0], 9])
    found = []
    for other in range(4):
        assert store(cache, "a", [7, other], 0, made(0, 1))
        found.append([held(cache, "a", prompt) for prompt in prompts])
    assert found == [[2, 1, 2], [2, 1, 1], [1, 1, 1], [0, 0, 0]]


def test_a_sequence_larger_than_the_cache_keeps_its_beginning() -> None:
    cache = PrefixCache(BLOCK, 3)
    store(cache, "a", [8, 8], 0, made(0, 1))
    tokens = [1, 1, 2, 2, 3, 3, 4, 4]
    assert [store(cache, "a", tokens, index, made(index, 1)) for index in range(4)] == [
        True,
        True,
        True,
        False,
    ]
    assert (held(cache, "a", tokens), held(cache, "a", [8, 8]), cache.bytes) == (3, 0, 3)


def test_a_block_that_can_never_fit_displaces_nothing() -> None:
    cache = PrefixCache(BLOCK, 3)
    store(cache, "a", [1, 1], 0, made(0, 3))
    assert not store(cache, "a", [2, 2], 0, made(0, 4))
    assert not store(cache, "a", [1, 1, 2, 2], 1, made(1, 1))
    assert held(cache, "a", [1, 1]) == 1
    assert not store(PrefixCache(BLOCK, 0), "a", [1, 1], 0, made(0, 1))


def test_misuse_is_named() -> None:
    for block, max_bytes, message in ((0, 1, "at least 1 position, found 0"), (1, -1, "0 bytes, found -1")):
        with pytest.raises(OptionError, match=message):
            PrefixCache(block, max_bytes)
    cache = PrefixCache(BLOCK, 1)
    for tokens in ([1], [1, 2, 3]):
        with pytest.raises(ValueError, match=f"expected the 2 tokens of a block, found {len(tokens)}"):
            cache.extend(cache.match("a", []), tokens, lambda: made(0, 1))


def test_a_long_prompt_is_found_quickly() -> None:
    """128 blocks among a thousand others, each well under a millisecond."""
    block, length = 32, 4096
    cache = PrefixCache(block, 1 << 30)
    tokens = list(range(length))
    for other in range(1000):
        store(cache, "a", [other] * block, 0, made(0, 1))
    for index in range(length // block):
        store(cache, "a", tokens, index, made(index, 1))
    seconds = []
    for _ in range(5):
        begin = time.thread_time()
        found = match(cache, "a", [*tokens, 0])
        seconds.append(time.thread_time() - begin)
        assert [made.index for made in found] == list(range(128))
    assert min(seconds) < 128 * 0.1e-3
