"""The peers that can be measured, the configurations each is tried in, and how to install them.

A peer is never handicapped: every configuration is measured and the best of each number counts.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

LLAMA_CPP = "llama-cpp"
TRANSFORMERS = "transformers"
LLAMA_SERVER = "llama-server"


@dataclass(frozen=True, slots=True)
class Configuration:
    """One way to run a peer. ``settings`` go to its engine, ``arguments`` to its command line."""

    label: str
    settings: Mapping[str, Any] = field(default_factory=dict)
    arguments: Sequence[str] = ()
    speculates: bool = False


@dataclass(frozen=True, slots=True)
class PeerKind:
    """A peer by the name that options use. ``module`` is what its Python must import; "" for a binary."""

    name: str
    module: str
    engine: str
    install: str
    configurations: tuple[Configuration, ...]


def _ngram(label: str, kind: str, **values: int) -> Configuration:
    flags = [
        part for name, value in values.items() for part in (f"--spec-{name.replace('_', '-')}", str(value))
    ]
    return Configuration(label, arguments=("--spec-type", kind, *flags), speculates=True)


NGRAM_MODES = (
    _ngram("ngram-mod 4/2/16", "ngram-mod", ngram_mod_n_match=4, ngram_mod_n_min=2, ngram_mod_n_max=16),
    _ngram("ngram-mod 6/4/24", "ngram-mod", ngram_mod_n_match=6, ngram_mod_n_min=4, ngram_mod_n_max=24),
    _ngram("ngram-simple 4/15", "ngram-simple", ngram_simple_size_n=4, ngram_simple_size_m=15),
    _ngram("ngram-map-k 4/15", "ngram-map-k", ngram_map_k_size_n=4, ngram_map_k_size_m=15),
)
"""Settings that suit a small model on few cores; ``benchmarks/ngram_search.py`` tries many more on a machine."""

PEERS = {
    kind.name: kind
    for kind in (
        PeerKind(
            LLAMA_CPP,
            "llama_cpp",
            "llama_cpp_engine",
            'CMAKE_ARGS="-DGGML_NATIVE=ON" pip install llama-cpp-python==0.3.36',
            (
                Configuration("repacked, flash attention", {"repack": True, "flash_attention": "on"}),
                Configuration("repacked", {"repack": True, "flash_attention": "off"}),
                Configuration("as in the file", {"repack": False, "flash_attention": "on"}),
            ),
        ),
        PeerKind(
            LLAMA_SERVER,
            "",
            "",
            "build the target llama-server of llama.cpp with -DGGML_NATIVE=ON",
            (Configuration("off"), *NGRAM_MODES),
        ),
        PeerKind(
            TRANSFORMERS,
            "transformers",
            "transformers_engine",
            "pip install torch transformers gguf",
            (
                Configuration("float32, off", {"dtype": "float32"}),
                Configuration(
                    "float32, prompt lookup 10", {"dtype": "float32", "lookup": 10}, speculates=True
                ),
                Configuration(
                    "bfloat16, prompt lookup 10", {"dtype": "bfloat16", "lookup": 10}, speculates=True
                ),
            ),
        ),
    )
}
