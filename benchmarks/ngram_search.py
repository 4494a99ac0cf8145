"""Searches llama-server's n-gram modes for the one that is fastest on a suite, so that it is compared at its best.

Run as ``python -m benchmarks.ngram_search BINARY MODEL``. Three rounds of halving: every setting on a third of the
prompts, the better half on two thirds, the best eight on all of them and twice. Each prompt gets a fresh server.
Text behind the beginning of a loop is not counted. Prints JSON, the fastest first.
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
FINALISTS = 8


def settings() -> Iterator[list[str]]:
    """Command line flags of every setting tried; the first is no speculation."""
    yield []
    for match, least, most in itertools.product((3, 4, 6, 8, 12), (0, 2, 4), (8, 16, 32)):
        yield _flags("ngram-mod", n_match=match, n_min=least, n_max=most)
    yield _flags("ngram-mod")
    for key, value in itertools.product((2, 3, 4, 6), (7, 15, 31)):
        yield _flags("ngram-simple", size_n=key, size_m=value)
    for key, value in itertools.product((3, 4, 6), (7, 15)):
        yield _flags("ngram-map-k", size_n=key, size_m=value)
        yield _flags("ngram-map-k4v", size_n=key, size_m=value)
    for most in (7, 15):
        yield ["--spec-type", "ngram-cache", "--spec-draft-n-max", str(most)]


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
    candidates = [
        Candidate(LlamaServer(" ".join(flags) or "off", binary, str(model), CONTEXT, threads, flags), flags)
        for flags in settings()
    ]
    rounds = ((slice(0, None, 3), len(candidates)), (slice(1, None, 3), len(candidates) // 2))
    finals = [(slice(2, None, 3), FINALISTS), *[(slice(0, None, 1), FINALISTS)] * 2]
    for part, kept in (*rounds, *finals):
        candidates.sort(key=lambda candidate: -candidate.rate)
        plain = [candidate for candidate in candidates if not candidate.arguments]
        chosen = list(dict.fromkeys([*plain, *candidates[:kept]]))
        for prompt in prompts[part]:
            for candidate in chosen:
                candidate.write(prompt, suite.max_tokens, end_tokens)
        print(f"{len(chosen)} settings on {len(prompts[part])} prompts", file=sys.stderr, flush=True)
    candidates.sort(key=lambda candidate: (-candidate.answers, -candidate.rate))
    return {
        "suite": suite.identity(),
        "model": model.name,
        "threads": threads,
        "server": candidates[0].server.describe()["llama-server"],
        "settings": [candidate.as_dict() for candidate in candidates],
        "host": host_facts(),
        "load_average_after": load_average(),
    }


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
