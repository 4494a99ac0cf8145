"""From a model's name or file to a ``Model``."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from verispec.artifacts.digests import file_sha256
from verispec.artifacts.gguf import GgufFile
from verispec.artifacts.resolve import resolve_model
from verispec.backends.contract import BackendAdapter
from verispec.engine.model import Model
from verispec.engine.options import check_integer
from verispec.engine.request_options import RequestOptions
from verispec.errors import OptionError
from verispec.text.chat_template import ChatTemplate
from verispec.text.tokenizer import Tokenizer

DEFAULT_MODEL = "smollm2-135m"
DEFAULT_CONTEXT = 4096
DEFAULT_BACKEND = "native"
BACKENDS = (DEFAULT_BACKEND, "transformers")


def load(
    model: str | Path = DEFAULT_MODEL,
    *,
    ctx: int | None = None,
    threads: int | None = None,
    backend: str = DEFAULT_BACKEND,
    options: Mapping[str, Any] | None = None,
) -> Model:
    """Loads a model by name, path, ``hf:owner/repo/file`` or ``sha256:prefix``.

    ``ctx`` is how many positions a sequence holds (default 4096, or the model's own limit when that is less),
    ``threads`` how many threads a pass uses (default: the physical cores). ``options`` are those of the generations to
    come: what the native backend could not run is refused before anything is allocated.

    The memory needed is checked first; MemoryLimitError says what is missing. ArtifactError for a bad file, FetchError
    for one that is not here, OptionError for a value out of range.
    """
    for name, value in (("ctx", ctx), ("threads", threads)):
        if value is not None:
            check_integer(name, value, 1, 2**31 - 1)
    if backend not in BACKENDS:
        raise OptionError(f"backend: expected one of {', '.join(BACKENDS)}, found {backend!r}")
    path = resolve_model(str(model)).path
    opened, metadata = _open(backend, path, ctx, threads, options or {})
    tokenizer = Tokenizer.from_gguf(metadata, str(path))
    template = ChatTemplate.from_gguf(metadata, str(path))
    return Model(opened, tokenizer, template, {"target": file_sha256(path)})


def _open(
    name: str, path: Path, ctx: int | None, threads: int | None, options: Mapping[str, Any]
) -> tuple[BackendAdapter, Mapping[str, object]]:
    if name == "transformers":
        from verispec.backends.transformers import TransformersBackend

        file = GgufFile.open(path)
        return TransformersBackend.load(path, DEFAULT_CONTEXT if ctx is None else ctx, threads), file.metadata
    from verispec.backends.native import NativeBackend, planned_capabilities
    from verispec.backends.native_plan import plan_model

    plan = plan_model(path, ctx)
    RequestOptions.parse(options, planned_capabilities(plan))
    return NativeBackend(plan, threads), plan.file.metadata
