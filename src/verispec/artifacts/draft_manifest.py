"""What a draft artifact was admitted as: a JSON manifest of its own, checked again whenever the artifact is loaded."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from verispec import __version__
from verispec.artifacts.digests import file_sha256, folder_sha256
from verispec.artifacts.files import write_atomically
from verispec.artifacts.json_file import read_json_object
from verispec.artifacts.store import Store
from verispec.errors import AdmissionError, ArtifactError

FORMAT = "verispec-draft-manifest"
VERSION = 1
SUFFIX = ".draft.json"
KINDS = ("draft-model", "eagle3", "dflash", "dspark")
AGAIN = "Admit it again with `verispec admit`"


@dataclass(frozen=True)
class TargetBinding:
    """The target that an artifact drafts for. Another file of the same model may take its place, such as one of other
    tensor types: all but ``sha256`` must be equal."""

    architecture: str
    layers: int
    hidden_size: int
    vocabulary: int
    tokenizer_sha256: str
    sha256: str


@dataclass(frozen=True)
class Source:
    """Where an artifact is from, as whoever admitted it said."""

    url: str
    revision: str
    license: str


@dataclass(frozen=True)
class DraftManifest:
    """``head`` holds the numbers of a head for people to read (empty for a draft model), ``vector`` its test vector.

    ``same_tokens``: whether token ids mean the same to artifact and target. ``acceptance`` is the share of proposed
    tokens accepted where it was measured, if anybody said.
    """

    kind: str
    file: str
    sha256: str
    target: TargetBinding
    source: Source
    head: Mapping[str, Any]
    vector: Mapping[str, Any] | None
    same_tokens: bool = True
    acceptance: float | None = None

    def write(self, artifact: Path) -> Path:
        """Writes the manifest of ``artifact`` to its place, whole or not at all."""
        body = {"made_by": f"verispec {__version__}", **asdict(self)}
        content = {"format": FORMAT, "version": VERSION, "sha256": _digest(body), "body": body}
        path = draft_manifest_path(artifact)
        write_atomically(path, (json.dumps(content, indent=2) + "\n").encode())
        return path


def draft_manifest_path(artifact: Path) -> Path:
    """Where the manifest of ``artifact``, a file or a folder, is: beside it as it is named, also where that is a link.

    That of a model in the store is in the store's folder ``drafts``: beside its content stands nothing but content.
    """
    path, store = Path(os.path.abspath(artifact)), Store()
    if path.parent.resolve() == store.blobs.resolve():
        return store.folder / "drafts" / (path.name + SUFFIX)
    return path.with_name(path.name + SUFFIX)


def artifact_sha256(artifact: Path) -> str:
    """The content's digest, of a file or over the files of a folder."""
    return folder_sha256(artifact) if artifact.is_dir() else file_sha256(artifact)


def read_draft_manifest(artifact: Path) -> DraftManifest:
    """The manifest of ``artifact``, whose bytes are those that were admitted.

    Raises AdmissionError with code ``not-admitted``, ``edited-manifest`` or ``edited-bytes``, ArtifactError for a
    manifest of another form.
    """
    path = draft_manifest_path(artifact)
    if not path.exists():
        raise AdmissionError(
            "not-admitted",
            f"{artifact}: expected its manifest {path}, found none",
            "Admit it with `verispec admit TARGET DRAFT --kind KIND --source URL --revision R --license L`",
        )
    content = read_json_object(path)
    if content.get("format") != FORMAT or content.get("version") != VERSION:
        found = f"{content.get('format')!r}, version {content.get('version')!r}"
        raise ArtifactError(path, "format", f"{FORMAT!r}, version {VERSION}", found)
    if content.get("sha256") != _digest(content.get("body")):
        raise AdmissionError(
            "edited-manifest", f"{path}: expected content of the digest it names, found another", AGAIN
        )
    manifest = _parsed(path, content["body"])
    found = artifact_sha256(artifact)
    if found != manifest.sha256:
        raise AdmissionError(
            "edited-bytes",
            f"{artifact}: expected the bytes admitted, SHA-256 {manifest.sha256}, found {found}",
            AGAIN,
        )
    return manifest


def _parsed(path: Path, body: Mapping[str, Any]) -> DraftManifest:
    try:
        manifest = DraftManifest(
            kind=body["kind"],
            file=body["file"],
            sha256=body["sha256"],
            target=TargetBinding(**body["target"]),
            source=Source(**body["source"]),
            head=body["head"],
            vector=body["vector"],
            same_tokens=body["same_tokens"],
            acceptance=body["acceptance"],
        )
    except (KeyError, TypeError) as error:
        raise ArtifactError(path, "body", "the fields of a draft manifest", f"others ({error})") from error
    if manifest.kind not in KINDS:
        raise ArtifactError(path, "kind", f"one of {', '.join(KINDS)}", repr(manifest.kind))
    return manifest


def _digest(body: object) -> str:
    return hashlib.sha256(json.dumps(body, sort_keys=True).encode()).hexdigest()
