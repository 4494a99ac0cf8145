"""What an answer's text must match: a JSON schema, any JSON object, a grammar (Lark or GBNF) or a regular expression.

A ``Grammar`` is only its text, so that a receipt can store it; ``matcher`` compiles it for one answer. The work is
done by the ``llguidance`` library, within the bounds of ``LIMITS``.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from llguidance import LLMatcher, LLParserLimits
from llguidance.gbnf_to_lark import gbnf_to_lark

from verispec.errors import GrammarError
from verispec.text.grammar_matcher import GrammarMatcher
from verispec.text.grammar_tokenizer import grammar_tokenizer
from verispec.text.tokenizer import Tokenizer

if TYPE_CHECKING:
    from llguidance._lib import JsonCompileOptions

JSON_SCHEMA, JSON_OBJECT, EBNF, REGEX = "json_schema", "json_object", "ebnf", "regex"
KINDS = (JSON_SCHEMA, JSON_OBJECT, EBNF, REGEX)

# Grammars come with requests and are not trusted. With these, compiling one and each step over one are bounded; what
# passes a bound fails its own request. What the library reads by recursion is bounded here, since it would end the
# process: depth counts levels of brackets, and once more for every name that may lead to others.
MAX_CHARACTERS = 1 << 16
MAX_NESTING = 32
MAX_DEPTH = 1_000
MAX_PROPERTIES = 512
MAX_GBNF_RULES = 256
LIMITS = LLParserLimits(
    initial_lexer_fuel=300_000,
    step_lexer_fuel=100_000,
    step_max_items=25_000,
    max_items_in_row=2_000,
    max_lexer_states=20_000,
    max_grammar_size=100_000,
    verbose_errors=False,  # they would show the answer so far
)

# JSON as json.dumps writes it, which is how chat templates show JSON to models. Free whitespace would let a small
# model write line breaks until its tokens run out.
JSON_FORMAT: JsonCompileOptions = {
    "item_separator": ", ",
    "key_separator": ": ",
    "whitespace_flexible": False,
}

_RULE = re.compile(r"^[ \t]*[?!]?[A-Za-z_]", re.MULTILINE)  # a line of either syntax that begins a rule
_GBNF_RULE = re.compile(r"^[ \t]*[A-Za-z][\w-]*[ \t]*::=", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class Grammar:
    """One of KINDS and its text: the schema as JSON, the grammar, the expression or nothing."""

    kind: str
    text: str

    @classmethod
    def json_schema(cls, schema: Mapping[str, Any]) -> Grammar:
        """JSON that ``schema`` describes, its properties in the schema's order.

        Raises GrammarError for what is no JSON object, is too large or nests too deeply. A keyword that could not be
        kept raises one from ``matcher``.
        """
        if not isinstance(schema, Mapping):
            raise GrammarError(f"json_schema: expected an object, found {type(schema).__name__}")
        _check_schema_depth(schema)
        try:
            text = json.dumps(schema, ensure_ascii=False, allow_nan=False)
        except (TypeError, ValueError) as error:
            raise GrammarError(f"json_schema: expected JSON, found {error}") from error
        return cls._checked(JSON_SCHEMA, text)

    @classmethod
    def json_object(cls) -> Grammar:
        """Any JSON object."""
        return cls(JSON_OBJECT, "")

    @classmethod
    def ebnf(cls, text: str) -> Grammar:
        """A grammar in llguidance's dialect of Lark (it begins at ``start``) or in llama.cpp's GBNF (at ``root``).

        It is GBNF when one of its lines begins with ``name ::=``, which no Lark grammar has. Raises GrammarError for
        GBNF that cannot be read; errors in Lark come from ``matcher``.
        """
        grammar = cls._checked(EBNF, text)
        _check_depth(EBNF, text)
        _check_depth(EBNF, _as_lark(text))
        return grammar

    @classmethod
    def regex(cls, pattern: str) -> Grammar:
        """Text that the whole of ``pattern`` matches, in the syntax of Rust's ``regex``, without look-around."""
        grammar = cls._checked(REGEX, pattern)
        _check_depth(REGEX, pattern)
        return grammar

    @classmethod
    def _checked(cls, kind: str, text: object) -> Grammar:
        if not isinstance(text, str):
            raise GrammarError(f"{kind}: expected a string, found {type(text).__name__}")
        if len(text) > MAX_CHARACTERS:
            raise GrammarError(f"{kind}: expected at most {MAX_CHARACTERS} characters, found {len(text)}")
        try:
            text.encode()
        except UnicodeEncodeError as error:
            found = f"half a surrogate pair at character {error.start}"
            raise GrammarError(f"{kind}: expected Unicode, found {found}") from error
        return cls(kind, text)

    def as_dict(self) -> dict[str, str]:
        """What a receipt stores. A schema is stored as text: the order of its properties means something."""
        return {"kind": self.kind, "text": self.text}

    @classmethod
    def from_dict(cls, stored: Mapping[str, object]) -> Grammar:
        """The grammar of ``as_dict``. Raises GrammarError for anything else."""
        if not isinstance(stored, Mapping) or set(stored) != {"kind", "text"}:
            raise GrammarError("grammar: expected an object with kind and text")
        kind, text = stored["kind"], stored["text"]
        if kind == JSON_OBJECT and text == "":
            return cls.json_object()
        if kind == EBNF:
            return cls.ebnf(cls._checked(EBNF, text).text)
        if kind == REGEX:
            return cls.regex(cls._checked(REGEX, text).text)
        if kind == JSON_SCHEMA:
            return cls.json_schema(_json_object(cls._checked(JSON_SCHEMA, text).text))
        raise GrammarError(f"grammar: expected a kind of {', '.join(KINDS)} and its text, found {kind!r}")

    def matcher(self, tokenizer: Tokenizer, vocabulary: int) -> GrammarMatcher:
        """A matcher at the beginning of an answer by a model with ids below ``vocabulary``.

        Compiling takes from 1 to some 100 ms, without the interpreter lock. Raises GrammarError, which says where,
        for a grammar with a fault or past the bounds.
        """
        library = grammar_tokenizer(tokenizer)
        compiled = self._compiled()

        def begin() -> LLMatcher:
            return LLMatcher(library, compiled, log_level=0, limits=LIMITS)

        return GrammarMatcher(begin, tokenizer, vocabulary, self.kind)

    def _compiled(self) -> str:
        if self.kind == EBNF:
            return LLMatcher.grammar_from_lark(_as_lark(self.text))
        if self.kind == REGEX:
            return LLMatcher.grammar_from_regex(self.text)
        schema = self.text if self.kind == JSON_SCHEMA else '{"type": "object"}'
        try:
            return LLMatcher.grammar_from_json_schema(schema, defaults=JSON_FORMAT)
        except ValueError as error:
            raise GrammarError(f"{self.kind}: {error}") from error


def _as_lark(text: str) -> str:
    rules = len(_GBNF_RULE.findall(text))
    if not rules:
        return text
    if rules > MAX_GBNF_RULES:
        raise GrammarError(f"ebnf: expected at most {MAX_GBNF_RULES} GBNF rules, found {rules}")
    try:
        return gbnf_to_lark(text)
    except RecursionError:
        raise GrammarError("ebnf: GBNF nests too deeply") from None
    except Exception as error:  # the converter raises bare Exception, and IndexError at an unfinished escape
        raise GrammarError(f"ebnf: GBNF: {error}") from error


def _json_object(text: str) -> Mapping[str, Any]:
    try:
        schema = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise GrammarError(f"json_schema: expected JSON, found {error}") from error
    if not isinstance(schema, dict):
        raise GrammarError(f"json_schema: expected an object, found {type(schema).__name__}")
    return schema


def _check_schema_depth(schema: object) -> None:
    """Refuses schemas that nest too deeply, also by way of their references, and objects too large to compile."""
    level, nesting, references = [schema], 0, 0
    while level:
        nesting += 1
        if nesting > MAX_NESTING:
            raise GrammarError(f"json_schema: expected at most {MAX_NESTING} levels, found more")
        children: list[object] = []
        for value in level:
            if isinstance(value, Mapping):
                references += "$ref" in value
                children.extend(value.values())
                if len(value) > MAX_PROPERTIES:
                    found = f"found {len(value)}"
                    raise GrammarError(
                        f"json_schema: expected objects of at most {MAX_PROPERTIES} keys, {found}"
                    )
            elif isinstance(value, (list, tuple)):
                children.extend(value)
        level = [child for child in children if isinstance(child, (Mapping, list, tuple))]
    _check_product(JSON_SCHEMA, nesting, references + 1)


def _check_depth(kind: str, text: str) -> None:
    """The same for grammars and expressions, where brackets count wherever they stand."""
    depth = nesting = 0
    for bracket in re.findall(r"[()\[\]{}]", text):
        depth = max(0, depth + (1 if bracket in "([{" else -1))
        nesting = max(nesting, depth)
    if nesting > MAX_NESTING:
        raise GrammarError(f"{kind}: expected brackets at most {MAX_NESTING} deep, found more")
    _check_product(kind, nesting + 1, len(_RULE.findall(text)) + text.count('"$ref"'))


def _check_product(kind: str, nesting: int, names: int) -> None:
    if nesting * names > MAX_DEPTH:
        found = f"found {nesting} times {names}"
        raise GrammarError(
            f"{kind}: expected nesting times rules or references of at most {MAX_DEPTH}, {found}"
        )
