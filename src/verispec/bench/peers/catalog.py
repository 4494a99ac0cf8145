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


PLAIN_ATTENTION = ("-fa", "off")
"""For few rows of a small model on a CPU it beats the server's own choice, flash attention, by far."""


def _ngram(label: str, kind: str, **values: int) -> Configuration:
    flags = [
        part for name, value in values.items() for part in (f"--spec-{name.replace('_', '-')}", str(value))
    ]
    return Configuration(label, arguments=(*PLAIN_ATTENTION, "--spec-type", kind, *flags), speculates=True)


NGRAM_MODES = (
    _ngram("ngram-map-k4v 3/15", "ngram-map-k4v", ngram_map_k4v_size_n=3, ngram_map_k4v_size_m=15),
    _ngram("ngram-map-k 3/15", "ngram-map-k", ngram_map_k_size_n=3, ngram_map_k_size_m=15),
    _ngram("ngram-simple 6/15", "ngram-simple", ngram_simple_size_n=6, ngram_simple_size_m=15),
    _ngram("ngram-mod 8/2/8", "ngram-mod", ngram_mod_n_match=8, ngram_mod_n_min=2, ngram_mod_n_max=8),
)
"""The best setting of each kind that ``benchmarks/ngram_search.py`` found for a small model that copies, on two cores.

As they are by default, the modes look for longer matches and propose up to 64 tokens, which suits large models on GPUs.
"""

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
            (
                Configuration("off", arguments=PLAIN_ATTENTION),
                *NGRAM_MODES,
            ),
        ),
        PeerKind(
            TRANSFORMERS,  # with prompt lookup alone: without, it is several times slower than any other
            "transformers",
            "transformers_engine",
            "pip install torch transformers gguf",
            (
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
