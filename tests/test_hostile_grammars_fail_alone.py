"""Grammars come with requests: the worst of them raise GrammarError within bounds, or are harmless."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import pytest

from verispec.engine.model import Model
from verispec.errors import GrammarError, OptionError
from verispec.text.grammar import Grammar

# CPU time of one thread, which other work on the machine adds little to; several times what was found.
COMPILE_SECONDS = 1.0
STEP_SECONDS = 0.05


def chain(link: str, last: str, count: int) -> str:
    return "\n".join(link.format(i, i + 1) for i in range(count)) + "\n" + last.format(count)


def nested(count: int) -> dict[str, Any]:
    schema: dict[str, Any] = {"type": "string"}
    for _ in range(count):
        schema = {"type": "array", "items": schema}
    return schema


def references(count: int, **more: Any) -> dict[str, Any]:
    definitions: dict[str, Any] = {f"a{i}": {"allOf": [{"$ref": f"#/$defs/a{i + 1}"}]} for i in range(count)}
    return {"$defs": definitions | {f"a{count}": {"type": "string"}}, "$ref": "#/$defs/a0", **more}


def properties(count: int) -> dict[str, Any]:
    return {"type": "object", "properties": {f"k{i}": {"type": "integer"} for i in range(count)}}


LARK = {
    "brackets": "start: " + "(" * 30_000 + '"a"' + ")" * 30_000,
    "unclosed brackets": "start: " + "(" * 60_000,
    "negations": "start: A\nA: " + "~(" * 3000 + '"a"' + ")" * 3000,
    "chain of rules": "start: a0\n" + chain("a{0}: a{1}", 'a{0}: "x"', 3000),
    "chain of optional rules": "start: a0\n" + chain('a{0}: (a{1} "y")?', 'a{0}: "x"', 3000),
    "chain of terminals": "start: A0\n" + chain("A{0}: A{1}", 'A{0}: "x"', 3000),
    "doubling rules": "start: a0\n" + chain("a{0}: a{1} a{1}", 'a{0}: "x"', 40),
    "doubling terminals": "start: A0\n" + chain("A{0}: A{1} A{1}", 'A{0}: "x"', 40),
    "repetition": 'start: a{1000000000}\na: "x"',
    "repetition of repetitions": 'start: A\nA: B{1000}\nB: C{1000}\nC: D{1000}\nD: "x" | "y"',
    "endless rule": "start: a\na: a",
    "endless terminal": 'start: A\nA: "x" A',
    "ambiguity": 'start: s\ns: s s | s s s | "a" |',
    "deep JSON": "start: %json " + '{"anyOf": [' * 2000 + "{}" + "]}" * 2000,
    "references in JSON": f"start: %json {json.dumps(references(3000))}"[: 1 << 16],
    "length": "start: " + '"a" ' * 50_000,
    "length within the bound": "start: " + '"a" ' * 16_000,
    "many choices": "start: " + " | ".join(f'"a{i}"' for i in range(6_000)),
    "many patterns": "start: " + " ".join(f"/[a-z]{i}/" for i in range(5_000)),
    "an end token": "start: <|im_end|>",
    "any token": "start: <[*]>",
    "hidden end": 'start: a "b"\na[stop=""]: /.*/',
    "GBNF brackets": "root ::= " + "(" * 20_000 + '"a"' + ")" * 20_000,
    "GBNF chain": "\n".join(f"r{i} ::= r{i + 1}" for i in range(4000)) + '\nr4000 ::= "x"\nroot ::= r0',
    "GBNF escape": 'root ::= "\\',
}
REGEX = {
    "brackets": "(" * 30_000 + "a" + ")" * 30_000,
    "repetitions": "((a{1,1000}){1,1000}){1,1000}",
    "exponential": "(a|b)*a(a|b){60}c",
    "overlap": "(.*a.{200}){20}",
}
SCHEMA = {
    "nesting": nested(20_000),
    "references": references(3000),
    "endless references": {"$defs": {"a": {"$ref": "#/$defs/a"}}, "$ref": "#/$defs/a"},
    "doubling references": {
        "$defs": {f"a{i}": {"allOf": [{"$ref": f"#/$defs/a{i + 1}"}] * 2} for i in range(40)} | {"a40": {}},
        "$ref": "#/$defs/a0",
    },
    "properties": properties(5000),
    "long strings": {"type": "string", "minLength": 10**9, "maxLength": 2 * 10**9},
    "long arrays": {"type": "array", "items": {"type": "integer"}, "minItems": 10**9},
    "pattern": {"type": "string", "pattern": "^((a{1,500}){1,500}){1,500}$"},
    "choices of choices": {
        "allOf": [{"anyOf": [properties(i + j + 1) for j in range(4)]} for i in range(12)]
    },
    "multiples": {"type": "integer", "multipleOf": 982451653},
    "another's document": {"$ref": "http://127.0.0.1:9/schema.json"},
}
CASES = (
    {f"lark: {name}": (Grammar.ebnf, text) for name, text in LARK.items()}
    | {f"regex: {name}": (Grammar.regex, text) for name, text in REGEX.items()}
    | {f"schema: {name}": (Grammar.json_schema, schema) for name, schema in SCHEMA.items()}
)


class Stopwatch:
    """The most CPU time of this thread that any part took."""

    def __init__(self) -> None:
        self.longest: dict[str, float] = {}

    @contextmanager
    def __call__(self, part: str) -> Iterator[None]:
        started = time.thread_time()
        try:
            yield
        finally:
            self.longest[part] = max(self.longest.get(part, 0.0), time.thread_time() - started)


def walk(watch: Stopwatch, grammar: Callable[[], Grammar], model: Model, steps: int) -> None:
    """Compiles a grammar and writes some answer, as the engine would."""
    vocabulary = model.backend.capabilities.vocabulary
    Grammar.json_object().matcher(model.tokenizer, vocabulary)  # the tokeniser's own preparation is not timed
    with watch("compile"):
        matcher = grammar().matcher(model.tokenizer, vocabulary)
    for step in range(steps):
        with watch("step"):
            matcher.forced()
            mask = matcher.allowed()
            finished = matcher.finished
        if finished:
            break
        allowed = np.flatnonzero(np.unpackbits(mask.view(np.uint8), bitorder="little"))
        with watch("step"):
            matcher.accept(int(allowed[step * 7919 % len(allowed)]))


@pytest.mark.parametrize("name", CASES)
def test_the_worst_grammars_end_in_an_error_or_in_tokens(smollm2: Model, name: str) -> None:
    make, text = CASES[name]
    watch, message = Stopwatch(), ""
    try:
        walk(watch, lambda: make(text), smollm2, 25)
    except GrammarError as error:
        message = str(error)
    assert len(message) < 700
    assert watch.longest["compile"] < COMPILE_SECONDS
    assert watch.longest.get("step", 0.0) < STEP_SECONDS
    # and the next request is served
    matcher = Grammar.regex("yes").matcher(smollm2.tokenizer, smollm2.backend.capabilities.vocabulary)
    assert smollm2.tokenizer.decode(matcher.forced()) == "yes"


VALUES: list[dict[str, Any]] = [
    {"type": "string"},
    {"type": "integer", "minimum": 0, "maximum": 1000},
    {"enum": ["red", "green", "blue"]},
    {"type": "array", "items": {"type": "string", "format": "date-time"}},
    {"type": "object", "properties": {"x": {"type": "number"}, "y": {"type": "string", "maxLength": 100}}},
    {"type": "string", "pattern": "^[A-Z]{2}-[0-9]{4,8}$"},
]


def fields(count: int) -> dict[str, Any]:
    return {f"field_{i}": VALUES[i % len(VALUES)] for i in range(count)}


def resource(depth: int) -> dict[str, Any]:
    children = {f"child_{i}": resource(depth - 1) for i in range(3)} if depth else {}
    return {"type": "object", "properties": fields(12) | children, "additionalProperties": False}


def linked(count: int) -> dict[str, Any]:
    def link(i: int) -> dict[str, Any]:
        return {"anyOf": [{"$ref": f"#/$defs/d{i % count}"}, {"type": "null"}]}

    kinds = {
        f"d{i}": {
            "type": "object",
            "properties": fields(10) | {"next": link(i * 7 + 1), "other": link(i * 3)},
        }
        for i in range(count)
    }
    return {"$defs": kinds, "$ref": "#/$defs/d0"}


LARGE = {
    "a tree of forty objects": resource(3),
    "thirty kinds that refer to each other": linked(30),
    "three hundred properties": {"type": "object", "properties": fields(300)},
    "two thousand values": {"enum": [f"value number {i * i}" for i in range(2000)]},
    "a string of a page": {"type": "string", "minLength": 100, "maxLength": 4000},
}


@pytest.mark.parametrize("name", LARGE)
def test_large_schemas_of_real_use_are_within_the_bounds(smollm2: Model, name: str) -> None:
    watch = Stopwatch()
    walk(watch, lambda: Grammar.json_schema(LARGE[name]), smollm2, 400)
    assert watch.longest["compile"] < COMPILE_SECONDS
    assert watch.longest["step"] < STEP_SECONDS


def test_references_count_however_their_names_are_written() -> None:
    """A grammar's schemas are read by recursion too, along their references."""
    text = json.dumps(references(400)).replace("$ref", "\\u0024r\\u0065f")
    with pytest.raises(GrammarError, match="references of at most"):
        Grammar.ebnf(f"start: %json {text}")


@pytest.mark.parametrize(
    ("make", "text", "where"),
    [
        (Grammar.ebnf, 'start: "x" foo\nbar: 3', r"ebnf: 2\(6\): Expected value"),
        (Grammar.ebnf, "start: missing", "ebnf: .*missing"),
        (Grammar.ebnf, "", "ebnf: Empty grammar"),
        (Grammar.ebnf, 'root ::= "x" [', "ebnf: GBNF: .* at line 1"),
        (Grammar.ebnf, 'other ::= "x"', "ebnf: GBNF: No 'root' rule"),
        (Grammar.ebnf, 7, "ebnf: expected a string, found int"),
        (Grammar.regex, "a(b", "regex: (?s:.*)unclosed group"),
        (Grammar.regex, "\ud800", "regex: expected Unicode"),
        (Grammar.json_schema, [], "json_schema: expected an object, found list"),
        (Grammar.json_schema, {"type": "strin"}, "json_schema: .*strin"),
        (Grammar.json_schema, {"not": {}}, "json_schema: .*not"),
        (Grammar.json_schema, {"const": float("nan")}, "json_schema: expected JSON"),
        (Grammar.json_schema, {"type": object()}, "json_schema: expected JSON"),
        (Grammar.from_dict, {"kind": "xml", "text": ""}, "grammar: expected a kind .* found 'xml'"),
        (Grammar.from_dict, {"kind": "ebnf"}, "grammar: expected an object with kind and text"),
        (Grammar.from_dict, {"kind": "json_schema", "text": "[1"}, "json_schema: expected JSON"),
    ],
)
def test_errors_say_what_and_where(smollm2: Model, make: Any, text: Any, where: str) -> None:
    with pytest.raises(OptionError, match=where) as raised:
        make(text).matcher(smollm2.tokenizer, smollm2.backend.capabilities.vocabulary)
    assert isinstance(raised.value, GrammarError)


def test_an_error_on_the_way_does_not_show_the_answer(smollm2: Model) -> None:
    """Errors are logged and sent; prompts and answers are not."""
    matcher = Grammar.ebnf('start: "secret" a{100000}\na: "x" | "y" a').matcher(smollm2.tokenizer, 49152)
    tokens = smollm2.tokenizer.encode("secret" + "x" * 30, add_bos=False) * 20

    def follow() -> None:
        for token in tokens:
            matcher.accept(token)

    with pytest.raises(GrammarError) as raised:
        follow()
    assert "secret" not in str(raised.value)
