"""Receipts of finished requests, kept for a while for the caller that made them."""

from __future__ import annotations

import threading
from collections import OrderedDict

from fastapi import APIRouter, Request
from fastapi.responses import Response

from verispec.evidence.receipt import Receipt
from verispec.serving.error_response import error_bytes

MAX_BYTES = 64 << 20
"""What all kept receipts may take together."""


class BoundedReceipts:
    """At most ``count`` receipts and 64 MiB; the oldest go first. Safe from any thread."""

    def __init__(self, count: int, max_bytes: int = MAX_BYTES) -> None:
        self._count = count
        self._max_bytes = max_bytes
        self._kept: OrderedDict[str, tuple[str, bytes]] = OrderedDict()
        self._bytes = 0
        self._lock = threading.Lock()

    def put(self, receipt_id: str, identity: str, receipt: Receipt) -> None:
        """Keeps ``receipt`` under its id for the caller ``identity``."""
        data = receipt.to_bytes()
        with self._lock:
            self._kept[receipt_id] = (identity, data)
            self._bytes += len(data)
            while len(self._kept) > self._count or self._bytes > self._max_bytes:
                _, (_, dropped) = self._kept.popitem(last=False)
                self._bytes -= len(dropped)

    def get(self, receipt_id: str, identity: str) -> bytes | None:
        """The receipt as ``verispec verify`` reads it; None when there is none that ``identity`` made."""
        with self._lock:
            owner, data = self._kept.get(receipt_id, ("", b""))
        return data if data and owner == identity else None


def receipt_routes(receipts: BoundedReceipts) -> APIRouter:
    """``/v1/receipts/{id}``. Another's receipt is answered like one that does not exist."""
    routes = APIRouter()

    @routes.get("/v1/receipts/{receipt_id}", summary="The receipt of an answer, for its own caller")
    async def read_receipt(receipt_id: str, request: Request) -> Response:
        data = receipts.get(receipt_id, request.state.identity)
        if data is None:
            body = error_bytes(404, "there is no such receipt here for this key", "receipt_not_found")
            return Response(body, 404, media_type="application/json")
        return Response(data, media_type="application/json")

    return routes
