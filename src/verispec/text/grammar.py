"""What an answer's text must match: a JSON schema, a JSON object, calls of tools, a grammar or a regular expression.

A ``Grammar`` is only its text, so that a receipt can store it; ``matcher`` compiles it for one answer. The work is
done by the ``llguidance`` library, within the bounds of ``grammar_bounds``.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from llguidance import LLMatcher
from llguidance.gbnf_to_lark import gbnf_to_lark

from verispec.errors import GrammarError
from verispec.text.grammar_bounds import LIMITS, MAX_CHARACTERS, check_schema, check_text
from verispec.text.grammar_lookahead import GrammarLookahead
from verispec.text.grammar_matcher import GrammarMatcher
from verispec.text.grammar_state import GrammarState, Ids
from verispec.text.grammar_tokenizer import grammar_tokenizer
from verispec.text.tokenizer import Tokenizer
from verispec.text.tool_rules import MAX_TOOLS_CHARACTERS, TOOLS, check_tool_rules, of_its_tool, tool_rules

if TYPE_CHECKING:
    from llguidance._lib import JsonCompileOptions

JSON_SCHEMA, JSON_OBJECT, EBNF, REGEX = "json_schema", "json_object", "ebnf", "regex"
KINDS = (JSON_SCHEMA, JSON_OBJECT, EBNF, REGEX, TOOLS)

MAX_GBNF_RULES = 256

# JSON as json.dumps writes it, which is how chat templates show JSON to models. Free whitespace would let a small
# model write line breaks until its tokens run out.
JSON_FORMAT: JsonCompileOptions = {
    "item_separator": ", ",
    "key_separator": ": ",
    "whitespace_flexible": False,
}

_GBNF_RULE = re.compile(r"^[ \t]*[A-Za-z][\w-]*[ \t]*::=", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class Grammar:
    """One of KINDS and its text: the schema as JSON, the grammar, the expression, ``tool_rules`` or nothing."""

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
        check_schema(schema, JSON_SCHEMA)
        return cls._checked(JSON_SCHEMA, _json(schema, JSON_SCHEMA))

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
        check_text(text, EBNF)
        check_text(_as_lark(text), EBNF)
        return grammar

    @classmethod
    def regex(cls, pattern: str) -> Grammar:
        """Text that the whole of ``pattern`` matches, in the syntax of Rust's ``regex``, without look-around."""
        grammar = cls._checked(REGEX, pattern)
        check_text(pattern, REGEX)
        return grammar

    @classmethod
    def tools(cls, stored: Mapping[str, Any]) -> Grammar:
        """Calls of tools, as ``tool_rules`` stores them. Raises GrammarError for anything else."""
        check_tool_rules(stored)
        return cls._checked(TOOLS, _json(stored, TOOLS))

    @classmethod
    def _checked(cls, kind: str, text: object) -> Grammar:
        if not isinstance(text, str):
            raise GrammarError(f"{kind}: expected a string, found {type(text).__name__}")
        limit = MAX_TOOLS_CHARACTERS if kind == TOOLS else MAX_CHARACTERS
        if len(text) > limit:
            raise GrammarError(f"{kind}: expected at most {limit} characters, found {len(text)}")
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
            return cls.json_schema(_json_object(cls._checked(JSON_SCHEMA, text)))
        if kind == TOOLS:
            return cls.tools(_json_object(cls._checked(TOOLS, text)))
        raise GrammarError(f"grammar: expected a kind of {', '.join(KINDS)} and its text, found {kind!r}")

    def matcher(self, tokenizer: Tokenizer, vocabulary: int) -> GrammarMatcher:
        """A matcher at the beginning of an answer by a model with ids below ``vocabulary``.

        Compiling takes from 1 to some 100 ms, without the interpreter lock, and again as long for looking ahead, where
        none of the last grammars was the same. Raises GrammarError, which says where, for a grammar with a fault or
        past the bounds.
        """
        library = grammar_tokenizer(tokenizer)
        text = self._compiled()

        def begin() -> GrammarState:
            matcher = LLMatcher(library.tokenizer, text, log_level=0, limits=LIMITS)
            try:
                return GrammarState(matcher, Ids.of(tokenizer, vocabulary), self.kind)
            except GrammarError as error:
                raise of_its_tool(error, text) from error

        key = (self.kind, text, vocabulary)
        shared = library.grammars.get(key, begin)
        lookahead = GrammarLookahead(shared, lambda: library.grammars.forget(key, shared))
        return GrammarMatcher(begin, lookahead, self.kind)

    def _compiled(self) -> str:
        if self.kind == EBNF:
            return LLMatcher.grammar_from_lark(_as_lark(self.text))
        if self.kind == REGEX:
            return LLMatcher.grammar_from_regex(self.text)
        if self.kind == TOOLS:
            return LLMatcher.grammar_from_lark(tool_rules(json.loads(self.text)))
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


def _json(value: Mapping[str, Any], kind: str) -> str:
    try:
        return json.dumps(value, ensure_ascii=False, allow_nan=False)
    except (TypeError, ValueError) as error:
        raise GrammarError(f"{kind}: expected JSON, found {error}") from error


def _json_object(grammar: Grammar) -> Mapping[str, Any]:
    try:
        found = json.loads(grammar.text)
    except (ValueError, RecursionError) as error:
        raise GrammarError(f"{grammar.kind}: expected JSON, found {error}") from error
    if not isinstance(found, dict):
        raise GrammarError(f"{grammar.kind}: expected an object, found {type(found).__name__}")
    return found
