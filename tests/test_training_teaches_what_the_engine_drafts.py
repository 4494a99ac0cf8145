"""A trained drafter, exported, drafts in the engine what its torch module would: each kind learns a text by heart."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pytest
import torch
from torch import Tensor

from training_targets import TARGET, plan_for, say_nothing, write_target
from verispec.artifacts.draft_manifest import KINDS, read_draft_manifest
from verispec.artifacts.tensor_types import TensorType
from verispec.backends.contract import chain
from verispec.backends.native import NativeBackend
from verispec.drafting.contract import Drafter, Proposal
from verispec.drafting.draft_model import DraftModelDrafter
from verispec.drafting.draft_text import DraftText
from verispec.drafting.head_drafter import make_head_drafter
from verispec.engine.admission import open_admitted
from verispec.engine.loading import load
from verispec.training import dflash
from verispec.training.batches import Batch, load_batch
from verispec.training.dflash import DFlashTraining
from verispec.training.draft_model import DraftModelTraining
from verispec.training.draft_training import DraftTraining
from verispec.training.dspark import DSparkTraining
from verispec.training.eagle3 import Eagle3Training
from verispec.training.export import TrainedArtifact
from verispec.training.features import feature_statistics
from verispec.training.kinds import make_training
from verispec.training.pipeline import train_drafter
from verispec.training.plan import TrainingPlan, draft_taps
from verispec.training.target_facts import read_target
from verispec.training.text_stage import write_texts
from verispec.training.text_store import StoredText
from verispec.training.vocabulary import draft_vocabulary

WIDTH = 3
TAPS = draft_taps(TARGET.layers)
OUTPUTS = 250
EPOCHS = {"draft-model": 35, "eagle3": 45, "dflash": 26, "dspark": 80}
ANCHORS = 12
"""Blocks of a text in a step: enough for one of 40 tokens."""
NEAR = 0.02
"""Of a row's spread: torch multiplies in bfloat16, so that what leads by less may not lead natively."""
CLOSE = 0.05
"""Of confidences, for the same reason."""


@dataclass(frozen=True)
class Trained:
    """A drafter that has learnt the texts of its plan by heart, and the module that it was written from."""

    plan: TrainingPlan
    made: TrainedArtifact
    training: DraftTraining
    ids: list[int]
    texts: list[StoredText]


@pytest.fixture(scope="module")
def target(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_target(tmp_path_factory.mktemp("target"))


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("texts")


@pytest.fixture(scope="module", params=KINDS)
def trained(
    request: pytest.FixtureRequest, target: Path, written: Path, tmp_path_factory: pytest.TempPathFactory
) -> Trained:
    kind = str(request.param)
    plan = plan_for(
        target,
        tmp_path_factory.mktemp(kind),
        kind,
        texts=written,
        vocabulary=OUTPUTS,
        tensor_type=TensorType.F32,
        tokens=150,
        epochs=EPOCHS[kind],
    )
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(dflash, "ANCHORS", ANCHORS)
        made = train_drafter(plan, say_nothing)
    texts = write_texts(plan, say_nothing).first(plan.tokens)
    facts = read_target(target)
    outputs = facts.model.vocabulary if kind == "draft-model" else OUTPUTS
    ids = draft_vocabulary(texts, facts.model.vocabulary, outputs).ids
    features = feature_statistics(texts, facts.final_norm)
    training = make_training(kind, facts, TAPS, ids, features, plan.settings)
    training.module.load_state_dict(torch.load(plan.output / "checkpoint.pt")["module"])
    return Trained(plan, made, training, ids.tolist(), texts)


def test_a_text_learnt_by_heart_is_drafted_in_the_engine(trained: Trained) -> None:
    """The first proposal of more than nine rounds in ten is the target's own token."""
    kind = trained.plan.kind
    options = {"spec_mode": kind, "spec_draft_model": str(trained.made.path), "spec_draft_max": WIDTH}
    plain = {"temperature": 0, "spec_draft_policy": "fixed", "spec_draft_p_min": 0.0}
    drafted = accepted = 0
    with load(trained.plan.target, threads=1) as model:
        for text in [text for text in trained.texts if text.temperature == 0]:
            prompt, answer = text.tokens[: text.prompt].tolist(), text.tokens[text.prompt :].tolist()
            found = model.generate(prompt, max_tokens=len(answer), **plain, **options)
            assert list(found.tokens) == answer
            assert not found.faults
            drafted += sum(drafted > 0 for drafted, _ in found.rounds)
            accepted += found.accepted_by_position()[0]
    assert drafted >= 20
    assert accepted / drafted > 0.9


def test_the_torch_graph_is_the_native_one(trained: Trained) -> None:
    """On a text that it has never seen and is unsure of, at every place, proposal by proposal."""
    random = np.random.default_rng(8)
    tokens = random.integers(0, 280, 40).tolist()
    hidden, proposals = drafted_natively(trained, tokens)
    equal = total = 0
    for length, proposal in proposals.items():
        proposed = list(proposal.tokens)
        assert len(proposed) == WIDTH
        logits = torch_logits(trained.training, tokens[:length], proposed, hidden[: length - 1])
        for row, token in zip(logits, proposed, strict=True):
            place = trained.ids.index(token)
            behind = (row.max() - row[place]) / (row.max() - row.min())
            assert behind < NEAR, (trained.plan.kind, length, proposed)
            equal += bool(behind == 0)
            total += 1
    assert total == WIDTH * (len(tokens) - 2)
    assert equal / total > 0.9
    assert len({str(proposal.tokens) for proposal in proposals.values()}) > 10


def test_a_torch_confidence_is_the_native_one(trained: Trained) -> None:
    """DSpark's, learnt; the other kinds' is the probability of what they propose."""
    training = trained.training
    tokens = np.random.default_rng(8).integers(0, 280, 40).tolist()
    hidden, proposals = drafted_natively(trained, tokens)
    found, expected = [], []
    for length, proposal in proposals.items():
        found += proposal.confidences
        batch = batch_of([*tokens[:length], *proposal.tokens], hidden[: length - 1], 1)
        if isinstance(training, DSparkTraining):
            with torch.no_grad():
                logits = training._confidence(training._blocks(batch, torch.tensor([[length - 1]])))
            expected += logits[0, :WIDTH].sigmoid().tolist()
        else:
            rows = torch_logits(training, tokens[:length], list(proposal.tokens), hidden[: length - 1])
            expected += rows.softmax(-1).amax(-1).tolist()
    assert np.std(expected) > 0.05
    assert np.mean(np.abs(np.subtract(found, expected)) < CLOSE) > 0.95


def test_what_a_check_counts_as_accepted_is_what_the_engine_would_propose(trained: Trained) -> None:
    """Not only where all of it is right: some of a text's tokens are replaced."""
    tokens = trained.texts[0].tokens.tolist()
    tokens[26::7] = [token % 90 + 100 for token in tokens[26::7]]
    hidden, proposals = drafted_natively(trained, tokens)
    begun = range(20, len(tokens) - 8)  # committed tokens, of which the last is the anchor
    expected = [
        np.cumprod(
            [one == other for one, other in zip(proposals[length].tokens, tokens[length:], strict=False)]
        )
        for length in begun
    ]
    batch = batch_of(tokens, hidden, begun[0])
    found = trained.training.accepted(batch)
    assert len(found) == len(tokens) - begun[0] - found.shape[1] + 1
    found = found[: len(begun), :WIDTH]
    assert 0.2 < np.mean(expected) < 0.9
    assert np.mean(found != np.asarray(expected, bool)) < 0.05


def test_the_artifact_says_what_it_was_made_from(trained: Trained, target: Path) -> None:
    made, plan = trained.made, trained.plan
    said = json.loads(made.statement.read_text())
    assert said["kind"] == plan.kind
    assert said["bytes"] == made.nbytes == made.path.stat().st_size
    assert said["outputs"] == len(trained.ids)
    assert said["parameters"] == sum(one.numel() for one in trained.training.module.parameters())
    assert said["texts"]["texts"] == len(trained.texts)
    assert said["texts"]["answer_tokens"] == sum(text.answer for text in trained.texts)
    assert said["texts"]["target_sha256"] == read_target(target).sha256
    assert said["training"]["epochs"] == EPOCHS[plan.kind]
    manifest = read_draft_manifest(made.path)
    assert (manifest.kind, manifest.same_tokens) == (plan.kind, True)
    assert manifest.target.sha256 == said["texts"]["target_sha256"]


def drafted_natively(
    trained: Trained, tokens: list[int]
) -> tuple[npt.NDArray[np.float32], dict[int, Proposal]]:
    """The target's hidden states [n - 1, taps, hidden size], and what the strategy's drafter proposes behind each
    number of committed tokens, from 2 on."""
    kind, path = trained.plan.kind, trained.made.path
    backend = NativeBackend.load(trained.plan.target, TARGET.context, 1, 1)
    sequence = backend.open_sequence()
    taps = (*TAPS, -1)
    proposals = {}
    hidden = []
    try:
        drafter = open_drafter(kind, path, backend, sequence)
        drafter.observe(tokens[:1])
        for position, token in enumerate(tokens[:-1]):
            states = backend.evaluate(chain(sequence, position, [token]), [], False, taps).hidden
            backend.commit(sequence, position + 1)
            hidden.append(np.stack([states[tap] for tap in taps], axis=1))
            drafter.absorb(position, tokens[position : position + 2], states)
            drafter.observe(tokens[position + 1 : position + 2])
            if position + 2 < len(tokens):
                proposals[position + 2] = drafter.propose(WIDTH)
    finally:
        backend.close()
    return np.concatenate(hidden), proposals


def open_drafter(kind: str, path: Path, backend: NativeBackend, sequence: int) -> Drafter:
    manifest, head = open_admitted(path, kind, read_draft_manifest(path).target)
    if head is None:
        own = NativeBackend.load(path, TARGET.context, 1, 1)
        return DraftModelDrafter(DraftText(own, own.open_sequence()), choose)
    assert manifest.head["target_layers"] == list(TAPS)
    native = backend.draft_head(head.file, head.draft)
    return make_head_drafter(native, TAPS, sequence, choose, 0.0)


def choose(logits: npt.NDArray[np.float32], position: int) -> int:
    return int(logits.argmax())


def batch_of(tokens: list[int], hidden: npt.NDArray[np.float32], prompt: int) -> Batch:
    """As a stored text; positions without hidden states have zeros."""
    states = np.zeros((len(tokens) - 1, *hidden.shape[1:]), np.float16)
    states[: len(hidden)] = hidden
    text = np.asarray(tokens, np.int32)
    return load_batch([StoredText(0, text, prompt, 0.0, text[prompt:], states)])


@torch.no_grad()
def torch_logits(
    training: DraftTraining, committed: list[int], proposed: list[int], hidden: npt.NDArray[np.float32]
) -> Tensor:
    """What the module says of each proposal, those before it given [proposals, outputs]."""
    length = len(committed)
    batch = batch_of(committed + proposed, hidden, 1)
    if isinstance(training, DraftModelTraining):
        return training.logits(batch.tokens)[0, length - 1 : -1].float()
    if isinstance(training, Eagle3Training):
        steps = [x[0, -1] for _, x in training.chains(batch, len(proposed))]
        with torch.autocast("cpu", torch.bfloat16):
            return training.module.lm_head(training.module.norm(torch.stack(steps))).float()
    assert isinstance(training, DFlashTraining)
    blocks = training._blocks(batch, torch.tensor([[length - 1]]))
    with torch.autocast("cpu", torch.bfloat16):
        return training._logits(blocks)[0, : len(proposed)].float()
