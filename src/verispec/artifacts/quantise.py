"""Making one artifact from another: every tensor in the type that a recipe names, everything else as it was.

The result is a new artifact: it names its parent's digest and the recipe's, in metadata and in a manifest beside it.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from verispec.artifacts.derived_file import Derived, Target, as_it_is, write_derived
from verispec.artifacts.gguf_writer import Progress
from verispec.artifacts.manifest import derivation_of
from verispec.artifacts.model_file import ModelFile
from verispec.artifacts.recipe import Recipe
from verispec.artifacts.tensor_roles import DRAFT_HEAD, EMBEDDING, OUTPUT, Layout, kept_in_float32, layout_of
from verispec.artifacts.tensor_types import TensorType
from verispec.errors import ArtifactError

FALLBACKS = {
    TensorType.Q4_K: TensorType.Q5_0,
    TensorType.Q5_K: TensorType.Q5_1,
    TensorType.Q6_K: TensorType.Q8_0,
}
"""For rows that are not whole superblocks; what is left over then becomes F16. llama.cpp's choices."""


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
