"""Derives a Q8_0 GGUF from a shipped one, so that the same model can be measured with 8-bit weights.

Every matrix is dequantised to float32 and quantised to Q8_0 with the reference code of the ``gguf``
package; vectors stay float32 and all metadata is kept. The result is DERIVED: it holds no more
information than the file it was made from, and says so in its own metadata (``verispec.derived_from`` is
the SHA-256 of the source). It serves speed and exactness measurements, never quality claims.
"""

from __future__ import annotations

import argparse
import tempfile
from pathlib import Path

import gguf
import numpy as np
from gguf import GGMLQuantizationType, GGUFReader, GGUFValueType, GGUFWriter

from verispec.artifacts.digests import file_sha256
from verispec.artifacts.resolve import resolve_model
from verispec.artifacts.store import NamedModel, Store

FILE_TYPE_Q8_0 = 7
RECIPE = "dequantised to float32, matrices quantised to Q8_0 by gguf.quants"


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


def write_q8_0(source: Path, destination: Path) -> None:
    """Writes the Q8_0 form of ``source`` to ``destination``."""
    reader = GGUFReader(source)
    writer = GGUFWriter(destination, reader.fields["general.architecture"].contents())
    copy_metadata(reader, writer, file_sha256(source))
    add_tensors(reader, writer)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


def q8_0_of(model: str, store: Store | None = None) -> Path:
    """The Q8_0 form of a model, made on first use and kept in the store under the name ``<name>-q8_0``.

    ``model`` is any model argument (name, path, hf:, sha256:). Made again when the source has changed.
    """
    store = store or Store()
    source = resolve_model(model, store).path
    stem = model if model in {named.name for named in store.all_named()} else source.stem
    name, origin = f"{stem.lower()}-q8_0", f"Q8_0 derived from {file_sha256(source)}"
    known = store.named(name)
    if known is not None and known.origin == origin and store.has(known.sha256, known.size):
        return store.blob_path(known.sha256)
    with tempfile.TemporaryDirectory(dir=existing(store.folder)) as folder:
        derived = Path(folder) / "derived.gguf"
        write_q8_0(source, derived)
        digest = store.add(derived)
        store.name(NamedModel(name, digest, derived.stat().st_size, origin, licence_of(source)))
    return store.blob_path(digest)


def existing(folder: Path) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    return folder


def licence_of(source: Path) -> str:
    field = GGUFReader(source).fields.get("general.license")
    return str(field.contents()) if field else ""


def main() -> None:
    parser = argparse.ArgumentParser(description="Derives a Q8_0 file and keeps it in the model store.")
    parser.add_argument("model", nargs="?", default="smollm2-135m", help="a model name or a path")
    print(q8_0_of(parser.parse_args().model))


if __name__ == "__main__":
    main()
