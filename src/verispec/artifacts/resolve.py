"""What a model argument means: a name, a path, a file on the Hugging Face Hub, or a digest in the store."""

from __future__ import annotations

import difflib
import os
from dataclasses import dataclass
from pathlib import Path

from verispec.artifacts.catalog import CATALOG
from verispec.artifacts.shipped_drafts import shipped_names, shipped_path
from verispec.artifacts.store import Store
from verispec.errors import ArtifactError, FetchError, UnsupportedError

HUB = "hf:"
DIGEST = "sha256:"


@dataclass(frozen=True)
class ResolvedModel:
    """The file a model argument stands for. ``sha256`` is set where the content was checked against it."""

    argument: str
    path: Path
    sha256: str | None = None


def resolve_model(argument: str, store: Store | None = None) -> ResolvedModel:
    """Finds the file for ``argument``: ``NAME``, ``PATH``, ``hf:OWNER/REPO/FILE`` or ``sha256:PREFIX``.

    A name of the catalogue or store comes before a file of the same name (write ``./NAME`` for the file).
    Only ``hf:`` may reach for the network. Raises FetchError, ArtifactError or UnsupportedError.
    """
    store = store or Store()
    if argument.startswith(HUB):
        return ResolvedModel(argument, hub_file(argument))
    if argument.startswith(DIGEST):
        digest = store.by_prefix(argument.removeprefix(DIGEST))
        return ResolvedModel(argument, store.verify(digest), digest)
    named = store.named(argument)
    if named is not None and store.blob_path(named.sha256).exists():
        return ResolvedModel(argument, stored_blob(store, argument, named.sha256), named.sha256)
    shipped = shipped_path(argument)
    if shipped is not None:
        return ResolvedModel(argument, shipped)
    if argument in CATALOG:
        raise FetchError(f"model {argument!r} is not here yet; `verispec pull {argument}` fetches it")
    path = Path(argument).expanduser()
    if path.exists():
        return ResolvedModel(argument, path)
    raise FetchError(explain_missing(argument, store))


def stored_blob(store: Store, name: str, digest: str) -> Path:
    """The checked blob of a name; altered content is refused with the way to repair it."""
    try:
        return store.verify(digest)
    except ArtifactError as error:
        repair = f"{error.found}; `verispec pull {name}` repairs it" if name in CATALOG else error.found
        raise ArtifactError(error.file, error.where, error.expected, repair) from error


def explain_missing(argument: str, store: Store) -> str:
    """Why an argument means nothing, with the nearest name when it looks like one."""
    if os.sep in argument or argument.endswith(".gguf"):
        return f"no model file at {argument!r}"
    names = sorted({*CATALOG, *shipped_names(), *(model.name for model in store.all_named())})
    near = difflib.get_close_matches(argument, names, n=1)
    hint = f"did you mean {near[0]!r}?" if near else f"known names: {', '.join(names)}"
    return f"no model named {argument!r} and no file at that path; {hint}"


def hub_file(argument: str) -> Path:
    """The local copy of ``hf:OWNER/REPO/FILE``; huggingface_hub fetches it when its cache lacks it."""
    owner, _, rest = argument.removeprefix(HUB).partition("/")
    repository, _, file = rest.partition("/")
    if not (owner and repository and file):
        raise FetchError(
            f"{argument!r}: write hf:OWNER/REPO/FILE, for example hf:owner/model-GGUF/model.Q8_0.gguf"
        )
    try:
        import huggingface_hub
    except ImportError as error:
        raise UnsupportedError(
            "huggingface-hub-missing",
            f"{argument!r} needs the package huggingface_hub",
            "`pip install 'verispec[hub]'` adds it",
        ) from error
    try:
        return Path(huggingface_hub.hf_hub_download(f"{owner}/{repository}", file))
    except Exception as error:  # the hub's own, requests' and httpx's errors share no base
        reason = str(error).strip().splitlines()
        raise FetchError(f"{argument!r}: {reason[0] if reason else type(error).__name__}") from error
