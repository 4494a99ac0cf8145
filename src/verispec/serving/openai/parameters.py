"""What all request models are made of: strict types, and parameters that are refused by name."""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field

MAX_NAME = 512
"""Characters of a name, a label or an identifier."""

NOT_IMPLEMENTED = "Not implemented: "
"""How the description of a parameter begins that takes only the values that ask for nothing."""

Name = Annotated[str, Field(max_length=MAX_NAME)]


class Parameters(BaseModel):
    """Types as they stand in JSON (``"5"`` is no number, ``true`` no 1), and no name that is not declared."""

    model_config = ConfigDict(strict=True, extra="forbid")


def not_implemented(why: str) -> Any:
    """The field of a parameter that OpenAI has and this server does not: absent, or the value that asks for nothing.

    The OpenAPI schema says ``why``, and so does the answer to a request that gives another value.
    """
    return Field(None, description=NOT_IMPLEMENTED + why)
