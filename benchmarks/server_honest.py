"""Clients that behave, among others that do not: each knows what the answer must be, and says when it is another."""

from __future__ import annotations

import json
import random
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from benchmarks.server_process import SERVED_AS

SECONDS = 300.0
"""What an answer may take on a machine that is kept busy."""
REFUSALS = {429, 503}
MOST_WAIT = 2.0
"""Seconds that a refused client waits at most, whatever it was told."""
MODES = ("off", "auto", "suffix", "prompt-lookup", "ngram-context")
SUBJECTS = ("light", "bread", "river", "clock", "garden", "letter")


def questions() -> list[dict[str, Any]]:
    """Requests that each have one answer, and each another."""
    asked: list[dict[str, Any]] = []
    for number, subject in enumerate(SUBJECTS):
        story = f"Once upon a time there was a keeper of a {subject}. " * (1 + number)
        asked.append({"prompt": story, "max_tokens": 8 + number, "temperature": 0})
        asked.append(
            {"prompt": f"{story}The {subject}", "max_tokens": 12, "temperature": 0.9, "seed": number}
        )
        message = {"role": "user", "content": f"Say something about a {subject}."}
        asked.append({"messages": [message], "max_tokens": 10, "seed": 7})
    return asked


def ask(url: str, question: Mapping[str, Any], **more: Any) -> str:
    """The answer's text. Raises urllib's errors, and ValueError for a stream that breaks off."""
    path = "/v1/chat/completions" if "messages" in question else "/v1/completions"
    body = json.dumps({"model": SERVED_AS, **question, **more}).encode()
    sent = urllib.request.Request(url + path, body, {"Content-Type": "application/json"})
    with urllib.request.urlopen(sent, timeout=SECONDS) as response:
        answer = response.read().decode()
    if not more.get("stream"):
        return _text(json.loads(answer)["choices"][0])
    parts = answer.split("\n\n")
    if parts[-2:] != ["data: [DONE]", ""]:
        raise ValueError(f"expected a stream that ends, found {answer[-200:]!r}")
    events = [json.loads(part.removeprefix("data: ")) for part in parts[:-2]]
    return "".join(_text(choice) for event in events for choice in event["choices"])


def _text(choice: Mapping[str, Any]) -> str:
    said = choice.get("message") or choice.get("delta") or {"content": choice.get("text")}
    return said.get("content") or ""


@dataclass
class Tally:
    """What honest clients have seen. Every request asked ends up in one of the others."""

    asked: int = 0
    right: int = 0
    refused: int = 0
    wrong: list[str] = field(default_factory=list)
    slowest_seconds: float = 0.0
    lock: threading.Lock = field(default_factory=threading.Lock, repr=False)

    def as_dict(self) -> dict[str, Any]:
        return {
            "asked": self.asked,
            "right": self.right,
            "refused": self.refused,
            "wrong": self.wrong[:20],
            "slowest_seconds": round(self.slowest_seconds, 3),
        }


def behave(
    url: str,
    known: Sequence[tuple[Mapping[str, Any], str]],
    until: float,
    chance: random.Random,
    tally: Tally,
) -> None:
    """Asks one question after another until ``time.monotonic`` says ``until``; ``known`` are questions and answers."""
    while time.monotonic() < until:
        question, expected = chance.choice(known)
        more = {"stream": chance.random() < 0.5, "spec_mode": chance.choice(MODES)}
        started = time.monotonic()
        wrong, wait = None, 0.0
        try:
            found = ask(url, question, **more)
            wrong = (
                None if found == expected else f"{question} {more}: expected {expected!r}, found {found!r}"
            )
        except urllib.error.HTTPError as error:
            if error.code in REFUSALS:
                wait = min(MOST_WAIT, float(error.headers["Retry-After"]))
            else:
                wrong = f"{question} {more}: {error.code} {error.read()[:300]!r}"
        except (OSError, ValueError, KeyError) as error:
            wrong = f"{question} {more}: {error!r}"
        with tally.lock:
            tally.asked += 1
            tally.refused += bool(wait)
            tally.right += not wait and wrong is None
            tally.wrong += [] if wrong is None else [wrong]
            tally.slowest_seconds = max(tally.slowest_seconds, time.monotonic() - started)
        time.sleep(wait)
