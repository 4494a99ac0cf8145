"""A sequence made of saved blocks goes on with the bits of one that evaluated its whole prompt."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from prefix_sequences import CONTEXT, SLIDING, TOKENS, evaluated, extend, loaded, logits, saved
from tiny_models import TinyModel, write_model
from verispec import _native
from verispec.backends.contract import BackendAdapter, chain
from verispec.backends.native import PREFIX_BLOCK, NativeBackend
from verispec.backends.native_plan import plan_model
from verispec.engine.model import Model

MODELS = {
    "sliding": SLIDING,
    "plain": TinyModel("llama", matrices="F16", layers=2, context=CONTEXT),
    "biases": TinyModel("qwen2", matrices="Q4_K", layers=2, kv_heads=1, context=CONTEXT),
}


@pytest.fixture(scope="module")
def paths(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    folder = tmp_path_factory.mktemp("models")
    made = {name: folder / f"{name}.gguf" for name in MODELS}
    for name, path in made.items():
        write_model(path, MODELS[name])
    return made


@pytest.fixture(params=list(MODELS))
def backend(request: pytest.FixtureRequest, paths: dict[str, Path]) -> Iterator[NativeBackend]:
    with closing(NativeBackend.load(paths[request.param], threads=1)) as made:
        yield made


def greedy(backend: BackendAdapter, sequence: int, anchor: int, count: int) -> list[int]:
    """``anchor`` and the ``count`` tokens of greatest logit behind it, one a pass."""
    written = [anchor]
    for _ in range(count):
        length = backend.length(sequence)
        written += backend.evaluate(chain(sequence, length, written[-1:]), [0], False).argmax
        backend.commit(sequence, length + 1)
    return written


def speculated(backend: BackendAdapter, sequence: int, answer: list[int]) -> list[int]:
    """``answer`` found again in passes of 8 rows, whose proposals are right for 0 to 3 tokens and wrong from there.

    Every other pass is committed whole, taken back, and done again.
    """
    written = answer[:1]
    while len(written) < len(answer):
        right = len(written) % 4
        proposal = [*answer[len(written) : len(written) + right], 7, 7, 7, 7, 7, 7, 7][:7]
        length = backend.length(sequence)
        rows = chain(sequence, length, [written[-1], *proposal])
        before = backend.checkpoint(sequence)
        found = backend.evaluate(rows, range(8), False).argmax
        if right % 2:
            backend.commit(sequence, length + 8)
            backend.restore(before)
            assert backend.evaluate(rows, range(8), False).argmax == found
        accepted = [*map(int.__eq__, proposal, found), False].index(False)
        written += found[: accepted + 1]
        backend.commit(sequence, length + accepted + 1)
    return written[: len(answer)]


@pytest.mark.parametrize("blocks", [1, 3, 9, 10, 11, 12, 22, 31])
def test_going_on_from_blocks_is_going_on_from_the_prompt(backend: NativeBackend, blocks: int) -> None:
    length = blocks * PREFIX_BLOCK
    whole = evaluated(backend, TOKENS[:length], chunk=50)
    made = loaded(backend, saved(backend, TOKENS[:length]))
    assert backend.oldest_length(made) == backend.oldest_length(whole)
    for rows in (1, 9):
        following = TOKENS[length : length + rows]
        assert logits(backend, made, following) == logits(backend, whole, following)
    for more in (length + 1, min(length + 140, CONTEXT - 1)):  # a ring goes round once more
        extend(backend, made, TOKENS[:more])
        extend(backend, whole, TOKENS[:more])
        assert logits(backend, made, TOKENS[more : more + 1]) == logits(
            backend, whole, TOKENS[more : more + 1]
        )


@pytest.mark.parametrize("blocks", [5, 14, 26])
def test_speculation_over_loaded_blocks_changes_nothing(backend: NativeBackend, blocks: int) -> None:
    length = blocks * PREFIX_BLOCK
    answer = greedy(backend, evaluated(backend, TOKENS[:length]), TOKENS[length], 40)
    made = loaded(backend, saved(backend, TOKENS[:length]))
    assert speculated(backend, made, answer) == answer


def test_a_block_has_the_same_bits_however_it_was_evaluated(backend: NativeBackend) -> None:
    """One row a pass or 128, beside other sequences or on top of loaded blocks: the copies are equal."""
    tokens = TOKENS[:200]
    expected = [block.state for block in saved(backend, tokens)]
    assert [block.state for block in saved(backend, tokens, chunk=7)] == expected
    sequence = loaded(backend, saved(backend, tokens)[:3])
    extend(backend, sequence, tokens, chunk=1)
    assert [backend.save_block(sequence, index).state for index in range(3, 12)] == expected[3:]
    assert [backend.save_block(sequence, index).bytes for index in (3, 5)] == [
        len(expected[3].keys_values)
    ] * 2


def test_a_checkpoint_of_loaded_blocks_is_one_like_any(paths: dict[str, Path]) -> None:
    """Restored after going on and cut shorter, as far as the window reaches."""
    length = 8 * PREFIX_BLOCK
    with closing(NativeBackend.load(paths["sliding"], threads=1)) as sliding:
        sequence = loaded(sliding, saved(sliding, TOKENS[:length]))
        after = sliding.checkpoint(sequence)
        expected = logits(sliding, sequence, TOKENS[length : length + 3])
        extend(sliding, sequence, TOKENS[: length + 60])
        sliding.restore(after)
        assert logits(sliding, sequence, TOKENS[length : length + 3]) == expected
        sliding.commit(sequence, length - 40)
        whole = evaluated(sliding, TOKENS[: length - 40])
        following = TOKENS[length - 40 : length]
        assert logits(sliding, sequence, following) == logits(sliding, whole, following)


def test_blocks_outlive_their_backend(paths: dict[str, Path]) -> None:
    """They are a copy: the model may be closed and loaded again, with another context."""
    with closing(NativeBackend.load(paths["sliding"], threads=1)) as first:
        blocks = saved(first, TOKENS[:300])
        expected = logits(first, evaluated(first, TOKENS[:288]), TOKENS[288:290])
    with closing(NativeBackend.load(paths["sliding"], ctx=400, threads=1)) as second:
        assert logits(second, loaded(second, blocks), TOKENS[288:290]) == expected


@pytest.mark.parametrize("isa", _native.available_isas())
def test_blocks_of_one_instruction_set_serve_another(paths: dict[str, Path], isa: str) -> None:
    with closing(NativeBackend(plan_model(paths["sliding"]), 1, "portable")) as portable:
        blocks = saved(portable, TOKENS[:96])
        expected = logits(portable, loaded(portable, blocks), TOKENS[96:98])
    with closing(NativeBackend(plan_model(paths["sliding"]), 1, isa)) as other:
        assert [block.state for block in saved(other, TOKENS[:96])] == [block.state for block in blocks]
        assert logits(other, loaded(other, blocks), TOKENS[96:98]) == expected


@pytest.mark.parametrize("length", [97, 700])
def test_smollm2_goes_on_alike(smollm2: Model, length: int) -> None:
    go_on_alike(smollm2, length)


@pytest.mark.parametrize("length", [97, 769])
def test_gemma3_goes_on_alike_inside_and_past_its_window(gemma3: Model, length: int) -> None:
    go_on_alike(gemma3, length)


def go_on_alike(model: Model, length: int) -> None:
    backend = model.backend
    text = "".join(f"In year {year} the harvest was {year % 7} parts of ten. " for year in range(1700, 1750))
    prompt = model.encode(text)[:length]
    assert len(prompt) == length
    blocks = saved(backend, prompt)[: (length - 1) // PREFIX_BLOCK]
    whole, made = evaluated(backend, prompt[:-1]), loaded(backend, blocks)
    extend(backend, made, prompt[:-1])
    assert logits(backend, made, prompt[-1:]) == logits(backend, whole, prompt[-1:])
    answer = greedy(backend, whole, prompt[-1], 24)
    assert speculated(backend, made, answer) == answer
    for sequence in (whole, made):
        backend.close_sequence(sequence)
