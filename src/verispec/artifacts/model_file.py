"""What loading reads a model from: a GGUF file, or a folder of safetensors seen as the GGUF file it would become."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from types import TracebackType
from typing import Protocol, Self

import numpy as np
from numpy.typing import NDArray

from verispec.artifacts.gguf import GgufFile
from verispec.artifacts.gguf_header import MetadataValue
from verispec.artifacts.tensor_types import TensorType


class TensorDescription(Protocol):
    """A tensor before it is read: ``shape`` in numpy order (rows, columns), ``nbytes`` as stored."""

    @property
    def name(self) -> str: ...
    @property
    def shape(self) -> tuple[int, ...]: ...
    @property
    def type(self) -> TensorType: ...
    @property
    def nbytes(self) -> int: ...


class ModelFile(Protocol):
    """An open model: metadata and tensors under GGUF's names, with values as a GGUF file holds them."""

    @property
    def path(self) -> Path: ...
    @property
    def metadata(self) -> dict[str, MetadataValue]: ...
    @property
    def tensors(self) -> Mapping[str, TensorDescription]: ...

    def data(self, name: str) -> NDArray[np.uint8]:
        """The stored bytes of a tensor: read-only uint8 ``[nbytes]``, a view of the file where it can be one.

        Raises ArtifactError when there is no such tensor.
        """

    def release(self, name: str) -> None:
        """Lets the system drop what was resident of a tensor; a later read brings it back."""

    def sha256(self, *, remembered: bool = True) -> str:
        """The content's digest in hexadecimal; ``remembered=False`` reads every byte again."""

    def close(self) -> None:
        """Closes it. Views from ``data`` stay valid."""

    def __enter__(self) -> Self: ...
    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None: ...


def open_model_file(path: str | os.PathLike[str]) -> ModelFile:
    """Opens and checks the GGUF file or the folder in the ``transformers`` format at ``path``.

    Raises ArtifactError naming what is wrong and where, UnsupportedError for a model family or tokeniser that cannot be
    expressed as GGUF here.
    """
    path = Path(path)
    if path.is_dir():
        from verispec.artifacts.safetensors_folder import SafetensorsFolder

        return SafetensorsFolder.open(path)
    return GgufFile.open(path)
