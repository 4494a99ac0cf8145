"""The server as one ASGI application: the routes, and the layers that every request passes on its way to them."""

from __future__ import annotations

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse
from starlette.exceptions import HTTPException
from starlette.middleware.cors import CORSMiddleware
from starlette.types import ASGIApp

from verispec import __version__
from verispec.serving.access_log import AccessLog, failure_message
from verispec.serving.authentication import Authentication
from verispec.serving.error_response import error_body
from verispec.serving.health import Health, health_routes
from verispec.serving.keys import KeyRing
from verispec.serving.lifecycle import Lifecycle
from verispec.serving.limits import RequestGate, RequestLimits
from verispec.serving.metrics import EngineCollector, Metrics, metrics_routes
from verispec.serving.models import model_routes
from verispec.serving.openai.routes import openai_routes
from verispec.serving.origins import OriginGuard, is_loopback
from verispec.serving.playground import PATHS, playground_routes
from verispec.serving.receipts import BoundedReceipts, receipt_routes
from verispec.serving.security_headers import SecurityHeaders
from verispec.serving.settings import ServerSettings


def create_app(health: Health, receipts: BoundedReceipts, keys: KeyRing) -> ASGIApp:
    """The application around a started engine. From outside in: log and failures, headers, origins, keys, limits."""
    metrics = Metrics(EngineCollector(health.state.engine))
    return inside_layers(
        create_routes(health, receipts, metrics), health.settings, health.lifecycle, keys, metrics
    )


def inside_layers(
    app: ASGIApp, settings: ServerSettings, lifecycle: Lifecycle, keys: KeyRing, metrics: Metrics
) -> ASGIApp:
    """``app`` behind everything that a request passes before a route sees it."""
    limits = RequestLimits(settings.body_bytes, settings.body_timeout, settings.max_requests)
    app = RequestGate(app, limits, lifecycle.is_draining)
    open_paths = {"/health", *PATHS, *(["/metrics"] if settings.open_metrics else [])}
    app = Authentication(app, keys, open_paths)
    if settings.allow_origin:
        app = CORSMiddleware(
            app,
            settings.allow_origin,
            allow_methods=["GET", "POST"],
            allow_headers=["*"],
            expose_headers=["*"],
        )
    local = is_loopback(settings.host) and not keys.required
    app = OriginGuard(app, settings.allow_origin, settings.allow_host if local else None)
    return AccessLog(SecurityHeaders(app), metrics.count_response)


def create_routes(health: Health, receipts: BoundedReceipts, metrics: Metrics) -> FastAPI:
    """The routes alone, with every error in OpenAI's shape."""
    app = FastAPI(
        title="verispec",
        version=__version__,
        description="OpenAI's protocol over an engine whose speculation never changes the text.",
        docs_url=None,
        redoc_url=None,
        redirect_slashes=False,
    )
    app.include_router(openai_routes(health.state))
    app.include_router(model_routes(health.state))
    app.include_router(receipt_routes(receipts))
    app.include_router(health_routes(health))
    app.include_router(metrics_routes(metrics))
    app.include_router(playground_routes())
    answer_errors(app)
    return app


def answer_errors(app: FastAPI) -> None:
    """Gives every error of its routes OpenAI's shape."""
    app.add_exception_handler(HTTPException, _http_error)
    app.add_exception_handler(RequestValidationError, _invalid)
    app.add_exception_handler(Exception, _failure)


async def _http_error(request: Request, error: Exception) -> JSONResponse:
    """No such path (404), no such method (405)."""
    assert isinstance(error, HTTPException)
    message = f"{request.method} {request.url.path}: {error.detail}"
    codes = {404: "not_found", 405: "method_not_allowed"}
    body = error_body(error.status_code, message, codes.get(error.status_code, "invalid_request"))
    return JSONResponse(body, error.status_code, headers=dict(error.headers or {}))


async def _invalid(request: Request, error: Exception) -> JSONResponse:
    """A parameter that the route's types do not allow; named, and not quoted."""
    assert isinstance(error, RequestValidationError)
    first = error.errors()[0]
    param = ".".join(str(part) for part in first["loc"][1:]) or None
    return JSONResponse(error_body(400, f"{param}: {first['msg']}", "invalid_value", param), 400)


async def _failure(request: Request, error: Exception) -> JSONResponse:
    number = request.state.request_id
    return JSONResponse(error_body(500, failure_message(number), "internal_error"), 500)
