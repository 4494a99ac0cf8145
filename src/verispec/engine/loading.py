"""From a model's name or file to a ``Model``."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from verispec.artifacts.draft_manifest import read_draft_manifest
from verispec.artifacts.gguf import GgufFile
from verispec.artifacts.resolve import resolve_model
from verispec.drafting.chained_strategies import JOIN
from verispec.drafting.options import DRAFT_MODEL, RECURRENT_SNAPSHOTS
from verispec.drafting.resolution import Resolution
from verispec.engine.admission import check_manifest_kind
from verispec.engine.model import Model
from verispec.engine.options import check_integer
from verispec.engine.request_options import RequestOptions
from verispec.errors import FetchError, OptionError
from verispec.text.chat_template import ChatTemplate
from verispec.text.published_files import read_published_files
from verispec.text.tokenizer import Tokenizer

DEFAULT_MODEL = "smollm2-135m"
DEFAULT_BACKEND = "native"
DEFAULT_SEQUENCES = 4
BACKENDS = (DEFAULT_BACKEND, "transformers")


def load(
    model: str | Path = DEFAULT_MODEL,
    *,
    ctx: int | None = None,
    threads: int | None = None,
    sequences: int = DEFAULT_SEQUENCES,
    snapshots: int | None = None,
    backend: str = DEFAULT_BACKEND,
    options: Mapping[str, Any] | None = None,
) -> Model:
    """Loads a model by name, path, ``hf:owner/repo/file`` or ``sha256:prefix``.

    ``ctx`` is how many positions a sequence holds (default 4096, or the model's own limit when that is less),
    ``sequences`` how many generations and conversations can be open at once, ``threads`` how many threads a pass uses
    (default: the physical cores). ``snapshots`` is the rollback window of a model with recurrent state, S: how many
    states before the live one each sequence has room for (default: ``spec_mtp_recurrent_snapshots`` of the options, or
    7). ``options`` are those of the generations to come: what the backend could not run is
    refused before anything is allocated. Models are GGUF files, or folders of safetensors in the format of the
    transformers library.

    The memory needed is checked first; MemoryLimitError says what is missing. ArtifactError for a bad file, FetchError
    for one that is not here, OptionError for a value out of range.
    """
    for name, value in (("ctx", ctx), ("threads", threads), ("sequences", sequences)):
        if value is not None:
            check_integer(name, value, 1, 2**31 - 1)
    if backend not in BACKENDS:
        raise OptionError(f"backend: expected one of {', '.join(BACKENDS)}, found {backend!r}")
    path = resolve_model(str(model)).path
    if backend == "transformers":
        if snapshots is not None:
            raise OptionError("snapshots: not read by the transformers backend")
        return _load_transformers(path, ctx, threads, sequences, options or {})
    return _load_native(path, ctx, threads, sequences, snapshots, options or {})


def _load_native(
    path: Path,
    ctx: int | None,
    threads: int | None,
    sequences: int,
    snapshots: int | None,
    options: Mapping[str, Any],
) -> Model:
    from verispec.backends.native import NativeBackend
    from verispec.backends.native_plan import plan_model, planned_capabilities

    plan = plan_model(path, ctx, sequences, snapshots)
    asked = options.get(RECURRENT_SNAPSHOTS.name)
    if snapshots is None and asked is not None and any(plan.model.recurrent):
        plan.file.close()
        plan = plan_model(path, ctx, sequences, int(RECURRENT_SNAPSHOTS.check(asked)))  # type: ignore[arg-type]
    resolution = RequestOptions.parse(options, planned_capabilities(plan)).resolution
    check_draft_artifact(resolution)
    backend = NativeBackend(plan, threads)
    tokenizer, template = _gguf_text(plan.file.metadata, path)
    model = Model(backend, tokenizer, template, {"target": plan.file.sha256()})
    return with_drafting(model, resolution)


def _load_transformers(
    path: Path, ctx: int | None, threads: int | None, sequences: int, options: Mapping[str, Any]
) -> Model:
    from verispec.backends.transformers_plan import plan_transformers

    plan = plan_transformers(path, ctx, sequences)
    resolution = RequestOptions.parse(options, plan.capabilities).resolution
    check_draft_artifact(resolution)
    if path.is_file():
        with GgufFile.open(path) as file:
            tokenizer, template = _gguf_text(file.metadata, path)
    else:
        tokenizer, template = read_published_files(path, plan.capabilities.vocabulary)
    from verispec.backends.transformers import TransformersBackend

    model = Model(TransformersBackend(plan, threads), tokenizer, template, {"target": plan.sha256()})
    return with_drafting(model, resolution)


def with_drafting(model: Model, resolution: Resolution) -> Model:
    """The model with the artifact opened that requests of ``resolution`` draft with: the first need not wait for it."""
    try:
        model.open_artifact(resolution)
    except BaseException:
        model.close()
        raise
    return model


def check_draft_artifact(resolution: Resolution) -> None:
    """Raises what opening the artifact that it names would raise, as far as that can be known without its target."""
    name = resolution.settings.get(DRAFT_MODEL.name)
    if name is None:
        return
    mode = resolution.strategy.name
    try:
        manifest = read_draft_manifest(resolve_model(str(name)).path)
    except FetchError as error:
        raise FetchError(f"spec_mode {mode}: {DRAFT_MODEL.name}: {error}") from error
    check_manifest_kind(str(name), manifest, mode.split(JOIN))


def _gguf_text(metadata: Mapping[str, object], path: Path) -> tuple[Tokenizer, ChatTemplate | None]:
    return Tokenizer.from_gguf(metadata, str(path)), ChatTemplate.from_gguf(metadata, str(path))
