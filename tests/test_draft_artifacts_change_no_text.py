"""Whatever drafts, the text is the target's own: every kind of artifact, at every width and temperature."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from drafting_targets import FEW, HEADS, KINDS, Artifacts, write_artifacts
from verispec.artifacts.draft_manifest import artifact_sha256
from verispec.backends.native_dflash import NativeDFlash, NativeDSpark
from verispec.backends.native_eagle3 import NativeEagle3
from verispec.drafting.draft_text import DraftText
from verispec.engine.completion import Completion
from verispec.engine.loading import load
from verispec.engine.model import Model
from verispec.engine.replay import ModelReplayer
from verispec.errors import AdmissionError
from verispec.evidence.verify import Verdict, verify

PROMPT = [7, 1, 9, 4, 4, 2, 8] * 5
LONG = [(3 * i) % 250 + 1 for i in range(70)]
SAMPLING = {
    "greedy": {"temperature": 0.0},
    "T=0.8": {"temperature": 0.8, "seed": 5},
    "T=1.0": {"temperature": 1.0, "seed": 6, "repetition_penalty": 1.1},
}


@pytest.fixture(scope="module")
def artifacts(tmp_path_factory: pytest.TempPathFactory) -> Artifacts:
    return write_artifacts(tmp_path_factory.mktemp("artifacts"))


@pytest.fixture(scope="module")
def model(artifacts: Artifacts) -> Iterator[Model]:
    with load(artifacts.target, threads=1) as model:
        yield model


def answer(model: Model, prompt: list[int] = PROMPT, **options: Any) -> Completion:
    return model.generate(prompt, ignore_eos=True, **{"max_tokens": 24, "logit_bias": FEW, **options})


@pytest.mark.parametrize("sampling", SAMPLING.values(), ids=SAMPLING)
@pytest.mark.parametrize("kind", KINDS)
def test_every_width_and_temperature(
    kind: str, sampling: dict[str, Any], model: Model, artifacts: Artifacts
) -> None:
    off = answer(model, spec_mode="off", **sampling)
    for width in (1, 3, 5, 7):
        found = answer(model, **artifacts.options(kind, spec_draft_max=width), **sampling)
        assert (found.tokens, found.finish_reason, found.faults) == (off.tokens, off.finish_reason, ())
        assert max(drafted for drafted, _ in found.rounds) == width
        assert found.strategy == kind


@pytest.mark.parametrize("kind", KINDS)
def test_adaptive_widths_and_long_prompts(kind: str, model: Model, artifacts: Artifacts) -> None:
    options = artifacts.options(kind, spec_draft_policy="adaptive")
    for prompt in (PROMPT, LONG, [9]):
        off = answer(model, prompt, spec_mode="off", temperature=0.9, seed=2)
        found = answer(model, prompt, **options, temperature=0.9, seed=2)
        assert (found.tokens, found.faults) == (off.tokens, ())


@pytest.mark.parametrize("kind", KINDS)
def test_what_is_right_is_accepted(kind: str, model: Model, artifacts: Artifacts) -> None:
    """Four likely tokens: a random head is right now and then, and rows it was right about are kept."""
    found = answer(model, max_tokens=80, temperature=1.0, seed=1, **artifacts.options(kind))
    assert 0 < found.accepted < found.drafted
    assert len(found.tokens) == 80


@pytest.mark.parametrize("kind", KINDS)
def test_a_recurrent_target_rolls_back_under_them(kind: str, tmp_path: Path) -> None:
    artifacts = write_artifacts(tmp_path, hybrid=True)
    with load(artifacts.target, threads=1, snapshots=2) as model:
        off = answer(model, spec_mode="off", temperature=0.9, seed=4)
        for window in (2, 0):
            options = artifacts.options(kind, spec_mtp_recurrent_snapshots=window)
            found = answer(model, **options, temperature=0.9, seed=4)
            assert (found.tokens, found.faults) == (off.tokens, ())
            assert found.counters.replays == 1


def test_a_draft_model_that_is_the_target_is_always_right(artifacts: Artifacts, model: Model) -> None:
    """The draft is drawn with the noise that the target's own choice will be drawn with."""
    from drafting_targets import SOURCE
    from verispec.engine.admission import admit

    twin = artifacts.target.with_name("twin.gguf")
    twin.write_bytes(artifacts.target.read_bytes())
    admit(artifacts.target, twin, "draft-model", SOURCE).write(twin)
    options = {**artifacts.options("draft-model"), "spec_draft_model": str(twin)}
    found = model.generate(PROMPT, max_tokens=40, ignore_eos=True, temperature=1.0, seed=3, **options)
    assert found.accepted == found.drafted == 32


@pytest.mark.parametrize("kind", KINDS)
def test_receipts_name_the_drafter_and_verify_without_it(
    kind: str, model: Model, artifacts: Artifacts
) -> None:
    receipt = model.receipt(answer(model, **artifacts.options(kind)), include_text=True)
    assert receipt.replayed["artifacts"]["drafter"] == artifact_sha256(artifacts.of[kind])
    assert verify(receipt, lambda _: ModelReplayer(model)).verdict is Verdict.VERIFIED


@pytest.mark.parametrize("kind", KINDS)
def test_a_drafter_at_its_context_limit_proposes_nothing_and_counts_it(kind: str, tmp_path: Path) -> None:
    artifacts = write_artifacts(tmp_path, context=48)
    with load(artifacts.target, threads=1) as model:
        if kind == "draft-model":
            sequence = model.backend.open_sequence()
            text = model._draft_files.artifacts.text(str(artifacts.of[kind]), sequence)
            context = text.model.capabilities.context
            model.backend.close_sequence(sequence)
        else:
            context = 48
        prompt = (LONG * 2)[: context - 12]
        off = answer(model, prompt, spec_mode="off", temperature=0.9, seed=3)
        found = answer(model, prompt, **artifacts.options(kind), temperature=0.9, seed=3)
        assert (found.tokens, found.faults) == (off.tokens, ())
        if context < model.backend.capabilities.context:
            assert found.declined["context-limit"] > 0
            assert found.drafted > 0
            assert model.receipt(found).body["recomputed-with-drafter"]["counts"]["declined"]


def test_a_prompt_behind_the_limit_drafts_nothing_at_all(tmp_path: Path) -> None:
    artifacts = write_artifacts(tmp_path, context=48)
    with load(artifacts.target, threads=1) as model:
        for kind in HEADS:
            found = answer(model, LONG, **artifacts.options(kind))
            assert (found.drafted, found.faults) == (0, ())
            assert found.declined == {"context-limit": 22}  # neither with the prompt nor for the last token


STEP: dict[str, tuple[type, str]] = {
    "eagle3": (NativeEagle3, "first"),
    "dflash": (NativeDFlash, "predict"),
    "dspark": (NativeDSpark, "follow"),
    "draft-model": (DraftText, "read"),
}
"""A method that every proposal comes through."""


@pytest.mark.parametrize("kind", KINDS)
def test_one_that_raises_is_counted_with_its_cause(
    kind: str, model: Model, artifacts: Artifacts, monkeypatch: pytest.MonkeyPatch
) -> None:
    off = answer(model, spec_mode="off")

    def failing(*_: Any, **__: Any) -> Any:
        raise RuntimeError("a page of the weights is gone")

    monkeypatch.setattr(*STEP[kind], failing)
    found = answer(model, **artifacts.options(kind))
    assert found.tokens == off.tokens
    assert found.drafted == 0
    cause = "raised RuntimeError: a page of the weights is gone"
    assert found.faults[0] == cause
    assert all(fault in (cause, f"absorb {cause}") for fault in found.faults)
    assert len(found.faults) in (2, 3)  # one that missed a part of the text is off at once


@pytest.mark.parametrize("kind", KINDS)
def test_one_that_stalls_is_counted(
    kind: str, model: Model, artifacts: Artifacts, monkeypatch: pytest.MonkeyPatch
) -> None:
    off = answer(model, spec_mode="off")
    original = getattr(*STEP[kind])

    def slow(*arguments: Any, **named: Any) -> Any:
        time.sleep(0.03)
        return original(*arguments, **named)

    monkeypatch.setattr(*STEP[kind], slow)
    found = answer(model, drafter_deadline=0.02, **artifacts.options(kind, spec_draft_max=1))
    assert found.tokens == off.tokens
    assert set(found.faults) == {"took longer than 0.02 s"}
    assert len(found.faults) == 3


@pytest.mark.parametrize("kind", HEADS)
def test_a_misread_head_is_refused_before_it_drafts(
    kind: str, artifacts: Artifacts, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The head's last norm is read as if its weights were one greater, as some publishers store them."""
    from verispec.ops import native_weights

    plain = native_weights._vector_values

    def shifted(file: Any, tensor: Any) -> Any:
        return plain(file, tensor) + (1 if tensor.name == "output_norm.weight" else 0)

    with load(artifacts.target, threads=1) as model:
        off = answer(model, spec_mode="off")
        monkeypatch.setattr(native_weights, "_vector_values", shifted)
        with pytest.raises(AdmissionError, match="expected the head to propose") as refused:
            answer(model, **artifacts.options(kind))
        assert refused.value.code == "misread-head"
        assert answer(model, spec_mode="off").tokens == off.tokens


@pytest.mark.parametrize("kind", KINDS)
def test_loading_opens_the_artifact_that_requests_will_use(
    kind: str, artifacts: Artifacts, tmp_path: Path
) -> None:
    with load(artifacts.target, threads=1, options=artifacts.options(kind)) as model:
        assert answer(model, **artifacts.options(kind)).faults == ()
    others = write_artifacts(tmp_path, hybrid=True)
    with pytest.raises(AdmissionError) as refused:
        load(artifacts.target, threads=1, options=others.options(kind))
    assert refused.value.code == "wrong-target"
