"""Where a derived artifact came from: metadata keys inside it, and a JSON manifest beside it."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from verispec import __version__
from verispec.artifacts.digests import file_sha256
from verispec.artifacts.files import write_atomically
from verispec.artifacts.gguf_header import MetadataValue
from verispec.artifacts.model_file import ModelFile

FORMAT = "verispec-artifact-manifest"
VERSION = 1
DERIVED_FROM, DERIVED_RECIPE = "verispec.derived_from", "verispec.derived_recipe"
RECIPE_DIGEST = "verispec.derived_recipe_sha256"
SUFFIX = ".manifest.json"


@dataclass(frozen=True)
class Derivation:
    """What was made from what: the parent's file name and digest, the recipe's name, digest and content."""

    parent: str
    parent_sha256: str
    recipe: str
    recipe_sha256: str
    content: dict[str, Any]

    def metadata(self) -> dict[str, MetadataValue]:
        """The keys that say it in the artifact itself."""
        return {
            DERIVED_FROM: self.parent_sha256,
            DERIVED_RECIPE: self.recipe,
            RECIPE_DIGEST: self.recipe_sha256,
        }


@dataclass
class RoleSize:
    """The tensors of one role: how many, their elements and stored bytes, and how many there are of each type."""

    tensors: int = 0
    parameters: int = 0
    nbytes: int = 0
    types: dict[str, int] = field(default_factory=dict)

    @property
    def bits_per_weight(self) -> float:
        return 8 * self.nbytes / self.parameters if self.parameters else 0.0


def manifest_path(artifact: Path) -> Path:
    """Where the manifest of ``artifact`` is."""
    return artifact.with_name(artifact.name + SUFFIX)


def write_manifest(
    artifact: Path, derivation: Derivation, roles: dict[str, RoleSize], notes: list[dict[str, str]]
) -> dict[str, Any]:
    """Writes the manifest of a finished artifact beside it, and returns its content.

    ``notes`` are the tensors that did not get the type the recipe names.
    """
    content = {
        "format": FORMAT,
        "version": VERSION,
        "made_by": f"verispec {__version__}",
        "artifact": {
            "file": artifact.name,
            "sha256": file_sha256(artifact),
            "size": artifact.stat().st_size,
        },
        "parent": {"name": derivation.parent, "sha256": derivation.parent_sha256},
        "recipe": {
            "name": derivation.recipe,
            "sha256": derivation.recipe_sha256,
            "content": derivation.content,
        },
        "roles": {role: asdict(size) for role, size in roles.items()},
        "substituted": notes,
    }
    write_atomically(manifest_path(artifact), (json.dumps(content, indent=2) + "\n").encode())
    return content


def derivation_of(parent: ModelFile, recipe: str, recipe_sha256: str, content: dict[str, Any]) -> Derivation:
    """The derivation from an open parent, whose content is hashed."""
    return Derivation(parent.path.resolve().name, parent.sha256(), recipe, recipe_sha256, content)
