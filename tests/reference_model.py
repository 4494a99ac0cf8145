"""A GGUF model run by the reference operations."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np

from verispec.artifacts.gguf import GgufFile
from verispec.models.decoder import Decoder, build_decoder
from verispec.models.hyperparameters import read_hyperparameters
from verispec.models.prediction import PredictionBlock, build_prediction
from verispec.models.tensors import EMBEDDING, ROPE_FACTORS, check_tensors
from verispec.ops.contract import AFTER_FINAL_NORM
from verispec.ops.reference import Array, Cache, PassInputs, ReferenceOperations
from verispec.ops.reference_weights import reference_weights


class ReferenceModel:
    """The decoder of the file at ``path``.

    With ``as_peers`` activations stay float32 and so do keys and values, as in libraries that dequantise
    weights.
    """

    def __init__(self, path: Path, as_peers: bool = False) -> None:
        file = GgufFile.open(path)
        self.hyperparameters = read_hyperparameters(path, file.metadata, file.tensors[EMBEDDING].shape[0])
        names = [tensor.name for tensor in check_tensors(path, self.hyperparameters, file.tensors)]
        self.weights = reference_weights(file, names)
        if as_peers:
            self.weights = {name: replace(matrix, quantised=False) for name, matrix in self.weights.items()}
        factors = self.weights[ROPE_FACTORS].values[0].tolist() if ROPE_FACTORS in names else ()
        self.decoder: Decoder = build_decoder(self.hyperparameters, frozenset(names), factors)
        blocks = range(self.hyperparameters.prediction_layers)
        self.predictions: list[PredictionBlock] = [
            build_prediction(self.hyperparameters, frozenset(names), index) for index in blocks
        ]
        self.cache = Cache(dtype=np.float32 if as_peers else np.float16)

    def run(
        self,
        tokens: Sequence[int],
        start: int = 0,
        outputs: Sequence[int] | None = None,
        taps: Sequence[int] = (),
    ) -> ReferenceOperations:
        """One pass over ``tokens`` from position ``start``, outputs for all rows by default."""
        wanted = range(len(tokens)) if outputs is None else outputs
        positions = range(start, start + len(tokens))
        inputs = PassInputs(tokens, positions, [0] * len(tokens), wanted)
        operations = ReferenceOperations(self.weights, self.cache, inputs)
        self.decoder.run(operations, len(wanted), frozenset(taps))
        return operations

    def predict(
        self,
        tokens: Sequence[int],
        hidden: Array,
        start: int = 1,
        outputs: Sequence[int] | None = None,
        head: str | None = None,
    ) -> ReferenceOperations:
        """One pass of the first prediction block: ``hidden`` row i belongs to the position before ``tokens[i]``."""
        wanted = range(len(tokens)) if outputs is None else outputs
        operations = self.prediction_pass(tokens, hidden, start, wanted)
        self.predictions[0].run(operations, len(wanted), frozenset({AFTER_FINAL_NORM}), head)
        return operations

    def prediction_pass(
        self, tokens: Sequence[int], hidden: Array, start: int, outputs: Sequence[int]
    ) -> ReferenceOperations:
        """The operations of a pass that brings hidden states, for a graph to be run on."""
        positions = range(start, start + len(tokens))
        inputs = PassInputs(tokens, positions, [0] * len(tokens), outputs, hidden)
        return ReferenceOperations(self.weights, self.cache, inputs)

    def logits(self, tokens: Sequence[int], start: int = 0, outputs: Sequence[int] | None = None) -> Array:
        logits = self.run(tokens, start, outputs).logits
        assert logits is not None
        return logits
