"""Echo with log-probabilities gives what evaluation harnesses read: the model's scores of the prompt's own tokens."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

from protocol_server import ProtocolServer, protocol_server
from verispec.engine.model import Model

CONTEXT, CONTINUATIONS = "The capital of France is", [" Paris", " London", " a city of many bridges"]


@pytest.fixture(scope="module")
def server(smollm2: Model) -> Iterator[ProtocolServer]:
    with protocol_server(smollm2) as running:
        yield running


def scores(model: Model, tokens: list[int]) -> list[float]:
    """Log-probabilities of ``tokens[1:]``, each after those before it, from the logits in float64."""
    found = []
    for end in range(1, len(tokens)):
        logits = model.logits(tokens[:end]).astype(np.float64)
        shifted = logits - logits.max()
        found.append(float(shifted[tokens[end]] - np.log(np.exp(shifted).sum())))
    return found


def harness_reads(body: dict[str, Any], context_lengths: list[int]) -> list[tuple[float, bool]]:
    """lm_eval 0.4's reading of an answer (``LocalCompletionsAPI.parse_logprobs``)."""
    read = []
    choices = sorted(body["choices"], key=lambda choice: choice["index"])
    for choice, context in zip(choices, context_lengths, strict=True):
        logprobs = choice["logprobs"]["token_logprobs"][context:-1]
        tops = choice["logprobs"]["top_logprobs"][context:-1]
        greedy = all(one == max(top.values()) for one, top in zip(logprobs, tops, strict=True))
        read.append((sum(logprobs), greedy))
    return read


def test_a_harness_reads_the_models_loglikelihoods(server: ProtocolServer, smollm2: Model) -> None:
    context = smollm2.encode(CONTEXT)
    whole = [context + smollm2.tokenizer.encode(text) for text in CONTINUATIONS]
    body = server.complete(prompt=whole, temperature=0, max_tokens=1, logprobs=1, seed=1234, echo=True).json()
    read = harness_reads(body, [len(context)] * len(whole))
    for (total, greedy), tokens in zip(read, whole, strict=True):
        assert total == pytest.approx(sum(scores(smollm2, tokens)[len(context) - 1 :]), abs=1e-3)
        likeliest = [int(smollm2.logits(tokens[:end]).argmax()) for end in range(len(context), len(tokens))]
        assert greedy == (likeliest == tokens[len(context) :])
    assert [greedy for _, greedy in read] == [True, False, False]


def test_an_end_token_counts_as_a_generated_one(server: ProtocolServer, smollm2: Model) -> None:
    """Readers drop the last entry, which they take for the one generated token."""
    end = next(iter(smollm2.tokenizer.eos_ids))
    tokens = smollm2.encode(CONTEXT)
    choice = server.complete(
        prompt=tokens, max_tokens=1, logprobs=1, echo=True, temperature=0, logit_bias={str(end): 100}
    ).json()["choices"][0]
    assert (choice["finish_reason"], choice["finish_detail"]) == ("stop", "end_token")
    assert choice["text"] == CONTEXT
    assert len(choice["logprobs"]["tokens"]) == len(tokens) + 1


def test_scores_are_the_same_without_a_generated_token_and_in_company(
    server: ProtocolServer, smollm2: Model
) -> None:
    tokens = smollm2.encode(CONTEXT + CONTINUATIONS[2])
    alone = server.complete(prompt=tokens, max_tokens=0, logprobs=1, echo=True).json()["choices"][0]
    beside = server.complete(
        prompt=[tokens[:3], tokens, tokens[::-1]], max_tokens=1, logprobs=1, echo=True
    ).json()["choices"][1]
    assert alone["logprobs"]["token_logprobs"] == beside["logprobs"]["token_logprobs"][:-1]
    assert alone["text"] == CONTEXT + CONTINUATIONS[2]
    assert alone["finish_reason"] == "length"


def test_nothing_comes_before_the_first_token(server: ProtocolServer) -> None:
    logprobs = server.complete(max_tokens=0, logprobs=0, echo=True).json()["choices"][0]["logprobs"]
    assert logprobs["token_logprobs"][0] is None
    assert logprobs["top_logprobs"][0] is None
    assert all(len(top) == 1 for top in logprobs["top_logprobs"][1:])  # the token itself, and no alternative


def test_offsets_say_where_each_token_begins(server: ProtocolServer) -> None:
    prompt = "naïve 😀 café, "
    choice = server.complete(prompt=prompt, max_tokens=6, logprobs=1, echo=True, temperature=0).json()[
        "choices"
    ][0]
    tokens, offsets = choice["logprobs"]["tokens"], choice["logprobs"]["text_offset"]
    assert choice["text"].startswith(prompt)
    assert offsets == sorted(offsets)
    for token, offset in zip(tokens, offsets, strict=True):
        if not token.startswith("bytes:"):
            assert choice["text"][offset : offset + len(token)] == token
    assert any(token.startswith("bytes:\\x") for token in tokens)


def test_echo_without_scores_is_text_alone(server: ProtocolServer, smollm2: Model) -> None:
    choice = server.complete(echo=True, max_tokens=4, temperature=0).json()["choices"][0]
    assert choice["text"] == CONTEXT + smollm2.generate(CONTEXT, max_tokens=4).text
    assert choice["logprobs"] is None
    nothing = server.complete(echo=True, max_tokens=0).json()
    assert nothing["choices"][0]["text"] == CONTEXT
    assert nothing["usage"]["completion_tokens"] == 0


def test_an_echoed_stream_begins_with_the_prompt(server: ProtocolServer) -> None:
    text = server.complete(echo=True, max_tokens=4, temperature=0).json()["choices"][0]["text"]
    with server.client().completions.create(
        model="smollm2", prompt=CONTEXT, echo=True, max_tokens=4, temperature=0, stream=True
    ) as stream:
        parts = [chunk.choices[0].text for chunk in stream]
    assert parts[0].startswith(CONTEXT)
    assert "".join(parts) == text


@pytest.mark.parametrize(
    ("given", "param"),
    [({"max_tokens": 0}, "max_tokens"), ({"echo": True, "logprobs": 1, "stream": True}, "stream")],
)
def test_what_cannot_be_scored_is_refused(server: ProtocolServer, given: dict[str, Any], param: str) -> None:
    response = server.complete(**given)
    assert (response.status_code, response.json()["error"]["param"]) == (400, param)
