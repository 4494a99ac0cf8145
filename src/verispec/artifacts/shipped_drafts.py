"""Draft artifacts that come with the package: found by name as any model is, or by the target they were made for."""

from __future__ import annotations

from pathlib import Path

from verispec.artifacts.draft_manifest import SUFFIX, TargetBinding
from verispec.artifacts.json_file import read_json_object

FOLDER = Path(__file__).parent / "drafts"
FILE = ".gguf"


def shipped_names() -> list[str]:
    """Of all that come with the package, each with its manifest."""
    return sorted(path.name.removesuffix(FILE + SUFFIX) for path in FOLDER.glob(f"*{FILE}{SUFFIX}"))


def shipped_path(name: str) -> Path | None:
    """The file of the artifact ``name``, or None."""
    return FOLDER / f"{name}{FILE}" if name in shipped_names() else None


def shipped_bindings() -> dict[str, TargetBinding]:
    """What each is bound to, by its name; the rest of a manifest is checked when it is loaded."""
    return {
        name: TargetBinding(**read_json_object(FOLDER / f"{name}{FILE}{SUFFIX}")["body"]["target"])
        for name in shipped_names()
    }
