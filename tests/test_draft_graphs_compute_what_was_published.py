"""The graphs of draft heads give what a restatement of their publications gives, from the same random weights."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pytest

from plain_drafters import PlainDFlash, PlainDSpark, PlainEagle3
from tiny_drafters import TinyDraft, write_draft
from verispec import _native
from verispec.artifacts.draft_file import DraftFile
from verispec.models.dflash import BLOCK_HIDDEN, build_dflash
from verispec.models.draft_hyperparameters import read_draft_hyperparameters
from verispec.models.draft_tensors import check_draft_tensors
from verispec.models.dspark import BIAS, CONFIDENCE_LOGIT, build_dspark_heads
from verispec.models.eagle3 import FED_BACK, build_eagle3
from verispec.models.tensors import EMBEDDING, OUTPUT
from verispec.ops.contract import Operations
from verispec.ops.native import NativeOperations, Rotations
from verispec.ops.native_weights import load_weights
from verispec.ops.reference import Cache, PassInputs, ReferenceOperations
from verispec.ops.reference_weights import reference_weights

CLOSE = 1e-5
"""Of the reference path in F32, relative to the greatest magnitude."""
NATIVE_CLOSE = 2e-3
"""Of native passes, whose keys and values are rounded to float16."""
CONTEXT = 23
IDS = tuple(np.random.default_rng(4).permutation(288)[:96].tolist())
EAGLE3 = {
    "published": TinyDraft(),
    "reduced vocabulary": TinyDraft(draft_ids=IDS),
    "norm before residual": TinyDraft(layout="speculators", norm_before_residual=True, draft_ids=IDS),
    "norm before fusion": TinyDraft(layout="speculators", norm_before_fc=True),
    "norm fed back": TinyDraft(norm_output=True, heads=8, kv_heads=8, base=500000.0),
}
BLOCKS = {
    "dflash": TinyDraft("dflash", layers=2),
    "dflash of speculators": TinyDraft("dflash", "speculators", layers=2, draft_ids=IDS, taps=(1, 2)),
    "dspark": TinyDraft("dspark", layers=2),
    "dspark, gated": TinyDraft("dspark", "speculators", gated=True, draft_ids=IDS),
}


class Runner:
    """Passes of one head: by the reference in F32, or natively."""

    def __init__(self, path: Path, native: bool) -> None:
        self.file = DraftFile.open(path)
        self.draft = read_draft_hyperparameters(self.file)
        self.names = check_draft_tensors(self.file, self.draft)
        self.native = native
        self.close = NATIVE_CLOSE if native else CLOSE
        if native:
            decoder = self.draft.decoder
            self.pool = _native.ThreadPool(1)
            self.packed = load_weights(self.file, self.names, self.pool)
            shape = decoder.kv_heads, decoder.head_dim, 128
            self.kv = _native.KvCache(1, 128, [shape] * decoder.layers)
        else:
            self.weights = reference_weights(self.file, self.names)
            self.cache = Cache(dtype=np.float32)

    def run(
        self,
        graph: Callable[[Operations, int], None],
        tokens: list[int],
        start: int,
        outputs: list[int],
        hidden: npt.NDArray[np.float64] | None = None,
        taps: tuple[int, ...] = (),
        head: bool = True,
    ) -> dict[int | str, npt.NDArray[np.float32]]:
        """One pass over ``tokens`` from position ``start``: taps and, under ``logits``, the head's."""
        positions = range(start, start + len(tokens))
        given = None if hidden is None else hidden.astype(np.float32)
        if not self.native:
            inputs = PassInputs(tokens, positions, [0] * len(tokens), outputs, given)
            operations = ReferenceOperations(self.weights, self.cache, inputs)
            graph(operations, len(outputs))
            return {**operations.hidden, "logits": operations.logits}
        program = _native.Program(self.pool, _native.Workspace(), len(tokens), len(outputs), head)
        graph(NativeOperations(program, self.packed, self.kv, Rotations(128)), len(outputs))
        program.finish()
        rows = [(0, position, token, -1) for position, token in zip(positions, tokens, strict=True)]
        program.evaluate(rows, outputs, inputs=[] if given is None else [np.ascontiguousarray(given)])
        logits = {"logits": program.logits()} if head and outputs else {}
        return {**{tap: program.hidden(tap) for tap in taps}, **logits}


@pytest.fixture(params=[False, True], ids=["reference", "native"])
def native(request: pytest.FixtureRequest) -> bool:
    return bool(request.param)


def distance(found: npt.NDArray[np.float32], expected: npt.NDArray[np.float64]) -> float:
    assert found.shape == expected.shape
    return float(np.abs(found - expected).max() / np.abs(expected).max())


def context(draft: TinyDraft) -> tuple[list[int], npt.NDArray[np.float64]]:
    """Tokens, and the hidden states of as many positions."""
    random = np.random.default_rng(7)
    features = random.normal(0, 1, (CONTEXT, len(draft.taps) * draft.hidden)) * np.exp(
        random.normal(0, 0.7, (CONTEXT, 1))
    )
    return random.integers(0, draft.vocabulary, CONTEXT + 1).tolist(), features.astype(np.float32).astype(
        float
    )


@pytest.mark.parametrize("name", EAGLE3)
def test_eagle3_over_a_prompt_and_on_from_its_own_states(name: str, native: bool, tmp_path: Path) -> None:
    draft = EAGLE3[name]
    plain = PlainEagle3(draft, write_draft(tmp_path, draft))
    runner = Runner(tmp_path, native)
    graph = build_eagle3(runner.draft, frozenset(runner.names), EMBEDDING, OUTPUT)
    tokens, features = context(draft)
    fused = plain.fused(features)
    half = CONTEXT // 2  # the prompt comes in two chunks
    runner.run(graph.fill, tokens[1 : half + 1], 1, [half - 1], features[:half], head=False)
    last = CONTEXT - half - 1
    found = runner.run(
        graph.fill, tokens[half + 1 :], half + 1, [last], features[half:], (FED_BACK,), head=False
    )
    expected = plain.fed_back(tokens, fused)
    assert distance(found[FED_BACK], expected[-1:]) < runner.close
    read = runner.run(lambda ops, _: graph.read(ops), [0], 0, [0], found[FED_BACK].astype(float))
    assert distance(read["logits"], plain.logits(expected[-1:])) < runner.close
    for _ in range(3):
        fused = np.vstack([fused, expected[-1:]])
        tokens.append(int(plain.logits(expected[-1:])[0].argmax()))
        if draft.draft_ids:
            tokens[-1] = draft.draft_ids[tokens[-1]]
        found = runner.run(
            graph.step, tokens[-1:], len(tokens) - 1, [0], found[FED_BACK].astype(float), (FED_BACK,)
        )
        expected = plain.fed_back(tokens, fused)
        assert distance(found[FED_BACK], expected[-1:]) < 2 * runner.close
        assert distance(found["logits"], plain.logits(expected[-1:])) < 2 * runner.close


@pytest.mark.parametrize("name", BLOCKS)
def test_blocks_from_a_context(name: str, native: bool, tmp_path: Path) -> None:
    draft = BLOCKS[name]
    kind = PlainDSpark if draft.kind == "dspark" else PlainDFlash
    plain = kind(draft, write_draft(tmp_path, draft))
    runner = Runner(tmp_path, native)
    graph = build_dflash(runner.draft, frozenset(runner.names), EMBEDDING, OUTPUT)
    tokens, features = context(draft)
    for begin, end in ((0, 9), (9, CONTEXT)):
        part = features[begin:end]
        runner.run(lambda ops, _: graph.context(ops), [0] * len(part), begin, [], part, head=False)
    rows = list(range(0 if draft.from_anchor else 1, draft.block))
    block = [tokens[-1], *[draft.mask_token] * (draft.block - 1)]
    for _ in range(2):  # the second writes over the first, and gives the same
        found = runner.run(lambda ops, _: graph.block(ops, True), block, CONTEXT, rows, taps=(BLOCK_HIDDEN,))
    hidden = plain.block(features, tokens[-1])
    assert distance(found[BLOCK_HIDDEN], hidden[rows]) < runner.close
    assert distance(found["logits"], plain.logits(hidden)) < runner.close
    # a shorter context, as after a rejection of what had been written before, is a context of its own
    shorter = plain.block(features[: CONTEXT - 4], 5)
    found = runner.run(
        lambda ops, _: graph.block(ops, True), [5, *block[1:]], CONTEXT - 4, rows, taps=(BLOCK_HIDDEN,)
    )
    assert distance(found[BLOCK_HIDDEN], shorter[rows]) < runner.close


@pytest.mark.parametrize("gated", [False, True])
def test_dspark_heads_follow_the_token_before(gated: bool, native: bool, tmp_path: Path) -> None:
    draft = TinyDraft("dspark", gated=gated, draft_ids=IDS)
    plain = PlainDSpark(draft, write_draft(tmp_path, draft))
    runner = Runner(tmp_path, native)
    heads = build_dspark_heads(runner.draft, frozenset(runner.names))
    hidden = np.random.default_rng(8).normal(0, 1, (1, draft.hidden)).astype(np.float32).astype(float)
    for previous in (3, 287):
        found = runner.run(
            lambda ops, _: heads.step(ops), [previous], 0, [], hidden, (BIAS, CONFIDENCE_LOGIT), head=False
        )
        bias, confidence = plain.followed(hidden[0], previous)
        assert distance(found[BIAS], bias[None]) < CLOSE
        assert abs(1 / (1 + np.exp(-float(found[CONFIDENCE_LOGIT][0, 0]))) - confidence) < CLOSE


def test_a_head_that_hangs_on_its_targets_matrices(tmp_path: Path) -> None:
    """What the file leaves out is named by the caller, for the target's to stand there."""
    draft = TinyDraft("dflash", own_embedding=False, own_head=False)
    write_draft(tmp_path, draft)
    file = DraftFile.open(tmp_path)
    numbers = read_draft_hyperparameters(file)
    assert {EMBEDDING, OUTPUT}.isdisjoint(check_draft_tensors(file, numbers))
    graph = build_dflash(numbers, frozenset(file.tensors), "target embedding", "target head")
    assert (graph.embedding, graph.head) == ("target embedding", "target head")


def test_layers_are_numbered_by_their_input_whoever_counted(tmp_path: Path) -> None:
    for number, draft in enumerate((*EAGLE3.values(), *BLOCKS.values())):
        write_draft(tmp_path / str(number), draft)
        numbers = read_draft_hyperparameters(DraftFile.open(tmp_path / str(number)))
        assert numbers.taps(30) == draft.taps
        assert numbers.kind == draft.kind
    silent = replace(read_draft_hyperparameters(DraftFile.open(tmp_path / "0")), named_taps=())
    assert silent.taps(30) == (2, 15, 27)
