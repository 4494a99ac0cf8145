"""Which replica gets a request: the one that holds its beginning, unless that one has more to do than it can."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from verispec.serving.replicas.balance import Balance
from verispec.serving.replicas.prefix_key import TEXT_BLOCK, TOKEN_BLOCK, Wanted, wanted
from verispec.serving.replicas.prefix_table import PrefixTable

BOOK = "It was the best of times, it was the worst of times. " * 40
OTHER_BOOK = "Call me Ishmael. Some years ago, never mind how long. " * 40


def asked(prompt: Any, caller: str = "anonymous", **more: Any) -> Wanted:
    return wanted({"prompt": prompt, **more}, caller)


def shared(one: Wanted, other: Wanted) -> int:
    """Leading blocks that two requests have in common."""
    pairs = list(zip(one.blocks, other.blocks, strict=False))
    return next((i for i, (a, b) in enumerate(pairs) if a != b), len(pairs))


@given(st.text(), st.text(), st.text())
def test_two_prompts_share_the_blocks_of_their_common_beginning(same: str, one: str, other: str) -> None:
    a, b = same + one, same + other
    common = next((i for i, (x, y) in enumerate(zip(a, b, strict=False)) if x != y), min(len(a), len(b)))
    assert shared(asked(a), asked(b)) == common // TEXT_BLOCK


def test_token_prompts_have_blocks_too_and_are_not_texts() -> None:
    tokens = list(range(100))
    assert len(asked(tokens).blocks) == 100 // TOKEN_BLOCK
    assert shared(asked(tokens), asked([*tokens[:40], 7, *tokens[41:]])) == 40 // TOKEN_BLOCK
    assert asked([tokens, tokens]) == Wanted(asked(tokens).blocks, 2)


def test_a_conversation_that_goes_on_begins_with_what_it_was() -> None:
    turns = [{"role": "user", "content": BOOK}]
    first = wanted({"messages": turns}, "anonymous")
    more = [*turns, {"role": "assistant", "content": "Yes."}, {"role": "user", "content": "And then?"}]
    assert shared(first, wanted({"messages": more}, "anonymous")) == len(first.blocks)
    assert shared(first, wanted({"messages": turns, "tools": [{"type": "function"}]}, "anonymous")) == 0


@pytest.mark.parametrize(
    "different", [{"caller": "key-1"}, {"user": "u"}, {"prompt_cache_key": "k"}, {"safety_identifier": "s"}]
)
def test_who_may_not_share_a_cache_shares_no_block(different: dict[str, Any]) -> None:
    assert shared(asked(BOOK), asked(BOOK, **different)) == 0


@pytest.mark.parametrize(
    "body",
    [{}, {"prompt": None}, {"prompt": []}, {"prompt": [{}]}, {"prompt": 3}, {"messages": {}, "n": "2"}],
)
def test_a_body_that_will_be_refused_wants_nothing_in_particular(body: dict[str, Any]) -> None:
    assert wanted(body, "anonymous") == Wanted()


def test_a_request_that_reads_no_cache_goes_by_load_alone() -> None:
    assert asked(BOOK, cache_prompt=False, n=3) == Wanted((), 3)


def test_requests_of_one_prefix_go_to_one_replica_and_others_are_spread() -> None:
    balance = Balance(seats=4)
    first, second = (balance.choose(asked(book), [0, 1]) for book in (BOOK, OTHER_BOOK))
    assert {first, second} == {0, 1}
    for question in ("Who?", "Where?"):
        assert balance.choose(asked(BOOK + question), [0, 1]) == first
        assert balance.choose(asked(OTHER_BOOK + question), [0, 1]) == second
    assert balance.choices == {(0, "load"): 1, (1, "load"): 1, (0, "prefix"): 2, (1, "prefix"): 2}


def test_a_replica_without_a_free_seat_is_passed_over_however_good_its_prefix() -> None:
    balance = Balance(seats=2)
    home = balance.choose(asked(BOOK), [0, 1])
    assert balance.choose(asked(BOOK), [0, 1]) == home
    away = balance.choose(asked(BOOK), [0, 1])
    assert away != home
    balance.end(home, asked(BOOK))
    assert balance.choose(asked(BOOK), [0, 1]) == home


def test_when_all_are_full_those_with_the_fewest_answers_are_left() -> None:
    balance = Balance(seats=1)
    home = balance.choose(asked(BOOK, n=5), [0, 1])
    away = balance.choose(asked(OTHER_BOOK, n=3), [0, 1])
    assert away != home
    assert balance.choose(asked(BOOK), [0, 1]) == away


def test_a_beginning_of_less_than_half_the_prompt_does_not_outweigh_the_load() -> None:
    balance = Balance(seats=8)
    system = BOOK[: 4 * TEXT_BLOCK]
    home = balance.choose(asked(system + OTHER_BOOK), [0, 1])
    assert balance.choose(asked(system + BOOK[::-1]), [0, 1]) != home
    assert balance.choose(asked(system + OTHER_BOOK + "Why?"), [0, 1]) == home


@given(st.lists(st.tuples(st.integers(0, 9), st.booleans()), max_size=200))
def test_no_replica_gets_ahead_by_more_than_its_seats(requests: list[tuple[int, bool]]) -> None:
    balance, running = Balance(seats=3), []
    for book, ends in requests:
        if ends and running:
            balance.end(*running.pop(0))
        request = asked(str(book) * 1000)
        least = min((load.answers for load in balance.loads.values()), default=0)
        chosen = balance.choose(request, [0, 1, 2])
        assert balance.loads[chosen].answers <= max(3, least + 1)
        running.append((chosen, request))
    assert Counter(one for one, _ in running) == Counter(
        {number: load.answers for number, load in balance.loads.items() if load.answers}
    )


def test_a_replica_that_lost_its_cache_is_no_home_any_more() -> None:
    balance = Balance(seats=4)
    home = balance.choose(asked(BOOK), [0, 1])
    balance.table.forget(home)
    assert balance.choose(asked(BOOK), [0, 1]) != home
    assert balance.table.match(asked(BOOK).blocks).keys() == {1 - home}


def test_the_table_is_bounded_and_forgets_ends_before_beginnings() -> None:
    table = PrefixTable(max_blocks=10)
    old, new = asked(BOOK).blocks[:8], asked(OTHER_BOOK).blocks[:6]
    table.note(old, 0)
    table.note(new, 1)
    assert len(table) == 10
    assert table.match(new) == {1: 6}
    assert table.match(old) == {0: 4}
