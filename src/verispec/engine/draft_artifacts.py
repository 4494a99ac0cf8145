"""Admitted draft artifacts of one target, opened when they are first asked for, checked, and kept for all requests."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from verispec.artifacts.draft_manifest import KINDS, TargetBinding
from verispec.artifacts.resolve import resolve_model
from verispec.backends.contract import BackendAdapter
from verispec.drafting.draft_text import DraftText
from verispec.drafting.sources import DraftHead
from verispec.drafting.text_rewriter import TextRewriter
from verispec.engine.admission import DRAFT_MODEL, open_admitted
from verispec.engine.draft_vector import check_vector
from verispec.text.tokenizer import Tokenizer


@dataclass(frozen=True)
class LoadedModel:
    """A draft model, and its sequence for each of the target's."""

    backend: BackendAdapter
    rewriter: TextRewriter | None
    texts: dict[int, DraftText]

    def text(self, sequence: int) -> DraftText:
        """The draft model's sequence that belongs to the target's ``sequence``; it has as many."""
        if sequence not in self.texts:
            own = self.backend.open_sequence()
            self.texts[sequence] = DraftText(self.backend, own, rewriter=self.rewriter)
        return self.texts[sequence]


class DraftArtifacts:
    """Raises AdmissionError, with the reason, for an artifact that is not what it was admitted as."""

    def __init__(self, backend: BackendAdapter, tokenizer: Tokenizer) -> None:
        self._backend = backend
        self._tokenizer = tokenizer
        self._heads: dict[tuple[Path, str], DraftHead] = {}
        self._models: dict[Path, LoadedModel] = {}
        self._acceptance: dict[Path, float | None] = {}

    @property
    def binding(self) -> TargetBinding:
        """What an artifact has to be bound to."""
        facts = self._backend.capabilities
        return TargetBinding(
            architecture=facts.architecture,
            layers=facts.layers,
            hidden_size=facts.hidden_size,
            vocabulary=facts.vocabulary,
            tokenizer_sha256=self._tokenizer.digest,
            sha256="",
        )

    def head(self, name: str, kind: str) -> DraftHead:
        """The head that ``name`` stands for, admitted as ``kind``; it has drafted its test vector before it is used."""
        path = resolve_model(name).path
        if (path, kind) not in self._heads:
            manifest, admitted = open_admitted(path, kind, self.binding)
            assert admitted is not None
            head = self._backend.draft_head(admitted.file, admitted.draft)
            if manifest.vector is not None:
                check_vector(path, head, manifest.vector, self._backend.capabilities.sequences)
            self._acceptance[path] = manifest.acceptance
            taps = admitted.draft.taps(self._backend.capabilities.layers)
            self._heads[path, kind] = DraftHead(head, taps)
        return self._heads[path, kind]

    def open(self, name: str, strategies: Sequence[str]) -> None:
        """Opens what ``name`` stands for as the one of ``strategies`` that it was admitted as."""
        if DRAFT_MODEL in strategies:
            self._model(name)
        else:
            self.head(name, next(strategy for strategy in strategies if strategy in KINDS))

    def text(self, name: str, sequence: int) -> DraftText:
        """The sequence of the draft model ``name`` that belongs to the target's ``sequence``."""
        return self._model(name).text(sequence)

    def _model(self, name: str) -> LoadedModel:
        path = resolve_model(name).path
        if path not in self._models:
            self._models[path] = self._load(path)
        return self._models[path]

    def acceptance(self, name: str) -> float | None:
        """The figure in the manifest of an artifact that has been opened."""
        return self._acceptance[resolve_model(name).path]

    def _load(self, path: Path) -> LoadedModel:
        from verispec.backends.native import NativeBackend
        from verispec.backends.native_plan import plan_model

        manifest, _ = open_admitted(path, DRAFT_MODEL, self.binding)
        self._acceptance[path] = manifest.acceptance
        facts = self._backend.capabilities
        plan = plan_model(path)
        own = Tokenizer.from_gguf(plan.file.metadata, str(path))
        plan.file.close()
        context = min(facts.context, plan.model.trained_context)
        backend = NativeBackend.load(path, context, sequences=facts.sequences)
        rewriter = None if manifest.same_tokens else TextRewriter(self._tokenizer, own)
        return LoadedModel(backend, rewriter, {})

    def close(self) -> None:
        """Frees the draft models; heads are freed with the target."""
        for model in self._models.values():
            model.backend.close()
        self._models.clear()
        self._heads.clear()
