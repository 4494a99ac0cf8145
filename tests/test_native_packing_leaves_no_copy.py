"""Packing drops the pages of a mapped file as it goes, and touches nothing of memory that is not a file's."""

from __future__ import annotations

import mmap
from pathlib import Path

import numpy as np

from native_graphs import matrix_bytes, pool
from verispec import _native

OUTPUTS, INPUTS = 9000, 1024


def resident_bytes(path: Path) -> int:
    """Resident bytes of this process's mappings of ``path``."""
    total, inside = 0, False
    for line in Path("/proc/self/smaps").read_text().splitlines():
        if "-" in line.split(" ", 1)[0]:
            inside = line.endswith(str(path))
        elif inside and line.startswith("Rss:"):
            total += int(line.split()[1]) * 1024
    return total


def test_pages_of_a_file_are_dropped(tmp_path: Path) -> None:
    stored = matrix_bytes("Q8_0", OUTPUTS, INPUTS, 1)
    path = tmp_path / "weights"
    path.write_bytes(stored.tobytes())
    with path.open("rb") as file:
        mapping = mmap.mmap(file.fileno(), 0, flags=mmap.MAP_PRIVATE, prot=mmap.PROT_READ)
    data = np.frombuffer(mapping, np.uint8)
    weights = _native.Weights(_native.Weights.packed_size("Q8_0", OUTPUTS, INPUTS))
    assert int(data[:: mmap.PAGESIZE].sum()) > 0
    assert resident_bytes(path) >= stored.nbytes
    weights.pack("Q8_0", OUTPUTS, INPUTS, data, pool(2))
    assert resident_bytes(path) < stored.nbytes / 4
    assert np.array_equal(data, stored.reshape(-1))


def test_memory_of_our_own_is_left_alone() -> None:
    stored = matrix_bytes("Q8_0", OUTPUTS, INPUTS, 2).reshape(-1)
    data = stored.copy()
    data.flags.writeable = False
    weights = _native.Weights(_native.Weights.packed_size("Q8_0", OUTPUTS, INPUTS))
    weights.pack("Q8_0", OUTPUTS, INPUTS, data, pool(2))
    assert np.array_equal(data, stored)


def test_a_cache_commits_memory_as_it_is_written_and_gives_it_back() -> None:
    def resident() -> int:
        return int(Path("/proc/self/statm").read_text().split()[1]) * mmap.PAGESIZE

    before = resident()
    cache = _native.KvCache(2, 1 << 16, [(8, 128, 1 << 16)] * 8)
    assert cache.nbytes == 2 * 2 * 8 * 128 * (1 << 16) * 8 * 2
    assert resident() - before < 16 << 20
    cache.discard_slot(1)
    cache.close()
    assert cache.closed
    assert resident() - before < 16 << 20
