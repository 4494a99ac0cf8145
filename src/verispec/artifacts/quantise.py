"""Making one artifact from another: every tensor in the type that a recipe names, everything else as it was.

The result is a new artifact: it names its parent's digest and the recipe's, in metadata and in a manifest beside it.
"""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from verispec.artifacts.encoding import reencode
from verispec.artifacts.gguf_writer import (
    Progress,
    StoredValue,
    file_type_of,
    natural_value,
    stored_metadata,
    write_gguf,
)
from verispec.artifacts.manifest import Derivation, RoleSize, derivation_of, write_manifest
from verispec.artifacts.model_file import ModelFile, TensorDescription
from verispec.artifacts.recipe import Recipe
from verispec.artifacts.tensor_roles import DRAFT_HEAD, EMBEDDING, OUTPUT, Layout, kept_in_float32, layout_of
from verispec.artifacts.tensor_types import TensorType
from verispec.errors import ArtifactError, OptionError

FALLBACKS = {
    TensorType.Q4_K: TensorType.Q5_0,
    TensorType.Q5_K: TensorType.Q5_1,
    TensorType.Q6_K: TensorType.Q8_0,
}
"""For rows that are not whole superblocks; what is left over then becomes F16. llama.cpp's choices."""
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


def quantise(
    parent: ModelFile,
    output: Path,
    recipe: Recipe,
    *,
    allow_requantize: bool = False,
    progress: Progress | None = None,
) -> Derived:
    """Writes ``parent`` to ``output`` in the types of ``recipe``, and the manifest beside it.

    Tensors that already have the type they are to get are copied. Raises ArtifactError for a parent that is quantised
    otherwise (unless ``allow_requantize``) or has values that a type cannot hold, OptionError for a recipe that does
    not fit the model.
    """
    targets = plan_targets(parent, recipe)
    if not allow_requantize:
        refuse_requantising(parent, targets)
    derivation = derivation_of(parent, recipe.name, recipe.sha256, recipe.content)
    return write_derived(parent, output, targets, derivation, progress)


def plan_targets(parent: ModelFile, recipe: Recipe) -> list[Target]:
    """Every tensor of the result, in file order; a separate draft head comes behind the rest."""
    layout = layout_of(parent)
    targets = []
    for name, tensor in parent.tensors.items():
        if kept_in_float32(name, tensor.shape):
            targets.append(as_it_is(tensor, layout))
        else:
            targets.append(recoded(name, name, tensor.shape, recipe, layout))
    if recipe.separate_draft_head:
        source = EMBEDDING if layout.tied else OUTPUT
        heads = [f"blk.{block}.{DRAFT_HEAD}" for block in layout.prediction_blocks]
        shape = parent.tensors[source].shape
        targets += [
            recoded(head, source, shape, recipe, layout) for head in heads if head not in parent.tensors
        ]
    return targets


def recoded(name: str, source: str, shape: tuple[int, ...], recipe: Recipe, layout: Layout) -> Target:
    """A tensor of the result in the recipe's type, or in what takes its place."""
    wanted = recipe.type_of(name, layout)
    return Target(name, shape, fitting_type(wanted, shape[-1]), source, wanted, layout.role(name))


def as_it_is(tensor: TensorDescription, layout: Layout, kind: TensorType | None = None) -> Target:
    """A tensor of the parent in its own type or, where it may be changed, in ``kind``."""
    kept = kept_in_float32(tensor.name, tensor.shape)
    given = tensor.type if kept or kind is None else kind
    role = KEPT if kept else layout.role(tensor.name)
    return Target(tensor.name, tensor.shape, given, tensor.name, given, role)


def fitting_type(wanted: TensorType, columns: int) -> TensorType:
    """``wanted``, or what takes its place for rows that are not whole blocks of it."""
    if columns % wanted.block_size:
        wanted = FALLBACKS.get(wanted, TensorType.F16)
    return wanted if columns % wanted.block_size == 0 else TensorType.F16


def refuse_requantising(parent: ModelFile, targets: Sequence[Target]) -> None:
    """Quantising what is quantised already adds the errors of both; it has to be asked for."""
    for target in targets:
        before = parent.tensors[target.source].type
        if before.is_quantised and before is not target.type:
            raise ArtifactError(
                parent.path,
                f"tensor {target.source}",
                "F32, F16 or BF16 (--allow-requantize takes what is quantised already, and adds up the errors of both)",
                before.name,
            )


def write_derived(
    parent: ModelFile,
    output: Path,
    targets: Sequence[Target],
    derivation: Derivation,
    progress: Progress | None,
) -> Derived:
    """Writes the result and its manifest. Raises OptionError when it would replace its parent."""
    if output.exists() and output.samefile(parent.path):
        raise OptionError(f"output: expected another file than the input, found {output}")
    if output.is_dir():
        raise OptionError(f"output: expected a file, found the folder {output}")
    by_name = {target.name: target for target in targets}
    squares: dict[str, list[float]] = {}
    with ThreadPoolExecutor(default_threads()) as pool:

        def content(name: str) -> NDArray[np.uint8]:
            target = by_name[name]
            before = parent.tensors[target.source].type
            stored, error, energy = reencode(parent.data(target.source), before, target.type, pool.map)
            if not math.isfinite(error):
                raise ArtifactError(
                    parent.path,
                    f"tensor {name}",
                    f"finite values within the range of {target.type.name}",
                    "others",
                )
            parent.release(target.source)
            total = squares.setdefault(target.role, [0.0, 0.0])
            total[0] += error
            total[1] += energy
            return stored

        write_gguf(output, derived_metadata(parent, targets, derivation), targets, content, progress)
    derived = Derived(
        path=output,
        roles=sizes_by_role(targets),
        errors={role: math.sqrt(error / energy) for role, (error, energy) in squares.items() if energy},
        substituted=[
            {"tensor": one.name, "wanted": one.wanted.name, "given": one.type.name}
            for one in targets
            if one.type is not one.wanted
        ],
    )
    derived.manifest = write_manifest(output, derivation, derived.roles, derived.substituted)
    return derived


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
