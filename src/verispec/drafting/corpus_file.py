"""The file of a suffix corpus: a line that names the format, a JSON header, token ids, and the order of
places.

Layout: ``verispec suffix corpus 1\\n``, uint32 length of the header, the header (padded with spaces so that
the rest starts at a multiple of 4), ``tokens`` big-endian uint32 ids, ``tokens`` little-endian uint32 places.
"""

from __future__ import annotations

import hashlib
import json
import mmap
import struct
from pathlib import Path

import numpy as np
import numpy.typing as npt

from verispec.errors import ArtifactError

MOST_TOKENS = 4_000_000
"""Largest corpus, the marks of texts included: a file of 32 MB."""
_MAGIC = b"verispec suffix corpus 1\n"
_START = len(_MAGIC) + 4
_LONGEST_HEADER = 4096


def write_corpus_file(
    path: Path, ids: npt.NDArray[np.int64], order: npt.NDArray[np.int64], tokenizer_digest: str
) -> None:
    """Write ids and places of equal length; the file appears whole or not at all."""
    body = ids.astype(">u4").tobytes() + order.astype("<u4").tobytes()
    fields = {"tokenizer": tokenizer_digest, "tokens": len(ids), "sha256": hashlib.sha256(body).hexdigest()}
    header = json.dumps(fields, sort_keys=True).encode()
    header += b" " * (-(_START + len(header)) % 4)
    part = path.with_name(path.name + ".part")
    part.write_bytes(_MAGIC + struct.pack("<I", len(header)) + header + body)
    part.replace(path)


def read_corpus_file(path: Path, tokenizer_digest: str) -> tuple[memoryview, npt.NDArray[np.uint32]]:
    """The ids' bytes and the places, mapped. ArtifactError when damaged or of another tokeniser."""
    data = _map(path)
    length = struct.unpack_from("<I", data, len(_MAGIC))[0]
    body = data[_START + length :]
    tokens = _check_header(
        path, bytes(data[_START : _START + min(length, _LONGEST_HEADER)]), tokenizer_digest, body
    )
    order = np.frombuffer(body[4 * tokens :], dtype="<u4").astype(np.uint32, copy=False)
    if tokens and int(order.max()) >= tokens:
        raise ArtifactError(path, "places", f"numbers under {tokens}", str(int(order.max())))
    return body[: 4 * tokens], order


def _map(path: Path) -> memoryview:
    try:
        with path.open("rb") as file:
            data = memoryview(mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ))
    except (OSError, ValueError) as error:
        raise ArtifactError(path, "file", "a readable suffix corpus", str(error)) from error
    if bytes(data[: len(_MAGIC)]) != _MAGIC or len(data) < _START:
        raise ArtifactError(path, "first line", repr(_MAGIC), repr(bytes(data[: len(_MAGIC)])))
    return data


def _check_header(path: Path, header: bytes, tokenizer_digest: str, body: memoryview) -> int:
    try:
        fields = json.loads(header)
        tokenizer, tokens, digest = fields["tokenizer"], fields["tokens"], fields["sha256"]
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        raise ArtifactError(path, "header", "JSON with tokenizer, tokens, sha256", str(error)) from error
    if not isinstance(tokens, int) or not 0 <= tokens <= MOST_TOKENS:
        raise ArtifactError(path, "tokens", f"an integer from 0 to {MOST_TOKENS}", repr(tokens))
    if tokenizer != tokenizer_digest:
        raise ArtifactError(path, "tokenizer", tokenizer_digest, str(tokenizer))
    if len(body) != 8 * tokens:
        raise ArtifactError(path, "length", f"{8 * tokens} bytes for {tokens} tokens", f"{len(body)} bytes")
    found = hashlib.sha256(body).hexdigest()
    if found != digest:
        raise ArtifactError(path, "contents", f"sha256 {digest}", found)
    return tokens
