"""How far llama.cpp's own encoders are from the values they are given, for our encoders to be measured against.

    python benchmarks/golden_quantisation.py tests/data/golden_quantisation.json

needs llama-cpp-python, whose library it calls; the tests need only the result.
"""

from __future__ import annotations

import argparse
import ctypes
import json
import sys
from pathlib import Path

import gguf
import llama_cpp
import numpy as np
from gguf import GGML_QUANT_SIZES, GGMLQuantizationType

sys.path.insert(0, str(Path(__file__).parent.parent / "tests"))

from values_to_quantise import distributions

TYPES = ("Q8_0", "Q4_0", "Q4_1", "Q5_0", "Q5_1", "Q4_K", "Q5_K", "Q6_K")


def relative_error(library: ctypes.CDLL, name: str, values: np.ndarray) -> float:
    """Root mean square of the difference over that of the values."""
    kind = GGMLQuantizationType[name]
    size, nbytes = GGML_QUANT_SIZES[kind]
    stored = np.zeros((values.size // size, nbytes), np.uint8)
    rows, columns = values.shape
    quantize = library.ggml_quantize_chunk
    quantize.restype = ctypes.c_size_t
    quantize.argtypes = [ctypes.c_int, *[ctypes.c_void_p] * 2, *[ctypes.c_int64] * 3, ctypes.c_void_p]
    quantize(int(kind), values.ctypes.data, stored.ctypes.data, 0, rows, columns, None)
    found = gguf.dequantize(stored, kind).reshape(values.shape).astype(np.float64)
    return float(np.sqrt(np.sum((found - values) ** 2) / np.sum(values.astype(np.float64) ** 2)))


def main() -> None:
    parser = argparse.ArgumentParser(description="Writes the errors of llama.cpp's encoders.")
    parser.add_argument("output", type=Path)
    output = parser.parse_args().output
    folder = Path(llama_cpp.__file__).parent / "lib"
    library = ctypes.CDLL(str(next(folder.glob("libggml-base.*"))))
    errors = {
        name: {kind: round(relative_error(library, kind, values), 6) for kind in TYPES}
        for name, values in distributions().items()
    }
    golden = {"made_with": f"llama-cpp-python {llama_cpp.__version__}", "relative_errors": errors}
    output.write_text(json.dumps(golden, indent=1) + "\n")


if __name__ == "__main__":
    main()
