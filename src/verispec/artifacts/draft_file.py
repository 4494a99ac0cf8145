"""An open draft head: a GGUF file, or a folder of safetensors in a published layout seen as the GGUF file it would be.

Names, metadata keys and values are those of llama.cpp's ``eagle3`` and ``dflash`` files. Layers that a head reads are
numbered in one way only, as ``ops.contract`` numbers taps: i is the input of the target's layer i.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Literal, Self

import numpy as np
from numpy.typing import NDArray

from verispec.artifacts.draft_layout import PublishedDraft
from verispec.artifacts.gguf import GgufFile
from verispec.artifacts.gguf_header import MetadataValue
from verispec.artifacts.model_file import ModelFile, TensorDescription
from verispec.errors import ArtifactError, UnsupportedError

Kind = Literal["eagle3", "dflash", "dspark"]

DRAFT_IDS = "d2t"
"""The table of a reduced draft vocabulary: the target's token for each output of the head. Published files hold
offsets, GGUF files the ids themselves."""
TABLES = (DRAFT_IDS,)
MARKOV = ("markov_w1.weight", "markov_w2.weight")
CONFIDENCE = "conf_proj.weight"
ARCHITECTURES = ("eagle3", "dflash")


class DraftFile:
    """A draft head's tensors under GGUF names; also a ``ModelFile`` and a context manager."""

    def __init__(self, file: ModelFile, draft_ids: NDArray[np.int64] | None) -> None:
        """``draft_ids``: the target's token of each output, int64; None where output i is token i."""
        self.path = file.path
        self.metadata: dict[str, MetadataValue] = file.metadata
        self.tensors: Mapping[str, TensorDescription] = file.tensors
        self.draft_ids = draft_ids
        self.architecture = str(self.metadata.get("general.architecture"))
        self._file = file

    @classmethod
    def open(cls, path: str | os.PathLike[str]) -> DraftFile:
        """Opens and checks the GGUF file or folder at ``path``.

        Raises ArtifactError for what is malformed, UnsupportedError with code ``not-a-draft-head`` for a file that is
        something else.
        """
        path = Path(path)
        if path.is_dir():
            published = PublishedDraft.open(path)
            return cls(published, published.draft_ids)
        file = GgufFile.open(path, TABLES)
        architecture = file.metadata.get("general.architecture")
        if architecture not in ARCHITECTURES:
            raise UnsupportedError(
                "not-a-draft-head",
                f"{path}: expected a file of architecture {' or '.join(ARCHITECTURES)}, found {architecture!r}",
                "A whole model drafts as kind draft-model",
            )
        return cls(file, file.table(DRAFT_IDS))

    @property
    def kind(self) -> Kind:
        """What the tensors say: a Markov and a confidence head are what tells dspark from dflash.

        Raises ArtifactError for a file with a part of them.
        """
        if self.architecture == "eagle3":
            return "eagle3"
        parts = [name in self.tensors for name in (*MARKOV, CONFIDENCE)]
        if any(parts) and not all(parts):
            expected = f"all of {', '.join((*MARKOV, CONFIDENCE))} (dspark), or none (dflash)"
            raise ArtifactError(self.path, "tensors", expected, f"{sum(parts)} of them")
        return "dspark" if all(parts) else "dflash"

    def data(self, name: str) -> NDArray[np.uint8]:
        """The bytes of a tensor as a GGUF file would hold them, uint8 ``[nbytes]``."""
        return self._file.data(name)

    def release(self, name: str) -> None:
        """Lets the system drop what was resident of a tensor."""
        self._file.release(name)

    def sha256(self, *, remembered: bool = True) -> str:
        """The digest of the file, or over the names and digests of the folder's files."""
        return self._file.sha256(remembered=remembered)

    def close(self) -> None:
        """Closes it. Views from ``data`` stay valid."""
        self._file.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
