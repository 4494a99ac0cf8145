"""Derives a Q8_0 GGUF from a shipped one, so that the same model can be measured with 8-bit weights.

Every matrix is dequantised to float32 and quantised to Q8_0 with the reference code of the ``gguf`` package;
vectors stay float32 and all metadata is kept. The result is DERIVED: it holds no more information than the file it
was made from, and says so in its own metadata (``verispec.derived_from`` is the SHA-256 of the source). It serves
speed and exactness measurements, never quality claims.
"""

from __future__ import annotations

import argparse
import hashlib
import os
from pathlib import Path

import gguf
import numpy as np
from gguf import GGMLQuantizationType, GGUFReader, GGUFValueType, GGUFWriter

FILE_TYPE_Q8_0 = 7
RECIPE = "dequantised to float32, matrices quantised to Q8_0 by gguf.quants"


def sha256_of(path: Path) -> str:
    """The file's SHA-256 as lowercase hexadecimal."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def copy_metadata(reader: GGUFReader, writer: GGUFWriter, source_digest: str) -> None:
    """Copies every key of ``reader`` in order; only the file type changes, and the derivation is added."""
    for key, field in reader.fields.items():
        if key.startswith("GGUF.") or key == "general.architecture":
            continue  # counts are the writer's own, and it writes the architecture itself
        if key == "general.file_type":
            writer.add_file_type(FILE_TYPE_Q8_0)
            continue
        element = field.types[-1] if field.types[0] == GGUFValueType.ARRAY else None
        writer.add_key_value(key, field.contents(), field.types[0], sub_type=element)
    writer.add_string("verispec.derived_from", source_digest)
    writer.add_string("verispec.derived_recipe", RECIPE)


def add_tensors(reader: GGUFReader, writer: GGUFWriter) -> None:
    """Adds each tensor: matrices as Q8_0, vectors as float32."""
    for tensor in reader.tensors:
        values = gguf.quants.dequantize(tensor.data, tensor.tensor_type).astype(np.float32, copy=False)
        if values.ndim == 1:
            writer.add_tensor(tensor.name, values)
            continue
        packed = gguf.quants.quantize(values, GGMLQuantizationType.Q8_0)
        writer.add_tensor(tensor.name, packed, raw_dtype=GGMLQuantizationType.Q8_0)


def make_q8_0(source: Path, destination: Path) -> Path:
    """Writes the Q8_0 form of ``source`` to ``destination`` (atomically) and returns it; an existing one is kept."""
    if destination.exists():
        return destination
    destination.parent.mkdir(parents=True, exist_ok=True)
    reader = GGUFReader(source)
    architecture = reader.fields["general.architecture"].contents()
    partial = destination.with_name(f".{destination.name}.{os.getpid()}.partial")
    writer = GGUFWriter(partial, architecture)
    try:
        copy_metadata(reader, writer, sha256_of(source))
        add_tensors(reader, writer)
        writer.write_header_to_file()
        writer.write_kv_data_to_file()
        writer.write_tensors_to_file()
        writer.close()
        os.replace(partial, destination)
    finally:
        partial.unlink(missing_ok=True)
    return destination


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("source", type=Path, help="a GGUF file, for example SmolLM2 as shipped (Q4_1)")
    parser.add_argument("destination", type=Path, help="where the Q8_0 file goes")
    arguments = parser.parse_args()
    print(make_q8_0(arguments.source, arguments.destination))


if __name__ == "__main__":
    main()
