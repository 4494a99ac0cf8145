"""One pass that several requests share: who brings which rows, and what comes of it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from verispec.backends.contract import BackendAdapter, Evaluation
from verispec.engine.batching.job import Job
from verispec.engine.request import Schedule
from verispec.engine.shared_pass import PassShare, Step, evaluate_alone, evaluate_together
from verispec.engine.step import next_step


class Turn(NamedTuple):
    """A job's step, stopped where it needs the pass, and the rows it brings."""

    job: Job
    step: Step[object]
    share: PassShare


def take_turns(jobs: Sequence[Job], rows: int, prompt_rows: int) -> list[Turn]:
    """Asks each job what it brings to a pass of at most ``rows`` rows, the prompts' part at most ``prompt_rows``.

    ``jobs`` are in the order of their turn. Every job that writes has a row of its own; the prompts take what they may
    of the rest, in turn, and what then is left is for proposals, in equal parts. A job whose step
    fails has ``ended`` set and no turn.
    """
    writing = [job for job in jobs if not job.reading]
    reading = [job for job in jobs if job.reading]
    turns: list[Turn] = []
    room = max(1, min(prompt_rows, rows - len(writing))) if writing else rows
    for job in reading:
        if room < 1:
            break
        turn = _ask(job, Schedule(room, 0, 0))
        if turn is not None:
            turns.append(turn)
            room -= len(turn.share.tokens)
    taken = sum(len(turn.share.tokens) for turn in turns)
    for place, job in enumerate(writing):
        left = len(writing) - place  # each of these still has a row coming
        share = max(1, (rows - taken) // left)
        turn = _ask(job, Schedule(share, taken + left - 1, len(writing) - 1))
        if turn is not None:
            turns.append(turn)
            taken += len(turn.share.tokens)
    return turns


def _ask(job: Job, schedule: Schedule) -> Turn | None:
    """The job's next step, begun."""
    request = job.request
    assert request is not None
    try:
        request.share_pass(schedule)
        step = next_step(request, schedule.rows)
        return None if step is None else Turn(job, step, next(step))
    except Exception as error:  # a step that fails has restored what it had retained
        job.end_with(error)
        return None


def run_turns(backend: BackendAdapter, turns: Sequence[Turn]) -> None:
    """Evaluates all turns in one pass and lets each go on. A job whose step fails has ``ended`` set.

    A pass that fails is tried again turn by turn, so that one job's rows fail that job alone. So are the turns behind
    one that failed: what its drafter did when it was taken back may have cost them the outputs.
    """
    try:
        try:
            evaluations = evaluate_together(backend, [turn.share for turn in turns])
        except Exception:
            for turn in turns:
                _run_apart(backend, turn)
            return
        undisturbed = True
        outcomes = zip(turns, evaluations, strict=True)
        for turn, evaluation in sorted(outcomes, key=lambda outcome: _may_disturb(outcome[0])):
            if undisturbed:
                undisturbed = _resume(turn, evaluation) and not _may_disturb(turn)
            else:
                _run_apart(backend, turn)
    finally:
        for turn in turns:
            _close(turn)  # after an interrupt; the step restores what it had retained


def _may_disturb(turn: Turn) -> bool:
    """Whether a drafter of the caller's is shown hidden states behind the pass: it could use the model, whose next pass
    lies over the outputs of this one."""
    return bool(turn.share.taps) and not turn.job.prepared.options.resolution.strategy.keeps_entries


def _run_apart(backend: BackendAdapter, turn: Turn) -> None:
    try:
        evaluation = evaluate_alone(backend, turn.share)
    except Exception as error:
        turn.job.end_with(error)
        _close(turn)
        return
    _resume(turn, evaluation)


def _resume(turn: Turn, evaluation: Evaluation) -> bool:
    """Whether the step came to its end."""
    try:
        turn.step.send(evaluation)
    except StopIteration:
        return True
    except Exception as error:
        turn.job.end_with(error)
        return False
    turn.job.end_with(RuntimeError("step: expected one pass, found it asking for a second"))
    return False


def _close(turn: Turn) -> None:
    try:
        turn.step.close()
    except Exception as error:  # a participant that cannot go back ends its own request
        turn.job.end_with(error)
