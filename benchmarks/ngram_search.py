"""Searches llama-server's n-gram modes for the one that is fastest on a suite, so that it is compared at its best.

Run as ``python -m benchmarks.ngram_search BINARY MODEL``. Every setting writes a quarter of the prompts, the better
third of the settings half of them, the best six all; the best three then write all of them again, with both kinds of
attention. Each prompt gets a fresh server. Text behind the beginning of a loop is not counted. Prints JSON, the
fastest first.
"""

from __future__ import annotations

import argparse
import itertools
import json
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from verispec.artifacts.gguf import GgufFile
from verispec.artifacts.resolve import resolve_model
from verispec.bench.host import host_facts, load_average
from verispec.bench.peers.llama_server import LlamaServer
from verispec.bench.repetition import loop_start
from verispec.bench.suites import Suite, load_suite
from verispec.text.chat_template import ChatTemplate
from verispec.text.tokenizer import Tokenizer

CONTEXT = 2048
PLAIN_ATTENTION = ["-fa", "off"]
"""For one row of a small model it beats flash attention on a CPU; the finalists try both."""
FLASH_ATTENTION = ["-fa", "on"]
KEPT = (14, 6, 3)
"""Settings that go on after a quarter, a half and all of the prompts."""


def settings() -> Iterator[list[str]]:
    """Command line flags of every setting tried; the first is no speculation.

    How few tokens ``ngram-mod`` may propose matters little, so that it is not combined with everything else.
    """
    yield []
    yield _flags("ngram-mod")
    for match, most in itertools.product((3, 4, 6, 8), (8, 16, 32, 48)):
        yield _flags("ngram-mod", n_match=match, n_min=2, n_max=most)
    for least, most in itertools.product((0, 4), (16, 32)):
        yield _flags("ngram-mod", n_match=4, n_min=least, n_max=most)
    for key, value in itertools.product((3, 4, 6), (7, 15, 31)):
        yield _flags("ngram-simple", size_n=key, size_m=value)
    for key, value in itertools.product((3, 4, 6), (15, 31)):
        yield _flags("ngram-map-k", size_n=key, size_m=value)
    for key in (3, 4, 6):
        yield _flags("ngram-map-k4v", size_n=key, size_m=15)
    yield _flags("ngram-cache")


def _flags(kind: str, **values: int) -> list[str]:
    named = [(f"--spec-{kind}-{name.replace('_', '-')}", str(value)) for name, value in values.items()]
    return ["--spec-type", kind, *itertools.chain.from_iterable(named)]


def encode(model: Path, suite: Suite) -> tuple[list[list[int]], list[int]]:
    """The prompts' token ids as chat turns, and the end tokens."""
    with GgufFile.open(model) as file:
        tokenizer = Tokenizer.from_gguf(file.metadata, str(model))
        template = ChatTemplate.from_gguf(file.metadata, str(model))
    if template is None:
        raise SystemExit(f"{model}: expected a chat template, found none")
    turns = [[{"role": "user", "content": prompt.text}] for prompt in suite.prompts]
    return [template.encode(turn, tokenizer) for turn in turns], sorted(tokenizer.eos_ids)


class Candidate:
    """One setting and what it has written so far."""

    def __init__(self, server: LlamaServer, arguments: Sequence[str]) -> None:
        self.server = server
        self.arguments = list(arguments)
        self.answers = 0
        self.tokens = 0
        self.seconds = 0.0
        self.drafted = 0
        self.accepted = 0

    @property
    def rate(self) -> float:
        return self.tokens / self.seconds if self.seconds else 0.0

    def write(self, prompt: Sequence[int], max_tokens: int, end_tokens: Sequence[int]) -> None:
        run = self.server.decode(prompt, max_tokens, end_tokens)
        loop = loop_start(run.tokens)
        if loop is not None:
            run = self.server.decode(prompt, max(loop, 2), end_tokens)
        self.answers += 1
        self.tokens += run.counted
        self.seconds += run.seconds
        self.drafted += run.drafted or 0
        self.accepted += run.accepted or 0

    def as_dict(self) -> dict[str, Any]:
        return {
            "arguments": self.arguments,
            "tokens_per_second": round(self.rate, 2),
            "answers": self.answers,
            "tokens": self.tokens,
            "drafted": self.drafted,
            "accepted": self.accepted,
        }


def search(binary: str, model: Path, suite: Suite, threads: int) -> dict[str, Any]:
    """The finalists, fastest first, then everything else as far as it was measured."""
    prompts, end_tokens = encode(model, suite)
    candidates = [_candidate(binary, model, threads, [*PLAIN_ATTENTION, *flags]) for flags in settings()]
    plain, chosen = candidates[0], candidates
    parts = (prompts[0::4], prompts[1::4], [*prompts[2::4], *prompts[3::4]])
    for part, kept in zip(parts, KEPT, strict=True):
        _write_all(chosen, part, suite.max_tokens, end_tokens)
        best = sorted(chosen, key=lambda candidate: -candidate.rate)[:kept]
        chosen = list(dict.fromkeys([plain, *best]))
    with_flash = [[*FLASH_ATTENTION, *candidate.arguments[len(PLAIN_ATTENTION) :]] for candidate in chosen]
    flash = [_candidate(binary, model, threads, arguments) for arguments in with_flash]
    candidates += flash
    _write_all([*chosen, *flash], prompts, suite.max_tokens, end_tokens)
    candidates.sort(key=lambda candidate: (candidate.answers < len(prompts), -candidate.rate))
    return {
        "suite": suite.identity(),
        "model": model.name,
        "threads": threads,
        "server": candidates[0].server.describe()["llama-server"],
        "settings": [candidate.as_dict() for candidate in candidates],
        "host": host_facts(),
        "load_average_after": load_average(),
    }


def _candidate(binary: str, model: Path, threads: int, arguments: Sequence[str]) -> Candidate:
    return Candidate(
        LlamaServer(" ".join(arguments), binary, str(model), CONTEXT, threads, arguments), arguments
    )


def _write_all(
    candidates: Sequence[Candidate], prompts: Sequence[Sequence[int]], most: int, end_tokens: Sequence[int]
) -> None:
    for prompt in prompts:
        for candidate in candidates:
            candidate.write(prompt, most, end_tokens)
    print(f"{len(candidates)} settings on {len(prompts)} prompts", file=sys.stderr, flush=True)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(prog="python -m benchmarks.ngram_search", description=__doc__)
    parser.add_argument("binary")
    parser.add_argument("model")
    parser.add_argument("--suite", default="copy-heavy-12")
    parser.add_argument("--threads", type=int, default=2)
    arguments = parser.parse_args()
    found = search(
        arguments.binary, resolve_model(arguments.model).path, load_suite(arguments.suite), arguments.threads
    )
    print(json.dumps(found, indent=1))
