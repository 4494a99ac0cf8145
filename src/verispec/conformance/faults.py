"""A failure at any step of any round must leave no trace: the request goes on to the same answer."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from verispec.engine.completion import Completion
from verispec.engine.generation import Generation
from verispec.engine.request import Request
from verispec.engine.shared_pass import Step

STEPS = ("checkpoint", "draft", "evaluate", "sample", "commit", "emit", "restore")
"""The seven steps of a round, by the name of what carries each out."""


class InjectedFaultError(Exception):
    """Raised on purpose inside a round."""


class FaultInjector:
    """Raises once, in round ``round_index`` of a request, before or after ``step`` has done its work.

    A fault in ``restore`` comes with one in ``emit``, since only a failing round restores anything.
    """

    def __init__(self, request: Request, step: str, round_index: int, after: bool) -> None:
        self.request = request
        self.round_index = round_index
        self.after = after
        self.fired = 0
        self.expected = 2 if step == "restore" else 1
        self._wrap(step)
        if step == "restore":
            self._wrap("emit")

    def _wrap(self, step: str) -> None:
        owner: Any = self.request.sampler if step == "sample" else self.request
        original: Callable[..., Any] = getattr(owner, step)
        pending = [True]

        def faulty(*arguments: Any) -> Any:
            due = pending[0] and len(self.request.emissions) >= self.round_index
            if due and not self.after:
                self._fire(pending, step)
            result = original(*arguments)
            if due and self.after:
                if step == "evaluate":  # its work is done when the pass is
                    return self._fire_behind(result, pending, step)
                self._fire(pending, step)
            return result

        setattr(owner, step, faulty)

    def _fire_behind(self, evaluating: Step[Any], pending: list[bool], step: str) -> Step[Any]:
        yield from evaluating
        self._fire(pending, step)

    def _fire(self, pending: list[bool], step: str) -> None:
        pending[0] = False
        self.fired += 1
        raise InjectedFaultError(step)


def resume_after_fault(generation: Generation, step: str, round_index: int, after: bool) -> Completion:
    """Runs a generation with one injected fault, taking it up again after each failure, to its end."""
    injector = FaultInjector(generation.request, step, round_index, after)
    while True:
        try:
            result = generation.result()
            break
        except InjectedFaultError:
            continue
    if injector.fired != injector.expected:
        raise AssertionError(
            f"fault at {step}, round {round_index}: expected to fire {injector.expected} times, "
            f"fired {injector.fired} times"
        )
    return result
