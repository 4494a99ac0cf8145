"""The training text: the Python standard library's sources and the language reference that pydoc shows.

Both come with every CPython installation (PSF License Version 2). Which documents are held out is decided by the
digest of a document's name, so that the split needs no list to be kept in step and is the same on every machine.
"""

from __future__ import annotations

import ast
import sysconfig
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path

LEFT_OUT = (
    "site-packages",
    "test",
    "tests",
    "idle_test",
    "encodings",
    "ensurepip",
    "lib-dynload",
    "__pycache__",
)
"""Folders that are other people's work, tables, or tests (repetitive, and more than the run could read)."""
TOPICS = "pydoc_data/topics.py"
HELD_OUT_SHARE = 20
"""One document in so many is held out."""


@dataclass(frozen=True)
class Document:
    """One text and the name that decides on which side of the split it lies."""

    name: str
    text: str

    @property
    def held_out(self) -> bool:
        return int.from_bytes(sha256(self.name.encode()).digest()[:4], "big") % HELD_OUT_SHARE == 0


def read_documents(library: Path | None = None) -> list[Document]:
    """Every document, in the order of their names.

    ``library`` is the folder of the standard library (the running interpreter's when None). A module is one
    document named by its path below that folder; an entry of the language reference is one named ``topic:NAME``.
    Modules generated when the interpreter was built are left out: they hold facts of one machine.
    """
    folder = library or Path(sysconfig.get_paths()["stdlib"])
    documents = []
    for path in folder.rglob("*.py"):
        name = path.relative_to(folder).as_posix()
        generated = name.startswith(("_sysconfigdata", "config-"))
        if generated or name == TOPICS or any(part in LEFT_OUT for part in Path(name).parts[:-1]):
            continue
        try:
            documents.append(Document(name, path.read_text("utf-8")))
        except UnicodeDecodeError:  # a few modules keep an older encoding; they are not worth guessing
            continue
    documents += [Document(f"topic:{name}", text) for name, text in _topics(folder / TOPICS).items()]
    return sorted((document for document in documents if document.text), key=lambda document: document.name)


def split(documents: list[Document]) -> tuple[list[Document], list[Document]]:
    """The documents to train on and the held-out ones."""
    return [d for d in documents if not d.held_out], [d for d in documents if d.held_out]


def digest(documents: list[Document]) -> str:
    """SHA-256 over names and texts, in order: what text a run has seen."""
    content = sha256()
    for document in documents:
        for part in (document.name, document.text):
            data = part.encode()
            content.update(len(data).to_bytes(8, "big") + data)
    return content.hexdigest()


def _topics(path: Path) -> dict[str, str]:
    """The entries of pydoc's language reference, read without running the module."""
    for statement in ast.parse(path.read_text("utf-8")).body:
        if isinstance(statement, ast.Assign):
            entries = ast.literal_eval(statement.value)
            return {str(name): str(text) for name, text in entries.items()}
    raise ValueError(f"{path}: expected an assignment of the topics, found none")
