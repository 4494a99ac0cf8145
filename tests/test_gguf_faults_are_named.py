"""A bad GGUF file is refused with the place of the fault, what was expected and what was found."""

from __future__ import annotations

import os
import time
from pathlib import Path

import pytest

from gguf_bytes import (
    ARRAY,
    BOOL,
    FLOAT32,
    STRING,
    UINT32,
    UINT64,
    GgufBytes,
    array,
    entry,
    tensor,
    text,
    u32,
    u64,
)
from verispec.artifacts.gguf import GgufFile
from verispec.errors import ArtifactError

F32, Q8_0, Q2_K, Q4_K = 0, 8, 10, 12
ARCHITECTURE = entry("general.architecture", STRING, "llama")


def with_entries(*entries: bytes, **parts: object) -> bytes:
    return GgufBytes(entries=[ARCHITECTURE, *entries], **parts).build()


def with_tensors(*tensors: bytes, data: int = 128, **parts: object) -> bytes:
    return GgufBytes(tensors=list(tensors), data=bytes(data), **parts).build()


GOOD = with_tensors(tensor("a", (8, 4), F32, 0))

# name: (file content, where, expected, found), each text a part of the error's
FAULTS = {
    "empty file": (b"", "start of file", "24 bytes", "0 bytes"),
    "shorter than a preamble": (b"GGUF", "start of file", "24 bytes", "4 bytes"),
    "wrong magic": (GgufBytes(magic=b"GGML").build(), "start of file", "'GGUF'", "'GGML'"),
    "magic that commands a terminal": (GgufBytes(magic=b"\x1b[2J").build(), "start", "'GGUF'", "'\\x1b[2J'"),
    "big-endian": (GgufBytes(version=b"\0\0\0\3").build(), "version", "little-endian", "big-endian"),
    "old version": (GgufBytes(version=u32(1)).build(), "version", "2 or 3", "1"),
    "future version": (GgufBytes(version=u32(4)).build(), "version", "2 or 3", "4"),
    "absurd tensor count": (GgufBytes(tensor_count=2**62).build(), "tensor count", "at most", str(2**62)),
    "more tensors than bytes": (GgufBytes(tensor_count=9999).build(), "tensor count", "more bytes", "left"),
    "absurd key count": (
        GgufBytes(entry_count=2**64 - 1).build(),
        "metadata count",
        "at most",
        str(2**64 - 1),
    ),
    "more keys than bytes": (GgufBytes(entry_count=9999).build(), "metadata count", "more bytes", "left"),
    "missing key": (GgufBytes(entry_count=2, data=bytes(64)).build(), "key 1 of 2", "a key", "empty name"),
    "key longer than the file": (with_entries(u64(9999) + b"a"), "key 1", "9999 bytes", "left in the file"),
    "absurd key length": (with_entries(u64(2**63) + b"abcdef"), "key 1", "at most 65535", str(2**63)),
    "key that is not UTF-8": (with_entries(entry(b"\xff\xfe", UINT32, 1)), "key 1", "UTF-8", "\\xff\\xfe"),
    "duplicate key": (with_entries(entry("x", 4, 1), entry("x", 4, 2)), "key 'x'", "once", "second"),
    "unknown value type": (with_entries(entry("x", 13, b"12345678")), "key 'x'", "type from 0 to 12", "13"),
    "bool that is neither": (with_entries(entry("x", BOOL, 2)), "key 'x'", "0 or 1", "2"),
    "array bool that is neither": (with_entries(array("x", BOOL, [1, 0, 7])), "key 'x'", "0 or 1", "7"),
    "text longer than the file": (
        with_entries(entry("x", STRING, u64(5000))),
        "key 'x'",
        "5000 bytes",
        "left in the file",
    ),
    "absurd text length": (
        with_entries(entry("x", STRING, u64(2**64 - 1))),
        "key 'x'",
        "at most",
        str(2**64 - 1),
    ),
    "text that is not UTF-8": (
        with_entries(entry("x", STRING, text(b"ab\xc3("))),
        "key 'x'",
        "UTF-8",
        "ab\\xc3(",
    ),
    "array in an array": (
        with_entries(entry("x", ARRAY, u32(ARRAY) + u64(1) + bytes(16))),
        "key 'x'",
        "numbers",
        "an array",
    ),
    "unknown element type": (
        with_entries(entry("x", ARRAY, u32(77) + u64(1) + bytes(16))),
        "key 'x'",
        "numbers",
        "77",
    ),
    "absurd array": (
        with_entries(entry("x", ARRAY, u32(FLOAT32) + u64(2**60))),
        "key 'x'",
        "at most",
        str(2**60),
    ),
    "array longer than the file": (
        with_entries(entry("x", ARRAY, u32(FLOAT32) + u64(1000))),
        "key 'x'",
        "4000 more bytes",
        "left",
    ),
    "array text longer than the file": (
        with_entries(entry("x", ARRAY, u32(STRING) + u64(2) + text("a") + u64(2**50))),
        "key 'x', element 1",
        f"{2**50} bytes",
        "left",
    ),
    "array text cut off": (
        GgufBytes(
            entries=[entry("x", ARRAY, u32(STRING) + u64(2) + text("a" * 8) + u32(0))], alignment=1
        ).build(),
        "key 'x', element 1",
        "8 bytes",
        "4 bytes left",
    ),
    "array text that is not UTF-8": (
        with_entries(entry("x", ARRAY, u32(STRING) + u64(2) + text("a") + text(b"\x80"))),
        "key 'x', element 1",
        "UTF-8",
        "\\x80",
    ),
    "zero alignment": (with_entries(entry("general.alignment", UINT32, 0)), "alignment", "power of two", "0"),
    "odd alignment": (
        with_entries(entry("general.alignment", UINT32, 24)),
        "alignment",
        "power of two",
        "24",
    ),
    "vast alignment": (
        with_entries(entry("general.alignment", UINT64, 2**40)),
        "alignment",
        "65536",
        str(2**40),
    ),
    "alignment of another type": (
        with_entries(entry("general.alignment", STRING, "32")),
        "alignment",
        "power of two",
        "str '32'",
    ),
    "nameless tensor": (with_tensors(tensor("", (8,), F32, 0)), "tensor 0 of 1", "a name", "empty"),
    "long tensor name": (with_tensors(tensor("a" * 65, (8,), F32, 0)), "tensor 0", "at most 64", "65"),
    "tensor name not UTF-8": (with_tensors(tensor(b"\xe2\x82", (8,), F32, 0)), "tensor 0", "UTF-8", "xe2"),
    "duplicate tensor": (
        with_tensors(tensor("a", (8,), F32, 0), tensor("a", (8,), F32, 32)),
        "tensor 'a'",
        "once",
        "second",
    ),
    "no dimensions": (with_tensors(tensor("a", (), F32, 0)), "tensor 'a'", "1 to 4", "0"),
    "five dimensions": (with_tensors(tensor("a", (1,) * 5, F32, 0)), "tensor 'a'", "1 to 4", "5"),
    "absurd dimensions": (with_tensors(text("a") + u32(2**32 - 1)), "tensor 'a'", "1 to 4", str(2**32 - 1)),
    "zero dimension": (with_tensors(tensor("a", (8, 0), F32, 0)), "tensor 'a'", "at least 1", "(8, 0)"),
    "size that overflows 64 bits": (
        with_tensors(tensor("a", (2**62, 2**62), F32, 0)),
        "tensor 'a'",
        str(2**126),
        "a file of",
    ),
    "type without support": (
        with_tensors(tensor("a", (256,), Q2_K, 0)),
        "tensor 'a'",
        "F32, F16, BF16, Q8_0",
        "Q2_K",
    ),
    "unknown type": (
        with_tensors(tensor("a", (8,), 1234, 0)),
        "tensor 'a'",
        "a type among",
        "unknown type 1234",
    ),
    "broken block of 32": (
        with_tensors(tensor("a", (40,), Q8_0, 0)),
        "tensor 'a'",
        "Q8_0 blocks",
        "40 columns",
    ),
    "broken block of 256": (with_tensors(tensor("a", (128,), Q4_K, 0)), "tensor 'a'", "Q4_K blocks", "128"),
    "misaligned": (with_tensors(tensor("a", (8,), F32, 8)), "tensor 'a'", "aligned to 32", "8"),
    "outside the file": (
        with_tensors(tensor("a", (8,), F32, 4096)),
        "tensor 'a'",
        "32 bytes at",
        "a file of",
    ),
    "offset that overflows": (
        with_tensors(tensor("a", (8,), F32, 2**64 - 32)),
        "tensor 'a'",
        "32 bytes at",
        "a file of",
    ),
    "longer than the file": (
        with_tensors(tensor("a", (8, 5), F32, 0)),
        "tensor 'a'",
        "160 bytes",
        "a file of",
    ),
    "overlap": (
        with_tensors(tensor("a", (8, 2), F32, 0), tensor("b", (8,), F32, 32)),
        "tensor 'b'",
        "after tensor 'a'",
        "offset",
    ),
    "same place": (
        with_tensors(tensor("a", (8,), F32, 0), tensor("b", (8,), F32, 0)),
        "tensor 'b'",
        "after tensor 'a'",
        "offset",
    ),
    "part of a split model": (
        with_entries(entry("split.count", 2, 3)),
        "split.count",
        "one file",
        "one of int 3 parts",
    ),
    "no data at all": (GOOD[:-130], "tensor data", "data to begin", "a file of"),
    "data cut off": (GOOD[:-1], "tensor 'a'", "128 bytes", f"a file of {len(GOOD) - 1} bytes"),
    "header cut off": (GOOD[:90], "tensor 'a'", "bytes at offset", "left in the file"),
}


@pytest.mark.parametrize("name", FAULTS)
def test_fault_is_named(name: str, tmp_path: Path) -> None:
    content, where, expected, found = FAULTS[name]
    path = tmp_path / "bad.gguf"
    path.write_bytes(content)
    with pytest.raises(ArtifactError) as caught:
        GgufFile.open(path)
    assert caught.value.file == str(path)
    assert where in caught.value.where
    assert expected in caught.value.expected
    assert found in caught.value.found
    assert str(caught.value).isprintable()


def test_the_right_file_opens(tmp_path: Path) -> None:
    path = tmp_path / "good.gguf"
    path.write_bytes(GOOD)
    with GgufFile.open(path) as file:
        assert file.tensors["a"].shape == (4, 8)


def test_what_is_not_a_file_is_refused(tmp_path: Path) -> None:
    pipe = tmp_path / "pipe.gguf"
    os.mkfifo(pipe)
    for path, found in ((tmp_path, "d"), (pipe, "p"), (tmp_path / "none.gguf", "No such file")):
        with pytest.raises(ArtifactError) as caught:
            GgufFile.open(path)
        assert caught.value.found.startswith(found)


@pytest.mark.parametrize("kind", [STRING, FLOAT32, 0])
def test_a_sparse_file_cannot_make_the_reader_allocate_or_hang(kind: int, tmp_path: Path) -> None:
    """A file that costs nothing on disk but claims a terabyte of header meets the limits at once."""
    path = tmp_path / "sparse.gguf"
    path.write_bytes(GgufBytes(entries=[entry("x", ARRAY, u32(kind) + u64(2**34))]).build())
    os.truncate(path, 1 << 40)
    begin = time.perf_counter()
    with pytest.raises(ArtifactError, match="count of at most"):
        GgufFile.open(path)
    assert time.perf_counter() - begin < 1


def test_asking_for_a_tensor_that_is_not_there_names_it(tmp_path: Path) -> None:
    path = tmp_path / "good.gguf"
    path.write_bytes(GOOD)
    with GgufFile.open(path) as file, pytest.raises(ArtifactError, match="tensor 'b'"):
        file.data("b")
