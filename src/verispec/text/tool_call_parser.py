"""From an answer's text to what it says and which tools it calls, while it streams."""

from __future__ import annotations

import json
import re
import secrets
import string
from collections.abc import Collection
from dataclasses import dataclass
from typing import Any, NamedTuple

from verispec.text.tool_formats import ToolFormat

ID_CHARACTERS = string.ascii_letters + string.digits
ID_LENGTH = 9  # what Mistral's templates insist on; others take any

_STRING_END = re.compile(r'["\\]')
_NOT_JSON = re.compile(r'["{}\[\]]|[^\s0-9.eE+\-:,truefalsn]')


@dataclass(frozen=True, slots=True)
class ToolCall:
    """One finished call: ``arguments`` is a JSON object as text, ``id`` a new one."""

    id: str
    name: str
    arguments: str


class Parsed(NamedTuple):
    """What a piece of text made certain."""

    content: str
    calls: tuple[ToolCall, ...]


class ToolCallParser:
    """Finds the calls of one format, to the functions of ``names``, in text that comes in pieces.

    What comes out depends on the text alone, not on how it was cut. Text that may become a marker or a call is held
    back. What turns out not to be one is content as it was written: bad JSON, an unknown function, arguments that are
    no object, a call cut off. White space around calls is dropped. ``parallel`` False: what follows the first call is
    dropped, and ``finished`` says that nothing more will come.
    """

    def __init__(self, tool_format: ToolFormat, names: Collection[str], parallel: bool = True) -> None:
        self._format = tool_format
        self._names = frozenset(names)
        self._parallel = parallel
        self._text = ""  # not yet decided
        self._opened: str | None = None  # what stood before a call's JSON, while inside a call
        self._scan = _JsonEnd()
        self._bare = tool_format.bare  # whether a call may begin without its opening
        self._blank = True  # whether white space here belongs to no content
        self.calls = 0

    @property
    def finished(self) -> bool:
        """Whether one call was all that was asked for, and it is there."""
        return self.calls > 0 and not self._parallel

    def push(self, text: str) -> Parsed:
        """Takes in the next piece of the answer."""
        self._text += text
        return self._advance(last=False)

    def flush(self) -> Parsed:
        """The end of the answer."""
        return self._advance(last=True)

    def _advance(self, last: bool) -> Parsed:
        content: list[str] = []
        calls: list[ToolCall] = []
        while self._text and not self.finished:
            inside = self._opened is not None
            if not (self._inside(content, calls, last) if inside else self._outside(content, last)):
                break
        if self.finished:
            self._text = ""
        return Parsed("".join(content), tuple(calls))

    def _outside(self, content: list[str], last: bool) -> bool:
        """Says what is certainly content, up to the next opening. False when more text is needed."""
        opening = self._format.opening
        at = self._text.find(opening)
        held = 0 if last or at >= 0 else _beginning(self._text, opening)
        before = self._text[: at if at >= 0 else len(self._text) - held]
        said = before.lstrip()
        if self._blank:  # white space is held back until it is known what follows
            space = "" if self.calls else before[: len(before) - len(said)]
            if self._bare and said.startswith("{"):
                self._open(space, self._text.lstrip())
                return True
            if not said and at < 0:
                if last:
                    content.append(space)
                    self._text = ""
                return False
            before = space + said
        if said:
            content.append(before)
            self._blank = self._bare = False
            before = ""
        elif not self._blank:
            content.append(before)
            before = ""
        if at < 0:
            self._text = self._text[len(self._text) - held :]
            return False
        self._open(before + opening, self._text[at + len(opening) :])
        return True

    def _open(self, opened: str, rest: str) -> None:
        self._opened, self._text, self._scan = opened, rest, _JsonEnd()

    def _inside(self, content: list[str], calls: list[ToolCall], last: bool) -> bool:
        """Reads the JSON of a call and its closing. False when more text is needed."""
        end = self._scan.find(self._text)
        if end is None and not last:
            return False
        found = self._calls(self._text[:end]) if end else None
        closing, behind = self._format.closing, (self._text[end:].lstrip() if end else "")
        if found is not None and closing and not behind.startswith(closing):
            if not last and closing.startswith(behind):
                return False
            if not (last and closing.startswith(behind)):  # an end token in place of the closing is a closing
                found = None
            behind = ""
        if found is None:
            self._give_back(content)
            return True
        for call in found if self._parallel else found[:1]:
            calls.append(call)
            self.calls += 1
        self._opened, self._text = None, behind.removeprefix(closing)
        self._blank, self._bare = True, self._format.bare
        return True

    def _give_back(self, content: list[str]) -> None:
        """What began as a call is content: its opening, and then whatever follows."""
        assert self._opened is not None
        content.append(self._opened)
        if not self._opened.strip():  # a bare one, whose brace must not open it again
            content.append(self._text[0])
            self._text = self._text[1:]
        self._opened = None
        self._blank = self._bare = False

    def _calls(self, text: str) -> list[ToolCall] | None:
        """The calls that ``text`` holds, None when they are malformed or not for us."""
        try:
            value = json.loads(text)
        except (ValueError, RecursionError):
            return None
        values = value if self._format.array and isinstance(value, list) else [value]
        calls = [self._call(item) for item in values]
        return [call for call in calls if call is not None] if calls and None not in calls else None

    def _call(self, value: Any) -> ToolCall | None:
        if not isinstance(value, dict) or value.get("name") not in self._names:
            return None
        arguments = value.get(self._format.arguments_key, {})
        if not isinstance(arguments, dict):
            return None
        return ToolCall(new_id(), value["name"], json.dumps(arguments, ensure_ascii=False))


def new_id() -> str:
    """A call id that no other call has."""
    return "".join(secrets.choice(ID_CHARACTERS) for _ in range(ID_LENGTH))


def _beginning(text: str, marker: str) -> int:
    """How many characters at the end of ``text`` may be the beginning of ``marker``."""
    for length in range(min(len(text), len(marker) - 1), 0, -1):
        if text.endswith(marker[:length]):
            return length
    return 0


class _JsonEnd:
    """Looks for the end of one JSON object or array in text that grows, reading each character once."""

    def __init__(self) -> None:
        self._at = 0
        self._depth = 0
        self._in_string = False
        self._end: int | None = None

    def find(self, text: str) -> int | None:
        """Where the value ends; None while it does not; 0 when it is no JSON object or array."""
        while self._end is None and self._at < len(text):
            found = (_STRING_END if self._in_string else _NOT_JSON).search(text, self._at)
            if found is None:
                if self._depth == 0 and text.strip():
                    self._end = 0
                self._at = len(text)
            elif self._in_string and found[0] == "\\":
                if found.end() == len(text):  # what is escaped comes with the next piece
                    break
                self._at = found.end() + 1
            else:
                self._at = found.end()
                self._step(text, found.start())
        return self._end

    def _step(self, text: str, at: int) -> None:
        """Takes in a character that means something where it stands."""
        character = text[at]
        if self._in_string:
            self._in_string = False
        elif character in "{[" and (self._depth or not text[:at].strip()):
            self._depth += 1
        elif character in "}]" and self._depth:
            self._depth -= 1
            if self._depth == 0:
                self._end = at + 1
        elif character == '"' and self._depth:
            self._in_string = True
        else:
            self._end = 0
