"""What no single parameter can tell: parameters that do not go together, and bounds that the server sets."""

from __future__ import annotations

from verispec.serving.openai.chat_request import ChatRequest
from verispec.serving.openai.completion_request import CompletionRequest
from verispec.serving.openai.errors import RequestError
from verispec.serving.openai.shared_parameters import SharedParameters
from verispec.serving.openai.tool_parameters import AllowedToolChoice, NamedToolChoice
from verispec.serving.state import RequestBounds, ServerState


def check_model(request: SharedParameters, state: ServerState) -> None:
    """Raises RequestError, 404, for a model that is not the served one."""
    if not state.serves(request.model):
        message = (
            f"model: expected {state.model_id}, which is what this server serves, found {request.model!r}"
        )
        raise RequestError(message, "model_not_found", status=404, param="model")


def check_chat(request: ChatRequest, bounds: RequestBounds) -> None:
    """Raises RequestError for parameters that mean nothing together."""
    _check_shared(request, 1, bounds)
    if request.top_logprobs is not None and not request.logprobs:
        raise _misplaced("top_logprobs", "only beside logprobs true")
    if request.max_tokens is not None and request.max_completion_tokens not in (None, request.max_tokens):
        raise _misplaced("max_tokens", "nothing beside max_completion_tokens, whose older name it is")
    formatted = request.response_format is not None and request.response_format.type != "text"
    if request.grammar is not None and formatted:
        raise _misplaced("grammar", "not beside a response_format of JSON; give one of them")
    if request.tools:
        _check_tools(request, request.grammar is not None or formatted)
    else:
        if request.tool_choice not in (None, "none", "auto"):
            raise _misplaced("tool_choice", "only beside tools")
        if request.parallel_tool_calls is False:
            raise _misplaced("parallel_tool_calls", "only beside tools")


def _check_tools(request: ChatRequest, constrained: bool) -> None:
    if constrained and request.tool_choice != "none":
        raise _misplaced(
            "tools", "not beside a grammar or a response_format of JSON, unless tool_choice is none"
        )
    choice = request.tool_choice
    certain = choice == "required" or isinstance(choice, NamedToolChoice)
    if isinstance(choice, AllowedToolChoice):
        certain = choice.allowed_tools.mode == "required"
    for index, tool in enumerate(request.tools or ()):
        if tool.function.strict and not certain and choice != "none":
            where = f"tools[{index}].function.strict"
            raise _misplaced(
                where, "false, or a tool_choice that makes a call certain: only those follow a grammar"
            )


def check_completion(request: CompletionRequest, prompts: int, bounds: RequestBounds) -> None:
    """Raises RequestError for parameters that mean nothing together."""
    _check_shared(request, prompts, bounds)
    if request.max_tokens == 0 and not request.echo:
        raise _misplaced("max_tokens", "at least 1 unless echo is true")
    if request.stream and request.echo and request.logprobs is not None:
        raise _misplaced("stream", "not beside echo with logprobs: the prompt's scores come all at once")


def _check_shared(request: SharedParameters, prompts: int, bounds: RequestBounds) -> None:
    if request.stream_options is not None and not request.stream:
        raise _misplaced("stream_options", "only beside stream true")
    answers = prompts * (request.n or 1)
    if answers > bounds.answers:
        given = f"{prompts} prompts times n {request.n or 1}" if prompts > 1 else f"n {request.n}"
        raise _misplaced(
            "n" if prompts == 1 else "prompt", f"at most {bounds.answers} answers a request, found {given}"
        )
    if request.deadline is not None and request.deadline > bounds.deadline:
        raise _misplaced("deadline", f"at most {bounds.deadline:g} seconds, found {request.deadline:g}")


def _misplaced(param: str, expected: str) -> RequestError:
    return RequestError(f"{param}: expected {expected}", "invalid_value", param=param)
