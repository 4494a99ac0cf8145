"""The pool gives the same results with more threads than cores, many callers, and a busy machine."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
import time
from collections.abc import Iterator

import numpy as np
import pytest

from native_graphs import ids, matrix, pool, rows_of, same_bits, vector
from verispec import _native

WIDTH = 256


def record(threads: _native.ThreadPool, rows: int, layers: int = 12) -> _native.Program:
    """A chain of short phases, in which waiting matters more than work."""
    program = _native.Program(threads, _native.Workspace(), rows, rows)
    x = program.input(WIDTH)
    for layer in range(layers):
        normed = program.rms_norm(x, vector(WIDTH), 1e-5)
        (y,) = program.linear(normed, [matrix("Q8_0", WIDTH, WIDTH, layer)])
        x = program.add(x, y)
    program.tap(x, 0)
    program.output_head(program.select_outputs(x), matrix("Q8_0", 900, WIDTH))
    program.finish()
    return program


def run(program: _native.Program, x: np.ndarray) -> tuple[bytes, list[int]]:
    zeros = np.zeros(program.rows, np.int32)
    program.run(zeros, zeros, zeros, ids(range(program.rows)), [x])
    return program.hidden(0).tobytes(), program.argmax


@pytest.fixture(name="busy")
def fixture_busy() -> Iterator[None]:
    """A process that never yields, on each core."""
    spin = [sys.executable, "-c", "while True: pass"]
    processes = [subprocess.Popen(spin) for _ in range(os.cpu_count() or 1)]
    yield
    for process in processes:
        process.kill()
        process.wait()


@pytest.mark.parametrize("threads", [1, 2, 3, 8, 40])
def test_more_threads_than_cores(threads: int) -> None:
    x = rows_of(3, WIDTH)
    expected = run(record(pool(1), 3), x)
    crowded = record(_native.ThreadPool(threads), 3)
    for _ in range(30):
        assert run(crowded, x) == expected


def test_a_busy_machine_delays_but_does_not_change(busy: None) -> None:
    x = rows_of(3, WIDTH)
    expected = run(record(pool(1), 3), x)
    crowded = record(_native.ThreadPool(4), 3)
    begin = time.monotonic()
    for _ in range(30):
        assert run(crowded, x) == expected
    assert time.monotonic() - begin < 20


def test_threads_that_went_to_sleep_wake_up() -> None:
    x = rows_of(2, WIDTH)
    program = record(_native.ThreadPool(3), 2)
    expected = run(program, x)
    for pause in (0.0, 0.0001, 0.0003, 0.001, 0.02) * 6:
        time.sleep(pause)
        assert run(program, x) == expected


def test_callers_of_one_pool_queue_up() -> None:
    shared = _native.ThreadPool(3)
    xs = [rows_of(2, WIDTH, seed) for seed in range(4)]
    expected = [run(record(pool(1), 2), x) for x in xs]
    wrong: list[int] = []

    def repeat(index: int) -> None:
        program = record(shared, 2)
        for _ in range(25):
            if run(program, xs[index]) != expected[index]:
                wrong.append(index)

    callers = [threading.Thread(target=repeat, args=(index,)) for index in range(4)]
    for caller in callers:
        caller.start()
    for caller in callers:
        caller.join()
    assert wrong == []


def test_a_second_run_in_one_workspace_is_refused_not_mixed_up() -> None:
    """Two callers of one program: each run either gives the right result or says the workspace is in use."""
    program = record(_native.ThreadPool(2), 16, layers=40)
    x = rows_of(16, WIDTH)
    expected = run(program, x)[1]
    outcomes: list[bool] = []

    def repeat() -> None:
        zeros = np.zeros(16, np.int32)
        for _ in range(20):
            try:
                program.run(zeros, zeros, zeros, ids(range(16)), [x])
            except RuntimeError as error:
                outcomes.append("running" in str(error))

    callers = [threading.Thread(target=repeat) for _ in range(2)]
    for caller in callers:
        caller.start()
    for caller in callers:
        caller.join()
    assert all(outcomes)
    assert run(program, x)[1] == expected


def test_many_pools_come_and_go() -> None:
    x = rows_of(1, WIDTH)
    expected = run(record(pool(1), 1, layers=2), x)
    for round_ in range(40):
        assert run(record(_native.ThreadPool(1 + round_ % 5), 1, layers=2), x) == expected


@pytest.mark.filterwarnings("ignore:.*multi-threaded.*:DeprecationWarning")
def test_a_forked_child_runs_alone_and_leaves() -> None:
    """Threads do not survive a fork; the child's caller does all the work and its exit does not hang."""
    x = rows_of(2, WIDTH)
    program = record(_native.ThreadPool(3), 2)
    expected = run(program, x)
    child = os.fork()
    if child == 0:
        os._exit(0 if run(program, x) == expected else 1)
    assert os.waitpid(child, 0)[1] == 0
    assert same_bits(np.frombuffer(run(program, x)[0], np.float32), np.frombuffer(expected[0], np.float32))
