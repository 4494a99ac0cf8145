"""A draft model with tokens of its own: its text is read by the target's tokeniser, exactly, or nothing is proposed."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import tiny_llama
from drafting_targets import FEW, SOURCE
from verispec.artifacts.gguf import GgufFile
from verispec.drafting.text_rewriter import TextRewriter
from verispec.engine.admission import admit
from verispec.engine.loading import load
from verispec.engine.model import Model
from verispec.text.tokenizer import Tokenizer

TEXTS = (
    "The quick brown fox jumps over the lazy dog, and then it runs away from here as fast as it can.",
    "def add(a, b):\n    return a + b\n\nprint(add(1, 2))\n# and that is all there is to say about it\n",
    "Grüße aus München 🙂 – die Straße ist heute naß, überall Pfützen und nirgends ein Regenschirm 🌧️ dabei.",
    "12345 67890, 3.14159 and 2.71828; x=1; y  =  2;   z\t=\t3 and so on until the numbers are used up",
)
OTHER_MERGES = [
    ("h", "e"),
    ("t", "he"),
    ("n", "d"),
    ("a", "nd"),
    ("o", "r"),
    ("Ġ", "the"),
    ("e", "r"),
    ("Ġ", "o"),
]


@pytest.fixture(scope="module")
def tokenizers(smollm2_path: Path, gemma3_path: Path) -> dict[str, Tokenizer]:
    return {name: read(path) for name, path in (("smollm2", smollm2_path), ("gemma3", gemma3_path))}


def read(path: Path) -> Tokenizer:
    with GgufFile.open(path) as file:
        return Tokenizer.from_gguf(file.metadata, str(path))


@pytest.mark.parametrize(("target", "draft"), [("smollm2", "gemma3"), ("gemma3", "smollm2")])
@pytest.mark.parametrize("text", TEXTS)
def test_text_becomes_the_tokens_that_the_target_would_have(
    text: str, target: str, draft: str, tokenizers: dict[str, Tokenizer]
) -> None:
    """Wherever the text is cut between two of the target's tokens: what comes back is how it goes on, or nothing."""
    own, rewriter = tokenizers[target], TextRewriter(tokenizers[target], tokenizers[draft])
    tokens = own.encode(text, add_bos=False)
    whole = 0
    for cut in range(1, len(tokens) - 3):
        added = b"".join(own.token_bytes(token) for token in tokens[cut:])
        found = rewriter.to_target(tokens[:cut], added)
        assert found == tokens[cut : cut + len(found)]
        whole += len(found) == len(tokens) - cut - 1
    assert whole >= 0.9 * (len(tokens) - 4)


@pytest.mark.parametrize("text", TEXTS)
def test_text_goes_over_to_the_draft_model_unchanged(text: str, tokenizers: dict[str, Tokenizer]) -> None:
    own, other = tokenizers["smollm2"], tokenizers["gemma3"]
    ids = TextRewriter(own, other).to_draft(own.encode(text, add_bos=False))
    assert ids is not None
    assert other.decode(ids) == text


def test_half_a_character_waits_for_the_other(tokenizers: dict[str, Tokenizer]) -> None:
    own, other = tokenizers["smollm2"], tokenizers["gemma3"]
    rewriter = TextRewriter(own, other)
    tokens = own.encode("So 🌧", add_bos=False)
    assert rewriter.to_draft(tokens[:-1]) is None
    assert rewriter.to_draft(tokens) is not None
    before = own.encode("It rains all day long in the little town by the sea", add_bos=False)
    cloud = "🌧".encode()
    for end in range(len(cloud)):
        assert rewriter.to_target(before, b" and " + cloud[:end]) == own.encode(" and", add_bos=False)[:1]


def test_control_tokens_go_over_by_their_names(tokenizers: dict[str, Tokenizer]) -> None:
    own, other = tokenizers["smollm2"], tokenizers["gemma3"]
    start = own.control_texts["<|im_start|>"]
    words = own.encode("user\nHello there", add_bos=False)
    assert TextRewriter(own, other).to_draft([start, *words]) == other.encode(
        "user\nHello there", add_bos=False
    )
    same = TextRewriter(own, own).to_draft([start, *words])
    assert same == [start, *words]


@pytest.fixture(scope="module")
def tiny(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Model, Path]]:
    """A target, and a draft model whose merges are others."""
    folder = tmp_path_factory.mktemp("tokens")
    target, draft = folder / "target.gguf", folder / "draft.gguf"
    target.write_bytes(tiny_llama.tiny_llama())
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(tiny_llama, "MERGES", OTHER_MERGES)
        draft.write_bytes(tiny_llama.tiny_llama())
    manifest = admit(target, draft, "draft-model", SOURCE)
    assert not manifest.same_tokens
    manifest.write(draft)
    with load(target, threads=1) as model:
        yield model, draft


def options(draft: Path, **changes: Any) -> dict[str, Any]:
    plain = {"spec_draft_policy": "fixed", "spec_draft_p_min": 0.0, "spec_draft_max": 4}
    return {"spec_mode": "draft-model", "spec_draft_model": str(draft), **plain, **changes}


@pytest.mark.parametrize("temperature", [0.0, 0.8, 1.0])
@pytest.mark.parametrize("prompt", ["the and then", "a", "one or the other\n" * 6])
def test_the_text_is_the_targets_own(prompt: str, temperature: float, tiny: tuple[Model, Path]) -> None:
    model, draft = tiny
    sampling = {
        "max_tokens": 24,
        "temperature": temperature,
        "seed": 3,
        "ignore_eos": True,
        "logit_bias": FEW,
    }
    off = model.generate(prompt, spec_mode="off", **sampling)
    for width in (1, 3, 5):
        found = model.generate(prompt, **options(draft, spec_draft_max=width), **sampling)
        assert (found.tokens, found.faults) == (off.tokens, ())


def test_one_real_model_writes_ahead_of_another(
    smollm2: Model, smollm2_path: Path, gemma3_path: Path, tmp_path: Path
) -> None:
    draft = tmp_path / "gemma3.gguf"
    draft.symlink_to(gemma3_path)
    manifest = admit(smollm2_path, draft, "draft-model", SOURCE)
    assert not manifest.same_tokens
    manifest.write(draft)
    prompt = "The capital of France is Paris. The capital of Germany is"
    off = smollm2.generate(prompt, max_tokens=12, spec_mode="off")
    found = smollm2.generate(prompt, max_tokens=12, drafter_deadline=30.0, **options(draft))
    assert (found.tokens, found.text, found.faults) == (off.tokens, off.text, ())
    assert found.accepted >= 2
