"""What a request asked to see in its answer, beside the text."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from verispec.engine.completion import Chunk, Completion
from verispec.serving.openai.finish import finish_detail
from verispec.serving.openai.shape import Finished
from verispec.serving.openai.shared_parameters import SharedParameters
from verispec.serving.openai.usage import timings, usage


@dataclass(frozen=True, slots=True)
class Asked:
    """``choices`` go on from each prompt. The methods give fields to add; none when they were not asked for."""

    choices: int
    stream_usage: bool
    timings: bool
    token_ids: bool

    @classmethod
    def by(cls, request: SharedParameters) -> Asked:
        options = request.stream_options
        return cls(
            choices=request.n or 1,
            stream_usage=options is not None and bool(options.include_usage),
            timings=bool(request.timings),
            token_ids=bool(request.return_token_ids),
        )

    def of_choice(self, finished: Finished) -> dict[str, Any]:
        """At the end of a choice."""
        fields: dict[str, Any] = {"finish_detail": finish_detail(finished.completion)}
        if finished.receipt is not None:
            fields["receipt"] = dict(finished.receipt)
        return fields

    def of_prompt(self, prompt: Sequence[int]) -> dict[str, Any]:
        """At the beginning of a choice."""
        return {"prompt_token_ids": list(prompt)} if self.token_ids else {}

    def of_tokens(self, tokens: Sequence[int]) -> dict[str, Any]:
        """With tokens of a choice."""
        return {"token_ids": list(tokens)} if self.token_ids else {}

    def of_round(self, chunk: Chunk) -> str:
        """Beside one round's choice in its chunk, as JSON to append."""
        if not self.timings:
            return ""
        return f',"verispec":{{"drafted":{chunk.drafted},"accepted":{chunk.accepted}}}'

    def of_whole(self, completions: Sequence[Completion]) -> dict[str, Any]:
        """Over all choices of an answer that comes at once."""
        return {"usage": usage(completions, self.choices), **self._clocks(completions)}

    def of_stream(self, completions: Sequence[Completion]) -> dict[str, Any]:
        """Over all choices of a stream."""
        counted = {"usage": usage(completions, self.choices)} if self.stream_usage else {}
        return {**counted, **self._clocks(completions)}

    def _clocks(self, completions: Sequence[Completion]) -> dict[str, Any]:
        return {"timings": timings(completions)} if self.timings else {}
