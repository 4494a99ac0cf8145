"""The numbers of a training run."""

from __future__ import annotations

from dataclasses import dataclass

from verispec.errors import OptionError


@dataclass(frozen=True)
class TrainingSettings:
    """Everything that decides a run's result besides its texts and the libraries' versions."""

    seed: int = 1
    epochs: int = 1
    batch_tokens: int = 4096
    """Tokens of a step."""
    depth: int = 5
    """Proposals in a row that a token-by-token head learns; the steps of EAGLE-3's training-time test."""
    stride: int = 16
    """One row in so many begins a chain of more than one proposal: each chain is independent of the others, so that
    fewer of them estimate the same loss."""
    depth_decay: float = 0.8
    """Weight of a proposal's loss relative to the one before it."""
    learning_rate: float = 1e-3
    """Of the output matrix and the norms, which AdamW learns."""
    matrix_rate: float = 5e-3
    """Of the layer's matrices, which Muon learns."""
    least_rate: float = 0.02
    """Share of the learning rates that is left at the end."""
    warm_up: int = 30
    """Steps over which they rise."""
    cool_down: float = 0.5
    """Share of the steps, the last ones, over which they fall."""
    weight_decay: float = 0.02
    clip: float = 1.0
    """Greatest norm of a step's gradient."""
    check_every: int = 100
    """Steps between two looks at the held-out texts."""

    def __post_init__(self) -> None:
        for name in ("epochs", "batch_tokens", "depth", "stride", "check_every"):
            if getattr(self, name) < 1:
                raise OptionError(f"{name}: expected at least 1, found {getattr(self, name)}")

    def share(self, step: int, steps: int) -> float:
        """Of the learning rates at ``step`` of ``steps``: a linear rise, a plateau, a linear fall."""
        rise = min(1.0, (step + 1) / self.warm_up)
        fall = max(0.0, 1 - (steps - step) / (self.cool_down * steps))
        return rise * (1 - fall * (1 - self.least_rate))
