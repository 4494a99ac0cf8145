"""What form a chat answer must have."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import Field

from verispec.serving.openai.parameters import Parameters


class TextFormat(Parameters):
    type: Literal["text"]


class JsonObjectFormat(Parameters):
    type: Literal["json_object"]


class JsonSchema(Parameters):
    name: Annotated[str, Field(pattern=r"^[a-zA-Z0-9_-]{1,64}$")]
    description: str | None = None
    json_schema: dict[str, Any] = Field(default_factory=dict, alias="schema")
    strict: bool | None = Field(None, description="The answer follows the schema in any case.")


class JsonSchemaFormat(Parameters):
    type: Literal["json_schema"]
    json_schema: JsonSchema


ResponseFormat = Annotated[TextFormat | JsonObjectFormat | JsonSchemaFormat, Field(discriminator="type")]
