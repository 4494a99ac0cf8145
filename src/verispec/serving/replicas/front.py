"""The front's application: what it says for all replicas, and the way to one of them for everything else."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from fastapi import FastAPI, Request, Response
from prometheus_client.exposition import CONTENT_TYPE_PLAIN_0_0_4
from starlette.types import ASGIApp, Receive, Scope, Send

from verispec.serving.app import answer_errors, inside_layers
from verispec.serving.error_response import error_bytes
from verispec.serving.keys import KeyRing
from verispec.serving.lifecycle import Lifecycle
from verispec.serving.metrics import Metrics
from verispec.serving.replicas.fleet import Fleet
from verispec.serving.replicas.fleet_health import fleet_status, health_report
from verispec.serving.replicas.fleet_metrics import FleetCollector
from verispec.serving.replicas.forward import Forward
from verispec.serving.settings import ServerSettings

OWN = ("/health", "/metrics", "/v1/receipts/")


@dataclass(frozen=True)
class Front:
    """ASGI application; ``own`` answers for all replicas, ``forward`` has one of them answer."""

    own: ASGIApp
    forward: ASGIApp

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        app = self.own if scope["path"].startswith(OWN) else self.forward
        await app(scope, receive, send)


def create_front(fleet: Fleet, settings: ServerSettings, lifecycle: Lifecycle, keys: KeyRing) -> ASGIApp:
    """The application behind the same layers that a server with one engine has."""
    collector = FleetCollector(fleet)
    metrics = Metrics(collector)
    routes = FastAPI(openapi_url=None, docs_url=None, redoc_url=None)
    answer_errors(routes)

    @routes.get("/health")
    async def read_health(request: Request, response: Response) -> dict[str, Any]:
        status = fleet_status(fleet, lifecycle)
        response.status_code = 200 if status == "ok" else 503
        return await health_report(fleet, lifecycle) if request.state.trusted else {"status": status}

    @routes.get("/metrics")
    async def read_metrics() -> Response:
        await collector.refresh()
        return Response(metrics.text(), media_type=CONTENT_TYPE_PLAIN_0_0_4)

    @routes.get("/v1/receipts/{receipt_id}")
    async def read_receipt(receipt_id: str, request: Request) -> Response:
        found = (await fleet.ask_all("receipt", receipt_id, request.state.identity)).values()
        data = next((one for one in found if one is not None), None)
        if data is None:
            body = error_bytes(404, "there is no such receipt here for this key", "receipt_not_found")
            return Response(body, 404, media_type="application/json")
        return Response(data, media_type="application/json")

    return inside_layers(Front(routes, Forward(fleet)), settings, lifecycle, keys, metrics)
