"""Derives a Q8_0 GGUF from a shipped one, so that the same model can be measured with 8-bit weights.

It is ``verispec quantize --recipe q8 --allow-requantize``, kept in the model store. The result is DERIVED: it holds no
more information than the file it was made from, and says so in its own metadata. It serves speed and exactness
measurements, never quality claims.
"""

from __future__ import annotations

import argparse
import tempfile
from pathlib import Path

from verispec.artifacts.gguf import GgufFile
from verispec.artifacts.quantise import quantise
from verispec.artifacts.recipe import load_recipe
from verispec.artifacts.resolve import resolve_model
from verispec.artifacts.store import NamedModel, Store


def q8_0_of(model: str, store: Store | None = None) -> Path:
    """The Q8_0 form of a model, made on first use and kept in the store under the name ``<name>-q8_0``.

    ``model`` is any model argument (name, path, hf:, sha256:). Made again when the source or the recipe has changed.
    """
    store = store or Store()
    source = resolve_model(model, store).path
    stem = model if model in {named.name for named in store.all_named()} else source.stem
    recipe = load_recipe("q8")
    with GgufFile.open(source) as parent:
        name, origin = f"{stem.lower()}-q8_0", f"recipe {recipe.sha256} on {parent.sha256()}"
        known = store.named(name)
        if known is not None and known.origin == origin and store.has(known.sha256, known.size):
            return store.blob_path(known.sha256)
        store.folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=store.folder) as folder:
            derived = Path(folder) / "derived.gguf"
            quantise(parent, derived, recipe, allow_requantize=True)
            digest = store.add(derived)
            licence = str(parent.metadata.get("general.license", ""))
            store.name(NamedModel(name, digest, derived.stat().st_size, origin, licence))
    return store.blob_path(digest)


def main() -> None:
    parser = argparse.ArgumentParser(description="Derives a Q8_0 file and keeps it in the model store.")
    parser.add_argument("model", nargs="?", default="smollm2-135m", help="a model name or a path")
    print(q8_0_of(parser.parse_args().model))


if __name__ == "__main__":
    main()
