"""An artifact that is accepted far less often than its manifest says is told of: in receipts, metrics and the log."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from drafting_targets import HEADS, KINDS, SOURCE, Artifacts, write_artifacts
from verispec.cli import main
from verispec.engine.admission import admit
from verispec.engine.batching.job import Job
from verispec.engine.batching.scheduler import Scheduler, SchedulerLimits
from verispec.engine.draft_health import FAR_UNDER, LEAST_TOKENS, health_warnings
from verispec.engine.loading import load
from verispec.engine.model import Model
from verispec.engine.request import Emitted
from verispec.errors import AdmissionError, FetchError, OptionError

PROMPT = [7, 1, 9, 4, 4, 2, 8] * 5
PLAIN = {"max_tokens": 40, "ignore_eos": True}


@pytest.fixture(scope="module")
def artifacts(tmp_path_factory: pytest.TempPathFactory) -> Artifacts:
    """Random heads whose manifests promise much."""
    artifacts = write_artifacts(tmp_path_factory.mktemp("artifacts"))
    for kind in HEADS:
        admit(artifacts.target, artifacts.of[kind], kind, SOURCE, 0.6).write(artifacts.of[kind])
    return artifacts


@pytest.fixture(scope="module")
def model(artifacts: Artifacts) -> Iterator[Model]:
    with load(artifacts.target, threads=1) as model:
        yield model


def rounds(drafted: int, accepted: int, source: str = "") -> list[Emitted]:
    return [Emitted([], "", drafted, accepted, source=source)]


def test_only_what_is_far_under_its_figure_is_told_of() -> None:
    many = 10 * LEAST_TOKENS
    assert health_warnings("eagle3", None, rounds(many, 0)) == ()
    assert health_warnings("eagle3", 0.5, rounds(LEAST_TOKENS - 1, 0)) == ()
    assert health_warnings("eagle3", 0.5, rounds(many, int(FAR_UNDER * 0.5 * many))) == ()
    (told,) = health_warnings("eagle3", 0.5, rounds(many, int(FAR_UNDER * 0.5 * many) - 1))
    assert "25%, where the artifact's manifest says 50%; likely causes: the head was trained on" in told
    others = rounds(many, many, "suffix") + rounds(many, 0, "eagle3")
    assert len(health_warnings("eagle3", 0.5, others)) == 1


@pytest.mark.parametrize("mode", ["eagle3", "dspark", "suffix+dflash"])
def test_receipts_and_the_log_tell(
    mode: str, model: Model, artifacts: Artifacts, caplog: pytest.LogCaptureFixture
) -> None:
    kind = mode.split("+")[-1]
    options = artifacts.options(kind, spec_mode=mode, **({"spec_chain_p_min": 1.0} if "+" in mode else {}))
    with caplog.at_level(logging.WARNING, "verispec"):
        found = model.generate(PROMPT, **PLAIN, **options)
    (told,) = found.warnings
    assert told.startswith(f"{kind}: ")
    assert "manifest says 60%" in told
    assert [record.getMessage() for record in caplog.records] == [told]
    assert model.receipt(found).body["attested"]["warnings"] == [told]
    assert model.generate(PROMPT, **PLAIN, spec_mode="suffix").warnings == ()


def test_metrics_count_them(model: Model, artifacts: Artifacts) -> None:
    scheduler = Scheduler(model, SchedulerLimits(parallel=1))
    scheduler.submit(Job(model.prepare(PROMPT, PLAIN | artifacts.options("eagle3"))))
    while not scheduler.idle:
        scheduler.step()
    assert scheduler.current_statistics().drafter_warnings == 1


@pytest.mark.parametrize("kind", KINDS)
def test_auto_asks_the_artifact_that_is_named_after_the_texts_own_suffix(
    kind: str, model: Model, artifacts: Artifacts
) -> None:
    found = model.generate(PROMPT, max_tokens=4, spec_draft_model=str(artifacts.of[kind]))
    assert found.strategy == f"suffix+{kind}"
    assert found.options.resolution.requested == "auto"
    assert model.generate(PROMPT, max_tokens=4).strategy == "suffix"


def options_and_errors() -> list[tuple[dict[str, Any], type[Exception], str]]:
    return [
        ({"spec_mode": "eagle3", "spec_draft_model": "nowhere.gguf"}, FetchError, "nowhere.gguf"),
        ({"spec_mode": "eagle3", "spec_draft_model": "{dflash}"}, AdmissionError, "wrong-kind"),
        ({"spec_mode": "dspark", "spec_draft_model": "{target}"}, AdmissionError, "not-admitted"),
        (
            {"spec_mode": "suffix", "spec_draft_model": "{dflash}"},
            OptionError,
            "not read by spec_mode suffix",
        ),
    ]


@pytest.mark.parametrize(("options", "error", "says"), options_and_errors())
def test_a_wrong_artifact_is_refused_before_the_target_is_loaded(
    options: dict[str, Any],
    error: type[Exception],
    says: str,
    artifacts: Artifacts,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    places = {"target": str(artifacts.target), **{kind: str(path) for kind, path in artifacts.of.items()}}
    named = {name: value.format(**places) for name, value in options.items()}

    def loaded(*_: Any) -> Any:
        raise AssertionError("the target was loaded")

    monkeypatch.setattr("verispec.backends.native.NativeBackend.__init__", loaded)
    with pytest.raises(error, match=says):
        load(Path(artifacts.target), options=named)


def test_parity_and_run_take_an_artifact_by_command(
    artifacts: Artifacts, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    prompts = tmp_path / "prompts.txt"
    prompts.write_text("one two\n")
    head = ["--spec-draft-model", str(artifacts.of["dspark"])]
    listed = ["--strategies", "dspark,suffix+dspark", "--widths", "1,3", "--seeds", "1", "--max-tokens", "8"]
    target = str(artifacts.target)
    assert main(["parity", target, "--prompts", str(prompts), *listed, *head, "--threads", "1"]) == 0
    assert "8 of 8 cases identical to off" in capsys.readouterr().out
    run = ["run", target, "one two", "--raw", "--max-tokens", "6", "--threads", "1", "--json", "--ignore-eos"]
    assert main([*run, "--spec-mode", "suffix+dspark", *head]) == 0
    assert '"strategy": "suffix+dspark"' in capsys.readouterr().out
    assert main([*run, *head]) == 0
    assert '"strategy": "suffix+dspark"' in capsys.readouterr().out
