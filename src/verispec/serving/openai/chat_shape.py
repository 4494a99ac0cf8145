"""Answers in the shape of ``chat.completion``, or of a stream of ``chat.completion.chunk``."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from verispec.engine.completion import Chunk
from verispec.serving.openai.asked import Asked
from verispec.serving.openai.chat_logprobs import chat_logprobs
from verispec.serving.openai.chat_request import ChatRequest
from verispec.serving.openai.events import ChunkEvents, write_json
from verispec.serving.openai.finish import finish_reason
from verispec.serving.openai.head import Head
from verispec.serving.openai.shape import Finished
from verispec.text.tokenizer import Tokenizer

ROLE = {"role": "assistant", "content": "", "refusal": None}


class ChatShape:
    """See ``Shape``."""

    def __init__(self, request: ChatRequest, head: Head, tokenizer: Tokenizer, prompt: Sequence[int]) -> None:
        self._tokenizer = tokenizer
        self._prompt = prompt
        self._head = head
        self._asked = Asked.by(request)
        self._logprobs = bool(request.logprobs)
        fields = head.fields("chat.completion.chunk")
        self._events = ChunkEvents({**fields, "usage": None} if self._asked.stream_usage else fields)

    def whole(self, finished: Sequence[Finished]) -> dict[str, Any]:
        completions = [one.completion for one in finished]
        return {
            **self._head.fields("chat.completion"),
            "choices": [self._choice(index, one) for index, one in enumerate(finished)],
            **self._asked.of_whole(completions),
        }

    def opening(self, index: int) -> bytes:
        choice = self._stream_choice(index, ROLE, None)
        return self._events.choice(write_json({**choice, **self._asked.of_prompt(self._prompt)}))

    def chunk(self, index: int, chunk: Chunk) -> bytes:
        if not (chunk.text or self._logprobs or self._asked.token_ids or self._asked.timings):
            return b""
        more = self._asked.of_round(chunk)
        if not (self._logprobs or self._asked.token_ids):
            text = write_json(chunk.text)
            delta = f'{{"index":{index},"delta":{{"content":{text}}},"logprobs":null,"finish_reason":null}}'
            return self._events.choice(delta, more)
        choice = self._stream_choice(index, {"content": chunk.text}, None)
        if self._logprobs:
            choice["logprobs"] = chat_logprobs(self._tokenizer, chunk.sampled)
        return self._events.choice(write_json({**choice, **self._asked.of_tokens(chunk.tokens)}), more)

    def ending(self, index: int, finished: Finished) -> bytes:
        choice = self._stream_choice(index, {}, finish_reason(finished.completion))
        return self._events.choice(write_json({**choice, **self._asked.of_choice(finished)}))

    def last(self, finished: Sequence[Finished]) -> bytes:
        fields = self._asked.of_stream([one.completion for one in finished])
        return self._events.without_choices(fields) if fields else b""

    def _choice(self, index: int, finished: Finished) -> dict[str, Any]:
        completion = finished.completion
        logprobs = chat_logprobs(self._tokenizer, completion.logprobs or ()) if self._logprobs else None
        return {
            "index": index,
            "message": {"role": "assistant", "content": completion.text, "refusal": None},
            "logprobs": logprobs,
            "finish_reason": finish_reason(completion),
            **self._asked.of_choice(finished),
            **self._asked.of_prompt(completion.prompt_tokens),
            **self._asked.of_tokens(completion.tokens),
        }

    def _stream_choice(self, index: int, delta: dict[str, Any], reason: str | None) -> dict[str, Any]:
        return {"index": index, "delta": delta, "logprobs": None, "finish_reason": reason}
