"""What a server sends, and when, becomes a raw row; a token is a token however the server packs it, or it is a fault.

The accounting mistakes that published benchmarks have made are each tried on a small server that provokes them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from lab_lanes import lane_request, small_suite, small_target
from verispec.bench.suites import SuitePrompt
from verispec.lab.client.clocks import Clocks
from verispec.lab.client.rows import Row, accepted_by_position, raw_row
from verispec.lab.client.stream import StreamClient
from verispec.lab.gate.rules import RULES
from verispec.lab.launch.server import ServerProcess
from verispec.lab.metrics.rates import row_metrics
from verispec.lab.metrics.summary import lane_summary
from verispec.lab.metrics.token_times import token_ids, token_times
from verispec.lab.targets.source import Source

Ask = Callable[..., Row]


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerProcess]:
    log = tmp_path_factory.mktemp("server") / "log"
    with ServerProcess(small_target("--pace", "0.2"), "cpu", log) as running:
        yield running


@pytest.fixture
def ask(server: ServerProcess) -> Ask:
    def asked(
        fault: str, silence: float = 10.0, longest: float = 60.0, clocks: Clocks | None = None, cap: int = 128
    ) -> Row:
        client = StreamClient(server.url, "/v1/chat/completions", silence, longest, clocks)
        prompt = SuitePrompt("one", "a class", f"Write.!{fault}")
        body = lane_request(server.target).body("tiny", prompt.text, cap)
        return raw_row(prompt, 0, body, client.ask(body))

    return asked


@pytest.mark.parametrize(
    ("fault", "name"),
    [
        ("garbage", "stream-garbage"),
        ("not-json", "stream-garbage"),
        ("cut", "stream-broken"),
        ("error-event", "server-error"),
        ("refuses", "server-refused"),
        ("no-usage", "usage-missing"),
        ("hangs", "server-silent"),
    ],
)
def test_a_broken_answer_is_a_row_with_a_named_fault(ask: Ask, fault: str, name: str) -> None:
    row = ask(fault, silence=0.3 if fault == "hangs" else 10.0)
    assert row["fault"]["name"] == name
    assert row["fault"]["detail"]
    assert RULES["no-fault"]({"faults": []}, [row]) is not None


def test_an_answer_that_never_ends_is_a_named_fault(ask: Ask) -> None:
    """Signs of life between the tokens are no tokens."""
    assert ask("drips", silence=5.0, longest=0.3)["fault"]["name"] == "server-too-slow"


def test_a_server_that_is_gone_is_a_named_fault() -> None:
    client = StreamClient("http://127.0.0.1:9", "/v1/chat/completions", 1.0)
    row = raw_row(SuitePrompt("one", "a class", "?"), 0, {}, client.ask({"messages": []}))
    assert row["fault"]["name"] == "stream-broken"


class JumpingClocks(Clocks):
    """A wall clock that is set forward a minute while an answer is written."""

    def __init__(self) -> None:
        self.calls = 0

    def wall(self) -> int:
        self.calls += 1
        return super().wall() + (60_000_000_000 if self.calls > 1 else 0)


def test_a_clock_that_jumps_is_a_named_fault(ask: Ask) -> None:
    row = ask("", clocks=JumpingClocks())
    assert row["fault"]["name"] == "clock-jump"
    assert "60." in row["fault"]["detail"]


@pytest.mark.parametrize("way", ["ids", "totals", "logprobs", "chunks"])
def test_tokens_are_counted_whichever_way_the_server_tells_them(ask: Ask, way: str) -> None:
    row = ask("" if way == "ids" else way)
    assert row["fault"] is None
    assert row["token_source"] == way
    assert len(token_times(row)) == 128
    assert (token_ids(row) is not None) == (way == "ids")


def test_a_chunk_of_several_tokens_is_not_a_token(ask: Ask) -> None:
    """Time between chunks passed for time between tokens."""
    row = ask("totals")
    writing = [event for event in row["events"] if event[3]]
    assert len(writing) == 32
    metrics = row_metrics(row)
    assert metrics.tokens == 128
    times = token_times(row)
    assert metrics.rate_1_100 == pytest.approx(99 / (times[99] - times[0]))
    assert times[96] == times[99]  # the 100th token came with the 97th


def test_chunks_that_do_not_say_how_many_tokens_they_hold_are_a_fault(ask: Ask) -> None:
    """Counting chunks would report a quarter of the speed."""
    row = ask("bundles")
    assert row["fault"]["name"] == "token-times-unknown"
    assert "128 tokens in 32 chunks" in row["fault"]["detail"]


def test_a_chunk_with_a_role_alone_is_no_token(ask: Ask) -> None:
    """It would begin the clock before the prompt was read, and add a token."""
    row = ask("chunks")
    assert row["events"][0][1] == 0
    assert row["events"][0][3] == ""
    metrics = row_metrics(row)
    assert metrics.tokens == 128
    assert metrics.ttft == row["events"][1][0] / 1e9


def test_the_first_token_may_be_one_of_thinking(ask: Ask) -> None:
    """A clock that waits for the answer's text calls the thinking time to first token."""
    row = ask("reasoning")
    first_of_answer = next(event[0] for event in row["events"] if event[3])
    metrics = row_metrics(row)
    assert metrics.tokens == 128
    assert metrics.ttft is not None
    assert metrics.ttft < first_of_answer / 1e9


def test_a_total_that_does_not_fit_the_chunks_is_a_fault(ask: Ask) -> None:
    assert ask("wrong-usage")["fault"]["name"] == "token-times-unknown"


def test_a_repeated_prompt_is_faster_and_does_not_pass(ask: Ask) -> None:
    """A benchmark whose random prompts repeat measures the prompt cache."""
    first, second = ask("repeats"), ask("repeats")
    assert row_metrics(first).ttft >= 0.4  # type: ignore[operator]
    assert min(row_metrics(row).ttft for row in (second, ask("repeats"))) < 0.4  # type: ignore[type-var,operator]
    assert first["cached_tokens"] == 0
    assert second["cached_tokens"] == 9
    lane: dict[str, Any] = {}
    assert RULES["nothing-cached"](lane, [first]) is None
    assert "one 9" in str(RULES["nothing-cached"](lane, [second]))
    assert "the same text" in str(RULES["prompts-unique"](lane, [first, second]))
    assert "more than once" in str(RULES["prompts-once"]({"suite": {"prompts": []}}, [first, second]))


def test_cached_tokens_that_are_not_told_do_not_pass(ask: Ask) -> None:
    row = ask("cached-unsaid")
    assert row["fault"] is None
    assert "missing" in str(RULES["nothing-cached"]({}, [row]))


def test_an_answer_of_fewer_than_a_hundred_tokens_has_no_rate_and_does_not_pass(ask: Ask) -> None:
    row = ask("short")
    metrics = row_metrics(row)
    assert metrics.rate_1_100 is None
    assert metrics.full is not None
    assert "50" in str(RULES["enough-tokens"]({"window": 100}, [row]))


def test_the_request_goes_out_as_the_profile_wants_it(tmp_path: Path) -> None:
    body = lane_request(small_target(request={"top_k": 3}), small_suite()).body("tiny", "Hello.", 128)
    assert body["temperature"] == 0
    assert body["max_tokens"] == 128
    assert body["top_k"] == 3


def test_acceptance_by_position_is_summed_where_every_answer_tells_it(ask: Ask) -> None:
    source = Source.parse("timings:accepted_by_position")
    for told in (None, "3", [3, -1], [True], [1.5]):
        assert accepted_by_position({"timings": {"accepted_by_position": told}}, source) == {}
    told = {"timings": {"accepted_by_position": [3, 1]}}
    assert accepted_by_position(told, None) == {}
    rows = [ask("none") | accepted_by_position(told, source), ask("none") | {"accepted_by_position": [2]}]
    assert lane_summary(rows)["accepted_by_position"] == [5, 1]
    assert "accepted_by_position" not in lane_summary([*rows, ask("none")])
