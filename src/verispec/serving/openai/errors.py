"""Errors in OpenAI's shape: a status and ``{"error": {"message", "type", "param", "code"}}``.

A refusal names the parameter it is about. What goes wrong inside the server is answered with a number to look up in its
log, and nothing else.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping
from typing import Any

from verispec.errors import (
    ContextOverflowError,
    DeadlineError,
    DrainingError,
    EngineFailedError,
    GrammarError,
    OptionError,
    QueueFullError,
    RequestCancelledError,
    UnsupportedError,
    VerispecError,
)
from verispec.serving.access_log import CLIENT_LEFT, failure_message, log_failure
from verispec.serving.error_response import error_body
from verispec.serving.grammar_threads import GrammarsBusyError

INVALID = 400
SUCCESSOR_RETRY = 5
"""Seconds after which to try again, at the server that takes this one's place."""
BUSY_RETRY = 1

_LEADING_NAME = re.compile(r"([A-Za-z_][\w.\[\]]*)(?:: | entry \d+: | token: )")


class RequestError(VerispecError):
    """A request that is answered with an error. ``param`` is the path of the parameter at fault, as ``stop[1]``."""

    def __init__(
        self,
        message: str,
        code: str,
        *,
        status: int = INVALID,
        param: str | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> None:
        self.message = message
        self.status = status
        self.param = param
        self.code = code
        self.headers = dict(headers or {})
        super().__init__(message)

    def body(self) -> dict[str, Any]:
        """The error object that OpenAI's clients read."""
        return error_body(self.status, self.message, self.code, self.param)


def as_request_error(error: Exception, number: str, renamed: Mapping[str, str]) -> RequestError:
    """What to answer when ``error`` ended the request with this ``number``.

    ``renamed``: the engine's names of options to the names that the request used. An error that no request causes goes
    to the log under the request's number, which is all that the answer shows.
    """
    if isinstance(error, RequestError):
        return error
    for kind, answer in _ANSWERS:
        if isinstance(error, kind):
            message, param = _in_words_of_the_request(str(error), renamed)
            return answer(error, message, param)
    log_failure(number, error)
    return RequestError(failure_message(number), "internal_error", status=500)


def draining(message: str = "the server is shutting down") -> RequestError:
    """The answer to a request that a shutdown refuses or ends."""
    return RequestError(message, "shutting_down", status=503, headers={"Retry-After": str(SUCCESSOR_RETRY)})


def _in_words_of_the_request(message: str, renamed: Mapping[str, str]) -> tuple[str, str | None]:
    """Message and parameter of an engine's error, which starts with an option's name if it is about one."""
    found = _LEADING_NAME.match(message)
    if found is None:
        return message, None
    name = found[1]
    head = re.split(r"[.\[]", name, maxsplit=1)[0]
    theirs = renamed.get(head, head) + name[len(head) :]
    return theirs + message[len(name) :], theirs


def _queue_full(error: QueueFullError, message: str, param: str | None) -> RequestError:
    headers = {"Retry-After": str(max(1, math.ceil(error.retry_after)))}
    return RequestError(message, "queue_full", status=429, headers=headers)


def _late(error: DeadlineError, message: str, param: str | None) -> RequestError:
    """The openai client reads the header: without it, it would send what took too long twice more."""
    headers = {"x-should-retry": "false"}
    return RequestError(message, "deadline_exceeded", status=504, param="deadline", headers=headers)


def _failed(error: EngineFailedError, message: str, param: str | None) -> RequestError:
    headers = {"Retry-After": str(SUCCESSOR_RETRY)}
    return RequestError(message, "engine_failed", status=503, headers=headers)


def _busy(error: GrammarsBusyError, message: str, param: str | None) -> RequestError:
    headers = {"Retry-After": str(BUSY_RETRY)}
    return RequestError(message, "overloaded", status=503, param=param, headers=headers)


def _cancelled(error: RequestCancelledError, message: str, param: str | None) -> RequestError:
    """Nobody is there to read it, unless one choice is cancelled for another's failure."""
    return RequestError(message, "cancelled", status=CLIENT_LEFT)


def _unsupported(error: UnsupportedError, message: str, param: str | None) -> RequestError:
    """A strategy that cannot run names itself as ``spec_mode NAME``."""
    if message.startswith("spec_mode "):
        param, message = "spec_mode", message.replace("spec_mode ", "spec_mode: ", 1)
    return RequestError(message, error.code, param=param)


_ANSWERS: tuple[tuple[type[VerispecError], Callable[[Any, str, str | None], RequestError]], ...] = (
    (GrammarError, lambda _, message, param: RequestError(message, "invalid_grammar", param=param)),
    (OptionError, lambda _, message, param: RequestError(message, "invalid_value", param=param)),
    (UnsupportedError, _unsupported),
    (
        ContextOverflowError,
        lambda _, message, param: RequestError(message, "context_length_exceeded", param=param),
    ),
    (QueueFullError, _queue_full),
    (DrainingError, lambda _, message, param: draining(message)),
    (EngineFailedError, _failed),
    (GrammarsBusyError, _busy),
    (RequestCancelledError, _cancelled),
    (DeadlineError, _late),
)
"""The more specific ones first. Any other error is the server's own fault."""
