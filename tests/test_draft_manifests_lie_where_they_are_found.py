"""The manifest of a draft artifact lies where every name of that artifact finds it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tiny_llama import tiny_llama
from verispec.artifacts.draft_manifest import Source, read_draft_manifest
from verispec.artifacts.store import NamedModel, Store
from verispec.cli import main
from verispec.engine.admission import admit
from verispec.engine.loading import load
from verispec.errors import AdmissionError

SOURCE = Source("https://example.org/head", "r1", "Apache-2.0")
SAID = ["--source", SOURCE.url, "--revision", "r1", "--license", "MIT"]


@pytest.fixture
def target(tmp_path: Path) -> Path:
    path = tmp_path / "target.gguf"
    path.write_bytes(tiny_llama())
    return path


def test_the_manifest_of_a_stored_model_is_in_the_store_and_found_by_every_name(
    target: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("VERISPEC_CACHE", str(tmp_path / "cache"))
    store, source = Store(), tmp_path / "smaller.gguf"
    source.write_bytes(tiny_llama())
    digest = store.add(source)
    store.name(NamedModel("smaller", digest, source.stat().st_size, "this test"))
    blob = f"sha256:{digest[:12]}"
    assert main(["admit", str(target), "smaller", "--kind", "draft-model", *SAID, "--json"]) == 0
    written = Path(json.loads(capsys.readouterr().out)["manifest_path"])
    assert written == store.folder / "drafts" / f"{digest}.draft.json"
    assert [one.name for one in store.blobs.iterdir()] == [digest]
    with load(target, threads=1, options={"spec_mode": "draft-model", "spec_draft_model": blob}) as model:
        for name in ("smaller", blob):
            drafting = {"spec_mode": "draft-model", "spec_draft_model": name, "spec_draft_policy": "fixed"}
            assert model.generate("the thin man", max_tokens=6, spec_draft_p_min=0.0, **drafting).drafted > 0
    with pytest.raises(AdmissionError, match=r"smaller\.gguf\.draft\.json, found none"):
        read_draft_manifest(source)


def test_a_link_has_its_manifest_beside_itself(target: Path, tmp_path: Path) -> None:
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "elsewhere" / "file").write_bytes(tiny_llama())
    link = tmp_path / "smaller.gguf"
    link.symlink_to(tmp_path / "elsewhere" / "file")
    written = admit(target, link, "draft-model", SOURCE).write(link)
    assert written == tmp_path / "smaller.gguf.draft.json"
    assert read_draft_manifest(link).kind == "draft-model"
    assert [one.name for one in (tmp_path / "elsewhere").iterdir()] == ["file"]
