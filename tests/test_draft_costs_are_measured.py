"""An adaptive width knows what its drafter takes, measured where it is used, and measuring changes nothing."""

from __future__ import annotations

import pytest

from drafting_targets import KINDS, Artifacts, write_artifacts
from verispec.engine.adaptive_width import AdaptiveWidth
from verispec.engine.loading import load

PROMPT = [7, 1, 9, 4, 4, 2, 8] * 5
SAMPLING = {"temperature": 0.9, "seed": 5, "ignore_eos": True, "max_tokens": 12}


@pytest.fixture(scope="module")
def artifacts(tmp_path_factory: pytest.TempPathFactory) -> Artifacts:
    return write_artifacts(tmp_path_factory.mktemp("artifacts"))


def adaptive(artifacts: Artifacts, kind: str) -> dict[str, object]:
    return {"spec_mode": kind, "spec_draft_model": str(artifacts.of[kind]), "spec_draft_policy": "adaptive"}


@pytest.mark.parametrize("kind", KINDS)
def test_of_every_kind_though_every_sequence_is_held(kind: str, artifacts: Artifacts) -> None:
    with load(artifacts.target, threads=1, sequences=1) as model:
        off = model.generate(PROMPT, spec_mode="off", **SAMPLING)
        with model.stream(PROMPT, **adaptive(artifacts, kind), **SAMPLING) as generation:
            policy = generation.request.drafter.policy
            assert isinstance(policy, AdaptiveWidth)
            assert policy.draft_seconds > 0 or policy.block_seconds > 0
            found = generation.result()
        assert found.tokens == off.tokens
        assert found.faults == ()


@pytest.mark.parametrize("kind", KINDS)
def test_in_the_middle_of_a_conversation(kind: str, artifacts: Artifacts) -> None:
    """The first draft is asked for behind an answer that was written without: what the sequence holds stays."""
    with load(artifacts.target, threads=1, sequences=1) as model:
        with model.conversation() as conversation:
            first = model.start(PROMPT, conversation, {"spec_mode": "off", **SAMPLING}).result()
            prompt = [*first.prompt_tokens, *first.tokens, 3]
            second = model.start(prompt, conversation, {**adaptive(artifacts, kind), **SAMPLING}).result()
        assert second.tokens == model.generate(prompt, spec_mode="off", **SAMPLING).tokens
        assert second.faults == ()
