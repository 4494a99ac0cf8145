"""Draft artifacts of every kind for any target, untrained: to try the programs here before a trained one exists.

    PYTHONPATH=tests python -m benchmarks.drafter_stand_ins smollm2-135m FOLDER

The heads are random and hardly ever right, so that their figures mean nothing; the draft model is the target itself
and always right. They are admitted, and what must hold for any drafter can be checked with them.
"""

from __future__ import annotations

import argparse
import shutil
from pathlib import Path

from benchmarks.drafter_requests import in_one_line

from tiny_drafters import TinyDraft, write_draft
from verispec.artifacts.draft_manifest import Source
from verispec.artifacts.resolve import resolve_model
from verispec.backends.native_plan import plan_model
from verispec.engine.admission import DRAFT_MODEL, admit
from verispec.engine.loading import DEFAULT_MODEL
from verispec.models.hyperparameters import Hyperparameters

SOURCE = Source("made by benchmarks/drafter_stand_ins.py", "1", "Apache-2.0")
OUTPUTS = 4096
"""Tokens that the heads with a reduced vocabulary score."""
BLOCK = 8


def heads(target: Hyperparameters) -> dict[str, TinyDraft]:
    """One of each kind, in the shapes that a trained one would have."""
    last = target.layers - 2
    reduced = tuple(range(min(OUTPUTS, target.vocabulary)))

    def head(kind: str, layout: str, ids: tuple[int, ...]) -> TinyDraft:
        return TinyDraft(
            kind,
            layout,
            hidden=target.hidden_size,
            vocabulary=target.vocabulary,
            taps=tuple(sorted({min(2, last), last // 2 + 1, last})),
            heads=target.heads,
            kv_heads=target.kv_heads,
            head_dim=target.head_dim,
            feed_forward=2 * target.hidden_size,
            context=2048,
            draft_ids=ids,
            own_embedding=False,
            own_head=False,
            block=BLOCK,
            mask_token=0,
        )

    return {
        "eagle3": head("eagle3", "published", reduced),
        "dflash": head("dflash", "published", ()),
        "dspark": head("dspark", "speculators", reduced),
    }


def main() -> int:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.drafter_stand_ins",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("model", nargs="?", default=DEFAULT_MODEL)
    parser.add_argument("folder", type=Path)
    asked = parser.parse_args()
    target = resolve_model(asked.model).path
    with (plan := plan_model(target)).file:
        made = heads(plan.model)
    asked.folder.mkdir(parents=True, exist_ok=True)
    for seed, (kind, head) in enumerate(made.items()):
        write_draft(asked.folder / kind, head, seed)
    shutil.copyfile(target, asked.folder / DRAFT_MODEL)
    for kind in (*made, DRAFT_MODEL):
        path = asked.folder / kind
        admit(target, path, kind, SOURCE).write(path)
        print(f"{kind}={path}")
    return 0


if __name__ == "__main__":
    raise SystemExit(in_one_line(main))
