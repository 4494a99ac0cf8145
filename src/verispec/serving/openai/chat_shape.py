"""Answers in the shape of ``chat.completion``, or of a stream of ``chat.completion.chunk``."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from verispec.engine.completion import Chunk
from verispec.serving.openai.asked import Asked
from verispec.serving.openai.chat_logprobs import chat_logprobs
from verispec.serving.openai.chat_request import ChatRequest
from verispec.serving.openai.events import ChunkEvents, write_json
from verispec.serving.openai.head import Head
from verispec.serving.openai.shape import Finished
from verispec.serving.openai.tool_answer import CallsInStream, NewParser, finish_with_calls, message
from verispec.text.tokenizer import Tokenizer

ROLE = {"role": "assistant", "content": "", "refusal": None}


class ChatShape:
    """See ``Shape``."""

    def __init__(
        self,
        request: ChatRequest,
        head: Head,
        tokenizer: Tokenizer,
        prompt: Sequence[int],
        new_parser: NewParser,
    ) -> None:
        self._tokenizer = tokenizer
        self._prompt = prompt
        self._new_parser = new_parser
        self._head = head
        self._asked = Asked.by(request)
        self._logprobs = bool(request.logprobs)
        self._calls = CallsInStream(new_parser)
        self._plain = not (self._logprobs or self._asked.token_ids or self._calls.possible)
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
        if not self._plain:
            return self._full_chunk(index, chunk)
        if not (chunk.text or self._asked.timings):
            return b""
        text = write_json(chunk.text)
        choice = f'{{"index":{index},"delta":{{"content":{text}}},"logprobs":null,"finish_reason":null}}'
        return self._events.choice(choice, self._asked.of_round(chunk))

    def ending(self, index: int, finished: Finished) -> bytes:
        rest = self._calls.flush(index) if self._calls.possible else {}
        event = self._events.choice(write_json(self._stream_choice(index, rest, None))) if rest else b""
        reason = finish_with_calls(finished.completion, self._calls.count(index))
        choice = self._stream_choice(index, {}, reason)
        return event + self._events.choice(write_json({**choice, **self._asked.of_choice(finished)}))

    def last(self, finished: Sequence[Finished]) -> bytes:
        fields = self._asked.of_stream([one.completion for one in finished])
        return self._events.without_choices(fields) if fields else b""

    def _full_chunk(self, index: int, chunk: Chunk) -> bytes:
        """A chunk with more than text in it."""
        delta = self._calls.push(index, chunk.text) if self._calls.possible else {"content": chunk.text}
        if not (delta or self._logprobs or self._asked.token_ids or self._asked.timings):
            return b""
        choice = self._stream_choice(index, delta, None)
        if self._logprobs:
            choice["logprobs"] = chat_logprobs(self._tokenizer, chunk.sampled)
        fields = {**choice, **self._asked.of_tokens(chunk.tokens)}
        return self._events.choice(write_json(fields), self._asked.of_round(chunk))

    def _choice(self, index: int, finished: Finished) -> dict[str, Any]:
        completion = finished.completion
        logprobs = chat_logprobs(self._tokenizer, completion.logprobs or ()) if self._logprobs else None
        said = message(completion, self._new_parser())
        return {
            "index": index,
            "message": said,
            "logprobs": logprobs,
            "finish_reason": finish_with_calls(completion, len(said.get("tool_calls", ()))),
            **self._asked.of_choice(finished),
            **self._asked.of_prompt(completion.prompt_tokens),
            **self._asked.of_tokens(completion.tokens),
        }

    def _stream_choice(self, index: int, delta: dict[str, Any], reason: str | None) -> dict[str, Any]:
        return {"index": index, "delta": delta, "logprobs": None, "finish_reason": reason}
