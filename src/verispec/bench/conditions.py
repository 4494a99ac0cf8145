"""Under which conditions something was measured: written into every result."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

from verispec.bench.host import host_facts, load_average
from verispec.engine.model import Model


def conditions(model: Model, name: str) -> dict[str, Any]:
    """``name`` is what the user called the model; its digest says what it was. Take it before measuring."""
    backend = model.backend
    return {
        "started": datetime.now(UTC).isoformat(timespec="seconds"),
        "model": name,
        "artifacts_sha256": dict(model.artifacts),
        "context_limit": backend.capabilities.context,
        "threads": getattr(backend, "threads", None),
        "identity": backend.identity(),
        "host": host_facts(),
        "load_average_before": load_average(),
    }
