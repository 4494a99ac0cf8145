"""A draft artifact is admitted for a target with all checked that can be, and checked again when it is loaded."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from safetensors.numpy import load_file, save_file
from tokenizers import Tokenizer
from tokenizers.decoders import ByteLevel as ByteLevelDecoder
from tokenizers.models import BPE
from tokenizers.pre_tokenizers import ByteLevel

from tiny_drafters import TinyDraft, write_draft
from tiny_hybrid import TinyHybrid, write_hybrid
from tiny_llama import tiny_llama
from verispec.artifacts.draft_file import DraftFile
from verispec.artifacts.draft_manifest import (
    KINDS,
    Source,
    TargetBinding,
    draft_manifest_path,
    read_draft_manifest,
)
from verispec.backends.native import NativeBackend
from verispec.cli import main
from verispec.engine.admission import admit, open_admitted
from verispec.engine.draft_vector import check_vector
from verispec.errors import AdmissionError, ArtifactError, UnsupportedError
from verispec.serving.settings import ServerSettings

SOURCE = Source("https://example.org/head", "r1", "Apache-2.0")
IDS = tuple(range(5, 280, 4))
HEADS = {
    "eagle3": TinyDraft(draft_ids=IDS),
    "dflash": TinyDraft("dflash", layers=2, own_embedding=False, own_head=False),
    "dspark": TinyDraft("dspark", "speculators", draft_ids=IDS),
}


@pytest.fixture(scope="module")
def target(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("target") / "tiny.gguf"
    path.write_bytes(tiny_llama())
    return path


@pytest.fixture(scope="module")
def backend(target: Path) -> Iterator[NativeBackend]:
    backend = NativeBackend.load(target, threads=1, sequences=2)
    yield backend
    backend.close()


@dataclass
class Admitted:
    folder: Path
    kind: str
    binding: TargetBinding

    def load(self, backend: NativeBackend) -> None:
        manifest, head = open_admitted(self.folder, self.kind, self.binding)
        assert head is not None
        assert manifest.vector is not None
        native = backend.draft_head(head.file, head.draft)
        check_vector(self.folder, native, manifest.vector, backend.capabilities.sequences)


@pytest.fixture(params=HEADS)
def admitted(request: pytest.FixtureRequest, target: Path, tmp_path: Path) -> Admitted:
    folder = tmp_path / "head"
    write_draft(folder, HEADS[request.param])
    manifest = admit(target, folder, request.param, SOURCE, 0.5)
    manifest.write(folder)
    return Admitted(folder, request.param, manifest.target)


def code(refused: pytest.ExceptionInfo[UnsupportedError]) -> str:
    return refused.value.code


def test_what_was_admitted_loads(admitted: Admitted, backend: NativeBackend) -> None:
    admitted.load(backend)
    manifest = read_draft_manifest(admitted.folder)
    assert (manifest.kind, manifest.source, manifest.acceptance) == (admitted.kind, SOURCE, 0.5)
    assert manifest.head["target_layers"] == [0, 1, 2]
    assert manifest.vector is not None
    assert len(manifest.vector["expected"]) >= 2


def test_an_artifact_without_its_manifest_is_not_loaded(admitted: Admitted) -> None:
    draft_manifest_path(admitted.folder).unlink()
    with pytest.raises(AdmissionError, match=r"verispec admit") as refused:
        open_admitted(admitted.folder, admitted.kind, admitted.binding)
    assert code(refused) == "not-admitted"


def test_edited_bytes_are_refused(admitted: Admitted) -> None:
    weights = admitted.folder / "model.safetensors"
    content = bytearray(weights.read_bytes())
    content[-1] ^= 1
    weights.write_bytes(content)
    with pytest.raises(AdmissionError, match=r"expected the bytes admitted, SHA-256") as refused:
        open_admitted(admitted.folder, admitted.kind, admitted.binding)
    assert code(refused) == "edited-bytes"


def test_an_edited_manifest_is_refused(admitted: Admitted) -> None:
    path = draft_manifest_path(admitted.folder)
    path.write_text(path.read_text().replace("Apache-2.0", "MIT"))
    with pytest.raises(AdmissionError) as refused:
        open_admitted(admitted.folder, admitted.kind, admitted.binding)
    assert code(refused) == "edited-manifest"


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"hidden_size": 64}, "wrong-target"),
        ({"layers": 3}, "wrong-target"),
        ({"vocabulary": 300}, "wrong-target"),
        ({"architecture": "qwen3"}, "wrong-target"),
        ({"tokenizer_sha256": "0" * 64}, "wrong-tokenizer"),
    ],
)
def test_another_target_is_refused(admitted: Admitted, change: dict[str, Any], reason: str) -> None:
    with pytest.raises(AdmissionError) as refused:
        open_admitted(admitted.folder, admitted.kind, replace(admitted.binding, **change))
    assert code(refused) == reason


def test_another_file_of_the_same_target_is_not_another_target(admitted: Admitted) -> None:
    open_admitted(admitted.folder, admitted.kind, replace(admitted.binding, sha256="0" * 64))


def test_an_artifact_is_of_one_kind(admitted: Admitted, target: Path) -> None:
    other = "dspark" if admitted.kind == "dflash" else "dflash"
    with pytest.raises(AdmissionError, match=f"found those of {admitted.kind}") as refused:
        admit(target, admitted.folder, other, SOURCE)
    assert code(refused) == "wrong-kind"
    with pytest.raises(AdmissionError) as refused:
        open_admitted(admitted.folder, other, admitted.binding)
    assert code(refused) == "wrong-kind"


def test_half_the_tensors_of_dspark_are_neither_kind(target: Path, tmp_path: Path) -> None:
    values = write_draft(tmp_path, HEADS["dspark"])
    for part in ("weight", "bias"):
        del values[f"confidence_head.proj.{part}"]
    save_file(values, tmp_path / "model.safetensors")
    for kind in ("dflash", "dspark"):
        with pytest.raises(ArtifactError, match=r"expected all of markov_w1.weight, .* \(dspark\), or none"):
            admit(target, tmp_path, kind, SOURCE)


@pytest.mark.parametrize(
    "draft",
    [
        replace(HEADS["eagle3"], taps=(0, 1, 3)),
        replace(HEADS["dflash"], hidden=64, heads=8),
        replace(HEADS["dspark"], vocabulary=320),
    ],
)
def test_a_head_for_another_target_is_not_admitted(draft: TinyDraft, target: Path, tmp_path: Path) -> None:
    write_draft(tmp_path, draft)
    with pytest.raises(AdmissionError) as refused:
        admit(target, tmp_path, draft.kind, SOURCE)
    assert code(refused) == "wrong-target"


def test_a_head_with_other_tokens_is_not_admitted(target: Path, tmp_path: Path) -> None:
    write_draft(tmp_path, HEADS["eagle3"])
    words = [*sorted(ByteLevel.alphabet()), "th", *(f"<other{i}>" for i in range(31))]
    tokenizer = Tokenizer(BPE({word: index for index, word in enumerate(words)}, [("t", "h")]))
    tokenizer.pre_tokenizer = ByteLevel(add_prefix_space=False)
    tokenizer.decoder = ByteLevelDecoder()
    tokenizer.save(str(tmp_path / "tokenizer.json"))
    with pytest.raises(AdmissionError) as refused:
        admit(target, tmp_path, "eagle3", SOURCE)
    assert code(refused) == "wrong-tokenizer"


def misread_rotation(values: dict[str, Any]) -> None:
    name = next(name for name in values if name.endswith("q_proj.weight"))
    values[name] = values[name].reshape(4, 2, 4, -1).swapaxes(1, 2).reshape(values[name].shape).copy()


def misread_table(values: dict[str, Any]) -> None:
    values["d2t"] = values["d2t"] + np.arange(len(values["d2t"]))  # ids where offsets belong
    del values["t2d"]


def misread_norm(values: dict[str, Any]) -> None:
    values["norm.weight"] = values["norm.weight"] * 4 - 3


@pytest.mark.parametrize(
    ("kind", "misread"),
    [
        ("eagle3", misread_rotation),
        ("eagle3", misread_norm),
        ("dflash", misread_rotation),
        ("dflash", misread_norm),
        ("dspark", misread_norm),
    ],
)
def test_a_misread_head_is_caught_by_its_test_vector(
    kind: str, misread: Callable[[dict[str, Any]], None], target: Path, backend: NativeBackend, tmp_path: Path
) -> None:
    """The bytes may be right and still be taken for something else: here the other way round."""
    right, wrong = tmp_path / "right", tmp_path / "wrong"
    write_draft(right, HEADS[kind])
    vector = admit(target, right, kind, SOURCE).vector
    write_draft(wrong, HEADS[kind])
    values = dict(load_file(wrong / "model.safetensors"))
    misread(values)
    save_file(values, wrong / "model.safetensors")
    manifest = replace(admit(target, wrong, kind, SOURCE), vector=vector)
    manifest.write(wrong)
    with pytest.raises(AdmissionError, match=r"expected the head to propose \[") as refused:
        Admitted(wrong, kind, manifest.target).load(backend)
    assert code(refused) == "misread-head"


def test_a_mask_that_contradicts_the_table_is_refused(target: Path, tmp_path: Path) -> None:
    values = write_draft(tmp_path, HEADS["eagle3"])
    values["d2t"] = values["d2t"][::-1].copy()
    save_file(values, tmp_path / "model.safetensors")
    with pytest.raises(ArtifactError, match=r"tensor t2d: expected a mask of the tokens that d2t names"):
        admit(target, tmp_path, "eagle3", SOURCE)


def test_a_server_takes_an_artifact_for_what_it_is(admitted: Admitted) -> None:
    expected = {"spec_mode": admitted.kind, "spec_draft_model": str(admitted.folder)}
    assert ServerSettings.of({"draft": str(admitted.folder)}).requests == expected
    assert ServerSettings.of({"draft": "suffix+mtp"}).requests == {"spec_mode": "suffix+mtp"}


def test_heads_of_a_hybrid_target_are_admitted_too(tmp_path: Path) -> None:
    hybrid = tmp_path / "hybrid.gguf"
    write_hybrid(hybrid, TinyHybrid(tokeniser=True))
    draft = replace(HEADS["eagle3"], hidden=64, heads=8)
    write_draft(tmp_path / "head", draft)
    assert admit(hybrid, tmp_path / "head", "eagle3", SOURCE).target.architecture == "qwen35"


def test_a_draft_model_is_admitted_with_how_its_tokens_compare(target: Path, tmp_path: Path) -> None:
    smaller = tmp_path / "smaller.gguf"
    smaller.write_bytes(tiny_llama())
    manifest = admit(target, smaller, "draft-model", SOURCE)
    assert manifest.same_tokens
    assert manifest.vector is None
    with pytest.raises(UnsupportedError) as refused:
        admit(target, smaller, "eagle3", SOURCE)
    assert code(refused) == "not-a-draft-head"


@pytest.mark.parametrize("kind", HEADS)
def test_a_gguf_file_is_the_folder_it_was_made_from(
    kind: str, target: Path, backend: NativeBackend, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder, file, small = tmp_path / "head", tmp_path / "head.gguf", tmp_path / "small.gguf"
    write_draft(folder, HEADS[kind])
    assert main(["convert-draft", str(folder), str(file)]) == 0
    with DraftFile.open(folder) as one, DraftFile.open(file) as other:
        assert one.kind == other.kind == kind
        assert {**one.metadata} == {**other.metadata}
        assert one.tensors.keys() == other.tensors.keys()
        assert all(one.data(name).tobytes() == other.data(name).tobytes() for name in one.tensors)
        assert (one.draft_ids is None) == (other.draft_ids is None)
        assert one.draft_ids is None or one.draft_ids.tolist() == list(IDS)
    assert main(["convert-draft", str(file), str(small), "--type", "q8_0", "--json"]) == 0
    assert 0 < json.loads(capsys.readouterr().out.split("\n", 1)[1])["relative_error"] < 0.01
    assert small.stat().st_size < file.stat().st_size
    for path in (file, small):
        manifest = admit(target, path, kind, SOURCE)
        manifest.write(path)
        Admitted(path, kind, manifest.target).load(backend)


def test_the_command_admits_and_refuses_in_one_line(
    target: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    write_draft(tmp_path / "head", HEADS["dspark"])
    said = ["--source", SOURCE.url, "--revision", "r1", "--license", "MIT"]
    assert main(["admit", str(target), str(tmp_path / "head"), "--kind", "dspark", *said, "--json"]) == 0
    shown = json.loads(capsys.readouterr().out)
    assert read_draft_manifest(tmp_path / "head").sha256 == shown["sha256"]
    assert main(["admit", str(target), str(tmp_path / "head"), "--kind", "dflash", *said]) == 2
    assert "[wrong-kind]" in capsys.readouterr().err
    assert main(["admit", str(target), str(tmp_path / "head"), "--kind", "medusa", *said]) == 2
    assert "kind: expected one of draft-model, eagle3, dflash, dspark" in capsys.readouterr().err


def test_capabilities_say_which_strategy_an_artifact_is_for(
    admitted: Admitted, target: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    def rows() -> dict[str, dict[str, Any]]:
        command = ["capabilities", str(target), "--threads", "1", "--json"]
        assert main([*command, "--spec-draft-model", str(admitted.folder)]) == 0
        return {row["name"]: row for row in json.loads(capsys.readouterr().out)["strategies"]}

    shown = rows()
    assert shown[admitted.kind]["status"] == shown["suffix"]["status"] == "available"
    assert shown["auto"]["detail"] == f"picks suffix+{admitted.kind}"
    for other in {*KINDS} - {admitted.kind}:
        assert shown[other]["reasons"] == ["wrong-kind"]
        assert shown[other]["remedy"] == f"Use it with spec_mode {admitted.kind}."
    draft_manifest_path(admitted.folder).unlink()
    refused = rows()
    for name in (*KINDS, "auto"):
        assert refused[name]["reasons"] == ["not-admitted"]
        assert "verispec admit" in refused[name]["remedy"]
    assert refused["suffix"]["status"] == "available"


def test_inspect_says_what_a_head_is(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write_draft(tmp_path / "head", HEADS["eagle3"])
    assert main(["convert-draft", str(tmp_path / "head"), str(tmp_path / "head.gguf")]) == 0
    assert main(["inspect", str(tmp_path / "head.gguf")]) == 0
    assert "runs: no; it is a draft head of kind eagle3" in capsys.readouterr().out
