"""What loading a model through ``transformers`` would take: its configuration read and checked, no weights loaded."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from verispec.artifacts.digests import file_sha256, folder_sha256
from verispec.backends.contract import DEFAULT_CONTEXT, Capabilities
from verispec.errors import ArtifactError, OptionError, UnsupportedError

MAX_ROWS = 512
SEQUENCES = 4


@dataclass(frozen=True)
class TransformersPlan:
    """A folder in the library's format, or a GGUF file, with its text configuration."""

    path: Path
    config: Any
    capabilities: Capabilities

    @property
    def source(self) -> dict[str, str]:
        """Where ``from_pretrained`` finds it."""
        return library_source(self.path)

    def sha256(self) -> str:
        return file_sha256(self.path) if self.path.is_file() else folder_sha256(self.path)


def plan_transformers(
    path: str | Path, context: int | None = None, sequences: int = SEQUENCES
) -> TransformersPlan:
    """Reads the configuration of ``path``.

    ``context`` is by default 4096 or what the model was trained on, if that is less; ``sequences`` can be open at
    once. Raises UnsupportedError without
    the library or for a model it keeps no croppable state of, ArtifactError for what it cannot read, OptionError for a
    context out of range.
    """
    try:
        import torch  # noqa: F401 - the library imports without it, and then loads nothing
        from transformers import AutoConfig
    except ImportError as error:
        raise UnsupportedError(
            "needs-transformers",
            f"the transformers backend needs torch and transformers ({error})",
            "Install verispec[transformers]",
        ) from error
    path = Path(path)
    try:
        config = AutoConfig.from_pretrained(local_files_only=True, **library_source(path)).get_text_config()
    except Exception as error:  # the library's loading errors share no base
        raise ArtifactError(path, "configuration", "one that transformers reads", str(error)) from error
    _refuse_uncroppable(config)
    trained = int(config.max_position_embeddings)
    if context is None:
        context = min(DEFAULT_CONTEXT, trained)
    if not 1 <= context <= trained:
        limit = f"1 to {trained} positions, what the model was trained on"
        raise OptionError(f"ctx: expected {limit}, found {context}")
    capabilities = Capabilities(
        exactness="token-checked",
        architecture=str(config.model_type),
        vocabulary=int(config.vocab_size),
        hidden_size=int(config.hidden_size),
        layers=int(config.num_hidden_layers),
        context=context,
        sequences=sequences,
        max_rows=MAX_ROWS,
        rollback=context,
    )
    return TransformersPlan(path, config, capabilities)


def library_source(path: Path) -> dict[str, str]:
    """The arguments of ``from_pretrained`` that name ``path``."""
    if path.is_file():
        return {"pretrained_model_name_or_path": str(path.parent), "gguf_file": path.name}
    return {"pretrained_model_name_or_path": str(path)}


def _refuse_uncroppable(config: Any) -> None:
    """A sliding or recurrent layer forgets what a rejected row would have to bring back."""
    from transformers import DynamicCache

    for index, layer in enumerate(getattr(DynamicCache(config=config), "layers", [])):
        kind = type(layer).__name__
        if kind != "DynamicLayer":
            raise UnsupportedError(
                "needs-croppable-cache",
                f"layer {index} keeps its state in a {kind}, which cannot be cropped",
                "Use the native backend for this model",
            )
