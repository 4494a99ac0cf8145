"""A peer behind a driver: a small script run by the Python of the peer's own environment, one JSON line a request."""

from __future__ import annotations

import json
import subprocess
import tempfile
from collections.abc import Mapping, Sequence
from importlib import resources
from typing import Any

from verispec.bench.subject import DecodeRun, Subject
from verispec.errors import BackendError

STOP_SECONDS = 10.0


class DriverProcess(Subject):
    """A subject that another interpreter runs.

    ``module`` is one of ``drivers``; ``settings`` are what its engine is made with. Raises BackendError, with the
    end of what the peer printed, when it fails.
    """

    def __init__(
        self,
        name: str,
        engine: str,
        speculates: bool,
        python: str,
        module: str,
        model: str,
        settings: Mapping[str, Any],
    ) -> None:
        self.name = name
        self.engine = engine
        self.speculates = speculates
        self._settings = dict(settings)
        self._log = tempfile.TemporaryFile()  # noqa: SIM115
        with resources.as_file(resources.files(__package__) / "drivers") as drivers:
            self._process = subprocess.Popen(
                [python, str(drivers), module],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=self._log,
                text=True,
            )
            try:
                self._facts = self._ask("load", model=model, **settings)
            except BackendError:
                self.close()
                raise

    def describe(self) -> Mapping[str, Any]:
        return {**self._facts, **self._settings}

    def passes(self, context: Sequence[int], rows: Sequence[int], repeats: int) -> list[float]:
        answer = self._ask("passes", context=list(context), rows=list(rows), repeats=repeats)
        return [float(seconds) for seconds in answer["seconds"]]

    def prompt(self, tokens: Sequence[int], repeats: int) -> list[float]:
        answer = self._ask("prompt", tokens=list(tokens), repeats=repeats)
        return [float(seconds) for seconds in answer["seconds"]]

    def decode(self, prompt: Sequence[int], max_tokens: int, end_tokens: Sequence[int]) -> DecodeRun:
        answer = self._ask("decode", prompt=list(prompt), max_tokens=max_tokens, end_tokens=list(end_tokens))
        return DecodeRun(**{**answer, "tokens": tuple(answer["tokens"])})

    def close(self) -> None:
        if self._process.poll() is None:
            assert self._process.stdin is not None
            self._process.stdin.close()
            try:
                self._process.wait(STOP_SECONDS)
            except subprocess.TimeoutExpired:
                self._process.kill()
                self._process.wait()
        self._log.close()

    def _ask(self, operation: str, **request: Any) -> dict[str, Any]:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        try:
            self._process.stdin.write(json.dumps({"operation": operation, **request}) + "\n")
            self._process.stdin.flush()
            line = self._process.stdout.readline()
        except OSError:
            line = ""
        if not line:
            raise BackendError(f"{self.name}: {operation}: the peer's process ended: {self._last_words()}")
        answer: dict[str, Any] = json.loads(line)
        if "error" in answer:
            raise BackendError(f"{self.name}: {operation}: {answer['error']}")
        return answer

    def _last_words(self) -> str:
        self._process.wait()
        self._log.seek(0)
        lines = self._log.read().decode(errors="replace").strip().splitlines()
        return lines[-1][:300] if lines else f"exit status {self._process.returncode}, nothing printed"
