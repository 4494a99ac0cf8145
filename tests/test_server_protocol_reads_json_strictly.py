"""A body that is not plain JSON of one object is refused before anything looks at it."""

from __future__ import annotations

import json
import time

import pytest

from verispec.serving.openai.body import MAX_DEPTH, read_object
from verispec.serving.openai.errors import RequestError

JSON = "application/json"


def refusal(raw: bytes, content_type: str | None = JSON) -> RequestError:
    with pytest.raises(RequestError) as raised:
        read_object(content_type, raw)
    return raised.value


@pytest.mark.parametrize(
    ("raw", "words"),
    [
        (b"", "expected JSON"),
        (b"{", "expected JSON"),
        (b'{"a": 1} x', "expected JSON"),
        (b"{'a': 1}", "expected JSON"),
        (b"null", "expected a JSON object, found null"),
        (b"[1]", "found a list"),
        (b'"text"', "found a string"),
        (b"true", "found a boolean"),
        (b'{"a": "\xff"}', "invalid byte at offset 7"),
        (b'{"a": NaN}', "NaN"),
        (b'{"a": -Infinity}', "-Infinity"),
        (b'{"a": 1e999}', "a double"),
        (b'{"a": ' + b"9" * 5000 + b"}", "40 digits"),
        (b'{"a": 1, "a": 2}', "found 'a' again"),
        (b'{"a": {"b": 1, "b": 1}}', "found 'b' again"),
        (b'{"a": "\\ud800"}', "surrogate"),
        (b'{"\\udc00": 1}', "surrogate"),
        (b"\xef\xbb\xbf{}", "expected JSON"),
    ],
)
def test_a_malformed_body_is_refused(raw: bytes, words: str) -> None:
    error = refusal(raw)
    assert (error.status, error.code) == (400, "invalid_json")
    assert words in error.message


@pytest.mark.parametrize("depth", [MAX_DEPTH, 1000, 200_000])
def test_deep_nesting_is_refused_at_any_depth(depth: int) -> None:
    lists = b'{"a": ' + b"[" * depth + b"]" * depth + b"}"
    objects = b'{"a": ' * depth + b"{}" + b"}" * depth
    for raw in (lists, objects):
        assert "levels of nesting" in refusal(raw).message


def test_nesting_within_the_bound_is_read() -> None:
    inner = MAX_DEPTH - 1
    raw = b'{"a": ' + b"[" * inner + b"]" * inner + b"}"
    assert read_object(JSON, raw) == json.loads(raw)


def test_whole_surrogate_pairs_and_escapes_are_text() -> None:
    assert read_object(JSON, b'{"a": "\\ud83d\\ude00 \\u00e9"}') == {"a": "😀 é"}


@pytest.mark.parametrize("content_type", ["application/json", "Application/JSON; charset=utf-8"])
def test_json_is_read_whatever_its_parameters(content_type: str) -> None:
    assert read_object(content_type, b"{}") == {}


@pytest.mark.parametrize("content_type", [None, "", "text/plain", "application/x-www-form-urlencoded"])
def test_another_content_type_is_refused(content_type: str | None) -> None:
    """A web page can send these to a server on its visitor's machine without asking first."""
    error = refusal(b"{}", content_type)
    assert (error.status, error.code) == (415, "unsupported_media_type")


def test_a_large_body_of_repeated_names_is_refused_in_time() -> None:
    raw = b"{" + b", ".join(b'"%d": 0' % number for number in range(100_000)) + b', "5": 0}'
    started = time.perf_counter()
    assert "found '5' again" in refusal(raw).message
    assert time.perf_counter() - started < 2
