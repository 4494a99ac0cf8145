"""Streams at once: ``verispec serve`` beside llama-server, same weights, prompts, lengths and client.

Run as ``python -m benchmarks.server_throughput --peer LABEL=BINARY`` on a quiet machine; the label is one word. Every
measurement has a fresh server of 8 slots; the servers take turns within each repeat, every other time backwards. A
client keeps 1, 4 or 8 streams busy until each of the prompts has its answer: greedy, of a fixed length, prompts not
cached. Then six answers are written while a long prompt arrives, and a short one just behind it. Writes JSON and a
plot, prints the table.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from benchmarks.make_q8_0 import q8_0_of
from benchmarks.server_arrival import measure_arrival
from benchmarks.server_process import ServerProcess, llama_server_command, serving, verispec_command
from benchmarks.server_streams import Stream, crowd
from benchmarks.server_throughput_report import plot, summarise, table

from verispec.artifacts.digests import file_sha256
from verispec.artifacts.gguf import GgufFile
from verispec.artifacts.resolve import resolve_model
from verispec.artifacts.store import Store
from verispec.bench.host import host_facts, load_average
from verispec.bench.peers.catalog import LLAMA_SERVER, NGRAM_MODES, PEERS
from verispec.bench.peers.llama_server import LlamaServer
from verispec.bench.repetition import loop_start
from verispec.bench.suites import load_suite
from verispec.text.chat_template import ChatTemplate
from verispec.text.tokenizer import Tokenizer

SUITES = ("chat-12", "copy-heavy-12")
SLOTS = 8
CONTEXT = 2048
GREEDY = {"samplers": ["top_k"], "top_k": 1}
"""llama-server's cheapest way to the greatest logit; without it, it would sort the vocabulary."""
RESULTS = Path(__file__).parent / "results"


@dataclass(frozen=True, slots=True)
class Setting:
    """One server in one configuration. ``command`` takes the model's file; ``more`` goes into every request."""

    name: str
    command: Callable[[str], list[str]]
    more: dict[str, Any] = field(default_factory=dict)


def settings(peers: Sequence[str], threads: int) -> list[Setting]:
    """Ours off and auto; each peer off, with flash attention too, and in its best n-gram mode."""
    sizes = ("--ctx", str(CONTEXT), "--threads", str(threads), "--parallel", str(SLOTS))
    found = [
        Setting(
            f"verispec {mode}", lambda model, mode=mode: verispec_command(model, *sizes, "--spec-mode", mode)
        )
        for mode in ("off", "auto")
    ]
    best = NGRAM_MODES[0]
    configurations = (
        ("off", PEERS[LLAMA_SERVER].configurations[0].arguments),
        ("off, flash attention", ("-fa", "on")),
        (best.label, best.arguments),
    )
    for peer in peers:
        label, _, binary = peer.rpartition("=")
        for kind, arguments in configurations:

            def command(model: str, binary: str = binary, arguments: Sequence[str] = arguments) -> list[str]:
                return llama_server_command(binary, model, CONTEXT, SLOTS, threads, arguments)

            found.append(Setting(f"{label or LLAMA_SERVER} {kind}", command, GREEDY))
    return found


@dataclass(frozen=True, slots=True)
class Work:
    """The prompts as token ids, with the tokeniser that answers are read with."""

    tokenizer: Tokenizer
    prompts: list[list[int]]
    max_tokens: int

    @classmethod
    def of(cls, model: Path, max_tokens: int, most: int | None) -> Work:
        with GgufFile.open(model) as file:
            tokenizer = Tokenizer.from_gguf(file.metadata, str(model))
            template = ChatTemplate.from_gguf(file.metadata, str(model))
        assert template is not None
        suites = [load_suite(name).prompts for name in SUITES]
        mixed = [prompt for pair in zip(*suites, strict=True) for prompt in pair][:most]
        turns = [[{"role": "user", "content": prompt.text}] for prompt in mixed]
        return cls(tokenizer, [template.encode(turn, tokenizer) for turn in turns], max_tokens)

    def looping_share(self, answers: Sequence[Stream]) -> float:
        """The share of tokens from where each answer's loop begins: easy to predict, and nobody's use."""
        tokens = [self.tokenizer.encode(answer.text, add_bos=False) for answer in answers]
        looping = sum(len(text) - (loop_start(text) or len(text)) for text in tokens)
        return looping / max(1, sum(map(len, tokens)))


def measure_crowd(server: ServerProcess, work: Work, streams: int, setting: Setting) -> dict[str, Any]:
    """One pass over all prompts."""
    asyncio.run(crowd(server.port, work.prompts[:1], 1, 8, setting.more))  # warm
    started = time.perf_counter()
    answers = asyncio.run(crowd(server.port, work.prompts, streams, work.max_tokens, setting.more))
    seconds = max(answer.ended for answer in answers) - started
    tokens = sum(answer.tokens for answer in answers)
    return {
        "tokens": tokens,
        "seconds": seconds,
        "tokens_per_second": tokens / seconds,
        "first_text_seconds": [round(answer.first_text_seconds, 5) for answer in answers],
        "looping_share": round(work.looping_share(answers), 4),
        "texts": [answer.text for answer in answers],
    }


def run(
    models: Sequence[Path], chosen: Sequence[Setting], counts: Sequence[int], repeats: int, work: Work
) -> list[dict[str, Any]]:
    """Every measurement, in the order in which they were made. One that fails is reported, and the others go on."""
    runs: list[dict[str, Any]] = []
    for repeat in range(repeats):
        for model in models:
            for setting in chosen if repeat % 2 == 0 else reversed(chosen):
                for streams in (*counts, None):  # None: a long prompt arrives
                    what = {
                        "model": model.name,
                        "setting": setting.name,
                        "streams": streams,
                        "repeat": repeat,
                    }
                    started_load = load_average()[0]
                    try:
                        with serving(setting.command(str(model))) as server:
                            found = (
                                measure_crowd(server, work, streams, setting)
                                if streams
                                else measure_arrival(server, work.prompts, setting.more)
                            )
                    except (RuntimeError, OSError, EOFError, ValueError, IndexError) as error:
                        found = {"failed": str(error)}
                    runs.append({**what, **found, "load_average": started_load})
                    _tell(runs[-1])
    return runs


def _tell(one: dict[str, Any]) -> None:
    shown = {name: value for name, value in one.items() if name not in ("texts", "first_text_seconds")}
    print(json.dumps(shown), file=sys.stderr, flush=True)


def _conditions(models: Sequence[Path], given: argparse.Namespace) -> dict[str, Any]:
    return {
        "started": datetime.now(UTC).isoformat(timespec="seconds"),
        "models": [{"name": _shown(path), "file": path.name, "sha256": file_sha256(path)} for path in models],
        "suites": [load_suite(name).identity() for name in SUITES],
        "slots": SLOTS,
        "context": CONTEXT,
        "threads": given.threads,
        "max_tokens": given.tokens,
        "peers": [_version(peer, given.threads) for peer in given.peer],
        "host": host_facts(),
        "load_average_before": load_average(),
    }


def _shown(model: Path) -> str:
    """What the store calls the file, or the file's own name."""
    digest = file_sha256(model)
    return next((named.name for named in Store().all_named() if named.sha256 == digest), model.name)


def _version(peer: str, threads: int) -> dict[str, Any]:
    label, _, binary = peer.rpartition("=")
    return {"label": label, **LlamaServer(label, binary, "", CONTEXT, threads).describe()}


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.server_throughput", description=__doc__)
    parser.add_argument("--peer", action="append", default=[], help="LABEL=BINARY of a llama-server")
    parser.add_argument(
        "--model", action="append", help="name or GGUF file; default: SmolLM2 as shipped and as Q8_0"
    )
    parser.add_argument("--streams", type=int, nargs="+", default=[1, 4, 8])
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--tokens", type=int, default=128)
    parser.add_argument("--prompts", type=int, help="only so many prompts")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--output", type=Path, default=RESULTS / "server-throughput.json")
    given = parser.parse_args()
    models = [
        resolve_model(name).path for name in given.model or ["smollm2-135m", str(q8_0_of("smollm2-135m"))]
    ]
    conditions = _conditions(models, given)
    work = Work.of(models[0], given.tokens, given.prompts)
    runs = run(models, settings(given.peer, given.threads), given.streams, given.repeats, work)
    report = {**summarise(conditions, runs), "load_average_after": load_average()}
    given.output.parent.mkdir(parents=True, exist_ok=True)
    given.output.write_text(json.dumps(report, indent=1) + "\n", encoding="utf-8")
    plot(report, given.output.with_suffix(".png"))
    print(table(report))


if __name__ == "__main__":
    main()
