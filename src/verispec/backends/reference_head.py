"""Draft heads by the reference operations: slow, and the oracle that a native head is held against."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from verispec.artifacts.draft_file import DraftFile
from verispec.artifacts.model_file import ModelFile
from verispec.backends.draft_block import BlockPrediction, DraftBlock, FollowingBlock
from verispec.backends.prediction_block import Prediction, PredictionBlock
from verispec.backends.scattered_logits import ScatteredLogits
from verispec.models.dflash import BLOCK_HIDDEN, build_dflash
from verispec.models.draft_hyperparameters import DraftHyperparameters
from verispec.models.draft_tensors import check_draft_tensors
from verispec.models.dspark import BIAS, CONFIDENCE_LOGIT, build_dspark_heads
from verispec.models.eagle3 import FED_BACK, build_eagle3
from verispec.models.tensors import EMBEDDING, OUTPUT, ROPE_FACTORS
from verispec.ops.reference import Cache, PassInputs, ReferenceOperations
from verispec.ops.reference_arrays import Weights
from verispec.ops.reference_weights import reference_matrix, reference_weights

Hidden = npt.NDArray[np.float32]


class ReferenceParts:
    """A head's weights, dequantised, the target's matrices among them that it has none of its own of."""

    def __init__(self, file: DraftFile, draft: DraftHyperparameters, target: ModelFile) -> None:
        names = check_draft_tensors(file, draft)
        weights = reference_weights(file, names)
        head = OUTPUT if OUTPUT in target.tensors else EMBEDDING
        for own, others in {EMBEDDING: EMBEDDING, OUTPUT: head}.items():
            if own not in weights:
                weights[own] = reference_matrix(target, others)
        self.draft = draft
        self.tensors = frozenset(names)
        self.weights: Weights = weights
        self.rope_factors = weights[ROPE_FACTORS].values[0].tolist() if ROPE_FACTORS in names else []
        self.cache = Cache()
        self.scattered = ScatteredLogits(file.draft_ids, draft.decoder.vocabulary)

    def operations(
        self, tokens: Sequence[int], start: int, outputs: Sequence[int], hidden: Hidden | None = None
    ) -> ReferenceOperations:
        """A pass over ``tokens`` from position ``start``."""
        positions = range(start, start + len(tokens))
        inputs = PassInputs(tokens, positions, [0] * len(tokens), outputs, hidden)
        return ReferenceOperations(self.weights, self.cache, inputs)


class ReferenceEagle3(PredictionBlock):
    """One sequence, whatever its number."""

    def __init__(self, parts: ReferenceParts) -> None:
        self._parts = parts
        self._graph = build_eagle3(parts.draft, parts.tensors, EMBEDDING, OUTPUT, parts.rope_factors)

    @property
    def positions(self) -> int:
        return self._parts.draft.decoder.trained_context

    @property
    def columns(self) -> int:
        return self._parts.draft.features

    def absorb(self, sequence: int, position: int, tokens: Sequence[int], hidden: Hidden) -> Hidden:
        operations = self._parts.operations(tokens, position, [len(tokens) - 1], hidden)
        self._graph.fill(operations, 1)
        return operations.hidden[FED_BACK]

    def first(self, hidden: Hidden) -> Prediction:
        operations = self._parts.operations([0], 0, [0], hidden)
        self._graph.read(operations)
        assert operations.logits is not None
        return Prediction(operations.logits[0], hidden)

    def step(self, sequence: int, position: int, token: int, hidden: Hidden) -> Prediction:
        operations = self._parts.operations([token], position, [0], hidden)
        self._graph.step(operations, 1)
        assert operations.logits is not None
        return Prediction(operations.logits[0], operations.hidden[FED_BACK])

    def resume(self, sequence: int, length: int) -> None:
        return None

    def scattered(self, logits: Hidden) -> Hidden:
        return self._parts.scattered.scatter(logits)


class ReferenceDFlash(DraftBlock):
    """One sequence, whatever its number."""

    def __init__(self, parts: ReferenceParts) -> None:
        self._parts = parts
        self._graph = build_dflash(parts.draft, parts.tensors, EMBEDDING, OUTPUT, parts.rope_factors)

    @property
    def positions(self) -> int:
        return self._parts.draft.decoder.trained_context

    @property
    def columns(self) -> int:
        return self._parts.draft.features

    @property
    def width(self) -> int:
        return self._parts.draft.width

    def absorb(self, sequence: int, position: int, hidden: Hidden) -> None:
        self._graph.context(self._parts.operations([0] * len(hidden), position, [], hidden))

    def predict(self, sequence: int, position: int, anchor: int) -> BlockPrediction:
        draft = self._parts.draft
        tokens = [anchor, *[draft.mask_token] * (draft.block - 1)]
        operations = self._parts.operations(tokens, position, range(draft.block - draft.width, draft.block))
        self._graph.block(operations, True)
        assert operations.logits is not None
        return BlockPrediction(operations.logits, operations.hidden[BLOCK_HIDDEN])

    def resume(self, sequence: int, length: int) -> bool:
        return False

    def scattered(self, logits: Hidden) -> Hidden:
        return self._parts.scattered.scatter(logits)


class ReferenceDSpark(ReferenceDFlash, FollowingBlock):
    """One sequence, whatever its number."""

    def __init__(self, parts: ReferenceParts) -> None:
        super().__init__(parts)
        self._heads = build_dspark_heads(parts.draft, parts.tensors)

    def follow(self, previous: int, hidden: Hidden) -> tuple[Hidden, float]:
        operations = self._parts.operations([previous], 0, [], hidden[None])
        self._heads.step(operations)
        return operations.hidden[BIAS][0], float(operations.hidden[CONFIDENCE_LOGIT][0, 0])


def reference_head(
    file: DraftFile, draft: DraftHyperparameters, target: ModelFile
) -> PredictionBlock | DraftBlock:
    """The head of an open file beside an open target."""
    parts = ReferenceParts(file, draft, target)
    if draft.kind == "eagle3":
        return ReferenceEagle3(parts)
    return ReferenceDSpark(parts) if draft.kind == "dspark" else ReferenceDFlash(parts)
