"""Admitting a draft artifact for a target: both files parsed, everything that can be checked checked, and written down.

What was admitted is checked again when it is loaded (``open_admitted``); every refusal has a reason code.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from verispec.artifacts.draft_file import DraftFile
from verispec.artifacts.draft_manifest import (
    AGAIN,
    DraftManifest,
    Source,
    TargetBinding,
    artifact_sha256,
    read_draft_manifest,
)
from verispec.artifacts.published_tokenizer import tokenizer_metadata
from verispec.backends.native_plan import ModelPlan, plan_decoder, plan_model
from verispec.engine.draft_vector import make_vector
from verispec.errors import AdmissionError, ArtifactError
from verispec.models.draft_hyperparameters import DraftHyperparameters, read_draft_hyperparameters
from verispec.models.draft_tensors import check_binding, check_draft_tensors
from verispec.text.published_files import TOKENIZER
from verispec.text.tokenizer import Tokenizer

DRAFT_MODEL = "draft-model"


@dataclass(frozen=True)
class AdmittedHead:
    """A head whose manifest holds; ``file`` is open."""

    manifest: DraftManifest
    file: DraftFile
    draft: DraftHyperparameters


def admit(
    target: Path, artifact: Path, kind: str, source: Source, acceptance: float | None = None
) -> DraftManifest:
    """Checks ``artifact`` as a ``kind`` for ``target`` and gives its manifest, which the caller writes.

    Raises AdmissionError with code ``wrong-kind``, ``wrong-target`` or ``wrong-tokenizer``, ArtifactError for a file
    that is malformed, UnsupportedError for one that no graph here runs.
    """
    plan = plan_model(target)
    with plan.file:
        tokenizer = Tokenizer.from_gguf(plan.file.metadata, str(target))
        binding = TargetBinding(
            architecture=plan.model.architecture,
            layers=plan.model.layers,
            hidden_size=plan.model.hidden_size,
            vocabulary=plan.model.vocabulary,
            tokenizer_sha256=tokenizer.digest,
            sha256=plan.file.sha256(),
        )
        if kind == DRAFT_MODEL:
            return _admit_model(artifact, tokenizer, binding, source, acceptance)
        return _admit_head(plan, artifact, kind, tokenizer, binding, source, acceptance)


def _admit_model(
    artifact: Path, target: Tokenizer, binding: TargetBinding, source: Source, acceptance: float | None
) -> DraftManifest:
    """A model of any size is read as such; another tokeniser means that text is encoded again."""
    plan = plan_model(artifact)
    with plan.file:
        plan_decoder(plan)
        own = Tokenizer.from_gguf(plan.file.metadata, str(artifact))
        same = same_tokens(own, target) and plan.model.vocabulary == binding.vocabulary
        numbers = {"architecture": plan.model.architecture, "layers": plan.model.layers}
        sha256 = plan.file.sha256()
    return DraftManifest(
        DRAFT_MODEL, artifact.resolve().name, sha256, binding, source, numbers, None, same, acceptance
    )


def _admit_head(
    plan: ModelPlan,
    artifact: Path,
    kind: str,
    tokenizer: Tokenizer,
    binding: TargetBinding,
    source: Source,
    acceptance: float | None,
) -> DraftManifest:
    with DraftFile.open(artifact) as file:
        check_kind(file, kind)
        draft = read_draft_hyperparameters(file)
        check_draft_tensors(file, draft)
        check_target(file, draft, plan)
        own = own_tokenizer(file, draft.decoder.vocabulary)
        if own is not None and not same_tokens(own, tokenizer):
            raise AdmissionError(
                "wrong-tokenizer",
                f"{artifact}: expected the target's tokens, found others in the tokeniser that comes with it",
                "Use a head that was trained on this target's tokens",
            )
        vector = make_vector(file, draft, plan.file)
        return DraftManifest(
            kind=kind,
            file=artifact.resolve().name,
            sha256=artifact_sha256(artifact),
            target=binding,
            source=source,
            head=numbers_of(draft, plan.model.layers),
            vector=vector,
            acceptance=acceptance,
        )


def check_kind(file: DraftFile, kind: str) -> None:
    """Raises AdmissionError unless the tensors are those of ``kind``."""
    if file.kind != kind:
        raise AdmissionError(
            "wrong-kind",
            f"{file.path}: expected the tensors of kind {kind}, found those of {file.kind}",
            f"Admit it as what it is: --kind {file.kind}",
        )


def check_target(file: DraftFile, draft: DraftHyperparameters, plan: ModelPlan) -> None:
    """Raises AdmissionError unless the head's shapes and layers fit the target's."""
    try:
        check_binding(file, draft, plan.model)
    except ArtifactError as error:
        raise AdmissionError(
            "wrong-target", f"{error} (target {plan.file.path})", "Use a head that was made for this target"
        ) from error


def own_tokenizer(file: DraftFile, vocabulary: int) -> Tokenizer | None:
    """The tokeniser that came with a head; None where it came without."""
    if file.path.is_dir():
        if not (file.path / TOKENIZER).is_file():
            return None
        return Tokenizer.from_gguf(tokenizer_metadata(file.path, vocabulary), str(file.path))
    if "tokenizer.ggml.tokens" not in file.metadata:
        return None
    return Tokenizer.from_gguf(file.metadata, str(file.path))


def same_tokens(one: Tokenizer, other: Tokenizer) -> bool:
    """Whether an id means the same to both: equal tokens and merges. Where words end may be said in several ways."""
    left, right = one.vocabulary, other.vocabulary
    return list(left.tokens) == list(right.tokens) and list(left.merges) == list(right.merges)


def numbers_of(draft: DraftHyperparameters, layers: int) -> dict[str, Any]:
    """A head's numbers as a manifest shows them."""
    return {
        "target_layers": list(draft.taps(layers)),
        "hidden_size": draft.decoder.hidden_size,
        "layers": draft.decoder.layers,
        "context": draft.decoder.trained_context,
        "outputs": draft.outputs,
        "block": draft.block,
        "markov_rank": draft.markov_rank,
    }


def open_admitted(
    artifact: Path, kind: str, target: TargetBinding
) -> tuple[DraftManifest, AdmittedHead | None]:
    """The manifest of ``artifact`` and, for a head, its open file, checked against what runs: strategy ``kind`` on
    ``target``.

    Raises AdmissionError with the reason, ArtifactError for a file that no longer is what its manifest says.
    """
    manifest = read_draft_manifest(artifact)
    check_manifest_kind(artifact, manifest, (kind,))
    _check_bound(artifact, manifest, target)
    if kind == DRAFT_MODEL:
        return manifest, None
    file = DraftFile.open(artifact)
    check_kind(file, kind)
    draft = read_draft_hyperparameters(file)
    check_draft_tensors(file, draft)
    return manifest, AdmittedHead(manifest, file, draft)


def check_manifest_kind(artifact: object, manifest: DraftManifest, kinds: Sequence[str]) -> None:
    """Raises AdmissionError unless the artifact was admitted as one of ``kinds``."""
    if manifest.kind not in kinds:
        raise AdmissionError(
            "wrong-kind",
            f"{artifact}: expected an artifact admitted as {' or '.join(kinds)}, found one admitted as {manifest.kind}",
            f"Use it with spec_mode {manifest.kind}",
        )


def _check_bound(artifact: Path, manifest: DraftManifest, target: TargetBinding) -> None:
    admitted = manifest.target
    for field in ("architecture", "layers", "hidden_size", "vocabulary"):
        expected, found = getattr(admitted, field), getattr(target, field)
        if expected != found:
            raise AdmissionError(
                "wrong-target",
                f"{artifact}: admitted for a target of {field} {expected}, found one of {found}",
                "Use an artifact that was admitted for this target",
            )
    if admitted.tokenizer_sha256 != target.tokenizer_sha256:
        raise AdmissionError(
            "wrong-tokenizer",
            f"{artifact}: admitted for the tokeniser {admitted.tokenizer_sha256}, found {target.tokenizer_sha256}",
            AGAIN,
        )
