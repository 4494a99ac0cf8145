"""The numbers of a training run."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Settings:
    """Everything that decides a run's result besides the text and the libraries' versions."""

    seed: int = 20240229
    steps: int = 1000
    windows: int = 12
    """Windows a step."""
    length: int = 256
    """Tokens of a window that the target reads; it is a multiple of the delta rule's chunk of 64."""
    depths: int = 7
    """How often the prediction block is applied to its own output."""
    stride: int = 8
    """One row in so many begins a chain of more than one prediction."""
    prediction_weight: float = 0.3
    learning_rate: float = 3e-3
    muon_factor: float = 3.0
    """Learning rate of the matrices, which Muon learns, in times that of the rest, which AdamW does."""
    least_learning_rate: float = 1e-4
    warm_up: int = 50
    weight_decay: float = 0.03
    """Of the matrices."""
    betas: tuple[float, float] = (0.9, 0.95)
    clip: float = 1.0
    """Greatest norm of a step's gradient."""

    cool_down: float = 0.4
    """Share of the steps, the last ones, over which the learning rate falls to the least. Until then a run does not
    depend on how many steps it is going to have."""

    def rate(self, step: int) -> float:
        """Learning rate: a linear rise over ``warm_up`` steps, a plateau, a linear fall over the cool-down."""
        rise = min(1.0, (step + 1) / self.warm_up)
        fall = max(0.0, 1 - (self.steps - step) / (self.cool_down * self.steps))
        return rise * (self.learning_rate + fall * (self.least_learning_rate - self.learning_rate))
