"""Answers in the shape of ``chat.completion``, or of a stream of ``chat.completion.chunk``."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from verispec.engine.completion import Chunk
from verispec.serving.openai.asked import Asked
from verispec.serving.openai.chat_logprobs import chat_logprobs
from verispec.serving.openai.chat_request import ChatRequest
from verispec.serving.openai.events import ChunkEvents, write_json
from verispec.serving.openai.head import Head
from verispec.serving.openai.shape import Finished, write_whole
from verispec.serving.openai.token_text import TokenTexts
from verispec.serving.openai.tool_answer import CallsInStream, NewParser, finish_with_calls, message

NOTHING: Mapping[str, Any] = {}
ROLE = {"role": "assistant", "content": "", "refusal": None}


class ChatShape:
    """See ``Shape``."""

    def __init__(
        self,
        request: ChatRequest,
        head: Head,
        texts: TokenTexts,
        prompt: Sequence[int],
        new_parser: NewParser,
    ) -> None:
        self._texts = texts
        self._prompt = prompt
        self._new_parser = new_parser
        self._head = head
        self._asked = Asked.by(request)
        self._logprobs = bool(request.logprobs)
        self._calls = CallsInStream(new_parser)
        self._plain = not (self._logprobs or self._asked.token_ids or self._calls.possible)
        fields = head.fields("chat.completion.chunk")
        self._events = ChunkEvents({**fields, "usage": None} if self._asked.stream_usage else fields)

    def whole(self, finished: Sequence[Finished]) -> str:
        choices = [self._choice(index, one) for index, one in enumerate(finished)]
        fields = self._asked.of_whole([one.completion for one in finished])
        return write_whole(self._head.fields("chat.completion"), choices, fields)

    def opening(self, index: int) -> bytes:
        return self._events.choice(_choice("delta", index, ROLE, None, self._asked.of_prompt(self._prompt)))

    def chunk(self, index: int, chunk: Chunk) -> bytes:
        if not self._plain:
            return self._full_chunk(index, chunk)
        if not (chunk.text or self._asked.timings):
            return b""
        text = write_json(chunk.text)
        choice = f'{{"index":{index},"delta":{{"content":{text}}},"logprobs":null,"finish_reason":null}}'
        return self._events.choice(choice, self._asked.of_round(chunk))

    def ending(self, index: int, finished: Finished) -> bytes:
        rest = self._calls.flush(index) if self._calls.possible else {}
        event = self._events.choice(_choice("delta", index, rest, None)) if rest else b""
        reason = finish_with_calls(finished.completion, self._calls.count(index))
        ending = _choice("delta", index, {}, reason, self._asked.of_choice(finished))
        return event + self._events.choice(ending)

    def last(self, finished: Sequence[Finished]) -> bytes:
        fields = self._asked.of_stream([one.completion for one in finished])
        return self._events.without_choices(fields) if fields else b""

    def _full_chunk(self, index: int, chunk: Chunk) -> bytes:
        """A chunk with more than text in it."""
        delta = self._calls.push(index, chunk.text) if self._calls.possible else {"content": chunk.text}
        if not (delta or self._logprobs or self._asked.token_ids or self._asked.timings):
            return b""
        logprobs = chat_logprobs(self._texts, chunk.sampled) if self._logprobs else "null"
        choice = _choice("delta", index, delta, None, self._asked.of_tokens(chunk.tokens), logprobs)
        return self._events.choice(choice, self._asked.of_round(chunk))

    def _choice(self, index: int, finished: Finished) -> str:
        completion = finished.completion
        said = message(completion, self._new_parser())
        reason = finish_with_calls(completion, len(said.get("tool_calls", ())))
        more = {
            **self._asked.of_choice(finished),
            **self._asked.of_prompt(completion.prompt_tokens),
            **self._asked.of_tokens(completion.tokens),
        }
        logprobs = chat_logprobs(self._texts, completion.logprobs or ()) if self._logprobs else "null"
        return _choice("message", index, said, reason, more, logprobs)


def _choice(
    part: str,
    index: int,
    said: Mapping[str, Any],
    reason: str | None,
    more: Mapping[str, Any] = NOTHING,
    logprobs: str = "null",
) -> str:
    """JSON of a choice, or of a part of one; ``logprobs`` are written already, ``more`` are further fields."""
    end = write_json({"finish_reason": reason, **more})
    return f'{{"index":{index},"{part}":{write_json(said)},"logprobs":{logprobs},{end[1:]}'
