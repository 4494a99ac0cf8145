"""Whatever a head's files say, opening it ends in an error that names the fault, or in a head that runs."""

from __future__ import annotations

import copy
import json
import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from safetensors.numpy import load_file, save_file

from tiny_drafters import TinyDraft, tiny_config, write_draft
from tiny_llama import tiny_llama
from verispec.artifacts.draft_file import DraftFile
from verispec.backends.native import NativeBackend
from verispec.errors import VerispecError
from verispec.models.draft_hyperparameters import read_draft_hyperparameters

HEADS = {
    "eagle3": TinyDraft(draft_ids=tuple(range(5, 280, 4))),
    "eagle3 of speculators": TinyDraft(layout="speculators"),
    "dflash": TinyDraft("dflash", layers=2),
    "dspark": TinyDraft("dspark"),
    "dspark of speculators": TinyDraft("dspark", "speculators", gated=True),
}
VALUES = (
    None,
    0,
    -1,
    1,
    3,
    1e9,
    2**40,
    1.5,
    float("nan"),
    "x",
    "",
    [],
    [1],
    [-2],
    {},
    {"a": 1},
    True,
    [[]],
    10**30,
)
TRIES = 30


@pytest.fixture(scope="module")
def backend(tmp_path_factory: pytest.TempPathFactory) -> Iterator[NativeBackend]:
    path = tmp_path_factory.mktemp("target") / "tiny.gguf"
    path.write_bytes(tiny_llama())
    backend = NativeBackend.load(path, threads=1, sequences=1)
    yield backend
    backend.close()


@pytest.fixture(params=HEADS)
def draft(request: pytest.FixtureRequest) -> TinyDraft:
    return HEADS[request.param]


def opens(folder: Path, backend: NativeBackend) -> bool:
    """Whether the head runs; False where it is refused. Anything but a VerispecError is raised."""
    try:
        with DraftFile.open(folder) as file:
            backend.draft_head(file, read_draft_hyperparameters(file))
    except VerispecError:
        return False
    return True


def places(values: dict[str, Any]) -> list[tuple[dict[str, Any], str]]:
    found = [(values, name) for name in values]
    return found + [place for value in values.values() if isinstance(value, dict) for place in places(value)]


def test_configurations_of_any_content(draft: TinyDraft, backend: NativeBackend, tmp_path: Path) -> None:
    write_draft(tmp_path, draft)
    chosen = random.Random(3)
    outcomes = []
    for _ in range(TRIES):
        config = copy.deepcopy(tiny_config(draft))
        holder, name = chosen.choice(places(config))
        holder[name] = chosen.choice(VALUES)
        if chosen.random() < 0.2:
            del holder[name]
        (tmp_path / "config.json").write_text(json.dumps(config))
        outcomes.append(opens(tmp_path, backend))
    assert outcomes.count(False) > TRIES // 4


def test_tensors_of_any_shape(draft: TinyDraft, backend: NativeBackend, tmp_path: Path) -> None:
    write_draft(tmp_path, draft)
    values = load_file(tmp_path / "model.safetensors")
    assert opens(tmp_path, backend)
    for name, value in values.items():
        missing = {other: kept for other, kept in values.items() if other != name}
        changed = value.reshape(1, *value.shape) if value.ndim < 3 else value
        others = [{**missing, name: np.ascontiguousarray(value[:-1])}, {**missing, name: changed}]
        for content in (missing, *others):
            save_file(content, tmp_path / "model.safetensors")
            ran = opens(tmp_path, backend)
            needless = ("embed_tokens.weight", "lm_head.weight", "d2t", "t2d", "confidence_head.proj.bias")
            assert not ran or (name in needless and content is missing), name


@pytest.mark.parametrize("ids", [[0, 0], [288, 1], [-1, 1], [2**40, 0]])
def test_tables_that_name_no_tokens(ids: list[int], backend: NativeBackend, tmp_path: Path) -> None:
    values = dict(write_draft(tmp_path, TinyDraft(draft_ids=tuple(range(64)))))
    table = np.arange(64)
    table[:2] = ids
    values["d2t"] = table - np.arange(64)
    del values["t2d"]
    save_file(values, tmp_path / "model.safetensors")
    assert not opens(tmp_path, backend)
