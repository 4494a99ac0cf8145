"""``/``: a page to try the model. Its files are read once; they ask nothing of any other server."""

from __future__ import annotations

from importlib.resources import files

from fastapi import APIRouter
from fastapi.responses import Response

FOLDER = "/playground"
FILES = {
    "page.html": "text/html; charset=utf-8",
    "page.css": "text/css; charset=utf-8",
    "page.js": "text/javascript; charset=utf-8",
    "answer.js": "text/javascript; charset=utf-8",
    "icon.svg": "image/svg+xml",
}
PATHS = ("/", "/favicon.ico", *(f"{FOLDER}/{name}" for name in FILES))
"""Open without a key: the page itself asks for one."""


def playground_routes() -> APIRouter:
    """The page at ``/`` and the files it loads."""
    routes = APIRouter(include_in_schema=False)
    folder = files("verispec.serving").joinpath("pages")
    contents = {name: folder.joinpath(name).read_bytes() for name in FILES}

    def serve(path: str, name: str) -> None:
        async def read_file() -> Response:
            return Response(
                contents[name], headers={"content-type": FILES[name], "cache-control": "no-cache"}
            )

        routes.add_api_route(path, read_file, methods=["GET", "HEAD"])

    for name in FILES:
        serve(f"{FOLDER}/{name}", name)
    serve("/", "page.html")
    serve("/favicon.ico", "icon.svg")
    return routes
