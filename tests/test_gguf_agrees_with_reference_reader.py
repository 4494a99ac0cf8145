"""Our GGUF reader and the one of the ``gguf`` package read the same metadata, tensors and bytes."""

from __future__ import annotations

import os
from pathlib import Path

import gguf
import numpy as np
import pytest
from gguf import GGMLQuantizationType, GGUFReader, GGUFValueType, GGUFWriter

from verispec.artifacts.gguf import GgufFile
from verispec.artifacts.tensor_types import KNOWN_UNSUPPORTED, TYPES_BY_ID, TensorType, type_name

SCALARS = {
    GGUFValueType.UINT8: [0, 255],
    GGUFValueType.INT8: [-128, 127],
    GGUFValueType.UINT16: [0, 65535],
    GGUFValueType.INT16: [-32768, 32767],
    GGUFValueType.UINT32: [0, 2**32 - 1],
    GGUFValueType.INT32: [-(2**31), 2**31 - 1],
    GGUFValueType.UINT64: [0, 2**64 - 1],
    GGUFValueType.INT64: [-(2**63), 2**63 - 1],
    GGUFValueType.FLOAT32: [0.10000000149011612, float("inf")],
    GGUFValueType.FLOAT64: [0.1, -1e300],
    GGUFValueType.BOOL: [True, False],
    GGUFValueType.STRING: ["", "naïve 日本語 😀\n\0"],
}


@pytest.fixture(scope="module")
def sample(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A file with every kind of metadata value and every supported tensor type."""
    path = tmp_path_factory.mktemp("gguf") / "sample.gguf"
    writer = GGUFWriter(path, "llama")
    for kind, values in SCALARS.items():
        for index, value in enumerate(values):
            writer.add_key_value(f"test.{kind.name}.{index}", value, kind)
        writer.add_key_value(f"test.{kind.name}.array", values * 3, GGUFValueType.ARRAY, sub_type=kind)
    writer.add_array("test.tokens", [f"token {index}" for index in range(1000)])
    random = np.random.default_rng(7)
    for kind in TensorType:
        stored = random.integers(0, 256, (3, kind.row_bytes(512)), dtype=np.uint8)
        writer.add_tensor(f"matrix.{kind.name}", stored, raw_dtype=GGMLQuantizationType[kind.name])
    writer.add_tensor("vector", random.standard_normal(33).astype(np.float32))
    writer.add_tensor("cube", random.standard_normal((2, 3, 5)).astype(np.float16))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return path


def test_metadata_is_equal(sample: Path) -> None:
    reference = GGUFReader(sample)
    theirs = {key: field.contents() for key, field in reference.fields.items() if not key.startswith("GGUF.")}
    with GgufFile.open(sample) as file:
        assert file.metadata == theirs
        assert [type(value) for value in file.metadata.values()] == [type(value) for value in theirs.values()]


def test_tensors_are_equal(sample: Path) -> None:
    reference = GGUFReader(sample)
    with GgufFile.open(sample) as file:
        assert list(file.tensors) == [tensor.name for tensor in reference.tensors]
        for theirs in reference.tensors:
            ours = file.tensors[theirs.name]
            assert ours.shape == tuple(int(size) for size in theirs.shape[::-1])
            assert ours.type.name == theirs.tensor_type.name
            assert (ours.offset, ours.nbytes) == (theirs.data_offset, theirs.n_bytes)
            assert file.data(theirs.name).tobytes() == theirs.data.tobytes()


def test_type_layouts_are_the_reference_ones() -> None:
    for kind in TensorType:
        reference = GGMLQuantizationType[kind.name]
        assert kind.id == int(reference)
        assert (kind.block_size, kind.block_bytes) == gguf.GGML_QUANT_SIZES[reference]


def test_type_names_are_the_reference_ones() -> None:
    for reference in GGMLQuantizationType:
        if int(reference) in KNOWN_UNSUPPORTED or int(reference) in TYPES_BY_ID:
            assert type_name(int(reference)) == reference.name
    assert not KNOWN_UNSUPPORTED.keys() & TYPES_BY_ID.keys()


def test_data_is_a_read_only_view(sample: Path) -> None:
    with GgufFile.open(sample) as file:
        view = file.data("vector")
    assert not view.flags.writeable
    assert view.size == 33 * 4, "the view outlives the file object"
    with pytest.raises(ValueError, match="closed"):
        file.data("vector")


def test_a_forgotten_file_closes_itself(sample: Path) -> None:
    before = len(os.listdir("/proc/self/fd"))
    files = [GgufFile.open(sample) for _ in range(5)]
    assert len(os.listdir("/proc/self/fd")) > before
    del files
    assert len(os.listdir("/proc/self/fd")) == before


def test_released_pages_come_back(sample: Path) -> None:
    with GgufFile.open(sample) as file:
        before = file.data("matrix.Q6_K").tobytes()
        file.release("matrix.Q6_K")
        assert file.data("matrix.Q6_K").tobytes() == before


def test_alignment_of_the_file_is_followed(tmp_path: Path) -> None:
    path = tmp_path / "wide.gguf"
    writer = GGUFWriter(path, "llama")
    writer.add_custom_alignment(1024)
    for name in "ab":
        writer.add_tensor(name, np.arange(5, dtype=np.float32))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    with GgufFile.open(path) as file:
        assert [tensor.offset % 1024 for tensor in file.tensors.values()] == [0, 0]
        assert file.data("b").view(np.float32).tolist() == [0, 1, 2, 3, 4]
