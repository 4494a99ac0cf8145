"""Folders of a machine stand in the ledger; what is made to be shown to others names files alone."""

from __future__ import annotations

import hashlib
import re

PART = r"[^\s/:,;'\"<>|()\[\]{}=]+"
ABSOLUTE = re.compile(rf"(?<![\w/~-])(?<!(?<!\w)\.)~?/(?!(?:v1|api)/)(?:{PART}/+)+(?:{PART})?")
"""A path from the root or from ``~``, with at least one folder in it: behind a space, a quote, a colon, an equals sign
or the dot of a longer name, and not within a relative path or an address. ``/v1/`` and ``/api/`` begin requests."""
QUOTED = re.compile(
    r"(?P<quote>[\"'])(?=~?/(?!/|v1/|api/))(?P<path>(?:(?! [-/~])[^\"':\n])*/(?:(?! [-/~])[^\"':\n])*)(?P=quote)"
)
"""A whole text between quotes that is one path, which may have spaces in it."""
SEARCHED = re.compile(rf"(?:~?(?:/{PART})+/?:)+~?(?:/{PART})+/?")
"""Folders one after another with colons between them, as variables such as ``PATH`` hold them."""


def without_folders(text: str) -> str:
    """``text`` with each absolute path cut to its last name: ``expected /opt/a/server`` becomes ``expected server``.

    Of a list of folders its length and a digest stay, by which two lists can be told apart.
    """
    text = SEARCHED.sub(lambda found: _counted(found[0]), text)
    text = QUOTED.sub(lambda found: f"{found['quote']}{_last(found['path'])}{found['quote']}", text)
    return ABSOLUTE.sub(lambda found: _last(found[0]), text)


def _counted(folders: str) -> str:
    digest = hashlib.sha256(folders.encode("utf-8", "surrogatepass")).hexdigest()
    return f"{folders.count(':') + 1} folders (SHA-256 {digest[:12]})"


def _last(path: str) -> str:
    return path.rstrip("/").rpartition("/")[2]
