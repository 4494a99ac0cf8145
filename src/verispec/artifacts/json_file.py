"""JSON objects in the files that come with a model."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from verispec.errors import ArtifactError


def read_json_object(path: Path) -> dict[str, Any]:
    """The object in ``path``. Raises ArtifactError when there is none."""
    try:
        value = json.loads(path.read_bytes())
    except (OSError, ValueError, RecursionError) as error:
        raise ArtifactError(path, "file", "a JSON object", str(error)) from error
    if not isinstance(value, dict):
        raise ArtifactError(path, "file", "a JSON object", type(value).__name__)
    return value
