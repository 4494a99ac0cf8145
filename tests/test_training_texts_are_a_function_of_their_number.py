"""What the target writes to be learned from, and what of it is learned from: each text is a function of its number."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from training_targets import (
    EOS,
    FEW,
    TAPS,
    content,
    plan_for,
    say_nothing,
    write_target,
    written_texts,
)
from verispec.backends.contract import chain
from verispec.backends.native import NativeBackend
from verispec.engine.loading import load
from verispec.errors import ArtifactError, UnsupportedError
from verispec.text.chat_template import ChatTemplate
from verispec.text.tokenizer import Tokenizer
from verispec.training.batches import split
from verispec.training.numbering import TEMPERATURES, Numbering
from verispec.training.plan import draft_taps
from verispec.training.prompts import InventedPrompts, ListedPrompts, Opening
from verispec.training.text_stage import write_texts
from verispec.training.text_store import TextStore


@pytest.fixture(scope="module")
def target(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_target(tmp_path_factory.mktemp("target"))


@pytest.fixture(scope="module")
def words(target: Path) -> tuple[Tokenizer, ChatTemplate]:
    with load(target, threads=1) as model:
        assert model.template is not None
        return model.tokenizer, model.template


def test_texts_are_the_same_alone_and_in_company(target: Path, words: tuple[Tokenizer, ChatTemplate]) -> None:
    alone = [content(text) for text in written_texts(target, words, [0, 1, 2, 3, 4, 5], 1)]
    together = [content(text) for text in written_texts(target, words, [0, 1, 2, 3, 4, 5], 5)]
    others = [content(text) for text in written_texts(target, words, [7, 4, 9, 2], 3)]
    assert together == alone
    assert [others[0], others[1]] == [alone[2], alone[4]]
    assert len({str(text[1]) for text in alone}) == 6


def test_a_pass_holds_no_more_rows_than_the_backend_takes(
    target: Path, words: tuple[Tokenizer, ChatTemplate], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Prompts are read in parts, and nothing of a text depends on where they were cut."""
    whole = [content(text) for text in written_texts(target, words, [0, 1, 2, 3], 4)]
    load_backend, passes = NativeBackend.load, []

    def narrow(*arguments: object) -> NativeBackend:
        backend = load_backend(*arguments)  # type: ignore[arg-type]
        backend._capabilities = replace(backend.capabilities, max_rows=5)
        evaluate = backend.evaluate

        def counted(rows: list[object], *rest: object) -> object:
            passes.append(len(rows))
            return evaluate(rows, *rest)  # type: ignore[arg-type]

        monkeypatch.setattr(backend, "evaluate", counted)
        return backend

    monkeypatch.setattr(NativeBackend, "load", narrow)
    assert [content(text) for text in written_texts(target, words, [0, 1, 2, 3], 4)] == whole
    assert max(passes) == 5


def test_what_is_held_out_is_never_learned_from(
    target: Path, words: tuple[Tokenizer, ChatTemplate], tmp_path: Path
) -> None:
    """Of listed prompts, which are used over and over, one is on one side alone, and asked greedily once."""
    path = tmp_path / "prompts.jsonl"
    lines = [{"prompt": text} for text in ("a", "the end", "why?", "a", "no")]
    path.write_text("\n".join(map(json.dumps, lines)))
    plan = plan_for(target, tmp_path, prompts=path, tokens=500, lengths=replace(FEW, answer=24))
    store = write_texts(plan, say_nothing)
    texts, held_out = split(store.first(500), store.numbering)
    assert len(texts) + len(held_out) >= 20
    prompts = [{tuple(text.tokens[: text.prompt].tolist()) for text in side} for side in (texts, held_out)]
    assert [len(side) for side in prompts] == [3, 1]
    assert not prompts[0] & prompts[1]
    greedy = [tuple(text.tokens.tolist()) for text in [*texts, *held_out] if text.temperature == 0]
    assert len(greedy) == len(set(greedy)) == 4
    reopened = TextStore(plan.texts, json.loads((plan.texts / "settings.json").read_text()))
    assert reopened.numbering == ListedPrompts(path, words[1], words[0]).numbering == Numbering(4)


@pytest.mark.parametrize("listed", [1, 2, 3, 49, 50, 60, 149, 150, 1000])
def test_listed_prompts_have_every_temperature_in_their_first_turns_and_are_then_sampled(listed: int) -> None:
    numbering = Numbering(listed)
    held_out = {numbering.prompt(number) for number in range(listed) if numbering.held_out(number)}
    assert bool(held_out) == (listed > 1)
    assert len(held_out) <= max(1, listed // 50)
    for prompt in range(listed):
        numbers = range(prompt, 7 * listed, listed)
        found = [numbering.temperature(number) for number in numbers]
        assert sorted(found[:3]) == sorted(TEMPERATURES)
        assert set(found[3:]) == set(TEMPERATURES) - {0.0}
        assert {numbering.held_out(number) for number in numbers} == {prompt in held_out}


def test_invented_prompts_are_numbered_as_their_texts() -> None:
    numbering = Numbering()
    assert [numbering.temperature(number) for number in range(7)] == [0.0, 0.8, 1.0, 0.0, 0.8, 1.0, 0.0]
    assert [number for number in range(200) if numbering.held_out(number)] == [49, 99, 149, 199]


def test_answers_are_asked_for_at_every_temperature(
    target: Path, words: tuple[Tokenizer, ChatTemplate]
) -> None:
    texts = written_texts(target, words, [0, 1, 2, 3], 4)
    assert [text.temperature for text in texts] == [*TEMPERATURES, TEMPERATURES[0]]
    with load(target, threads=1) as model:
        for text in (texts[0], texts[3]):
            prompt = text.tokens[: text.prompt].tolist()
            answer = model.generate(prompt, max_tokens=FEW.answer, temperature=0, spec_mode="off")
            assert text.tokens[text.prompt :].tolist() == list(answer.tokens) == text.choices.tolist()


def test_greedy_choices_are_noted_whatever_was_drawn(
    target: Path, words: tuple[Tokenizer, ChatTemplate]
) -> None:
    text = written_texts(target, words, [2], 1)[0]
    answer = text.tokens[text.prompt :].tolist()
    drawn = [at for at, token in enumerate(answer) if token != text.choices[at]]
    assert drawn
    with load(target, threads=1) as model:
        for at in (0, *drawn[:3]):
            before = text.tokens[: text.prompt + at].tolist()
            assert model.generate(before, max_tokens=1, temperature=0, spec_mode="off").tokens == (
                text.choices[at],
            )


def test_hidden_states_are_those_that_a_drafter_reads(
    target: Path, words: tuple[Tokenizer, ChatTemplate]
) -> None:
    text = written_texts(target, words, [1], 1)[0]
    backend = NativeBackend.load(target, 128, 1, 1)
    try:
        rows = chain(backend.open_sequence(), 0, text.tokens[:-1].tolist())
        found = backend.evaluate(rows, [], False, TAPS).hidden
        for column, tap in enumerate(TAPS):
            assert np.array_equal(text.hidden[:, column], found[tap].astype(np.float16))
    finally:
        backend.close()


def test_invented_prompts_end_where_the_template_says(
    target: Path, words: tuple[Tokenizer, ChatTemplate]
) -> None:
    tokenizer, template = words
    opening = InventedPrompts(template, tokenizer).opening(5)
    before = tokenizer.encode("<bos>user: ", parse_special=True, add_bos=False)
    behind = tokenizer.encode("<eos>a:", parse_special=True, add_bos=False)
    assert (list(opening.tokens), list(opening.closing), opening.stop) == (before, behind, EOS)
    for text in written_texts(target, words, [0, 1, 2, 3], 4):
        prompt = text.tokens[: text.prompt].tolist()
        invented = prompt[len(before) : -len(behind)]
        assert prompt == [*before, *invented, *behind]
        assert len(invented) <= FEW.prompt
        assert EOS not in invented


def test_a_template_without_a_place_for_the_user_invents_nothing(
    words: tuple[Tokenizer, ChatTemplate],
) -> None:
    tokenizer, _ = words
    headless = ChatTemplate("{{ messages[0].content }}a:", {})  # nothing to begin a text with
    for template in (
        None,
        ChatTemplate("{{ messages[0].content }}", {}),
        ChatTemplate("always this", {}),
        headless,
    ):
        with pytest.raises(UnsupportedError, match=r"--prompts FILE\.jsonl") as refused:
            InventedPrompts(template, tokenizer)
        assert refused.value.code == "no-invented-prompts"


def test_prompts_do_not_depend_on_the_day(tmp_path: Path, words: tuple[Tokenizer, ChatTemplate]) -> None:
    tokenizer, _ = words
    dated = ChatTemplate("{{ strftime_now('%d %B %Y') }}: {{ messages[0].content }} a:", {})
    opening = InventedPrompts(dated, tokenizer).opening(0)
    assert opening.tokens == tuple(tokenizer.encode("01 January 2026: "))
    path = tmp_path / "prompts.jsonl"
    path.write_text('{"prompt": "why?"}')
    listed = ListedPrompts(path, dated, tokenizer).opening(0)
    assert listed.tokens == tuple(tokenizer.encode("01 January 2026: why? a:"))


@pytest.mark.parametrize(
    ("layers", "taps"), [(4, (1, 2, 3)), (5, (1, 2, 4)), (6, (1, 3, 5)), (7, (2, 3, 4)), (30, (2, 15, 27))]
)
def test_a_head_reads_three_hidden_states(layers: int, taps: tuple[int, ...]) -> None:
    assert draft_taps(layers) == taps


def test_a_target_of_three_layers_has_no_three_to_read() -> None:
    with pytest.raises(
        UnsupportedError, match="expected at least 4, for a head reads hidden states of three, found 3"
    ):
        draft_taps(3)


def test_prompts_of_a_file_are_texts_or_messages(
    tmp_path: Path, words: tuple[Tokenizer, ChatTemplate]
) -> None:
    tokenizer, template = words
    path = tmp_path / "prompts.jsonl"
    messages = [{"role": "system", "content": "be\u2028brief"}, {"role": "user", "content": "why?"}]
    lines = [{"prompt": "the end"}, {"prompt": messages}]
    path.write_text("\n".join(json.dumps(line, ensure_ascii=False) for line in lines) + "\n\n")
    prompts = ListedPrompts(path, template, tokenizer)
    whole = [[{"role": "user", "content": "the end"}], messages]
    expected = [Opening(tuple(template.encode(one, tokenizer))) for one in whole]
    assert [prompts.opening(number) for number in range(3)] == [*expected, expected[0]]
    assert prompts.longest == max(len(one.tokens) for one in expected)
    assert prompts.statement.startswith("2 prompts of prompts.jsonl, SHA-256 ")


def test_a_model_without_a_template_completes_the_prompts(
    tmp_path: Path, words: tuple[Tokenizer, ChatTemplate]
) -> None:
    tokenizer, _ = words
    path = tmp_path / "prompts.jsonl"
    path.write_text('{"prompt": "the end"}\n{"prompt": [{"role": "user", "content": "why?"}]}\n')
    with pytest.raises(ArtifactError, match="line 2: expected 'prompt': a text, found"):
        ListedPrompts(path, None, tokenizer)
    path.write_text('{"prompt": "the end"}\n')
    assert ListedPrompts(path, None, tokenizer).opening(3) == Opening(tuple(tokenizer.encode("the end")))


@pytest.mark.parametrize(
    ("line", "says"),
    [
        (b'{"prompt": "the', "line 2: expected a JSON object, found Unterminated string"),
        (b"\xff", "line 2: expected a JSON object, found 'utf-8' codec"),
        (b'["prompt"]', "line 2: expected an object with 'prompt', found [\"prompt\"]"),
        (b'{"text": "a"}', 'line 2: expected an object with \'prompt\', found {"text": "a"}'),
        (b'{"prompt": ""}', "line 2: expected 'prompt': a text, or messages, found ''"),
        (b'{"prompt": 7}', "line 2: expected 'prompt': a text, or messages, found 7"),
        (
            b'{"prompt": [{"role": "cook"}]}',
            "line 2: expected messages that the chat template takes, found messages",
        ),
    ],
)
def test_a_wrong_line_is_named(
    line: bytes, says: str, tmp_path: Path, words: tuple[Tokenizer, ChatTemplate]
) -> None:
    path = tmp_path / "prompts.jsonl"
    path.write_bytes(b'{"prompt": "a"}\n' + line + b"\n")
    with pytest.raises(ArtifactError) as refused:
        ListedPrompts(path, words[1], words[0])
    assert str(refused.value).startswith(f"{path}: {says}")


def test_a_file_without_prompts_is_refused(tmp_path: Path, words: tuple[Tokenizer, ChatTemplate]) -> None:
    path = tmp_path / "prompts.jsonl"
    path.write_text("\n\n")
    with pytest.raises(ArtifactError, match="expected at least one prompt, found none"):
        ListedPrompts(path, words[1], words[0])
