"""transformers on a GGUF file, whose weights it converts to ``dtype``. Imports torch and transformers, nothing of
verispec."""

from __future__ import annotations

import os
import time
from typing import Any

import torch
import transformers
from transformers import AutoModelForCausalLM, StoppingCriteria, StoppingCriteriaList


class RoundClock(StoppingCriteria):  # type: ignore[misc]
    """Notes when each round of a generation ended and how long the sequence was then."""

    def __init__(self) -> None:
        self.rounds: list[tuple[float, int]] = []

    def __call__(self, input_ids: Any, scores: Any, **_: Any) -> Any:
        self.rounds.append((time.perf_counter(), input_ids.shape[1]))
        return torch.zeros(input_ids.shape[0], dtype=torch.bool)


class Engine:
    """One model, batch size one. ``lookup`` over 0 is how many tokens prompt lookup proposes."""

    def __init__(
        self,
        model: str,
        context: int,
        threads: int,
        dtype: str = "float32",
        lookup: int = 0,
        lookup_ngram: int = 2,
    ) -> None:
        torch.set_num_threads(threads)
        folder, name = os.path.split(os.path.abspath(model))
        self.model = AutoModelForCausalLM.from_pretrained(folder, gguf_file=name, dtype=getattr(torch, dtype))
        self.model.eval()
        self.lookup = (
            {"prompt_lookup_num_tokens": lookup, "max_matching_ngram_size": lookup_ngram} if lookup else {}
        )

    def describe(self) -> dict[str, Any]:
        return {"transformers": transformers.__version__, "torch": torch.__version__}

    def passes(self, context: list[int], rows: list[int], repeats: int) -> dict[str, Any]:
        inputs, seconds = torch.tensor([rows]), []
        with torch.inference_mode():
            cache = self.model(torch.tensor([context]), use_cache=True, logits_to_keep=1).past_key_values
            for repeat in range(repeats + 1):
                started = time.perf_counter()
                self.model(inputs, past_key_values=cache, use_cache=True)
                if repeat:
                    seconds.append(time.perf_counter() - started)
                cache.crop(-len(rows))  # a positive length is refused by some versions
        return {"seconds": seconds}

    def prompt(self, tokens: list[int], repeats: int) -> dict[str, Any]:
        inputs, seconds = torch.tensor([tokens]), []
        with torch.inference_mode():
            for _ in range(repeats):
                started = time.perf_counter()
                self.model(inputs, use_cache=True, logits_to_keep=1)
                seconds.append(time.perf_counter() - started)
        return {"seconds": seconds}

    def decode(self, prompt: list[int], max_tokens: int, end_tokens: list[int]) -> dict[str, Any]:
        inputs, clock = torch.tensor([prompt]), RoundClock()
        started = time.perf_counter()
        with torch.inference_mode():
            output = self.model.generate(
                inputs,
                attention_mask=torch.ones_like(inputs),
                do_sample=False,
                max_new_tokens=max_tokens,
                eos_token_id=end_tokens or None,
                pad_token_id=0,
                stopping_criteria=StoppingCriteriaList([clock]),
                **self.lookup,
            )
        first, last = clock.rounds[0], clock.rounds[-1]
        return {
            "tokens": output[0, len(prompt) :].tolist(),
            "counted": last[1] - first[1],
            "seconds": last[0] - first[0],
            "prompt_seconds": first[0] - started,
            "passes": len(clock.rounds),
        }

    def close(self) -> None:
        del self.model
