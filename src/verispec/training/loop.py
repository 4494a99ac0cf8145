"""The training loop: steps, a log, held-out checks, and checkpoints to go on from."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from verispec.artifacts.files import atomic_path, write_atomically
from verispec.errors import OptionError, TrainingError
from verispec.training.batches import load_batch, plan_batches
from verispec.training.draft_training import DraftTraining
from verispec.training.held_out import HeldOut, check_held_out
from verispec.training.settings import TrainingSettings
from verispec.training.text_store import StoredText

CHECKPOINT = "checkpoint.pt"
LOG = "log.jsonl"
SECONDS_BETWEEN_CHECKPOINTS = 120
ROUNDED = 32
"""Texts of a step are padded to multiples of so many tokens: for every new shape torch compiles its kernels again."""

Report = Callable[[int, int, str], None]
"""Told after every step: steps taken, steps in all, and what a line shows."""


@dataclass
class TrainingRun:
    """A head on its way: what a checkpoint holds, and where it lies."""

    folder: Path
    training: DraftTraining
    settings: TrainingSettings
    data: Mapping[str, int | str]
    """What it learns from, in numbers and a digest; a checkpoint goes on with the same alone."""
    step: int = 0
    checks: list[dict[str, Any]] = field(default_factory=list)
    """The held-out checks so far, with their steps."""

    def __post_init__(self) -> None:
        self.optimisers = optimisers(self.training.module, self.settings)

    def resume(self) -> bool:
        """Goes on from the checkpoint in the folder, if there is one.

        Raises OptionError for one of another kind, other settings or other texts.
        """
        path = self.folder / CHECKPOINT
        if not path.exists():
            return False
        saved = torch.load(path, weights_only=True)
        for key, expected in self._identity().items():
            found = saved["identity"].get(key)
            if found != expected:
                raise OptionError(
                    f"{path}: {key}: expected {expected!r}, as asked for now, found {found!r}; go on with what was "
                    "begun, or name another --output"
                )
        self.training.module.load_state_dict(saved["module"])
        for optimiser, state in zip(self.optimisers, saved["optimisers"], strict=True):
            optimiser.load_state_dict(state)
        self.step, self.checks = saved["step"], saved["checks"]
        return True

    def save(self) -> None:
        """Replaces the checkpoint; a kill at any moment leaves the old or the new one, whole."""
        state = {
            "module": self.training.module.state_dict(),
            "optimisers": [optimiser.state_dict() for optimiser in self.optimisers],
            "step": self.step,
            "checks": self.checks,
            "identity": self._identity(),
        }
        with atomic_path(self.folder / CHECKPOINT) as partial:
            torch.save(state, partial)

    def acceptance(self) -> float | None:
        """Share of proposals accepted in the last held-out check, when all of a chain are proposed."""
        shares = self.checks[-1]["by_position"] if self.checks else []
        return round(sum(shares) / len(shares), 4) if shares else None

    def _identity(self) -> dict[str, Any]:
        return {"kind": self.training.kind, **self.data, **asdict(self.settings)}


def train(
    run: TrainingRun, texts: Sequence[StoredText], held_out: Sequence[StoredText], report: Report
) -> None:
    """Takes the steps that are left. What is logged in ``log.jsonl``: losses every step, acceptance every check."""
    settings = run.settings
    lengths = [len(text.tokens) for text in texts]
    plan = [
        batch
        for epoch in range(settings.epochs)
        for batch in plan_batches(lengths, settings.batch_tokens, settings.seed, epoch)
    ]
    saved = time.monotonic()
    _forget_log(run.folder / LOG, run.step)
    with open(run.folder / LOG, "a", buffering=1, encoding="utf-8") as lines:
        while run.step < len(plan):
            shown = _step(run, [texts[i] for i in plan[run.step]], len(plan))
            run.step += 1
            last = run.step == len(plan)
            lines.write(json.dumps({"step": run.step, "losses": shown}) + "\n")
            if run.step % settings.check_every == 0 or last:
                found = check_held_out(run.training, held_out)
                run.checks.append({"step": run.step, **asdict(found)})
                lines.write(json.dumps(run.checks[-1]) + "\n")
            report(run.step, len(plan), _line(shown, run.checks))
            if last or time.monotonic() - saved > SECONDS_BETWEEN_CHECKPOINTS:
                run.save()
                saved = time.monotonic()


def _forget_log(path: Path, step: int) -> None:
    """Drops what a killed run logged behind ``step``, its last checkpoint's: those steps are taken again."""
    if path.exists():
        kept = [line for line in path.read_text("utf-8").splitlines(keepends=True) if _step_of(line) <= step]
        write_atomically(path, "".join(kept).encode())


def _step_of(line: str) -> float:
    try:
        return float(json.loads(line)["step"])
    except ValueError:  # cut off in the middle
        return float("inf")


def _step(run: TrainingRun, texts: Sequence[StoredText], steps: int) -> dict[str, float]:
    """One step of the optimisers; the losses before it. Raises TrainingError when one of these is not finite."""
    share = run.settings.share(run.step, steps)
    for optimiser in run.optimisers:
        for group in optimiser.param_groups:
            group["lr"] = group["rate"] * share
    random = np.random.default_rng((run.settings.seed, run.step))
    losses = run.training.losses(load_batch(texts, ROUNDED), random)
    torch.autograd.backward(losses.total)
    module = run.training.module
    norm = nn.utils.clip_grad_norm_(module.parameters(), run.settings.clip)
    if not (losses.total.isfinite() and norm.isfinite()):
        raise TrainingError(
            f"step {run.step + 1}: expected a finite loss and gradient, found loss {losses.total.item()} and gradient "
            f"norm {norm.item()} from texts {', '.join(str(text.number) for text in texts)}"
        )
    for optimiser in run.optimisers:
        optimiser.step()
    module.zero_grad()
    return {name: round(value, 4) for name, value in losses.shown.items()}


def optimisers(module: nn.Module, settings: TrainingSettings) -> list[torch.optim.Optimizer]:
    """Muon for the matrices of layers, AdamW for what has a row for each token and for every vector."""
    matrices: list[Tensor] = []
    others: list[Tensor] = []
    for name, parameter in module.named_parameters():
        by_token = any(part in name for part in ("embed_tokens", "lm_head", "markov", "confidence"))
        (matrices if parameter.dim() == 2 and not by_token else others).append(parameter)
    return [
        torch.optim.Muon(
            [{"params": matrices, "rate": settings.matrix_rate}],
            weight_decay=settings.weight_decay,
            momentum=0.95,
            adjust_lr_fn="match_rms_adamw",
        ),
        torch.optim.AdamW(
            [{"params": others, "rate": settings.learning_rate}], betas=(0.9, 0.95), weight_decay=0.0
        ),
    ]


def _line(shown: dict[str, float], checks: Sequence[dict[str, Any]]) -> str:
    losses = " ".join(f"{value:.2f}" for value in shown.values())
    if not checks:
        return f"losses {losses}"
    return f"losses {losses}; held-out {HeldOut.describe(checks[-1])}"
