"""The conversation of ``verispec chat --url``: with any server that speaks OpenAI's chat protocol."""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Iterator, Mapping
from typing import Any

import httpx

from verispec.cli.output import printable, printable_text
from verispec.errors import OptionError, VerispecError

CONNECT_SECONDS = 10.0
SILENCE_SECONDS = 300.0
"""How long an answer may pause; a first token can wait for a queue and a long prompt."""


class RemoteError(VerispecError):
    """A server that cannot be reached, refuses, or answers with something else than the protocol."""


class RemoteConversation:
    """Messages said so far and the server they are sent to. A context manager.

    ``options`` go into every request as they are. Each ``send`` repeats the whole conversation, as the protocol has
    it.
    """

    def __init__(self, url: str, key: str | None, model: str | None, options: Mapping[str, Any]) -> None:
        base = url.rstrip("/").removesuffix("/v1")
        if not base.startswith(("http://", "https://")):
            raise OptionError(f"url: expected http:// or https://, found {url!r}")
        headers = {"authorization": f"Bearer {key}"} if key else {}
        timeout = httpx.Timeout(SILENCE_SECONDS, connect=CONNECT_SECONDS)
        try:
            self._client = httpx.Client(
                base_url=base, headers=headers, timeout=timeout, follow_redirects=False
            )
        except (httpx.InvalidURL, UnicodeEncodeError) as error:
            raise OptionError(f"url: expected a server's address and an ASCII key, found {error}") from error
        self.messages: list[dict[str, str]] = []
        self.model = model or self._first_model()
        self.options = dict(options)

    def __enter__(self) -> RemoteConversation:
        return self

    def __exit__(self, *_: object) -> None:
        self._client.close()

    def _first_model(self) -> str:
        """The first model that the server names."""
        answer = self._request("GET", "/v1/models")
        try:
            return str(answer.json()["data"][0]["id"])
        except (ValueError, LookupError, TypeError) as error:
            raise RemoteError(
                f"{answer.url}: expected a list of models, found none; name one with --model"
            ) from error

    def send(self, text: str) -> Iterator[str]:
        """Says ``text`` and gives the answer's text piece by piece.

        The answer joins the conversation when the iterator ends or is closed, as far as it came; a question that the
        server refused leaves it.
        """
        self.messages.append({"role": "user", "content": text})
        body = {"model": self.model, "messages": self.messages, "stream": True, **self.options}
        written: list[str] = []
        refused = True
        try:
            with self._client.stream("POST", "/v1/chat/completions", json=body) as response:
                _check(response)
                refused = False
                for piece in _pieces(response):
                    written.append(piece)
                    yield piece
        except httpx.HTTPError as error:
            raise RemoteError(f"{self._client.base_url}: {_reason(error)}") from error
        finally:
            if refused:
                self.messages.pop()
            else:
                self.messages.append({"role": "assistant", "content": "".join(written)})

    def _request(self, method: str, path: str) -> httpx.Response:
        try:
            response = self._client.request(method, path)
        except httpx.HTTPError as error:
            raise RemoteError(f"{self._client.base_url}: {_reason(error)}") from error
        _check(response)
        return response


def show_answer(conversation: RemoteConversation, text: str) -> str:
    """Sends ``text``, prints the answer as it comes, and gives one line about it. Ctrl-C ends the answer."""
    started = time.perf_counter()
    first = None
    pieces = 0
    answer = conversation.send(text)
    try:
        for piece in answer:
            first = first or time.perf_counter()
            pieces += 1
            sys.stdout.write(printable_text(piece))
            sys.stdout.flush()
    except KeyboardInterrupt:
        pass
    finally:
        answer.close()  # type: ignore[attr-defined]
        sys.stdout.write("\n")
        sys.stdout.flush()
    if first is None:
        return "an empty answer"
    ended = time.perf_counter()
    return f"{pieces} pieces in {ended - started:.2f} s, the first after {first - started:.2f} s, {conversation.model}"


def _pieces(response: httpx.Response) -> Iterator[str]:
    """The text of an event stream. Raises RemoteError when it carries an error or breaks off."""
    for line in response.iter_lines():
        if not line.startswith("data:"):
            continue
        data = line[5:].strip()
        if data == "[DONE]":
            return
        try:
            event = json.loads(data)
        except ValueError as error:
            raise RemoteError(f"{response.url}: expected JSON in the stream, found {data[:80]!r}") from error
        if "error" in event:
            raise RemoteError(f"{response.url}: {_message(event)}")
        for choice in event.get("choices", ()):
            piece = (choice.get("delta") or {}).get("content")
            if piece:
                yield piece
    raise RemoteError(f"{response.url}: the answer broke off")


def _check(response: httpx.Response) -> None:
    if response.is_success:
        return
    try:
        response.read()
        reason = _message(response.json())
    except ValueError:
        reason = response.reason_phrase or "no reason given"
    hint = "; --key-env names a variable that holds the key" if response.status_code == 401 else ""
    raise RemoteError(f"{response.url}: status {response.status_code}: {reason}{hint}")


def _message(body: Any) -> str:
    error = body.get("error") if isinstance(body, dict) else None
    message = error.get("message") if isinstance(error, dict) else error
    return printable(str(message or "no reason given"))


def _reason(error: httpx.HTTPError) -> str:
    return f"{type(error).__name__}: {error}" if str(error) else type(error).__name__
