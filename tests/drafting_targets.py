"""A little target with an admitted artifact of every kind beside it."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from tiny_drafters import TinyDraft, write_draft
from tiny_hybrid import TinyHybrid, write_hybrid
from tiny_llama import tiny_llama
from verispec.artifacts.draft_manifest import Source
from verispec.engine.admission import admit

SOURCE = Source("https://example.org/head", "r1", "Apache-2.0")
IDS = tuple(range(5, 280, 3))
HEADS = {
    "eagle3": TinyDraft(draft_ids=IDS),
    "dflash": TinyDraft("dflash", layers=2, block=8, own_embedding=False, own_head=False),
    "dspark": TinyDraft("dspark", "speculators", block=7, draft_ids=IDS),
}
KINDS = (*HEADS, "draft-model")
FEW = {5: 30.0, 8: 30.0, 11: 30.0, 14: 30.0}
"""A bias that leaves so few tokens that random heads are often right."""


@dataclass(frozen=True)
class Artifacts:
    """Paths of the target and of one artifact a kind."""

    target: Path
    of: dict[str, Path]

    def options(self, kind: str, **changes: Any) -> dict[str, Any]:
        """Drafts with ``kind`` at a fixed width, however unsure it is."""
        plain = {"spec_draft_policy": "fixed", "spec_draft_p_min": 0.0, "spec_draft_max": 4}
        return {"spec_mode": kind, "spec_draft_model": str(self.of[kind]), **plain, **changes}


def write_artifacts(folder: Path, hybrid: bool = False, **changes: Any) -> Artifacts:
    """Writes and admits everything; ``changes`` are of the heads. The draft model is of the other family."""
    models = folder / "llama.gguf", folder / "hybrid.gguf"
    models[0].write_bytes(tiny_llama())
    write_hybrid(models[1], TinyHybrid(tokeniser=True))
    target, smaller = reversed(models) if hybrid else models
    paths = {"draft-model": smaller}
    for kind, draft in HEADS.items():
        wide = {"hidden": 64, "heads": 8} if hybrid else {}
        write_draft(folder / kind, replace(draft, **wide, **changes))
        paths[kind] = folder / kind
    for kind, path in paths.items():
        admit(target, path, kind, SOURCE).write(path)
    return Artifacts(target, paths)
