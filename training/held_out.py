"""Prompts from the held-out documents: what acceptance is measured on, and parity may be checked on."""

from __future__ import annotations

from training.corpus import Document

PROMPTS = 320
CHARACTERS = 240


def prompts(held_out: list[Document], count: int = PROMPTS) -> list[Document]:
    """``count`` beginnings of about CHARACTERS characters, spread evenly over the held-out text.

    Each begins where a line begins and ends where a line ends, so that none starts or stops within a word.
    """
    lines = [
        (document.name, line) for document in held_out for line in document.text.splitlines(keepends=True)
    ]
    total = sum(len(line) for _, line in lines)
    found: list[Document] = []
    passed = 0
    for number, (name, line) in enumerate(lines):
        due = (len(found) + 0.5) * total / count
        if len(found) < count and passed >= due and line.strip():
            found.append(Document(name, _lines_of_one_document(lines[number:], name)))
        passed += len(line)
    return found


def _lines_of_one_document(lines: list[tuple[str, str]], name: str) -> str:
    """Lines until there are CHARACTERS characters, or the document ends."""
    text = ""
    for document, line in lines:
        if document != name or (text and len(text) + len(line) > CHARACTERS):
            break
        text += line
    return text
