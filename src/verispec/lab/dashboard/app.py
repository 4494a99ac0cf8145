"""The dashboard as one ASGI application: its pages, and the guard before them."""

from __future__ import annotations

import sqlite3
from collections.abc import Collection
from typing import Annotated

from fastapi import FastAPI, Query, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import HTMLResponse, Response
from starlette.exceptions import HTTPException
from starlette.types import ASGIApp

from verispec.lab.dashboard.guard import DashboardGuard
from verispec.lab.dashboard.pages import Pages
from verispec.lab.ledger.ledger import Ledger
from verispec.lab.ledger.objects import LedgerError
from verispec.lab.report.page import style

LONGEST = 500
Name = Annotated[str, Query(max_length=LONGEST)]


def create_dashboard(ledger: Ledger, hosts: Collection[str] | None = ()) -> ASGIApp:
    """Reads ``ledger`` at each request. ``hosts`` are names it answers to beside loopback's; None: any name."""
    pages = Pages(ledger)
    app = FastAPI(docs_url=None, redoc_url=None, openapi_url=None, redirect_slashes=False)
    _add_pages(app, pages)
    _add_failures(app, pages)
    return DashboardGuard(app, hosts)


def _add_pages(app: FastAPI, pages: Pages) -> None:
    """Each runs in a thread of its own, so that one that reads much holds up no other."""
    sheet = style()

    @app.get("/", response_class=HTMLResponse)
    def experiments(page: Annotated[int, Query(ge=1, le=1_000_000)] = 1) -> str:
        return pages.experiments(page)

    @app.get("/experiments/{number}", response_class=HTMLResponse)
    def experiment(number: str) -> str:
        return pages.experiment(number)

    @app.get("/lanes/{name}", response_class=HTMLResponse)
    def lane(name: str) -> str:
        return pages.lane(name)

    @app.get("/records", response_class=HTMLResponse)
    def records() -> str:
        return pages.records()

    @app.get("/compare", response_class=HTMLResponse)
    def comparison(first: Name = "", second: Name = "") -> str:
        return pages.comparison(first.strip(), second.strip())

    @app.get("/tried", response_class=HTMLResponse)
    def tried(q: Name = "") -> str:
        return pages.tried(q)

    @app.get("/style.css")
    def style_sheet() -> Response:
        return Response(sheet, media_type="text/css")


def _add_failures(app: FastAPI, pages: Pages) -> None:
    def answer(status: int, message: str) -> HTMLResponse:
        return HTMLResponse(pages.failure(status, message), status)

    @app.exception_handler(LedgerError)
    async def missing(request: Request, error: LedgerError) -> Response:
        return answer(404, str(error))

    @app.exception_handler(HTTPException)
    async def refused(request: Request, error: HTTPException) -> Response:
        return answer(error.status_code, f"{request.method} {request.url.path}: {error.detail}")

    @app.exception_handler(RequestValidationError)
    async def malformed(request: Request, error: RequestValidationError) -> Response:
        first = error.errors()[0]
        return answer(400, f"{first['loc'][-1]}: {first['msg']}")

    @app.exception_handler(sqlite3.Error)
    async def damaged(request: Request, error: sqlite3.Error) -> Response:
        pages.index.forget()
        return answer(503, f"the index could not be read ({error}); it is made again at the next request")
