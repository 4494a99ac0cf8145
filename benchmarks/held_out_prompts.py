"""The held-out prompts that came with the small hybrid model of the tests, as they were when it was trained."""

from __future__ import annotations

import json
from pathlib import Path

PROMPTS = Path(__file__).parent.parent / "tests" / "data" / "tiny-hybrid-prompts.json"


def held_out_prompts(count: int) -> list[str]:
    """The first ``count`` of the 320, or all of them."""
    listed = json.loads(PROMPTS.read_text(encoding="utf-8"))["prompts"]
    return [str(prompt["text"]) for prompt in listed[:count]]
