"""What lm_eval 0.4.13 sends with ``--model local-completions``, many at once: its formulas read the library's own."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from operator import itemgetter
from typing import Any

import pytest

from protocol_server import MODEL, ProtocolServer, protocol_server
from verispec.engine.batching.scheduler import SchedulerLimits
from verispec.engine.model import Model

CONTEXT = "Question: Which planet is closest to the sun?\nAnswer:"
CHOICES = (" Mercury", " Venus", " the Earth", " Mars, I think")
END = "<|endoftext|>"


@pytest.fixture(scope="module")
def server(smollm2: Model) -> Iterator[ProtocolServer]:
    with protocol_server(smollm2, SchedulerLimits(parallel=4, queue=64)) as running:
        yield running


def scoring(prompt: Any) -> dict[str, Any]:
    """``LocalCompletionsAPI._create_payload`` for log-likelihoods."""
    fixed = {"temperature": 0, "max_tokens": 1, "logprobs": 1, "seed": 1234, "echo": True}
    return {"model": MODEL, "prompt": prompt, **fixed}


def generating(prompt: Any, until: list[str], most: int) -> dict[str, Any]:
    """The same for text: ``until`` and the tokeniser's end token as stop strings."""
    return {
        "prompt": prompt, "model": MODEL, "max_tokens": most, "temperature": 0, "stop": [*until, END], "seed": 1234
    }  # fmt: skip


def parse_logprobs(output: dict[str, Any], context_lengths: Sequence[int]) -> list[tuple[float, bool]]:
    """``LocalCompletionsAPI.parse_logprobs``."""
    read = []
    for choice, length in zip(
        sorted(output["choices"], key=itemgetter("index")), context_lengths, strict=True
    ):
        logprobs = choice["logprobs"]["token_logprobs"][length:-1]
        tops = choice["logprobs"]["top_logprobs"][length:-1]
        greedy = all(one == max(top.values()) for one, top in zip(logprobs, tops, strict=True))
        read.append((sum(logprobs), greedy))
    return read


def parse_generations(output: dict[str, Any]) -> list[str]:
    """``LocalCompletionsAPI.parse_generations``."""
    texts: list[str] = [""] * len(output["choices"])
    for choice in output["choices"]:
        texts[choice["index"]] = choice["text"]
    return texts


def library_score(model: Model, context: Sequence[int], continuation: Sequence[int]) -> tuple[float, bool]:
    scored = model.generate([*context, *continuation], max_tokens=0, prompt_logprobs=1).prompt_logprobs
    assert scored is not None
    tail = scored[len(context) :]
    total = sum(one.logprob for one in tail if one.logprob is not None)
    return total, all(one.logprob == one.alternatives[0][1] for one in tail)


@pytest.mark.parametrize("way", ["one by one", "in batches of four", "as text"])
def test_log_likelihoods_are_the_librarys(server: ProtocolServer, smollm2: Model, way: str) -> None:
    encode = smollm2.tokenizer.encode
    context = encode(CONTEXT)
    wholes = [encode(CONTEXT + choice) for choice in CHOICES] * 3
    expected = [library_score(smollm2, context, whole[len(context) :]) for whole in wholes]
    size = 4 if way == "in batches of four" else 1
    batches: list[Any] = [wholes[start : start + size] for start in range(0, len(wholes), size)]
    if way == "as text":
        batches = [smollm2.tokenizer.decode(batch[0]) for batch in batches]
    with ThreadPoolExecutor(6) as threads:
        outputs = list(threads.map(lambda batch: server.post("/completions", scoring(batch)), batches))
    read = [one for output in outputs for one in parse_logprobs(output.json(), [len(context)] * size)]
    assert read == expected
    assert len(set(read)) == len(CHOICES)


def test_rolling_log_likelihoods_begin_behind_the_prefix_token(
    server: ProtocolServer, smollm2: Model
) -> None:
    bos = smollm2.tokenizer.bos_id
    assert bos is not None
    text = smollm2.tokenizer.encode("The keeper lit the lamp every evening; every morning he put it out.")
    output = server.post("/completions", scoring([[bos, *text]])).json()
    assert parse_logprobs(output, [1]) == [library_score(smollm2, [bos], text)]


def test_generations_end_where_the_task_says(server: ProtocolServer, smollm2: Model) -> None:
    prompts = ["The capital of France is", "One, two, three, four,", "Q: What is the largest ocean?\nA: The"]
    expected = [
        smollm2.generate(prompt, max_tokens=12, stop=["\n", ",", END], temperature=0).text
        for prompt in prompts
    ]
    tokens = [smollm2.tokenizer.encode(prompt) for prompt in prompts]
    asked = [[one] for one in tokens] + [tokens] + prompts
    with ThreadPoolExecutor(6) as threads:
        sent = threads.map(
            lambda prompt: server.post("/completions", generating(prompt, ["\n", ","], 12)), asked
        )
        read = [parse_generations(output.json()) for output in sent]
    assert read == [[one] for one in expected] + [expected] + [[one] for one in expected]
