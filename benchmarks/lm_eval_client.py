"""lm_eval, as it is published, against ``verispec serve``; what it reads must be what the library says.

Run as ``python -m benchmarks.lm_eval_client PYTHON``, where PYTHON is that of an environment with ``lm_eval[api]`` and
``transformers``. The tasks (multiple choice, generation, perplexity) and their data are in ``lm_eval_task``; nothing is
downloaded. lm_eval runs one request at a time, then eight at once in batches of four as token ids, then eight at once
as text. Every log-likelihood and every answer that it logs is compared with ``Model.generate``: none may differ.
Prints and writes JSON; ends with status 1 when something differs.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from benchmarks.lm_eval_tokenizer import write_tokenizer
from benchmarks.server_process import SERVED_AS, ServerProcess, serving, verispec_command

from verispec.artifacts.resolve import resolve_model
from verispec.bench.host import host_facts, load_average
from verispec.engine.loading import load
from verispec.engine.model import Model

TASKS = Path(__file__).parent / "lm_eval_task"
RESULTS = Path(__file__).parent / "results"
CONTEXT = 1024
CHOICE, CONTINUATION, PERPLEXITY = "local_choice", "local_continuation", "local_perplexity"
WAYS: dict[str, tuple[dict[str, Any], tuple[str, ...]]] = {
    "one at a time": ({"num_concurrent": 1}, (CHOICE, CONTINUATION, PERPLEXITY)),
    "eight at once, batches of four": (
        {"num_concurrent": 8, "batch_size": 4},
        (CHOICE, CONTINUATION, PERPLEXITY),
    ),
    "eight at once, as text": (
        {"num_concurrent": 8, "tokenized_requests": False},
        (CHOICE, CONTINUATION),
    ),
}
"""lm_eval's settings and tasks. Perplexity begins behind a control token, which no text can be for our server."""
ENCODE = (
    "import sys, json, transformers; "
    "tokenizer = transformers.AutoTokenizer.from_pretrained(sys.argv[1]); "
    "print(json.dumps([tokenizer(text, add_special_tokens=False).input_ids for text in json.load(sys.stdin)]))"
)

Row = dict[str, Any]


def run_harness(
    python: str, server: ServerProcess, tokenizer: Path, way: Row, tasks: Sequence[str], output: Path
) -> tuple[Row, list[Row]]:
    """lm_eval's results by task, and the samples that it logged."""
    way = dict(way)
    batch = str(way.pop("batch_size", 1))
    settings = {
        "model": SERVED_AS,
        "base_url": f"{server.url}/v1/completions",
        "tokenizer": tokenizer,
        "tokenizer_backend": "huggingface",
        "max_length": CONTEXT,
        "max_retries": 1,
        **way,
    }
    arguments = ",".join(f"{name}={value}" for name, value in settings.items())
    command = [
        python,
        "-m",
        "lm_eval",
        "run",
        "--model",
        "local-completions",
        "--model_args",
        arguments,
        "--batch_size",
        batch,
    ]
    command += [
        "--tasks",
        ",".join(tasks),
        "--include_path",
        ".",
        "--output_path",
        str(output),
        "--log_samples",
    ]
    offline = {"HF_HUB_OFFLINE": "1", "HF_DATASETS_OFFLINE": "1", "HF_HOME": str(output / "cache")}
    done = subprocess.run(command, cwd=TASKS, env={**os.environ, **offline}, capture_output=True, text=True)
    if done.returncode:
        raise RuntimeError(f"lm_eval ended with {done.returncode}: {done.stderr[-2000:]}")
    results = json.loads(next(output.rglob("results_*.json")).read_text(encoding="utf-8"))
    samples = [
        json.loads(line)
        for path in sorted(output.rglob("samples_*.jsonl"))
        for line in path.read_text(encoding="utf-8").splitlines()
    ]
    return results, samples


def differences(model: Model, samples: Sequence[Row]) -> tuple[int, list[str]]:
    """How many answers were compared with the library's, and those that differ."""
    compared, wrong = 0, []
    for sample in samples:
        for arguments, responses in zip(_in_order(sample["arguments"]), sample["resps"], strict=True):
            found = responses[0]
            expected = expectation(model, arguments)
            compared += 1
            read = [float(found[0]), str(found[1]) == "True"] if isinstance(found, list) else _read(found)
            if read != expected:
                wrong.append(f"{arguments}: expected {expected}, found {read}")
    return compared, wrong


def expectation(model: Model, arguments: Sequence[Any]) -> Any:
    """What lm_eval should have read for one request: [log-likelihood, greedy], a log-likelihood, or a text."""
    if len(arguments) == 1:
        return score(model, [prefix_token(model)], model.tokenizer.encode(arguments[0], add_bos=False))[0]
    if isinstance(arguments[1], dict):
        return model.generate(
            model.tokenizer.encode(arguments[0], add_bos=False),
            max_tokens=arguments[1]["max_gen_toks"],
            stop=arguments[1]["until"],
        ).text
    return score(model, *encode_pair(model, *arguments))


def encode_pair(model: Model, context: str, continuation: str) -> tuple[list[int], list[int]]:
    """As lm_eval does: spaces at the context's end belong to the continuation."""
    cut = len(context.rstrip())
    context, continuation = context[:cut], context[cut:] + continuation
    whole = model.tokenizer.encode(context + continuation, add_bos=False)
    length = len(model.tokenizer.encode(context, add_bos=False))
    return whole[:length], whole[length:]


def score(model: Model, context: Sequence[int], continuation: Sequence[int]) -> list[Any]:
    """The continuation's log-likelihood, and whether each of its tokens is the likeliest."""
    scored = model.generate([*context, *continuation], max_tokens=0, prompt_logprobs=1).prompt_logprobs
    assert scored is not None
    tail = scored[len(context) :]
    return [
        sum(one.logprob or 0.0 for one in tail),
        all(one.logprob == one.alternatives[0][1] for one in tail),
    ]


def prefix_token(model: Model) -> int:
    """What lm_eval puts before a text that has nothing before it."""
    bos = model.tokenizer.bos_id
    return bos if bos is not None else model.tokenizer.vocabulary.special["eos"]


def check_tokenizer(python: str, folder: Path, model: Model, texts: Sequence[str]) -> None:
    """RuntimeError when transformers reads another id than we do anywhere in ``texts``."""
    done = subprocess.run(
        [python, "-c", ENCODE, str(folder)],
        input=json.dumps(list(texts)),
        capture_output=True,
        text=True,
        check=True,
    )
    ours = [model.tokenizer.encode(text, add_bos=False) for text in texts]
    for text, theirs, expected in zip(texts, json.loads(done.stdout), ours, strict=True):
        if theirs != expected:
            raise RuntimeError(f"tokeniser: {text!r}: expected {expected}, found {theirs}")


def task_texts() -> list[str]:
    """Every text in the tasks' data."""
    rows = [
        json.loads(line) for path in TASKS.glob("*.jsonl") for line in path.read_text("utf-8").splitlines()
    ]
    texts: list[str] = []
    for row in rows:
        for value in row.values():
            texts += value if isinstance(value, list) else [value] if isinstance(value, str) else []
    return texts


def _in_order(arguments: Any) -> list[list[Any]]:
    """Logged as {gen_args_0: {arg_0: ..., arg_1: ...}, ...}."""
    if isinstance(arguments, dict):
        return [list(one.values()) for one in arguments.values()]
    return [list(one) for one in arguments]


def _read(found: Any) -> Any:
    try:
        return float(found)
    except ValueError:
        return found


def measure(python: str, name: str) -> dict[str, Any]:
    """Everything, as one report."""
    path = resolve_model(name).path
    report: dict[str, Any] = {"model": name, "load_average_before": load_average(), "ways": {}}
    options = ("--ctx", str(CONTEXT), "--parallel", "8", "--queue", "64")
    with tempfile.TemporaryDirectory() as folder, load(path, ctx=CONTEXT) as model:
        tokenizer = Path(folder) / "tokenizer"
        write_tokenizer(model.tokenizer.vocabulary, tokenizer)
        check_tokenizer(python, tokenizer, model, task_texts())
        with serving(verispec_command(str(path), *options)) as server:
            for number, (way, (settings, tasks)) in enumerate(WAYS.items()):
                output = Path(folder) / str(number)
                results, samples = run_harness(python, server, tokenizer, settings, tasks, output)
                compared, wrong = differences(model, samples)
                metrics = {
                    task: {key: value for key, value in values.items() if isinstance(value, float)}
                    for task, values in results["results"].items()
                }
                report["ways"][way] = {"compared": compared, "different": wrong, "results": metrics}
                report["lm_eval"] = results.get("lm_eval_version")
        report["artifacts_sha256"] = dict(model.artifacts)
    return {**report, "host": host_facts(), "load_average_after": load_average()}


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.lm_eval_client", description=__doc__)
    parser.add_argument("python", help="interpreter of an environment with lm_eval[api] and transformers")
    parser.add_argument("--model", default="smollm2-135m")
    parser.add_argument("--output", type=Path, default=RESULTS / "lm-eval.json")
    given = parser.parse_args()
    report = measure(given.python, given.model)
    given.output.write_text(json.dumps(report, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
    print(json.dumps(report["ways"], indent=1, ensure_ascii=False))
    return any(way["different"] for way in report["ways"].values())


if __name__ == "__main__":
    sys.exit(main())
