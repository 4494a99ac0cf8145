"""``/v1/models``: the one model that is served, and the further names it answers to."""

from __future__ import annotations

from typing import Any

from fastapi import APIRouter
from fastapi.responses import JSONResponse

from verispec.serving.error_response import error_body
from verispec.serving.state import ServerState


def model_routes(state: ServerState) -> APIRouter:
    """``GET /v1/models`` and ``GET /v1/models/{id}`` in OpenAI's shape."""
    routes = APIRouter()

    @routes.get("/v1/models", summary="The served model and its aliases")
    async def list_models() -> dict[str, Any]:
        names = [state.model_id, *sorted(state.aliases - {state.model_id})]
        return {"object": "list", "data": [describe_model(state, name) for name in names]}

    @routes.get("/v1/models/{model_id:path}", summary="One model by its name", response_model=None)
    async def read_model(model_id: str) -> dict[str, Any] | JSONResponse:
        if not state.serves(model_id):
            return JSONResponse(
                error_body(404, f"the model {model_id!r} is not served here", "model_not_found", "model"), 404
            )
        return describe_model(state, model_id)

    return routes


def describe_model(state: ServerState, name: str) -> dict[str, Any]:
    """A model object; ``context_window`` is in tokens."""
    return {
        "id": name,
        "object": "model",
        "created": state.created,
        "owned_by": "verispec",
        "root": state.model_id,
        "context_window": state.engine.model.backend.capabilities.context,
    }
