"""What a model file holds, as plain data for people and for ``--json``.

Files that verispec cannot run are described too, as far as their header can be read: ``faults`` then says
what keeps the file from being opened. Whether a graph exists for it is a question for the models, not
asked here.
"""

from __future__ import annotations

import math
import os
from dataclasses import asdict, dataclass
from pathlib import Path

from verispec.artifacts.digests import descriptor_sha256
from verispec.artifacts.gguf import check_file, map_file
from verispec.artifacts.gguf_header import (
    DEFAULT_ALIGNMENT,
    GgufHeader,
    MetadataValue,
    TensorRecord,
    read_header,
)
from verispec.artifacts.manifest import DERIVED_FROM, DERIVED_RECIPE, RECIPE_DIGEST
from verispec.artifacts.model_file import open_model_file
from verispec.artifacts.tensor_roles import DRAFT_HEAD, block_of
from verispec.artifacts.tensor_types import TYPES_BY_ID, type_name
from verispec.errors import ArtifactError

LONGEST_SHOWN = 200


@dataclass(frozen=True)
class TensorReport:
    """A tensor: ``shape`` is (rows, columns); ``nbytes`` is None where verispec does not know the layout."""

    name: str
    shape: tuple[int, ...]
    type: str
    nbytes: int | None


@dataclass(frozen=True)
class TypeReport:
    """All tensors of one type together."""

    type: str
    supported: bool
    tensors: int
    parameters: int
    nbytes: int | None


@dataclass(frozen=True)
class TokeniserReport:
    """The tokeniser a file carries; counts are zero and names empty where it has none."""

    model: str
    pre_tokeniser: str
    tokens: int
    merges: int
    special_ids: dict[str, int]
    chat_template: bool


@dataclass(frozen=True)
class Inspection:
    """Everything ``verispec inspect`` shows of a file's own content."""

    file: str
    size: int
    sha256: str
    gguf_version: int
    architecture: str
    name: str
    licence: str
    derived_from: str
    recipe: str
    recipe_sha256: str
    parameters: int
    metadata: dict[str, MetadataValue]
    types: list[TypeReport]
    tensors: list[TensorReport]
    draft_heads: list[TensorReport]
    """Output matrices of prediction blocks' own; a block without one drafts with the model's."""
    tokeniser: TokeniserReport
    faults: list[str]

    def as_dict(self) -> dict[str, object]:
        """The same as plain dicts and lists, for JSON."""
        return asdict(self)


def inspect_file(path: Path) -> Inspection:
    """Reads and describes the GGUF file or the folder of safetensors at ``path``.

    Raises ArtifactError when not even its header can be read, and as opening a folder does.
    """
    if path.is_dir():
        return inspect_folder(path)
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
    except OSError as error:
        raise ArtifactError(path, "file", "a readable GGUF file", os.strerror(error.errno or 0)) from error
    try:
        mapping = map_file(path, descriptor)
        header = read_header(mapping, path)
        return describe_file(path, len(mapping), header, descriptor_sha256(descriptor))
    finally:
        os.close(descriptor)


def inspect_folder(path: Path) -> Inspection:
    """Describes a published folder as the GGUF file it would become; its version is 0, since it is none."""
    with open_model_file(path) as folder:
        records = [
            TensorRecord(tensor.name, tensor.shape[::-1], tensor.type.id, 0)
            for tensor in folder.tensors.values()
        ]
        header = GgufHeader(0, folder.metadata, records, DEFAULT_ALIGNMENT, 0)
        size = sum(file.stat().st_size for file in path.iterdir() if file.is_file())
        return describe_header(path, size, header, folder.sha256(), faults=[])


def describe_file(path: Path, size: int, header: GgufHeader, digest: str) -> Inspection:
    return describe_header(path, size, header, digest, find_faults(path, header, size))


def describe_header(path: Path, size: int, header: GgufHeader, digest: str, faults: list[str]) -> Inspection:
    tensors = [describe_tensor(record) for record in header.tensors]
    return Inspection(
        file=str(path),
        size=size,
        sha256=digest,
        gguf_version=header.version,
        architecture=text(header, "general.architecture"),
        name=text(header, "general.name"),
        licence=text(header, "general.license"),
        derived_from=text(header, DERIVED_FROM),
        recipe=text(header, DERIVED_RECIPE),
        recipe_sha256=text(header, RECIPE_DIGEST),
        parameters=sum(math.prod(record.dimensions) for record in header.tensors),
        metadata={key: shorten(value) for key, value in header.metadata.items()},
        types=describe_types(header.tensors),
        tensors=tensors,
        draft_heads=[tensor for tensor in tensors if block_of(tensor.name)[1] == DRAFT_HEAD],
        tokeniser=describe_tokeniser(header),
        faults=faults,
    )


def find_faults(path: Path, header: GgufHeader, size: int) -> list[str]:
    """What would make opening the file fail: the first fault, or nothing."""
    try:
        check_file(path, header, size)
    except ArtifactError as error:
        return [f"{error.where}: expected {error.expected}, found {error.found}"]
    return []


def describe_tensor(record: TensorRecord) -> TensorReport:
    return TensorReport(record.name, record.dimensions[::-1], type_name(record.type_id), stored_bytes(record))


def stored_bytes(record: TensorRecord) -> int | None:
    """Bytes the tensor takes; None when its type is not supported or its rows are not whole blocks."""
    kind = TYPES_BY_ID.get(record.type_id)
    if kind is None or record.dimensions[0] % kind.block_size:
        return None
    return math.prod(record.dimensions) // kind.block_size * kind.block_bytes


def describe_types(records: list[TensorRecord]) -> list[TypeReport]:
    """One report a type, the one with the most parameters first."""
    reports = []
    for type_id in {record.type_id for record in records}:
        same = [record for record in records if record.type_id == type_id]
        sizes = [stored_bytes(record) for record in same]
        known = [size for size in sizes if size is not None]
        reports.append(
            TypeReport(
                type=type_name(type_id),
                supported=type_id in TYPES_BY_ID,
                tensors=len(same),
                parameters=sum(math.prod(record.dimensions) for record in same),
                nbytes=sum(known) if len(known) == len(sizes) else None,
            )
        )
    return sorted(reports, key=lambda report: -report.parameters)


def describe_tokeniser(header: GgufHeader) -> TokeniserReport:
    prefix, suffix = "tokenizer.ggml.", "_token_id"
    ids = {
        key.removeprefix(prefix).removesuffix(suffix): value
        for key, value in header.metadata.items()
        if key.startswith(prefix) and key.endswith(suffix) and type(value) is int
    }
    return TokeniserReport(
        model=text(header, "tokenizer.ggml.model"),
        pre_tokeniser=text(header, "tokenizer.ggml.pre"),
        tokens=length(header, "tokenizer.ggml.tokens"),
        merges=length(header, "tokenizer.ggml.merges"),
        special_ids=ids,
        chat_template=bool(text(header, "tokenizer.chat_template")),
    )


def text(header: GgufHeader, key: str) -> str:
    value = header.metadata.get(key, "")
    return value if isinstance(value, str) else ""


def length(header: GgufHeader, key: str) -> int:
    value = header.metadata.get(key)
    return len(value) if isinstance(value, list) else 0


def shorten(value: MetadataValue) -> MetadataValue:
    """Short values as they are; a long text is cut, a long list counted."""
    if isinstance(value, list) and len(value) > 8:
        return f"{len(value)} values"
    if isinstance(value, str) and len(value) > LONGEST_SHOWN:
        return value[:LONGEST_SHOWN] + "..."
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)  # JSON has no such number
    return value
