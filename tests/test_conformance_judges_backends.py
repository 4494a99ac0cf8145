"""The conformance suite passes the native backend and catches one that breaks its promises."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

import pytest

from verispec.backends.contract import BackendAdapter, Capabilities, Checkpoint, Evaluation, Row
from verispec.conformance.parity import run_parity
from verispec.conformance.row_invariance import run_row_invariance
from verispec.conformance.suite import Check, run_conformance
from verispec.engine.model import Model

PROMPT = "tick tock tick tock tick tock tick"


class Passing(BackendAdapter):
    """Another backend, unchanged; subclasses break one thing."""

    name = "passing"

    def __init__(self, inner: BackendAdapter) -> None:
        self.inner = inner

    @property
    def capabilities(self) -> Capabilities:
        return self.inner.capabilities

    def open_sequence(self) -> int:
        return self.inner.open_sequence()

    def close_sequence(self, sequence: int) -> None:
        self.inner.close_sequence(sequence)

    def length(self, sequence: int) -> int:
        return self.inner.length(sequence)

    def oldest_length(self, sequence: int) -> int:
        return self.inner.oldest_length(sequence)

    def evaluate(
        self, rows: Sequence[Row], outputs: Sequence[int], want_logits: bool, taps: Sequence[int] = ()
    ) -> Evaluation:
        return self.inner.evaluate(rows, outputs, want_logits, taps)

    def checkpoint(self, sequence: int) -> Checkpoint:
        return self.inner.checkpoint(sequence)

    def commit(self, sequence: int, length: int) -> None:
        self.inner.commit(sequence, length)

    def restore(self, checkpoint: Checkpoint) -> None:
        self.inner.restore(checkpoint)

    def identity(self) -> dict[str, str | int]:
        return self.inner.identity()

    def close(self) -> None:
        """The inner backend belongs to whoever opened it."""


class ColumnsApart(Passing):
    """Passes of several output rows have other logits, by a hair, and sometimes another argmax."""

    def evaluate(
        self, rows: Sequence[Row], outputs: Sequence[int], want_logits: bool, taps: Sequence[int] = ()
    ) -> Evaluation:
        found = super().evaluate(rows, outputs, want_logits, taps)
        if len(outputs) < 2:
            return found
        logits = None if found.logits is None else found.logits * 1.0001
        return Evaluation([(token + (len(rows) == 3)) for token in found.argmax], logits, found.hidden)


class TokenChecked(ColumnsApart):
    """The same, and it says so."""

    @property
    def capabilities(self) -> Capabilities:
        return dataclasses.replace(self.inner.capabilities, exactness="token-checked")


class ForgetsToRestore(Passing):
    """Leaves rejected and failed rows where they are."""

    def restore(self, checkpoint: Checkpoint) -> None:
        """Nothing, which is what is wrong with it."""


def on(backend: BackendAdapter, model: Model) -> Model:
    return Model(backend, model.tokenizer, model.template, model.artifacts)


def outcomes(checks: list[Check]) -> dict[str, bool]:
    return {check.name: check.holds for check in checks}


def test_the_native_backend_keeps_every_contract(smollm2: Model, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("verispec.conformance.suite.TEXT", PROMPT)
    stages = set()
    checks = run_conformance(smollm2, 4, lambda name, done, total: stages.add((name, done <= total)))
    names = ("C1 row invariance", "C2 schedule invariance", "C2 in company", "faults")
    assert outcomes(checks) == dict.fromkeys(names, True)
    assert all(check.required and check.cases > 0 and not check.differences for check in checks)
    stages_of = ("row invariance", "schedule invariance", "company", "faults")
    assert stages == {(stage, True) for stage in stages_of}


def test_logits_that_depend_on_the_rows_of_a_pass_are_caught(smollm2: Model) -> None:
    broken = on(ColumnsApart(smollm2.backend), smollm2)
    tokens = smollm2.tokenizer.encode(PROMPT)
    rows = run_row_invariance(broken.backend, tokens, (2, 5))
    assert rows.identical < rows.rows
    assert [one.split(":")[0] for one in rows.first_differences] == ["2 rows a pass", "5 rows a pass"]
    assert run_row_invariance(Passing(smollm2.backend), tokens, (2, 5)).first_differences == []

    parity = run_parity(broken, [PROMPT], ("prompt-lookup",), (2, 5), (0,), (0.0,), 8, logprobs=1)
    assert {difference.what for difference in parity.first_differences} <= {"token", "logprob"}
    assert parity.identical < parity.cases == 2
    greedy = run_parity(broken, [PROMPT], ("prompt-lookup",), (2,), (0,), (0.0,), 8)
    (difference,) = greedy.first_differences
    assert difference.what == "token"
    assert difference.margin is not None
    assert difference.margin >= 0.0


@pytest.mark.parametrize(("kind", "required"), [(ColumnsApart, True), (TokenChecked, False)])
def test_the_suite_reports_a_broken_promise(
    smollm2: Model, monkeypatch: pytest.MonkeyPatch, kind: type[Passing], required: bool
) -> None:
    monkeypatch.setattr("verispec.conformance.suite.running_strategies", lambda model: ("prompt-lookup",))
    monkeypatch.setattr("verispec.conformance.suite.TEXT", PROMPT)
    checks = run_conformance(on(kind(smollm2.backend), smollm2), 4)
    assert outcomes(checks)["C1 row invariance"] is False
    assert outcomes(checks)["C2 schedule invariance"] is False
    assert [check.required for check in checks] == [required, required, required, True]
    assert checks[0].differences
    assert checks[1].differences


def test_a_restore_that_does_nothing_is_caught(smollm2: Model, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("verispec.conformance.suite.running_strategies", lambda model: ())
    monkeypatch.setattr("verispec.conformance.suite.TEXT", PROMPT)
    faults = run_conformance(on(ForgetsToRestore(smollm2.backend), smollm2), 6)[-1]
    assert (faults.required, faults.holds) == (True, False)
    assert any(difference.startswith("after commit, round 0: ") for difference in faults.differences)
