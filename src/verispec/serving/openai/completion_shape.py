"""Answers in the shape of ``text_completion``, whole or as a stream."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from verispec.engine.completion import Chunk, Completion
from verispec.serving.openai.asked import Asked
from verispec.serving.openai.completion_logprobs import CompletionLogprobs
from verispec.serving.openai.completion_request import CompletionRequest
from verispec.serving.openai.events import ChunkEvents, write_json
from verispec.serving.openai.finish import finish_reason
from verispec.serving.openai.head import Head
from verispec.serving.openai.prompts import TextPrompt
from verispec.serving.openai.shape import Finished, write_whole
from verispec.serving.openai.token_text import TokenTexts

KIND = "text_completion"


class CompletionShape:
    """See ``Shape``."""

    def __init__(
        self, request: CompletionRequest, head: Head, texts: TokenTexts, prompts: Sequence[TextPrompt]
    ) -> None:
        self._texts = texts
        self._prompts = prompts
        self._fields = head.fields(KIND)
        self._asked = Asked.by(request)
        self._echo = bool(request.echo)
        self._logprobs = request.logprobs is not None
        chunk_head = {**self._fields, "usage": None} if self._asked.stream_usage else self._fields
        self._events = ChunkEvents(chunk_head)
        self._streamed: dict[int, CompletionLogprobs] = {}

    def whole(self, finished: Sequence[Finished]) -> str:
        choices = [self._choice(index, one) for index, one in enumerate(finished)]
        return write_whole(self._fields, choices, self._asked.of_whole([one.completion for one in finished]))

    def opening(self, index: int) -> bytes:
        """The echoed prompt, or nothing."""
        prompt = self._prompt(index)
        if not (self._echo or self._asked.token_ids):
            return b""
        text = prompt.text if self._echo else ""
        return self._events.choice(_choice(index, text, None, self._asked.of_prompt(prompt.tokens)))

    def chunk(self, index: int, chunk: Chunk) -> bytes:
        if not (chunk.text or self._logprobs or self._asked.token_ids or self._asked.timings):
            return b""
        more = self._asked.of_round(chunk)
        if not (self._logprobs or self._asked.token_ids):
            text = write_json(chunk.text)
            return self._events.choice(
                f'{{"index":{index},"text":{text},"logprobs":null,"finish_reason":null}}', more
            )
        shown = self._streamed_logprobs(index, chunk) if self._logprobs else "null"
        choice = _choice(index, chunk.text, None, self._asked.of_tokens(chunk.tokens), shown)
        return self._events.choice(choice, more)

    def ending(self, index: int, finished: Finished) -> bytes:
        reason = finish_reason(finished.completion)
        return self._events.choice(_choice(index, "", reason, self._asked.of_choice(finished)))

    def last(self, finished: Sequence[Finished]) -> bytes:
        fields = self._asked.of_stream([one.completion for one in finished])
        return self._events.without_choices(fields) if fields else b""

    def _choice(self, index: int, finished: Finished) -> str:
        completion = finished.completion
        text = (self._prompt(index).text if self._echo else "") + completion.text
        more = {
            **self._asked.of_choice(finished),
            **self._asked.of_prompt(completion.prompt_tokens),
            **self._asked.of_tokens(completion.tokens),
        }
        logprobs = self._whole_logprobs(completion) if self._logprobs else "null"
        return _choice(index, text, finish_reason(completion), more, logprobs)

    def _whole_logprobs(self, completion: Completion) -> str:
        logprobs = CompletionLogprobs(self._texts)
        if self._echo:
            logprobs.add_prompt(completion.prompt_logprobs or ())
        logprobs.add_answer(completion.logprobs or ())
        return logprobs.take()

    def _streamed_logprobs(self, index: int, chunk: Chunk) -> str:
        logprobs = self._streamed.setdefault(index, CompletionLogprobs(self._texts))
        logprobs.add_answer(chunk.sampled)
        return logprobs.take()

    def _prompt(self, index: int) -> TextPrompt:
        return self._prompts[index // self._asked.choices]


def _choice(
    index: int, text: str, reason: str | None, more: Mapping[str, Any], logprobs: str = "null"
) -> str:
    """JSON of a choice, or of a part of one; ``logprobs`` are written already, ``more`` are further fields."""
    end = write_json({"finish_reason": reason, **more})
    return f'{{"index":{index},"text":{write_json(text)},"logprobs":{logprobs},{end[1:]}'
