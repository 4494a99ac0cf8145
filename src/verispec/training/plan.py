"""What a training is asked to do."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from verispec.artifacts.draft_manifest import KINDS
from verispec.artifacts.tensor_types import TensorType
from verispec.errors import OptionError, UnsupportedError
from verispec.models.hyperparameters import Hyperparameters
from verispec.training.settings import TrainingSettings
from verispec.training.writing import Lengths

READ_BY = {"outputs": ("eagle3", "dflash", "dspark"), "depth": ("draft-model", "eagle3")}
"""The kinds that read an option which others do not: a draft model scores every token, a block has its own width."""

Progress = Callable[[str, int, int, str], None]
"""Told as it goes: the stage, how far it is, how far it goes, and what a line shows."""


@dataclass(frozen=True)
class TrainingPlan:
    """``texts`` is a folder that several runs may share; ``tokens`` counts those of answers."""

    kind: str
    target: str
    output: Path
    texts: Path
    tokens: int = 4_000_000
    prompts: Path | None = None
    lengths: Lengths = field(default_factory=Lengths)
    vocabulary: int = 16_384
    """Tokens that the head scores."""
    tensor_type: TensorType = TensorType.Q8_0
    license: str = "not stated"
    threads: int | None = None
    settings: TrainingSettings = field(default_factory=TrainingSettings)

    def __post_init__(self) -> None:
        if self.kind not in KINDS:
            raise OptionError(f"kind: expected one of {', '.join(KINDS)}, found {self.kind!r}")
        for name in ("tokens", "vocabulary"):
            if getattr(self, name) < 1:
                raise OptionError(f"{name}: expected at least 1, found {getattr(self, name)}")
        if self.kind in READ_BY["depth"] and self.settings.depth >= self.lengths.answer:
            raise OptionError(
                f"depth: expected less than the {self.lengths.answer} tokens of the longest answer, found "
                f"{self.settings.depth}"
            )
        for name, folder in (("output", self.output), ("texts", self.texts)):
            if folder.exists() and not folder.is_dir():
                raise OptionError(
                    f"{name}: expected a folder, new or of an earlier run, found a file at {folder}"
                )

    @property
    def artifact(self) -> Path:
        """Where the result is written."""
        return self.output / f"{self.kind}-{self.tensor_type.name.lower()}.gguf"


def check_read(kind: str, given: Mapping[str, int | None]) -> None:
    """Raises OptionError for an option that was given and that ``kind`` does not read."""
    for name, value in given.items():
        if value is not None and kind not in READ_BY[name]:
            raise OptionError(
                f"{name}: read by {' and '.join(READ_BY[name])}, found for {kind}; leave it out"
            )


def check_target(model: Hyperparameters) -> None:
    """Raises UnsupportedError for a target whose distribution is not the softmax of its output matrix's products."""
    if model.final_softcap:
        raise UnsupportedError(
            "softcapped-target",
            f"logits of the target: expected none that are capped, for a drafter is taught by the softmax of what the "
            f"output matrix gives, found a cap of {model.final_softcap:g}",
            "Train a drafter for a target without final_logit_softcapping",
        )


def draft_taps(layers: int) -> tuple[int, ...]:
    """The hidden states that a head reads: EAGLE-3's, for every kind, so that all can learn from the same texts; of a
    target with fewer than 7 layers, where those would not be three, the ones behind its first and before its last.

    Raises UnsupportedError for a target that has no three.
    """
    if layers >= 7:
        return 2, layers // 2, layers - 3
    if layers >= 4:
        return 1, layers // 2, layers - 1
    raise UnsupportedError(
        "too-few-layers",
        f"layers of the target: expected at least 4, for a head reads hidden states of three, found {layers}",
        "Train a head for a larger target",
    )
