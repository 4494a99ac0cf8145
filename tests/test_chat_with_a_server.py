"""``verispec chat --url`` talks to any server of OpenAI's protocol and says clearly what goes wrong."""

from __future__ import annotations

import json
from typing import Any

import pytest
from starlette.types import Message, Receive, Scope, Send

from local_servers import served
from verispec.cli import main
from verispec.engine.model import Model
from whole_server import whole_server

KEY = "chat-key-12345"


class Scripted:
    """A server that answers each chat request with the next of ``answers``, and keeps what it was asked."""

    def __init__(self, *answers: tuple[int, bytes]) -> None:
        self.answers = list(answers)
        self.asked: list[Any] = []

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        message: Message = await receive()
        if scope["path"] == "/v1/models":
            await reply(send, 200, b'{"data": [{"id": "scripted"}]}')
            return
        assert scope["path"] == "/v1/chat/completions"
        self.asked.append(json.loads(message["body"]))
        await reply(send, *self.answers.pop(0))


async def reply(send: Send, status: int, body: bytes) -> None:
    await send({"type": "http.response.start", "status": status, "headers": []})
    await send({"type": "http.response.body", "body": body})


def events(*pieces: str, end: bytes = b"data: [DONE]\n\n") -> tuple[int, bytes]:
    """A streamed answer of these pieces."""
    chunks = [json.dumps({"choices": [{"delta": {"content": piece}}]}) for piece in pieces]
    return 200, b"".join(f"data: {chunk}\n\n".encode() for chunk in chunks) + end


@pytest.fixture
def says(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """What the user types, line by line; then the end of input."""
    lines: list[str] = []

    def typed(_prompt: str = "") -> str:
        if not lines:
            raise EOFError
        return lines.pop(0)

    monkeypatch.setattr("builtins.input", typed)
    return lines


def test_the_conversation_is_repeated_with_every_message(
    says: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    server = Scripted(events("Good ", "day"), events("Again"))
    says += ["Hello", "More"]
    with served(server) as (host, port):
        url = f"http://{host}:{port}"
        assert main(["chat", "--url", url, "--system", "Be kind.", "--max-tokens", "9"]) == 0
    assert capsys.readouterr().out == "Good day\nAgain\n"
    assert server.asked[0] == {
        "model": "scripted",
        "messages": [{"role": "system", "content": "Be kind."}, {"role": "user", "content": "Hello"}],
        "stream": True,
        "max_tokens": 9,
    }
    assert [message["content"] for message in server.asked[1]["messages"]] == [
        "Be kind.",
        "Hello",
        "Good day",
        "More",
    ]


@pytest.mark.parametrize(
    ("answer", "complaint"),
    [
        ((429, b'{"error": {"message": "too much"}}'), "status 429: too much"),
        ((502, b"<html>"), "status 502: Bad Gateway"),
        ((400, b'{"error": "plain"}'), "status 400: plain"),
        (events("Half", end=b""), "the answer broke off"),
        (events("Half", end=b'data: {"error": {"message": "shut down"}}\n\n'), "shut down"),
        ((200, b"data: nonsense\n\n"), "expected JSON in the stream"),
    ],
)
def test_what_goes_wrong_is_one_line_and_the_conversation_goes_on(
    answer: tuple[int, bytes], complaint: str, says: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    server = Scripted(answer, events("Here I am"))
    says += ["Hello", "Once more"]
    with served(server) as (host, port):
        assert main(["chat", "--url", f"http://{host}:{port}", "--model", "m"]) == 0
    printed = capsys.readouterr()
    assert complaint in printed.err
    assert printed.err.count("error: ") == 1
    assert "Here I am" in printed.out
    kept = [message["content"] for message in server.asked[1]["messages"]]
    assert kept[-1] == "Once more"
    assert ("Hello" in kept) == (answer[0] == 200)  # a refused question is no part of the conversation


def test_a_server_cannot_command_the_terminal(says: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    says += ["Hello"]
    with served(Scripted(events("\x1b[2Jred\x07\ttab\nline"))) as (host, port):
        assert main(["chat", "--url", f"http://{host}:{port}"]) == 0
    printed = capsys.readouterr().out
    assert "\x1b" not in printed
    assert "\x07" not in printed
    assert "red" in printed
    assert "\ttab\nline" in printed


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        (["chat"], "MODEL: expected a model, or --url"),
        (["chat", "--model", "m"], "model: not read without --url"),
        (["chat", "smollm2-135m", "--url", "http://localhost"], "MODEL: not read beside --url"),
        (["chat", "--url", "http://localhost", "--ctx", "5"], "ctx: not read beside --url"),
        (["chat", "--url", "localhost:8080"], "url: expected http:// or https://"),
        (["chat", "--url", "http://localhost", "--key-env", "NO_SUCH_VARIABLE"], "key-env: expected a key"),
        (["chat", "--url", "http://127.0.0.1:9"], "http://127.0.0.1:9: Connect"),
    ],
)
def test_what_cannot_be_is_said_before_anything_is_asked(
    arguments: list[str], complaint: str, says: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    says += ["Hello"]
    assert main(arguments) == 2
    printed = capsys.readouterr().err
    assert printed.startswith("error: ")
    assert printed.count("\n") == 1
    assert complaint in printed


def test_our_own_server_answers_with_the_key_of_a_variable(
    smollm2: Model, says: list[str], capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    arguments = ["--max-tokens", "12", "--temperature", "0"]
    says += ["Name a colour."]
    with whole_server(smollm2, (KEY,)) as server:
        assert main(["chat", "--url", server.url + "/v1", *arguments]) == 2
        assert "status 401" in capsys.readouterr().err
        monkeypatch.setenv("THE_KEY", KEY)
        assert main(["chat", "--url", server.url + "/v1", "--key-env", "THE_KEY", *arguments]) == 0
    expected = smollm2.generate([{"role": "user", "content": "Name a colour."}], max_tokens=12)
    printed = capsys.readouterr()
    assert printed.out == expected.text + "\n"
    assert KEY not in printed.err
