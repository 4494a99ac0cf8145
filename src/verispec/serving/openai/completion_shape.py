"""Answers in the shape of ``text_completion``, whole or as a stream."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from verispec.engine.completion import Chunk
from verispec.serving.openai.asked import Asked
from verispec.serving.openai.completion_logprobs import CompletionLogprobs, joined
from verispec.serving.openai.completion_request import CompletionRequest
from verispec.serving.openai.events import ChunkEvents, write_json
from verispec.serving.openai.finish import finish_reason
from verispec.serving.openai.head import Head
from verispec.serving.openai.prompts import TextPrompt
from verispec.serving.openai.shape import Finished
from verispec.text.tokenizer import Tokenizer

KIND = "text_completion"


class CompletionShape:
    """See ``Shape``."""

    def __init__(
        self, request: CompletionRequest, head: Head, tokenizer: Tokenizer, prompts: Sequence[TextPrompt]
    ) -> None:
        self._tokenizer = tokenizer
        self._prompts = prompts
        self._fields = head.fields(KIND)
        self._asked = Asked.by(request)
        self._echo = bool(request.echo)
        self._logprobs = request.logprobs is not None
        chunk_head = {**self._fields, "usage": None} if self._asked.stream_usage else self._fields
        self._events = ChunkEvents(chunk_head)
        self._streamed: dict[int, CompletionLogprobs] = {}

    def whole(self, finished: Sequence[Finished]) -> dict[str, Any]:
        completions = [one.completion for one in finished]
        choices = [self._choice(index, one) for index, one in enumerate(finished)]
        return {**self._fields, "choices": choices, **self._asked.of_whole(completions)}

    def opening(self, index: int) -> bytes:
        """The echoed prompt, or nothing."""
        prompt = self._prompt(index)
        if not (self._echo or self._asked.token_ids):
            return b""
        choice = self._stream_choice(index, prompt.text if self._echo else "", None)
        return self._events.choice(write_json({**choice, **self._asked.of_prompt(prompt.tokens)}))

    def chunk(self, index: int, chunk: Chunk) -> bytes:
        if not (chunk.text or self._logprobs or self._asked.token_ids or self._asked.timings):
            return b""
        more = self._asked.of_round(chunk)
        if not (self._logprobs or self._asked.token_ids):
            text = write_json(chunk.text)
            return self._events.choice(
                f'{{"index":{index},"text":{text},"logprobs":null,"finish_reason":null}}', more
            )
        choice = self._stream_choice(index, chunk.text, None)
        if self._logprobs:
            logprobs = self._streamed.setdefault(index, CompletionLogprobs(self._tokenizer))
            choice["logprobs"] = logprobs.answer(chunk.sampled)
        return self._events.choice(write_json({**choice, **self._asked.of_tokens(chunk.tokens)}), more)

    def ending(self, index: int, finished: Finished) -> bytes:
        choice = self._stream_choice(index, "", finish_reason(finished.completion))
        return self._events.choice(write_json({**choice, **self._asked.of_choice(finished)}))

    def last(self, finished: Sequence[Finished]) -> bytes:
        fields = self._asked.of_stream([one.completion for one in finished])
        return self._events.without_choices(fields) if fields else b""

    def _choice(self, index: int, finished: Finished) -> dict[str, Any]:
        completion, prompt = finished.completion, self._prompt(index)
        return {
            "index": index,
            "text": (prompt.text if self._echo else "") + completion.text,
            "logprobs": self._whole_logprobs(finished) if self._logprobs else None,
            "finish_reason": finish_reason(completion),
            **self._asked.of_choice(finished),
            **self._asked.of_prompt(completion.prompt_tokens),
            **self._asked.of_tokens(completion.tokens),
        }

    def _whole_logprobs(self, finished: Finished) -> dict[str, Any]:
        logprobs = CompletionLogprobs(self._tokenizer)
        completion = finished.completion
        prompt = [logprobs.prompt(completion.prompt_logprobs or ())] if self._echo else []
        return joined([*prompt, logprobs.answer(completion.logprobs or ())])

    def _prompt(self, index: int) -> TextPrompt:
        return self._prompts[index // self._asked.choices]

    def _stream_choice(self, index: int, text: str, reason: str | None) -> dict[str, Any]:
        return {"index": index, "text": text, "logprobs": None, "finish_reason": reason}
