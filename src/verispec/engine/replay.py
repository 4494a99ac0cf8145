"""A loaded model as the replayer that receipts are verified with."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from verispec.engine.completion import Completion
from verispec.engine.model import Model
from verispec.errors import ContextOverflowError, OptionError, UnsupportedError


class ModelReplayer:
    """A loaded model as ``evidence.verify`` wants it: the target alone."""

    def __init__(self, model: Model) -> None:
        self._model = model

    @property
    def identity(self) -> Mapping[str, Any]:
        return self._model.backend.identity()

    @property
    def artifacts(self) -> Mapping[str, str]:
        return self._model.artifacts

    @property
    def tokenizer_digest(self) -> str:
        return self._model.tokenizer.digest

    def encodings(self, prompt: Any) -> Iterator[Sequence[int]]:
        """A prompt may have been completed as it stands or asked as a chat message, and a text file ends in a newline
        that the prompt may not have had."""
        forms: list[Any] = [prompt]
        if isinstance(prompt, str):
            texts = dict.fromkeys((prompt, prompt.removesuffix("\n")))
            forms = [form for text in texts for form in (text, [{"role": "user", "content": text}])]
        for form in forms:
            try:
                yield self._model.encode(form)
            except (OptionError, UnsupportedError, ContextOverflowError):
                continue

    def generate_tokens(
        self, prompt: Sequence[int], sampling: Mapping[str, Any], limits: Mapping[str, Any]
    ) -> Completion:
        options = {**sampling, **limits, "spec_mode": "off"}
        with self._model.start(list(prompt), None, options) as generation:
            return generation.result()
