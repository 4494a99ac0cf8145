"""Thousands of damaged files, others every day: each is read, or refused with ArtifactError.

No crash, no hang, no large allocation.
"""

from __future__ import annotations

import ctypes
import multiprocessing
import random
import resource
import signal
import struct
import traceback
from collections import Counter
from multiprocessing.connection import Connection
from pathlib import Path

from rotation import REPEAT, TODAY
from tiny_llama import header_parts, tiny_llama
from verispec.backends.contract import Row
from verispec.backends.native import NativeBackend, plan_model
from verispec.errors import ArtifactError
from verispec.text.chat_template import ChatTemplate
from verispec.text.tokenizer import Tokenizer

MUTATIONS = 3000
EXTRA_MEMORY = 64 << 20
CONTEXT = 16
EVALUATE_EACH = 5
SECONDS_EACH = 20.0
SECONDS = 300.0
HOSTILE = [0, 1, 2**31 - 1, 2**31, 2**32 - 1, 2**40, 2**63 - 1, 2**63, 2**64 - 33, 2**64 - 1]


def mutate(original: bytes, parts: list[tuple[int, int]], rng: random.Random) -> bytes:
    """One damaged copy. Most damage is done to the header, and there to the fields that begin its parts."""
    damaged = bytearray(original)
    start, size = rng.choice(parts)
    where = start + rng.randrange(min(size, 64)) if rng.random() < 0.8 else rng.randrange(len(damaged))
    kind = rng.choice(("cut", "bit", "bits", "number", "number", "noise", "remove", "insert", "repeat"))
    length = rng.randrange(1, 64)
    if kind == "cut":
        del damaged[where:]
    elif kind == "bit":
        damaged[where] ^= 1 << rng.randrange(8)
    elif kind == "bits":
        for _ in range(rng.randrange(2, 20)):
            damaged[rng.randrange(parts[-1][0])] ^= 1 << rng.randrange(8)
    elif kind == "number":
        width, code = rng.choice(((4, "<I"), (8, "<Q")))
        value = rng.choice([*HOSTILE, len(original), rng.randrange(2**32)]) % 2 ** (8 * width)
        damaged[where : where + width] = struct.pack(code, value)
    elif kind == "noise":
        damaged[where : where + length] = rng.randbytes(length)
    elif kind == "remove":
        del damaged[where : where + length]
    elif kind == "insert":
        damaged[where:where] = rng.randbytes(length)
    else:
        damaged[where:where] = damaged[where : where + length]
    return bytes(damaged)


def read_everything(path: Path, evaluate: bool) -> None:
    """All that loading a model reads; with ``evaluate`` also a pass over whatever weights came out of it."""
    plan = plan_model(path, CONTEXT, sequences=1)
    for name in plan.file.tensors:
        plan.file.data(name).max()
    Tokenizer.from_gguf(plan.file.metadata, str(path))
    ChatTemplate.from_gguf(plan.file.metadata, str(path))
    if not evaluate:
        return
    backend = NativeBackend(plan, threads=1)
    sequence = backend.open_sequence()
    rows = [Row(sequence, position, token, position - 1) for position, token in enumerate((1, 2, 3))]
    backend.evaluate(rows, outputs=[1, 2], want_logits=True)
    backend.close()


def attempt(path: Path, evaluate: bool) -> str:
    try:
        read_everything(path, evaluate)
    except ArtifactError as error:
        return "refused" if error.where and error.expected and error.found else "refused without saying why"
    return "read"


def run_all(folder: Path, answers: Connection, reached: ctypes.c_int) -> None:
    """In a process of its own, with little memory to spare and an alarm on every file.

    ``reached`` is shared with the parent: which mutation it is at, whatever becomes of this process.
    """
    original, parts = tiny_llama(), header_parts()
    path = folder / "mutated.gguf"
    path.write_bytes(original)
    read_everything(path, evaluate=True)
    used = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (used + EXTRA_MEMORY, used + EXTRA_MEMORY))
    rng = random.Random(TODAY)
    outcomes: Counter[str] = Counter()
    for index in range(MUTATIONS):
        reached.value = index
        path.unlink()  # a new file: writing over the old one would wait for the disk on some file systems
        path.write_bytes(mutate(original, parts, rng))
        signal.setitimer(signal.ITIMER_REAL, SECONDS_EACH)  # a hang ends this process: no answer is sent
        try:
            outcomes[attempt(path, evaluate=index % EVALUATE_EACH == 0)] += 1
        except BaseException:
            answers.send(traceback.format_exc())
            return
    answers.send(outcomes)


def test_only_artifact_errors(tmp_path: Path) -> None:
    context = multiprocessing.get_context("fork")
    receiver, sender = context.Pipe(duplex=False)
    reached = context.RawValue(ctypes.c_int, -1)
    process = context.Process(target=run_all, args=(tmp_path, sender, reached))
    process.start()
    sender.close()
    try:
        answer = receiver.recv() if receiver.poll(SECONDS) else f"no answer within {SECONDS} s"
    except EOFError:
        answer = "the process crashed, or hung and was ended by its alarm"
    process.join(SECONDS_EACH)
    process.kill()  # where it has not ended by itself
    process.join()
    where = f"at mutation {reached.value} of seed {TODAY} ({REPEAT}), exit code {process.exitcode}"
    assert isinstance(answer, Counter), f"{where}: {answer}"
    assert process.exitcode == 0, where
    assert answer["refused"] + answer["read"] == MUTATIONS
    assert answer["refused"] > MUTATIONS // 2, "most damage must be noticed"
    assert answer["read"] > MUTATIONS // 100, "some damage is harmless, or the test damages too much"
