"""Which environment variables are written down, and whether anything in a server can read a name at all."""

from __future__ import annotations

import mmap
import re
from collections.abc import Iterable, Mapping
from pathlib import Path

from verispec.lab.home import VARIABLE
from verispec.lab.launch.server import LANE_VARIABLE
from verispec.lab.secrets import shown

MATTERING = re.compile(
    r"^(VERISPEC|GGML|LLAMA|VLLM|SGL|SGLANG|OLLAMA|TORCH|PYTORCH|TRITON|XLA|HF|TRANSFORMERS|TOKENIZERS|RAY|CUDA|CUBLAS"
    r"|CUDNN|NVIDIA|NCCL|HIP|HSA|ROCR|ROCM|AMD|MIOPEN|SYCL|ONEAPI|ZE|NEO|IGC|UR|ONEDNN|DNNL|INTEL|TBB|OMP|GOMP|KMP"
    r"|MKL|OPENBLAS|BLIS|NUMEXPR|MALLOC|GLIBC|LD|VK|GGUF|MESA|RADV|PYTHON|GPU)_?"
)
"""Names of engines, libraries and drivers whose variables change what runs or how fast."""
ALSO = frozenset({"PATH", "TZ", "LANG", "LC_ALL"})
NAME_BYTES = re.compile(rb"[A-Za-z0-9_]")
CODE_ENDINGS = (".py", ".so", ".pyd")


def recorded_variables(environment: Mapping[str, str], declared: Iterable[str]) -> dict[str, str]:
    """Every variable that was declared or could matter; of what looks like a secret its digest."""
    names = set(declared) | {name for name in environment if MATTERING.match(name) or name in ALSO}
    return {
        name: shown(name, environment[name])
        for name in sorted(names - {VARIABLE, LANE_VARIABLE})
        if name in environment
    }


def unread_variables(names: Iterable[str], files: Iterable[Path]) -> list[str]:
    """Those of ``names`` whose text stands in none of ``files``: no code in them can ask for it by that name."""
    missing = {name: name.encode() for name in names}
    for path in files:
        if not missing:
            break
        missing = {name: text for name, text in missing.items() if not _holds(path, text)}
    return sorted(missing)


def package_files(folders: Iterable[Path]) -> list[Path]:
    """The code of Python packages."""
    return [
        path
        for folder in folders
        for path in sorted(folder.rglob("*"))
        if path.suffix in CODE_ENDINGS and "__pycache__" not in path.parts
    ]


def _holds(path: Path, text: bytes) -> bool:
    try:
        with path.open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as content:
            return _stands_alone(content, text)
    except (OSError, ValueError):  # gone, unreadable or empty
        return False


def _stands_alone(content: mmap.mmap, text: bytes) -> bool:
    """Whether ``text`` occurs as a whole name: a name is not found in a longer one."""
    at = content.find(text)
    while at >= 0:
        around = content[max(at - 1, 0) : at] + content[at + len(text) : at + len(text) + 1]
        if not NAME_BYTES.search(around):
            return True
        at = content.find(text, at + 1)
    return False
