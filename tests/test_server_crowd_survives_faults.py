"""A fault stays where it arose: a drafter costs speed and a count, a grammar or a template fails its request alone."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from adversarial_drafters import RaisingDrafter, SlowDrafter, WrongDrafter
from protocol_server import MODEL, ProtocolServer, protocol_server
from verispec.drafting.contract import Drafter
from verispec.engine.model import Model
from verispec.text.chat_template import ChatTemplate

PROMPT = "one two three four five, one two three four five, one"
TEXT = {"prompt": PROMPT, "temperature": 0, "max_tokens": 24, "logprobs": 2, "return_token_ids": True}
LATE = 0.2  # seconds; the deadline that the server gives its drafters is a quarter of it


class StuckDrafter(RaisingDrafter):
    """Raises, and cannot be taken back to where it stood."""

    def restore(self, checkpoint: object) -> None:
        raise RuntimeError("cannot go back")


FAULTY: dict[str, tuple[Callable[[list[int]], Drafter], int]] = {
    "raises in propose": (lambda text: RaisingDrafter(text, "propose"), 3),
    "raises in observe": (lambda text: RaisingDrafter(text, "observe"), 3),
    "raises in checkpoint": (lambda text: RaisingDrafter(text, "checkpoint"), 1),
    "raises and is stuck": (lambda text: StuckDrafter(text, "propose"), 2),
    "is late": (lambda text: SlowDrafter(text, LATE), 3),
    "is wrong": (lambda text: WrongDrafter(text, 49152), 0),
}
"""How each is made from prompt and answer, and the faults until it is asked no more."""
FIRST_SEED = 100


def seed_of(fault: str) -> int:
    return FIRST_SEED + list(FAULTY).index(fault)


@pytest.fixture(scope="module")
def server(smollm2: Model) -> Iterator[ProtocolServer]:
    """A server on which requests with the seeds of FAULTY draft so, and all others as usual."""
    alone = smollm2.generate(PROMPT, max_tokens=24)
    text = [*alone.prompt_tokens, *alone.tokens]
    makers = {seed_of(fault): make for fault, (make, _) in FAULTY.items()}

    def with_faulty_drafters(asked: Mapping[str, Any]) -> dict[str, Any]:
        if asked.get("seed") not in makers:
            return dict(asked)
        return {**asked, "drafter": makers[asked["seed"]](text), "drafter_deadline": LATE / 4}

    with protocol_server(smollm2, with_defaults=with_faulty_drafters) as running:
        yield running


def together(*asks: Callable[[], Any]) -> list[Any]:
    """What each of them gives, all at the same time."""
    with ThreadPoolExecutor(len(asks)) as threads:
        return [one.result() for one in [threads.submit(ask) for ask in asks]]


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize("fault", FAULTY)
def test_a_faulty_drafter_changes_nothing_but_speed_and_a_count(
    server: ProtocolServer, fault: str, stream: bool
) -> None:
    if stream:
        with server.client().completions.create(
            model=MODEL,
            seed=seed_of(fault),
            stream=True,
            prompt=PROMPT,
            temperature=0,
            max_tokens=24,
        ) as events:
            text = "".join(event.choices[0].text for event in events)
        assert text == server.complete(**TEXT).json()["choices"][0]["text"]
        return
    counted = server.engine.statistics.drafter_faults
    given = {**TEXT, "timings": True}
    faulty, neighbour = together(
        lambda: server.complete(seed=seed_of(fault), **given).json(),
        lambda: server.complete(**given).json(),
    )
    assert faulty["choices"] == neighbour["choices"]
    expected = FAULTY[fault][1]
    assert faulty["timings"]["drafter_faults"] == expected
    assert neighbour["timings"]["drafter_faults"] == 0
    assert server.engine.statistics.drafter_faults == counted + expected


def test_a_drafter_that_fails_is_nobody_elses(server: ProtocolServer) -> None:
    """All of them at once, beside honest ones."""
    alone = server.complete(**TEXT).json()["choices"]
    answers = together(
        *(lambda fault=fault: server.complete(seed=seed_of(fault), **TEXT) for fault in FAULTY),
        *(lambda: server.complete(**TEXT) for _ in range(3)),
    )
    for answer in answers:
        assert answer.json()["choices"] == alone


GRAMMARS = {
    "with a fault": ("start: (", "grammar"),
    "without a start": ('root: "a"', "grammar"),
    "that no text can follow": ('start: "a" & "b"', "grammar"),
}


@pytest.mark.parametrize("kind", GRAMMARS)
def test_a_grammar_fails_its_request_alone(server: ProtocolServer, kind: str) -> None:
    grammar, param = GRAMMARS[kind]
    alone = server.complete(**TEXT).json()["choices"]
    good, bad, also = together(
        lambda: server.complete(**TEXT),
        lambda: server.chat(grammar=grammar, max_tokens=24),
        lambda: server.complete(**TEXT),
    )
    error = bad.json()["error"]
    assert (bad.status_code, error["param"], error["code"]) == (400, param, "invalid_grammar")
    assert good.json()["choices"] == also.json()["choices"] == alone
    server.settle()


@pytest.mark.parametrize("stream", [False, True])
def test_a_grammar_that_fails_on_its_way_fails_its_request_alone(
    server: ProtocolServer, stream: bool
) -> None:
    """One that compiles and begins, and then has more to follow than its bounds allow."""
    grammar = 'start: " the" s\ns: (" a" | " b" | " " | /[a-z]/ | s s | s s s)*'
    alone = server.complete(**TEXT).json()["choices"]
    good, bad = together(
        lambda: server.complete(**TEXT),
        lambda: server.complete(
            prompt=PROMPT, grammar=grammar, seed=1, max_tokens=60, stream=stream, ignore_eos=True
        ),
    )
    assert "invalid_grammar" in bad.text
    assert bad.status_code == (200 if stream else 400)
    assert good.json()["choices"] == alone
    server.settle()
    assert server.complete(**TEXT).json()["choices"] == alone


def test_a_template_fails_its_request_alone(smollm2: Model) -> None:
    """A template may refuse messages, or do more than a rendering is given."""
    assert smollm2.template is not None
    source = (
        "{% for message in messages %}"
        "{% if 'forbidden' in message.content %}{{ raise_exception('not this word') }}{% endif %}"
        "{% if 'endless' in message.content %}{% for i in range(10**5) %}{% for j in range(10**5) %}{{ i * j }}"
        "{% endfor %}{% endfor %}{% endif %}{% endfor %}"
    )
    template = ChatTemplate(source + smollm2.template.text, {}, "model.gguf")
    model = Model(smollm2.backend, smollm2.tokenizer, template, smollm2.artifacts)
    with protocol_server(model) as server:

        def say(text: str) -> Any:
            return server.chat(messages=[{"role": "user", "content": text}], temperature=0, max_tokens=16)

        alone = say("Name three colours.").json()["choices"]
        good, refused, endless, also = together(
            *(lambda text=text: say(text) for text in ("Name three colours.", "forbidden", "endless")),
            lambda: say("Name three colours."),
        )
        assert good.json()["choices"] == also.json()["choices"] == alone
        for failed in (refused, endless):
            assert failed.status_code == 400
            assert failed.json()["error"]["param"] == "messages"
        assert "not this word" in refused.json()["error"]["message"]
        server.settle()
