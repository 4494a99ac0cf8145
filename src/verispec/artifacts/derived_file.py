"""Writing an artifact that is made of another: its tensors one by one, what they lost, and where it came from."""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from verispec.artifacts.encoding import Run, reencode
from verispec.artifacts.gguf_writer import (
    Progress,
    StoredValue,
    file_type_of,
    natural_value,
    stored_metadata,
    write_gguf,
)
from verispec.artifacts.manifest import Derivation, RoleSize, write_manifest
from verispec.artifacts.model_file import ModelFile, TensorDescription
from verispec.artifacts.tensor_roles import Layout, kept_in_float32, layout_of
from verispec.artifacts.tensor_types import TensorType
from verispec.errors import ArtifactError, OptionError

KEPT = "vectors"
"""The heading under which tensors without a role (vectors, routers, convolution taps) are counted."""


@dataclass(frozen=True)
class Target:
    """A tensor of the result. ``source`` is the parent's tensor it is made from, ``wanted`` what the recipe named."""

    name: str
    shape: tuple[int, ...]
    type: TensorType
    source: str
    wanted: TensorType
    role: str

    @property
    def nbytes(self) -> int:
        return math.prod(self.shape[:-1]) * self.type.row_bytes(self.shape[-1])


@dataclass
class Derived:
    """What was made: sizes by role, root-mean-square error by role relative to the values, and the manifest."""

    path: Path
    roles: dict[str, RoleSize]
    errors: dict[str, float]
    substituted: list[dict[str, str]]
    manifest: dict[str, Any] = field(default_factory=dict)


def as_it_is(tensor: TensorDescription, layout: Layout, kind: TensorType | None = None) -> Target:
    """A tensor of the parent in its own type or, where it may be changed, in ``kind``."""
    kept = kept_in_float32(tensor.name, tensor.shape)
    given = tensor.type if kept or kind is None else kind
    role = KEPT if kept else layout.role(tensor.name)
    return Target(tensor.name, tensor.shape, given, tensor.name, given, role)


def write_derived(
    parent: ModelFile,
    output: Path,
    targets: Sequence[Target],
    derivation: Derivation,
    progress: Progress | None = None,
) -> Derived:
    """Writes the result and its manifest.

    Raises OptionError when it would replace its parent, ArtifactError for a value that its type cannot hold.
    """
    if output.exists() and output.samefile(parent.path):
        raise OptionError(f"output: expected another file than the input, found {output}")
    if output.is_dir():
        raise OptionError(f"output: expected a file, found the folder {output}")
    with ThreadPoolExecutor(default_threads()) as pool:
        encoder = TensorEncoder(parent, targets, pool.map)
        write_gguf(output, derived_metadata(parent, targets, derivation), targets, encoder, progress)
    substituted = [
        {"tensor": one.name, "wanted": one.wanted.name, "given": one.type.name}
        for one in targets
        if one.type is not one.wanted
    ]
    derived = Derived(output, sizes_by_role(targets), encoder.errors(), substituted)
    derived.manifest = write_manifest(output, derivation, derived.roles, substituted)
    return derived


class TensorEncoder:
    """Gives each tensor of the result its bytes, and adds up what they lose. A ``TensorSource``."""

    def __init__(self, parent: ModelFile, targets: Iterable[Target], run: Run) -> None:
        self._parent = parent
        self._targets = {target.name: target for target in targets}
        self._run = run
        self._squares: dict[str, tuple[float, float]] = {}

    def __call__(self, name: str) -> NDArray[np.uint8]:
        target = self._targets[name]
        before = self._parent.tensors[target.source].type
        stored, error, energy = reencode(self._parent.data(target.source), before, target.type, self._run)
        if not math.isfinite(error):
            expected = f"finite values within the range of {target.type.name}"
            raise ArtifactError(self._parent.path, f"tensor {name}", expected, "others")
        self._parent.release(target.source)
        errors, energies = self._squares.get(target.role, (0.0, 0.0))
        self._squares[target.role] = errors + error, energies + energy
        return stored

    def errors(self) -> dict[str, float]:
        """Root-mean-square error of each role whose tensors were encoded, relative to their values."""
        return {role: math.sqrt(error / energy) for role, (error, energy) in self._squares.items() if energy}


def derived_metadata(
    parent: ModelFile, targets: Sequence[Target], derivation: Derivation
) -> dict[str, StoredValue]:
    """The parent's metadata with its own types, the file type of the result, and where it came from."""
    added = {"general.file_type": file_type_of(targets), **derivation.metadata()}
    return stored_metadata(parent) | {key: natural_value(value) for key, value in added.items()}


def sizes_of(file: ModelFile) -> dict[str, RoleSize]:
    """What is in a file, by role."""
    layout = layout_of(file)
    return sizes_by_role([as_it_is(tensor, layout) for tensor in file.tensors.values()])


def sizes_by_role(targets: Sequence[Target]) -> dict[str, RoleSize]:
    """Counts by role, in the order in which roles first occur."""
    roles: dict[str, RoleSize] = {}
    for target in targets:
        size = roles.setdefault(target.role, RoleSize())
        size.tensors += 1
        size.parameters += math.prod(target.shape)
        size.nbytes += target.nbytes
        size.types[target.type.name] = size.types.get(target.type.name, 0) + 1
    return roles


def default_threads() -> int:
    """The processors this process may use."""
    allowed: Callable[[int], set[int]] | None = getattr(os, "sched_getaffinity", None)
    return len(allowed(0)) if allowed is not None else os.cpu_count() or 1
