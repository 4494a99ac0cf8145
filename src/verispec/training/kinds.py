"""Each kind's module on a target."""

from __future__ import annotations

from torch import Tensor

from verispec.training.dflash import DFlashTraining
from verispec.training.draft_model import DraftModelTraining
from verispec.training.draft_training import DraftTraining
from verispec.training.dspark import DSparkTraining
from verispec.training.eagle3 import Eagle3Training
from verispec.training.features import FeatureStatistics
from verispec.training.settings import TrainingSettings
from verispec.training.target_facts import TargetFacts

TRAININGS = {
    training.kind: training
    for training in (DraftModelTraining, Eagle3Training, DFlashTraining, DSparkTraining)
}


def make_training(
    kind: str,
    target: TargetFacts,
    taps: tuple[int, ...],
    draft_ids: Tensor,
    features: FeatureStatistics,
    settings: TrainingSettings,
) -> DraftTraining:
    """The module of ``kind`` at its beginning."""
    return TRAININGS[kind](target, taps, draft_ids, features, settings)
