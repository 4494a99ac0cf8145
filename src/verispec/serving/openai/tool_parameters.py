"""Tools that the model may call, and how a request says which it must."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import Field

from verispec.serving.openai.parameters import Parameters

MAX_TOOLS = 128

FunctionName = Annotated[str, Field(pattern=r"^[a-zA-Z0-9_-]{1,64}$")]


class FunctionDefinition(Parameters):
    name: FunctionName
    description: str | None = None
    parameters: dict[str, Any] | None = Field(
        None, description="JSON schema of the arguments, an object. Absent: no arguments."
    )
    strict: bool | None = Field(
        None,
        description="true: only where tool_choice makes a call certain. Such calls always follow the schema.",
    )


class FunctionTool(Parameters):
    type: Literal["function"]
    function: FunctionDefinition


class NamedFunction(Parameters):
    name: FunctionName


class NamedToolChoice(Parameters):
    type: Literal["function"]
    function: NamedFunction


class AllowedTools(Parameters):
    mode: Literal["auto", "required"]
    tools: Annotated[list[NamedToolChoice], Field(min_length=1, max_length=MAX_TOOLS)]


class AllowedToolChoice(Parameters):
    type: Literal["allowed_tools"]
    allowed_tools: AllowedTools


Tools = Annotated[list[FunctionTool], Field(max_length=MAX_TOOLS)]
ToolChoice = Literal["none", "auto", "required"] | NamedToolChoice | AllowedToolChoice
