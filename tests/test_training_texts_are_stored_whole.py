"""The folder of written texts: of one set of settings, shard by shard, whatever kills a run or runs beside it."""

from __future__ import annotations

import json
import os
import shutil
from concurrent.futures import ThreadPoolExecutor, wait
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path

import pytest

from training_targets import (
    FEW,
    TAPS,
    TARGET,
    content,
    plan_for,
    say_nothing,
    write_target,
    written_texts,
)
from verispec.artifacts.lock import exclusive
from verispec.backends.native_plan import ModelPlan, plan_model
from verispec.engine.loading import load
from verispec.errors import OptionError, UnsupportedError
from verispec.text.chat_template import ChatTemplate
from verispec.text.tokenizer import Tokenizer
from verispec.training import text_stage
from verispec.training.prompts import InventedPrompts
from verispec.training.text_stage import write_texts
from verispec.training.text_store import SETTINGS_LOCK, TextStore


@pytest.fixture(scope="module")
def target(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_target(tmp_path_factory.mktemp("target"))


@pytest.fixture(scope="module")
def words(target: Path) -> tuple[Tokenizer, ChatTemplate]:
    with load(target, threads=1) as model:
        assert model.template is not None
        return model.tokenizer, model.template


def test_what_a_run_learns_from_does_not_depend_on_when_it_was_killed(
    target: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    unbroken = write_texts(plan_for(target, tmp_path / "unbroken"), say_nothing).first(400)
    assert sum(text.answer for text in unbroken[:-1]) < 400
    assert sum(text.answer for text in unbroken) >= 400

    def killed(stage: str, done: int, total: int, line: str) -> None:
        if done > 150:
            raise KeyboardInterrupt

    plan = plan_for(target, tmp_path / "killed")
    monkeypatch.setattr(text_stage, "SEQUENCES", 7)
    with pytest.raises(KeyboardInterrupt):
        write_texts(plan, killed)
    assert len(TextStore(plan.texts, json.loads((plan.texts / "settings.json").read_text())).read()) > 0
    monkeypatch.setattr(text_stage, "SEQUENCES", 3)
    again = write_texts(plan, say_nothing)
    assert [content(text) for text in again.first(400)] == [content(text) for text in unbroken]
    more = write_texts(replace(plan, tokens=500), say_nothing)
    assert [content(text) for text in more.first(400)] == [content(text) for text in unbroken]


def test_two_runs_write_to_one_folder_one_after_the_other(
    target: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(text_stage, "SEQUENCES", 1)
    plan = plan_for(target, tmp_path, tokens=60)
    write_texts(plan, say_nothing)
    said = []
    other = ExitStack()
    other.enter_context(exclusive(plan.texts / text_stage.LOCK))

    def until_it_is_done(stage: str, done: int, total: int, line: str) -> None:
        said.append(line)
        if line == text_stage.WAITING:
            write_texts(replace(plan, tokens=30), say_nothing)  # what is there can be read meanwhile
            other.close()

    found = write_texts(replace(plan, tokens=120), until_it_is_done)
    assert said[0] == text_stage.WAITING
    assert text_stage.WAITING not in said[1:]
    assert sum(text.answer for text in found.first(120)) >= 120


@pytest.mark.parametrize(
    "changes", [{"seed": 2}, {"lengths": replace(FEW, answer=41)}, {"lengths": replace(FEW, prompt=11)}]
)
def test_a_folder_holds_texts_of_one_set_of_settings(
    changes: dict[str, object], target: Path, tmp_path: Path
) -> None:
    write_texts(plan_for(target, tmp_path, tokens=10), say_nothing)
    with pytest.raises(
        OptionError, match=r"settings.json: .*: expected .*, as asked for now, found .*; name another"
    ):
        write_texts(plan_for(target, tmp_path, tokens=10, **changes), say_nothing)


def test_texts_of_another_target_or_of_other_prompts_are_refused(target: Path, tmp_path: Path) -> None:
    write_texts(plan_for(target, tmp_path / "run", tokens=10), say_nothing)
    (tmp_path / "other").mkdir()
    other = write_target(tmp_path / "other", seed=1)
    with pytest.raises(OptionError, match="target_sha256: expected"):
        write_texts(plan_for(other, tmp_path / "run", tokens=10), say_nothing)
    listed = tmp_path / "prompts.jsonl"
    for first, text in (("invented", "a"), ("SHA-256", "b")):
        listed.write_text(json.dumps({"prompt": text}))
        with pytest.raises(OptionError, match=f"prompts: expected '1 prompts of .*, found '.*{first}"):
            write_texts(plan_for(target, tmp_path / "run", tokens=10, prompts=listed), say_nothing)
        (tmp_path / "run").rename(tmp_path / first)
        write_texts(plan_for(target, tmp_path / "run", tokens=10, prompts=listed), say_nothing)


def test_prompts_must_leave_room_for_an_answer(target: Path, tmp_path: Path) -> None:
    plan = plan_for(target, tmp_path, lengths=replace(FEW, prompt=TARGET.context))
    with pytest.raises(OptionError, match="prompts: expected at most 248 tokens, so that an answer has room"):
        write_texts(plan, say_nothing)


def test_more_than_fits_on_the_disk_is_refused_before_anything_is_written(
    target: Path, tmp_path: Path
) -> None:
    with pytest.raises(
        OptionError, match=r"tokens: expected at most what fits on the disk of .*, found enough for"
    ):
        write_texts(plan_for(target, tmp_path, tokens=10**14), say_nothing)


def test_prompts_take_room_on_the_disk_too(
    target: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Four answers of 40 tokens come with 4 prompts of up to 12, each within the template's own tokens."""
    columns = len(TAPS) * TARGET.hidden * 2
    with load(target, threads=1) as model:
        around = InventedPrompts(model.template, model.tokenizer).longest
    needed = 4 * (40 + 12 + around) * columns
    usage = shutil.disk_usage(tmp_path)
    monkeypatch.setattr(shutil, "disk_usage", lambda folder: usage._replace(free=needed - columns))
    with pytest.raises(OptionError, match="tokens: expected at most what fits"):
        write_texts(plan_for(target, tmp_path, tokens=160), say_nothing)
    monkeypatch.setattr(shutil, "disk_usage", lambda folder: usage._replace(free=needed))
    write_texts(plan_for(target, tmp_path, tokens=160), say_nothing)


def test_of_two_stores_begun_at_once_one_set_of_settings_is_kept(
    target: Path, words: tuple[Tokenizer, ChatTemplate], tmp_path: Path
) -> None:
    text = written_texts(target, words, [0], 1)[0]
    settings = {"taps": list(TAPS), "hidden_size": TARGET.hidden}

    def begin(seed: int) -> TextStore | OptionError:
        try:
            return TextStore(tmp_path, {**settings, "seed": seed})
        except OptionError as error:
            return error

    with ThreadPoolExecutor(6) as pool:
        with exclusive(tmp_path / SETTINGS_LOCK):
            begun = [pool.submit(begin, seed) for seed in range(6)]
            assert not wait(begun, timeout=0.1).done
        found = [one.result() for one in begun]
    stores = [one for one in found if isinstance(one, TextStore)]
    assert len(stores) == 1
    stores[0].append([text])
    (tmp_path / "settings.json").write_text(json.dumps({**settings, "seed": 9}))
    with pytest.raises(OptionError, match="seed: expected"):
        stores[0].append([text])
    assert len(stores[0].shards()) == 1


def test_a_new_shard_lies_behind_the_last_and_over_none(
    target: Path, words: tuple[Tokenizer, ChatTemplate], tmp_path: Path
) -> None:
    texts = written_texts(target, words, [0, 1, 2], 3)
    store = TextStore(tmp_path, {"taps": list(TAPS), "hidden_size": TARGET.hidden})
    for text in texts[:2]:
        store.append([text])
    for suffix in ("npz", "hidden"):
        (tmp_path / f"texts-00000.{suffix}").unlink()
    store.append(texts[2:])
    assert [shard.name for shard in store.shards()] == ["texts-00001.npz", "texts-00002.npz"]
    assert [content(text) for text in store.read()] == [content(text) for text in texts[1:]]


def test_a_target_with_capped_logits_is_refused_before_anything_is_written(
    target: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def capped(path: Path) -> ModelPlan:
        plan = plan_model(path)
        return replace(plan, model=replace(plan.model, final_softcap=30.0))

    monkeypatch.setattr(text_stage, "plan_model", capped)
    with pytest.raises(UnsupportedError, match="found a cap of 30") as refused:
        write_texts(plan_for(target, tmp_path / "run"), say_nothing)
    assert refused.value.code == "softcapped-target"
    assert not (tmp_path / "run").exists()


def test_a_shard_is_whole_or_not_there(
    target: Path, words: tuple[Tokenizer, ChatTemplate], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    texts = written_texts(target, words, [0, 1, 2], 3)
    store = TextStore(tmp_path, {"taps": list(TAPS), "hidden_size": TARGET.hidden})
    store.append(texts[:1])
    replace_file = os.replace
    for survivors in (0, 1):  # files of the shard that are in their places when the power goes

        def dying(source: object, place: Path, left: list[int] = [survivors]) -> None:  # noqa: B006
            if not left[0]:
                raise KeyboardInterrupt
            left[0] -= 1
            replace_file(source, place)  # type: ignore[call-overload]

        monkeypatch.setattr(os, "replace", dying)
        with pytest.raises(KeyboardInterrupt):
            store.append(texts[1:])
        monkeypatch.setattr(os, "replace", replace_file)
        assert [content(text) for text in store.read()] == [content(texts[0])]
    store.append(texts[2:])
    store.append(
        texts[1:]
    )  # text 2 once more, as after an interrupt between the shard and its acknowledgement
    assert [content(text) for text in store.read()] == [content(text) for text in texts]
    assert store.answer_tokens() == {text.number: len(text.tokens) - text.prompt for text in texts}
