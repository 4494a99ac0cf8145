"""What a grammar may cost. Grammars come with requests and are not trusted.

What passes a bound fails its own request. The library reads some things by recursion, which would end the process:
depth is bounded here, before it sees them. It counts levels of brackets, once more for every name that may lead to
others.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

from llguidance import LLParserLimits

from verispec.errors import GrammarError

MAX_CHARACTERS = 1 << 16
MAX_NESTING = 32
MAX_DEPTH = 1_000
MAX_PROPERTIES = 512

# The worst grammars that pass then compile or fail within about a second of CPU, and cost tens of ms a token.
LIMITS = LLParserLimits(
    initial_lexer_fuel=200_000,
    step_lexer_fuel=50_000,
    step_max_items=10_000,
    max_items_in_row=2_000,
    max_lexer_states=20_000,
    max_grammar_size=100_000,
    verbose_errors=False,  # they would show the answer so far
)

_RULE = re.compile(r"^[ \t]*[?!]?[A-Za-z_]", re.MULTILINE)  # a line of either syntax that begins a rule
# A reference in a schema that stands in a grammar; JSON can write each of its characters in two ways.
_REFERENCE = re.compile(r'"(\$|\\u0024)(r|\\u0072)(e|\\u0065)(f|\\u0066)"')


def check_schema(schema: object, where: str) -> None:
    """Refuses schemas that nest too deeply, also by way of their references, and objects too large to compile."""
    level, nesting, references = [schema], 0, 0
    while level:
        nesting += 1
        if nesting > MAX_NESTING:
            raise GrammarError(f"{where}: expected at most {MAX_NESTING} levels, found more")
        children: list[object] = []
        for value in level:
            if isinstance(value, Mapping):
                references += "$ref" in value
                children.extend(value.values())
                if len(value) > MAX_PROPERTIES:
                    expected = f"expected objects of at most {MAX_PROPERTIES} keys"
                    raise GrammarError(f"{where}: {expected}, found {len(value)}")
            elif isinstance(value, (list, tuple)):
                children.extend(value)
        level = [child for child in children if isinstance(child, (Mapping, list, tuple))]
    _check_product(nesting, references + 1, where)


def check_text(text: str, where: str) -> None:
    """The same for grammars and expressions, where brackets count wherever they stand."""
    depth = nesting = 0
    for bracket in re.findall(r"[()\[\]{}]", text):
        depth = max(0, depth + (1 if bracket in "([{" else -1))
        nesting = max(nesting, depth)
    if nesting > MAX_NESTING:
        raise GrammarError(f"{where}: expected brackets at most {MAX_NESTING} deep, found more")
    _check_product(nesting + 1, len(_RULE.findall(text)) + len(_REFERENCE.findall(text)), where)


def _check_product(nesting: int, names: int, where: str) -> None:
    if nesting * names > MAX_DEPTH:
        expected = f"expected nesting times rules or references of at most {MAX_DEPTH}"
        raise GrammarError(f"{where}: {expected}, found {nesting} times {names}")
