"""The training loop: steps, a log, a progress bar, and checkpoints to go on from."""

from __future__ import annotations

import json
import logging
import time
from dataclasses import asdict, dataclass
from pathlib import Path

import torch
from rich.progress import Progress, TextColumn
from torch import Tensor

from training.architecture import HybridModel, small_config
from training.loss import losses
from training.settings import Settings
from training.tokens import TokenisedText

CHECKPOINT = "checkpoint.pt"
SECONDS_BETWEEN_CHECKPOINTS = 180
STEPS_BETWEEN_LINES = 10

log = logging.getLogger(__name__)


@dataclass
class Run:
    """A model on its way: what a checkpoint holds, and where it lies."""

    folder: Path
    settings: Settings
    model: HybridModel
    optimisers: list[torch.optim.Optimizer]
    step: int = 0

    @classmethod
    def begin_or_continue(cls, folder: Path, settings: Settings) -> Run:
        """The run whose checkpoint lies in ``folder``, or a new one."""
        torch.manual_seed(settings.seed)
        (folder / "settings.json").write_text(json.dumps(asdict(settings), indent=1) + "\n")
        model = HybridModel(small_config())
        run = cls(folder, settings, model, _optimisers(model, settings))
        if (folder / CHECKPOINT).exists():
            saved = torch.load(folder / CHECKPOINT, weights_only=True)
            model.load_state_dict(saved["model"])
            for optimiser, state in zip(run.optimisers, saved["optimisers"], strict=True):
                optimiser.load_state_dict(state)
            run.step = saved["step"]
        log.info("from step %d, with %s", run.step, asdict(settings))
        return run

    def save(self) -> None:
        """Replaces the checkpoint; a kill at any moment leaves the old or the new one, whole."""
        state = {
            "model": self.model.state_dict(),
            "optimisers": [optimiser.state_dict() for optimiser in self.optimisers],
            "step": self.step,
        }
        part = self.folder / f"{CHECKPOINT}.part"
        torch.save(state, part)
        part.replace(self.folder / CHECKPOINT)


def train(run: Run, tokens: TokenisedText) -> None:
    """Takes the steps that are left; the losses go to the log, in nats a token."""
    settings = run.settings
    saved = time.monotonic()
    run.model.train()
    columns = (*Progress.get_default_columns(), TextColumn("{task.fields[losses]}"))
    with Progress(*columns) as progress:
        bar = progress.add_task("training", total=settings.steps, completed=run.step, losses="")
        while run.step < settings.steps:
            target, predictions = _step(run, tokens)
            run.step += 1
            if run.step % STEPS_BETWEEN_LINES == 0 or run.step == settings.steps:
                depths = " ".join(f"{value:.3f}" for value in predictions.tolist())
                log.info("step %d target %.4f predictions %s", run.step, target.item(), depths)
            progress.update(bar, completed=run.step, losses=f"target {target.item():.3f}")
            if time.monotonic() - saved > SECONDS_BETWEEN_CHECKPOINTS or run.step == settings.steps:
                run.save()
                saved = time.monotonic()


def _step(run: Run, tokens: TokenisedText) -> tuple[Tensor, Tensor]:
    """One step of the optimiser; the losses before it."""
    settings = run.settings
    window = tokens.windows(settings.windows, settings.length + 1, settings.seed, run.step)
    for optimiser in run.optimisers:
        for group in optimiser.param_groups:
            group["lr"] = settings.rate(run.step) * group["factor"]
    with torch.autocast("cpu", torch.bfloat16):
        found = losses(run.model, window, settings.depths, settings.stride, run.step % settings.stride)
    torch.autograd.backward(found.target + settings.prediction_weight * found.predictions.mean())
    torch.nn.utils.clip_grad_norm_(run.model.parameters(), settings.clip)
    for optimiser in run.optimisers:
        optimiser.step()
    run.model.zero_grad()
    return found.target.detach(), found.predictions.detach()


def _optimisers(model: HybridModel, settings: Settings) -> list[torch.optim.Optimizer]:
    """Muon for the layers' matrices, AdamW for the embedding, the convolutions and every vector.

    It learns more from a token than AdamW alone does, which counts in a run of about one epoch (README.md).
    """
    matrices: list[Tensor] = []
    others: list[Tensor] = []
    for name, parameter in model.named_parameters():
        (matrices if parameter.dim() == 2 and "embed" not in name else others).append(parameter)
    return [
        torch.optim.Muon(
            [{"params": matrices, "factor": settings.muon_factor}],
            weight_decay=settings.weight_decay,
            momentum=settings.betas[1],
            adjust_lr_fn="match_rms_adamw",
        ),
        torch.optim.AdamW([{"params": others, "factor": 1.0}], betas=settings.betas, weight_decay=0.0),
    ]
