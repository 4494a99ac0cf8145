"""The store holds content under its SHA-256, complete and checked, and notices when it was altered."""

from __future__ import annotations

import hashlib
import json
import os
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

from verispec.artifacts import digests
from verispec.artifacts.cache_folder import cache_folder
from verispec.artifacts.digests import file_sha256
from verispec.artifacts.resolve import resolve_model
from verispec.artifacts.store import NamedModel, Store
from verispec.errors import ArtifactError, FetchError, UnsupportedError

CONTENT = b"some weights" * 1000
DIGEST = hashlib.sha256(CONTENT).hexdigest()


@pytest.fixture
def store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Store:
    monkeypatch.setenv("VERISPEC_CACHE", str(tmp_path / "cache"))
    return Store()


def fill(store: Store, name: str = "tiny") -> Path:
    with store.receive(DIGEST) as write:
        write(CONTENT[:100])
        write(CONTENT[100:])
    store.name(NamedModel(name, DIGEST, len(CONTENT), "a test"))
    return store.blob_path(DIGEST)


def everything_in(folder: Path) -> list[str]:
    return sorted(str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file())


def test_the_cache_folder_is_the_variable_or_the_users_own(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert cache_folder() == store.folder
    monkeypatch.delenv("VERISPEC_CACHE")
    assert cache_folder().name == "verispec"


def test_content_arrives_whole_and_read_only(store: Store) -> None:
    path = fill(store)
    assert path.read_bytes() == CONTENT
    assert path.stat().st_mode & 0o222 == 0
    assert store.has(DIGEST, len(CONTENT))
    assert store.has_named("tiny")
    assert not store.has_named("other")
    assert store.verify(DIGEST) == path


def test_wrong_content_leaves_nothing(store: Store) -> None:
    with pytest.raises(ArtifactError, match=f"expected SHA-256 {DIGEST}"), store.receive(DIGEST) as write:
        write(b"something else")
    assert everything_in(store.folder) == []


def test_an_interrupted_write_leaves_nothing(store: Store) -> None:
    def interrupted_write() -> None:
        with store.receive(DIGEST) as write:
            write(CONTENT[:50])
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        interrupted_write()
    assert everything_in(store.folder) == []


def test_altered_content_is_noticed_though_its_digest_was_remembered(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(digests, "SETTLING_SECONDS", 0.0)
    path = fill(store)
    times = path.stat()
    store.verify(DIGEST)
    assert everything_in(store.folder / "digests"), "the check was remembered"
    path.chmod(0o644)
    with path.open("r+b") as file:
        file.write(b"X")
    os.utime(path, ns=(times.st_atime_ns, times.st_mtime_ns))  # as a careful forger would
    with pytest.raises(ArtifactError, match="SHA-256"):
        store.verify(DIGEST)


def test_a_remembered_digest_is_used_and_a_broken_note_is_not(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(digests, "SETTLING_SECONDS", 0.0)
    path = fill(store)
    assert file_sha256(path) == DIGEST
    (note,) = (store.folder / "digests").iterdir()
    read: list[int] = []
    assert file_sha256(path, read.append) == DIGEST
    assert read == [], "nothing was hashed again"
    for broken in (b"", b"[]", b'{"identity": "other", "sha256": "0"}', b"\xff"):
        note.write_bytes(broken)
        assert file_sha256(path, read.append) == DIGEST
    assert read, "it was hashed again"
    assert file_sha256(path, remembered=False) == DIGEST


def test_a_file_that_changed_a_moment_ago_is_not_remembered(store: Store) -> None:
    path = fill(store)
    assert file_sha256(path) == DIGEST
    assert not (store.folder / "digests").exists()


def test_an_unwritable_cache_costs_only_time(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    path = fill(store)
    monkeypatch.setattr(digests, "SETTLING_SECONDS", 0.0)
    monkeypatch.setenv("VERISPEC_CACHE", "/proc/nowhere")
    assert file_sha256(path) == DIGEST


def test_names_are_listed_and_broken_notes_refused(store: Store) -> None:
    fill(store)
    assert [model.name for model in store.all_named()] == ["tiny"]
    assert store.named("nothing") is None
    assert store.named("../../etc/passwd") is None
    with pytest.raises(ValueError, match="a model name is"):
        store.name(NamedModel("../up", DIGEST, 1, "a test"))
    for broken in ("", "[]", json.dumps({"name": "tiny"})):
        (store.names / "tiny.json").write_text(broken)
        with pytest.raises(ArtifactError, match="model name"):
            store.named("tiny")


def test_models_are_found_by_name_path_and_digest(store: Store, tmp_path: Path) -> None:
    path = fill(store)
    elsewhere = tmp_path / "elsewhere.gguf"
    elsewhere.write_bytes(CONTENT)
    assert resolve_model("tiny", store).path == path
    assert resolve_model("tiny", store).sha256 == DIGEST
    assert resolve_model(str(elsewhere), store).path == elsewhere
    assert resolve_model(f"sha256:{DIGEST[:8].upper()}", store).path == path


@pytest.mark.parametrize(
    ("argument", "says"),
    [
        ("smollm2-135m", "verispec pull smollm2-135m"),
        ("smolm2-135m", "did you mean 'smollm2-135m'"),
        ("xyzzy", "known names: gemma3-270m, smollm2-135m, smollm2-135m-eagle3, tiny"),
        ("./none.gguf", "no model file at './none.gguf'"),
        ("sha256:000000", "nothing in the store begins so"),
        ("sha256:12", "6 to 64 hexadecimal digits"),
        ("sha256:*[0-9]*", "6 to 64 hexadecimal digits"),
        ("hf:owner", "write hf:OWNER/REPO/FILE"),
        ("hf:owner/repo", "write hf:OWNER/REPO/FILE"),
    ],
)
def test_what_cannot_be_found_says_what_to_do(argument: str, says: str, store: Store) -> None:
    fill(store)
    with pytest.raises(FetchError) as caught:
        resolve_model(argument, store)
    assert says in str(caught.value)


def test_a_prefix_of_two_digests_is_refused(store: Store) -> None:
    fill(store)
    twin = DIGEST[:32] + ("0" if DIGEST[32] != "0" else "1") + DIGEST[33:]
    (store.blobs / twin).write_bytes(b"")
    with pytest.raises(FetchError, match="2 files in the store"):
        resolve_model(f"sha256:{DIGEST[:10]}", store)


def test_the_hub_is_asked_for_the_file(store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def download(repository: str, file: str) -> str:
        if repository != "owner/repo":
            raise RuntimeError("404: no such repository\nand a long story")
        return str(tmp_path / file)

    monkeypatch.setitem(sys.modules, "huggingface_hub", SimpleNamespace(hf_hub_download=download))
    assert resolve_model("hf:owner/repo/sub/model.gguf", store).path == tmp_path / "sub" / "model.gguf"
    with pytest.raises(FetchError, match=r"model\.gguf': 404: no such repository$"):
        resolve_model("hf:other/repo/model.gguf", store)


def test_the_hub_needs_its_package(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "huggingface_hub", None)
    with pytest.raises(UnsupportedError, match="huggingface-hub-missing"):
        resolve_model("hf:owner/repo/model.gguf", store)
