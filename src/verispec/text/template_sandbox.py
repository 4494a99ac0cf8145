"""Chat templates come with model files and are not trusted: what they can reach, and how much they can do.

On top of jinja2's immutable sandbox (no attributes that lead to Python's internals, no changing of lists),
this one knows only the filters and string methods that published templates use, counts every loop turn and
call against a budget, and bounds every text and list that grows. So a template's time and memory are bounded
without a clock, and the same template with the same messages always gives the same result.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextvars import ContextVar
from typing import Any

from jinja2 import nodes
from jinja2.exceptions import SecurityError
from jinja2.ext import Extension
from jinja2.parser import Parser
from jinja2.runtime import Context, LoopContext
from jinja2.sandbox import ImmutableSandboxedEnvironment
from jinja2.utils import Namespace

MAX_TEMPLATE_CHARACTERS = 1 << 20
MAX_STEPS = 250_000
MAX_RANGE = 100_000
MAX_NUMBER_BITS = 256
CHARACTERS_A_STEP = 64  # a text of this many characters costs a filter or call one step more


def _names(words: str) -> frozenset[str]:
    return frozenset(words.split())


FILTERS = _names(
    """
    abs batch capitalize count d default dictsort e escape first float groupby indent int items join
    last length list lower map max min reject rejectattr replace reverse round safe select selectattr slice
    sort string sum title tojson trim truncate unique upper
    """
)
STRING_METHODS = _names(
    """
    capitalize count endswith find index isalnum isalpha isdecimal isdigit islower isnumeric isspace istitle
    isupper join lower lstrip partition removeprefix removesuffix replace rfind rindex rpartition rsplit
    rstrip split splitlines startswith strip title upper
    """
)
# filters whose result their numeric arguments can make large
SIZED_FILTERS = frozenset(("indent", "batch", "slice", "truncate", "tojson", "round"))
LOOP_FILTER, SIZE_FILTER = "_verispec_turns", "_verispec_size"  # names no template may write


class Budget:
    """What one rendering may still do."""

    def __init__(self, characters: int) -> None:
        self.steps = MAX_STEPS
        self.characters = characters

    def spend(self, steps: int) -> None:
        self.steps -= steps
        if self.steps < 0:
            raise SecurityError(f"the template does more than {MAX_STEPS} steps")

    def check_size(self, value: Any) -> Any:
        """``value``, unless it is a text or list larger than the rendering may make."""
        if isinstance(value, (str, list, tuple)) and len(value) > self.characters:
            raise SecurityError(f"the template makes a text or list of more than {self.characters} elements")
        return value

    def check_product(self, size: int, count: int) -> None:
        if size * count > self.characters:
            raise SecurityError(f"the template makes a text or list of more than {self.characters} elements")


active_budget: ContextVar[Budget] = ContextVar("active_budget")


class GenerationBlock(Extension):
    """``{% generation %}`` marks what the assistant writes, for training; rendering shows its body."""

    tags = {"generation"}  # noqa: RUF012 (jinja2 declares it so)

    def parse(self, parser: Parser) -> nodes.Node:
        line = next(parser.stream).lineno
        return nodes.Scope(parser.parse_statements(("name:endgeneration",), drop_needle=True), lineno=line)


class PlainNamespace(Namespace):
    """``namespace()`` of templates, without names that Python itself looks at."""

    def __init__(self, *arguments: Any, **values: Any) -> None:
        super().__init__(*arguments, **values)
        for name in dict(*arguments, **values):
            _check_name(name)

    def __setitem__(self, name: str, value: Any) -> None:
        _check_name(name)
        super().__setitem__(name, value)


class TemplateSandbox(ImmutableSandboxedEnvironment):
    """A jinja2 environment for chat templates, with the whitespace rules they are written for."""

    intercepted_binops = frozenset(("+", "*", "**", "%"))

    def __init__(self) -> None:
        super().__init__(
            trim_blocks=True,
            lstrip_blocks=True,
            extensions=[GenerationBlock, "jinja2.ext.loopcontrols"],
            autoescape=False,
        )
        self.filters = {name: _charged(name, self.filters[name]) for name in FILTERS}
        self.filters |= {LOOP_FILTER: _turns, SIZE_FILTER: _measured}
        self.globals = {"range": _range, "dict": _dict, "namespace": PlainNamespace}

    def _parse(self, source: str, name: str | None, filename: str | None) -> nodes.Template:
        """The tree of ``source``, with its loops and text-building nodes made to account for themselves."""
        tree = super()._parse(source, name, filename)
        for call in tree.find_all(nodes.Filter):
            if call.name not in FILTERS:
                raise SecurityError(f"line {call.lineno}: chat templates have no filter {call.name!r}")
        for loop in tree.find_all(nodes.For):
            loop.iter = _filtered(loop.iter, LOOP_FILTER)
        for block in tree.find_all(nodes.AssignBlock):
            block.filter = _filtered(block.filter, SIZE_FILTER)
        _measure_concatenations(tree)
        return tree

    def is_safe_attribute(self, obj: Any, attr: str, value: Any) -> bool:
        if isinstance(obj, str):
            return attr in STRING_METHODS
        return bool(super().is_safe_attribute(obj, attr, value))

    def call(self, context: Context, obj: Any, /, *args: Any, **kwargs: Any) -> Any:
        budget = active_budget.get()
        budget.spend(1)
        owner: Any = getattr(obj, "__self__", None)
        if hasattr(owner, "__len__"):
            budget.spend(len(owner) // CHARACTERS_A_STEP)
        if isinstance(owner, str):
            _check_string_method(budget, owner, obj.__name__, args)
        elif isinstance(obj, LoopContext) and args:  # a recursive loop's next level
            args = (_turns(args[0]), *args[1:])
        return budget.check_size(super().call(context, obj, *args, **kwargs))

    def call_binop(self, context: Context, operator: str, left: Any, right: Any) -> Any:
        budget = active_budget.get()
        numbers = isinstance(left, (int, float)) and isinstance(right, (int, float))
        if operator == "%" and isinstance(left, str):
            raise SecurityError("the % operator on texts is not available to chat templates")
        if operator == "*" and not numbers:
            sizes = [len(value) if hasattr(value, "__len__") else value for value in (left, right)]
            budget.check_product(*(size if isinstance(size, int) else 0 for size in sizes))
        if operator == "**" and numbers and (abs(left) > 1 << 16 or abs(right) > 16):
            raise SecurityError("powers of numbers this large are not available to chat templates")
        result = budget.check_size(super().call_binop(context, operator, left, right))
        if isinstance(result, int) and result.bit_length() > MAX_NUMBER_BITS:
            raise SecurityError(f"the template makes a number of more than {MAX_NUMBER_BITS} bits")
        if isinstance(result, (str, list, tuple)):
            budget.spend(len(result) // CHARACTERS_A_STEP)
        return result


def _filtered(node: nodes.Node | None, name: str) -> nodes.Filter:
    return nodes.Filter(node, name, [], [], None, None, lineno=node.lineno if node is not None else 1)


def _measure_concatenations(node: nodes.Node) -> None:
    """Puts the size check around every ``~`` below ``node``."""
    for name, value in node.iter_fields():
        for child in value if isinstance(value, list) else [value]:
            if isinstance(child, nodes.Node):
                _measure_concatenations(child)
        if isinstance(value, nodes.Concat):
            setattr(node, name, _filtered(value, SIZE_FILTER))
        elif isinstance(value, list):
            for index, item in enumerate(value):
                if isinstance(item, nodes.Concat):
                    value[index] = _filtered(item, SIZE_FILTER)


def _turns(values: Any) -> Any:
    """``values``, each turn counted. What has a length stays as it is, since loops ask for it."""
    budget = active_budget.get()
    if hasattr(values, "__len__"):
        budget.spend(len(values) + 1)
        return values
    return _counted(values, budget)


def _counted(values: Iterable[Any], budget: Budget) -> Iterator[Any]:
    for value in values:
        budget.spend(1)
        yield value


def _measured(value: Any) -> Any:
    budget = active_budget.get()
    budget.spend(1 + len(value) // CHARACTERS_A_STEP)
    return budget.check_size(value)


def _check_name(name: Any) -> None:
    if not isinstance(name, str) or name.startswith("_"):
        raise SecurityError(f"the name {name!r} is not available to chat templates")


def _dict(*arguments: Any, **values: Any) -> dict[Any, Any]:
    return dict(*arguments, **values)


def _range(*arguments: int) -> range:
    values = range(*arguments)
    if len(values) > MAX_RANGE:
        raise SecurityError(f"ranges of more than {MAX_RANGE} numbers are not available to chat templates")
    return values


def _check_string_method(budget: Budget, owner: str, name: str, arguments: tuple[Any, ...]) -> None:
    """Refuses calls whose result would be large before they make it."""
    if name == "replace" and len(arguments) > 1 and isinstance(arguments[1], str):
        budget.check_product(len(arguments[1]), len(owner) + 1)
    elif name == "join" and arguments and hasattr(arguments[0], "__len__"):
        budget.check_product(len(owner), len(arguments[0]))


def _charged(name: str, function: Callable[..., Any]) -> Callable[..., Any]:
    """The filter ``function``, paid for by the size of what it is given and bounded in what it makes."""
    takes_context = hasattr(function, "jinja_pass_arg")

    def charged(*arguments: Any, **named: Any) -> Any:
        budget = active_budget.get()
        value, *others = arguments[1:] if takes_context else arguments
        budget.spend(1 + (len(value) // CHARACTERS_A_STEP if hasattr(value, "__len__") else 0))
        numbers = [item for item in [*others, *named.values()] if isinstance(item, int)]
        if name in SIZED_FILTERS and any(abs(number) > budget.characters // 1024 for number in numbers):
            raise SecurityError(f"filter {name!r}: a number this large is not available to chat templates")
        if name == "replace" and len(others) > 1:
            budget.check_product(len(str(others[1])), len(str(value)) + 1)
        if name == "join" and others:
            values = value = list(value)
            budget.check_product(len(str(others[0])), len(values))
            arguments = (arguments[0], values, *others) if takes_context else (values, *others)
        return budget.check_size(function(*arguments, **named))

    if takes_context:
        charged.jinja_pass_arg = function.jinja_pass_arg  # type: ignore[attr-defined]
    return charged
