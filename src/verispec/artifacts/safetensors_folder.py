"""A model published as a folder (``config.json``, ``*.safetensors``, ``tokenizer.json``), seen as a GGUF file.

Names, shapes and values are those that llama.cpp's converter would write. Nothing is converted before it is asked for,
and what needs no change is a view of the file.
"""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from verispec.artifacts.digests import folder_sha256
from verispec.artifacts.gguf_header import MetadataValue
from verispec.artifacts.gguf_writer import file_type_of
from verispec.artifacts.published_config import PublishedConfig, metadata
from verispec.artifacts.published_tensors import PlannedTensor, Published, place, plan_tensors
from verispec.artifacts.published_tokenizer import tokenizer_metadata
from verispec.artifacts.safetensors_reader import VIEWS, SafetensorsReader, widen
from verispec.artifacts.tensor_types import TensorType
from verispec.errors import ArtifactError
from verispec.text.published_files import TOKENIZER

QUANTISATION_VERSION = 2


class SafetensorsFolder:
    """An open folder, a ``ModelFile``. Use ``SafetensorsFolder.open``; also a context manager."""

    def __init__(
        self,
        path: Path,
        reader: SafetensorsReader,
        metadata: dict[str, MetadataValue],
        tensors: dict[str, PlannedTensor],
    ) -> None:
        self.path = path
        self.metadata = metadata
        self.tensors = tensors
        self._reader = reader

    @classmethod
    def open(cls, path: Path) -> SafetensorsFolder:
        """Reads the configuration, every header and the tokeniser; without ``tokenizer.json`` there is none.

        Raises ArtifactError naming what is missing or malformed, UnsupportedError for a family or tokeniser that no
        GGUF file made here could hold.
        """
        config = PublishedConfig.read(path)
        reader = SafetensorsReader.open(path)
        published = {
            name: Published(name, tensor.shape, tensor.type) for name, tensor in reader.tensors.items()
        }
        blocks = count_prediction_blocks(config, published)
        planned = [*plan_tensors(config, published), *rotary_factors(config)]
        tensors = {tensor.name: tensor for tensor in sorted(planned, key=file_order)}
        check_complete(config, planned, tensors)
        keys = metadata(config, blocks)
        keys |= {
            "general.name": path.resolve().name,
            "general.file_type": file_type_of(tensors.values()),
            "general.quantization_version": QUANTISATION_VERSION,
        }
        if (path / TOKENIZER).is_file():
            keys |= tokenizer_metadata(path, config.integer("vocab_size"))
        return cls(path, reader, {key: single_precision(value) for key, value in keys.items()}, tensors)

    def data(self, name: str) -> NDArray[np.uint8]:
        """The bytes of a tensor as a GGUF file would hold them."""
        if name not in self.tensors:
            raise ArtifactError(self.path, f"tensor {name!r}", "a tensor of that name", "none")
        tensor = self.tensors[name]
        sources: list[NDArray[Any]] = [self._reader.read(source) for source in tensor.sources]
        if tensor.type is TensorType.F32:
            sources = [widen(source) for source in sources]
        built = np.ascontiguousarray(tensor.build(*sources), VIEWS[tensor.type])
        assert built.shape == tensor.shape, f"{name}: planned {tensor.shape}, built {built.shape}"
        stored = built.reshape(-1).view(np.uint8)
        stored.flags.writeable = False
        return stored

    def release(self, name: str) -> None:
        """Lets the system drop the pages that the tensor was made from."""
        for source in self.tensors[name].sources:
            self._reader.release(source)

    def sha256(self, *, remembered: bool = True) -> str:
        """SHA-256 over the names and digests of the folder's files."""
        return folder_sha256(self.path, remembered=remembered)

    def close(self) -> None:
        """Closes the folder. Views from ``data`` stay valid."""
        self._reader.close()

    def __enter__(self) -> SafetensorsFolder:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def single_precision(value: MetadataValue) -> MetadataValue:
    """Numbers as a GGUF file holds them, so that the folder and the file made of it are the same model."""
    return float(np.float32(value)) if isinstance(value, float) else value


def count_prediction_blocks(config: PublishedConfig, tensors: dict[str, Published]) -> int:
    """The prediction blocks that are there. Raises ArtifactError when the configuration promises another number."""
    layers = {place(config, name)[0] for name in tensors if "mtp.layers." in name}
    promised = config.prediction_layers
    if promised is not None and promised != len(layers):
        expected = f"the {promised} prediction blocks of mtp_num_hidden_layers (mtp.layers.*)"
        raise ArtifactError(config.path.parent, "tensors", expected, f"{len(layers)} of them")
    return len(layers)


def check_complete(
    config: PublishedConfig, planned: list[PlannedTensor], tensors: dict[str, PlannedTensor]
) -> None:
    """No two published tensors become one, and a separate output matrix is there where one is promised.

    The graphs say what else must be there, when the model is loaded.
    """
    if len(planned) != len(tensors):
        names = [tensor.name for tensor in planned]
        twice = next(name for name in names if names.count(name) > 1)
        raise ArtifactError(config.path.parent, f"tensor {twice}", "one published tensor for it", "several")
    if "output.weight" not in tensors and not config.tied:
        expected = "lm_head.weight, since tie_word_embeddings is false"
        raise ArtifactError(config.path.parent, "tensors", expected, "none")


def rotary_factors(config: PublishedConfig) -> list[PlannedTensor]:
    """The frequency factors of Llama 3's context extension, which its GGUF files hold as a tensor.

    Formula: Llama 3.1's published one. Wavelengths longer than ``original / low_freq_factor`` are stretched by
    ``factor``, those shorter than ``original / high_freq_factor`` stay, and the ones between are blended.
    """
    rotary = config.rotary
    if rotary.get("rope_type") != "llama3":
        return []
    base = float(rotary.get("rope_theta", config.values.get("rope_theta", 10000.0)))
    factor = float(rotary.get("factor", 8.0))
    low, high = float(rotary.get("low_freq_factor", 1.0)), float(rotary.get("high_freq_factor", 4.0))
    original = float(rotary.get("original_max_position_embeddings", 8192))
    wavelengths = 2 * math.pi * base ** (np.arange(0, config.head_dim, 2) / config.head_dim)
    blend = np.clip((original / wavelengths - low) / (high - low), 0.0, 1.0)
    factors = (1 / ((1 - blend) / factor + blend)).astype(np.float32)
    return [PlannedTensor("rope_freqs.weight", factors.shape, TensorType.F32, (), lambda: factors)]


def file_order(tensor: PlannedTensor) -> tuple[int, str]:
    """Embedding and rotary factors, layers in order, then the rest: how a pass reads them."""
    if tensor.name.startswith("blk."):
        return int(tensor.name.split(".")[1]) + 1, tensor.name
    last = tensor.name.startswith("output")
    return (1 << 30 if last else 0), tensor.name
