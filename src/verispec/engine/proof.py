"""From a completion to its receipt, and from a receipt back to a replay: what ties the engine to ``evidence``."""

from __future__ import annotations

import os
import platform
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from verispec.artifacts.digests import file_sha256
from verispec.engine.generation import Completion
from verispec.errors import ContextOverflowError, OptionError, UnsupportedError
from verispec.evidence.receipt import Evidence, Receipt

if TYPE_CHECKING:
    from verispec.engine.model import Model


def make_receipt(model: Model, completion: Completion, include_text: bool) -> Receipt:
    """The receipt of one completion of ``model``."""
    options = completion.options
    counters = completion.counters
    evidence = Evidence(
        runtime=model.backend.identity(),
        artifacts={**model.artifacts, **_drafting_artifacts(completion)},
        tokenizer=model.tokenizer.digest,
        sampling={**options.sampling.as_dict(), "seed": completion.seed},
        limits={
            "max_tokens": options.limits.max_tokens,
            "stop": list(options.limits.stop),
            "ignore_eos": options.limits.ignore_eos,
        },
        prompt_tokens=completion.prompt_tokens,
        tokens=completion.tokens,
        text=completion.text,
        finish_reason=completion.finish_reason,
        stop_string=completion.stop_string,
        logprobs=completion.logprobs,
        speculation=options.resolution.as_dict(),
        rounds=completion.rounds,
        counts={
            "passes": completion.passes,
            "prompt_passes": counters.prompt_passes,
            "reused_tokens": counters.reused_tokens,
            "replays": counters.replays,
            "guarded": False,
        },
        faults=completion.faults,
        timings={
            "first_token_seconds": completion.timings.first_token,
            "total_seconds": completion.timings.total,
            "prompt_seconds": completion.timings.prompt,
            "draft_seconds": completion.timings.draft,
            "pass_seconds": completion.timings.passes,
        },
        machine={
            "system": platform.system(),
            "machine": platform.machine(),
            "processors": os.cpu_count() or 0,
            "python": platform.python_version(),
        },
    )
    return Receipt.of(evidence, include_text=include_text)


def _drafting_artifacts(completion: Completion) -> dict[str, str]:
    """Role to SHA-256 of the files the drafter read."""
    corpus = completion.options.resolution.settings.get("spec_suffix_corpus")
    return {} if corpus is None else {"corpus": file_sha256(Path(str(corpus)))}


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

    def encodings(self, prompt: Any) -> Iterable[Sequence[int]]:
        """A prompt may have been completed as it stands or asked as a chat message."""
        return self._encodings(prompt)

    def _encodings(self, prompt: Any) -> Iterator[Sequence[int]]:
        forms: list[Any] = [prompt]
        if isinstance(prompt, str):
            forms.append([{"role": "user", "content": prompt}])
        for form in forms:
            try:
                yield self._model.encode(form)
            except (OptionError, UnsupportedError, ContextOverflowError):
                continue

    def generate_tokens(
        self, prompt: Sequence[int], sampling: Mapping[str, Any], limits: Mapping[str, Any]
    ) -> Completion:
        return self._model.generate(list(prompt), spec_mode="off", **sampling, **limits)
