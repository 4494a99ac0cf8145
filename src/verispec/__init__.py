"""Speculative decoding whose output is, token for token, what the model would have written alone."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from verispec.engine.completion import Chunk, Completion
    from verispec.engine.generation import Generation
    from verispec.engine.loading import load
    from verispec.engine.model import Model
    from verispec.errors import (
        ArtifactError,
        BackendError,
        ContextOverflowError,
        DrafterFaultError,
        FetchError,
        GrammarError,
        MemoryLimitError,
        OptionError,
        ReceiptError,
        UnsupportedError,
        VerispecError,
    )
    from verispec.text.grammar import Grammar

__version__ = "0.1.0"

__all__ = [
    "ArtifactError",
    "BackendError",
    "Chunk",
    "Completion",
    "ContextOverflowError",
    "DrafterFaultError",
    "FetchError",
    "Generation",
    "Grammar",
    "GrammarError",
    "MemoryLimitError",
    "Model",
    "OptionError",
    "ReceiptError",
    "UnsupportedError",
    "VerispecError",
    "load",
]

_HOMES = {
    "verispec.engine.completion": ("Chunk", "Completion"),
    "verispec.engine.generation": ("Generation",),
    "verispec.engine.loading": ("load",),
    "verispec.engine.model": ("Model",),
    "verispec.text.grammar": ("Grammar",),
}


def __getattr__(name: str) -> Any:
    """The engine is imported when it is first asked for, so that `verispec --help` does not wait for it."""
    if name in __all__:
        home = next((home for home, names in _HOMES.items() if name in names), "verispec.errors")
        return getattr(import_module(home), name)
    raise AttributeError(f"module 'verispec' has no attribute {name!r}")
