"""A whole training: the target writes, a head learns, an artifact is admitted. Begun again, it goes on where it was."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from importlib.metadata import version
from pathlib import Path
from typing import Any

import torch

from verispec.artifacts.draft_manifest import Source
from verispec.artifacts.json_file import read_json_object
from verispec.artifacts.lock import exclusive
from verispec.artifacts.resolve import resolve_model
from verispec.errors import OptionError
from verispec.training.batches import split
from verispec.training.export import PUBLISHED, TrainedArtifact, export_artifact, write_published
from verispec.training.features import feature_statistics
from verispec.training.kinds import make_training
from verispec.training.loop import TrainingRun, train
from verispec.training.plan import READ_BY, Progress, TrainingPlan, draft_taps
from verispec.training.target_facts import read_target
from verispec.training.text_stage import write_texts
from verispec.training.text_store import SETTINGS, StoredText, TextStore
from verispec.training.vocabulary import DraftVocabulary, draft_vocabulary

LOCK = ".training.lock"
WAITING = "another run has this folder; waiting for it"


def train_drafter(plan: TrainingPlan, progress: Progress) -> TrainedArtifact:
    """Takes what is left of ``plan`` and gives the admitted artifact. Where another process is at work in the run's
    folder, it is waited for.

    Raises OptionError for a folder that holds another plan's work, TrainingError for a loss that is not finite, and
    what loading the target raises.
    """
    path = resolve_model(plan.target).path
    plan.output.mkdir(parents=True, exist_ok=True)  # before anything is paid for
    with exclusive(plan.output / LOCK, lambda: progress("waiting", 0, 1, WAITING)):
        return _train(plan, path, progress)


def _train(plan: TrainingPlan, path: Path, progress: Progress) -> TrainedArtifact:
    if plan.threads is not None:
        torch.set_num_threads(plan.threads)
    store = write_texts(plan, progress)
    texts, held_out = split(store.first(plan.tokens), store.numbering)
    if not texts:
        raise OptionError(f"tokens: expected enough for a text to train on, found {plan.tokens}")
    target = read_target(path)
    outputs = plan.vocabulary if plan.kind in READ_BY["outputs"] else target.model.vocabulary
    vocabulary = draft_vocabulary(texts, target.model.vocabulary, outputs)
    torch.manual_seed(plan.settings.seed)
    taps = draft_taps(target.model.layers)
    features = feature_statistics(texts, target.final_norm)
    training = make_training(plan.kind, target, taps, vocabulary.ids, features, plan.settings)
    data: dict[str, int | str] = {
        "texts": len(texts),
        "outputs": len(vocabulary.ids),
        "written": store.digest,
    }
    run = TrainingRun(plan.output, training, plan.settings, data)
    run.resume()
    train(run, texts, held_out, lambda step, steps, line: progress("training", step, steps, line))
    progress("admitting", 0, 1, "")
    made = export_artifact(
        write_published(training, plan.output / PUBLISHED),
        plan.artifact,
        plan.tensor_type,
        path,
        plan.kind,
        Source("made by verispec train", f"seed {plan.settings.seed}", plan.license),
        statement(store, texts, run, vocabulary),
        run.acceptance(),
    )
    progress("admitting", 1, 1, "")
    return made


def statement(
    store: TextStore, texts: Sequence[StoredText], run: TrainingRun, vocabulary: DraftVocabulary
) -> dict[str, Any]:
    """What the artifact was made from and how good it is, for whoever uses it."""
    parameters = sum(parameter.numel() for parameter in run.training.module.parameters())
    return {
        "kind": run.training.kind,
        "parameters": parameters,
        "outputs": len(vocabulary.ids),
        "outputs_coverage": round(vocabulary.coverage, 5),
        "texts": {
            **read_json_object(store.folder / SETTINGS),
            "texts": len(texts),
            "answer_tokens": sum(text.answer for text in texts),
            "tokens": sum(len(text.tokens) for text in texts),
        },
        "training": {**asdict(run.settings), "steps": run.step},
        "held_out": run.checks[-1] if run.checks else None,
        "versions": {name: version(name) for name in ("verispec", "torch", "numpy")},
    }
