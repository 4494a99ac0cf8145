"""Speculation on a hybrid model with a prediction block, held against ``off``: every rollback window, temperature,
draft head and quantisation, on held-out prompts; whole answers, log-probabilities included.

Run as ``python -m benchmarks.hybrid_parity MODEL --output FILE``. ``MODEL`` is the small hybrid of ``tests/data`` or
another with a prediction block. Nothing is timed.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
from benchmarks.held_out_prompts import held_out_prompts
from training.corpus import read_documents, split

from verispec.artifacts.model_file import open_model_file
from verispec.artifacts.quantise import quantise
from verispec.artifacts.ranked_vocabulary import RankedVocabulary, rank
from verispec.artifacts.recipe import load_recipe
from verispec.bench.conditions import conditions
from verispec.conformance.parity import Case, first_difference
from verispec.engine.completion import Completion
from verispec.engine.loading import load
from verispec.engine.model import Model
from verispec.engine.pass_cost import CostTable

EVERY_TOKEN: dict[str, Any] = {"spec_draft_max": 7, "spec_draft_policy": "fixed", "spec_draft_p_min": 0.0}
WIDTHS: dict[str, dict[str, Any]] = {
    "K7/S7": {**EVERY_TOKEN, "spec_mtp_recurrent_snapshots": 7},
    "K7/S6": {**EVERY_TOKEN, "spec_mtp_recurrent_snapshots": 6},
    "K7/S2": {**EVERY_TOKEN, "spec_mtp_recurrent_snapshots": 2},
    "adaptive": {"spec_draft_policy": "adaptive", "spec_draft_p_min": 0.0},
}
ASSUMED_COSTS = CostTable({0: {1: 1.0, 4: 1.05, 8: 1.15}})
ASSUMED_DRAFT_SECONDS = 0.05
"""What an adaptive width goes by here, in passes: as a large model has them. By its own a model this small would hardly
ever draft, and there would be little to hold against ``off``."""
TEMPERATURES = (0.0, 0.8)
RECIPES = ("q8", "tbq4")
HEAD_SIZE = 512
"""Rows of the reduced draft heads."""
SEED = 17


@contextmanager
def variants(parent: Path) -> Iterator[tuple[dict[str, Path], Path]]:
    """The model by recipe, and a ranked list of its vocabulary from the training text."""
    with tempfile.TemporaryDirectory() as folder:
        made = {}
        for name in RECIPES:
            made[name] = Path(folder) / f"{name}.gguf"
            with open_model_file(parent) as file:
                quantise(file, made[name], load_recipe(name))
        ranking = Path(folder) / "ranking.safetensors"
        with load(parent, threads=1) as model:
            ranked_by(model, "".join(document.text for document in split(read_documents())[0])).write(ranking)
        yield made, ranking


def ranked_by(model: Model, text: str) -> RankedVocabulary:
    """The HEAD_SIZE ids that ``text`` uses most."""
    vocabulary = model.backend.capabilities.vocabulary
    counts = np.zeros(vocabulary, np.int64)
    for begin in range(0, len(text), 1 << 20):
        counts += np.bincount(model.tokenizer.encode(text[begin : begin + (1 << 20)]), minlength=vocabulary)
    ids = rank(counts, HEAD_SIZE, model.tokenizer.eos_ids)
    return RankedVocabulary(ids, vocabulary, model.tokenizer.digest, "training text", {})


def heads(ranking: Path) -> dict[str, dict[str, Any]]:
    return {
        "full": {},
        "prefix": {"spec_mtp_fr_vocab_size": HEAD_SIZE},
        "ranked": {"spec_mtp_fr_ranking": str(ranking)},
    }


def cell(
    model: Model, texts: list[str], references: list[Completion], options: dict[str, Any]
) -> dict[str, Any]:
    """One combination on every prompt: how many answers equal those of ``off``, and what speculation did."""
    differences, answers = [], []
    for index, (text, reference) in enumerate(zip(texts, references, strict=True)):
        found = model.generate(text, **options)
        answers.append(found)
        difference = first_difference(Case(index, "mtp", 0, SEED, 0.0), reference, found)
        if difference is not None:
            differences.append(asdict(difference))
    passes = sum(answer.passes for answer in answers)
    return {
        "prompts": len(texts),
        "identical": len(texts) - len(differences),
        "first_differences": differences[:5],
        "faults": sum(len(answer.faults) for answer in answers),
        "replays": sum(answer.counters.replays for answer in answers),
        "most_replays_of_a_request": max(answer.counters.replays for answer in answers),
        "guarded_requests": sum(answer.counters.guarded_round is not None for answer in answers),
        "drafted": sum(answer.drafted for answer in answers),
        "accepted": sum(answer.accepted for answer in answers),
        "tokens_per_pass": sum(len(answer.tokens) for answer in answers) / passes,
    }


def study(parent: Path, count: int, tokens: int, threads: int | None) -> dict[str, Any]:
    """All cells. Every answer has ``tokens`` tokens, end tokens ignored."""
    texts = held_out_prompts(count)
    assumed = {"passes": ASSUMED_COSTS.as_dict(), "draft_token": ASSUMED_DRAFT_SECONDS}
    report: dict[str, Any] = {"adaptive_costs_assumed": assumed}
    report |= {"prompts": len(texts), "tokens": tokens, "head_rows": HEAD_SIZE, "cells": []}
    with variants(parent) as (made, ranking):
        for recipe, path in made.items():
            with load(path, threads=threads) as model:
                report.setdefault("conditions", {})[recipe] = conditions(model, recipe)
                model.assume_costs(ASSUMED_COSTS, ASSUMED_DRAFT_SECONDS)
                for temperature in TEMPERATURES:
                    common: dict[str, Any] = {
                        "max_tokens": tokens,
                        "temperature": temperature,
                        "seed": SEED,
                        "logprobs": 1,
                        "ignore_eos": True,
                    }
                    references = [model.generate(text, spec_mode="off", **common) for text in texts]
                    for (width, window), (head, reduced) in product(WIDTHS.items(), heads(ranking).items()):
                        options = {"spec_mode": "mtp", **common, **window, **reduced}
                        names = {"recipe": recipe, "temperature": temperature, "width": width, "head": head}
                        report["cells"].append(names | cell(model, texts, references, options))
                        print(json.dumps(report["cells"][-1]), file=sys.stderr, flush=True)
    report["answers"] = sum(one["prompts"] for one in report["cells"])
    report["identical"] = sum(one["identical"] for one in report["cells"])
    return report


if __name__ == "__main__":
    parser = argparse.ArgumentParser(prog="python -m benchmarks.hybrid_parity", description=__doc__)
    parser.add_argument("model", type=Path)
    parser.add_argument("--prompts", type=int, default=300)
    parser.add_argument("--tokens", type=int, default=64)
    parser.add_argument("--threads", type=int, default=None)
    parser.add_argument("--output", type=Path, required=True)
    arguments = parser.parse_args()
    result = study(arguments.model, arguments.prompts, arguments.tokens, arguments.threads)
    arguments.output.write_text(json.dumps(result, indent=2) + "\n", encoding="utf-8")
    print(f"{result['identical']} of {result['answers']} answers identical to off")
    raise SystemExit(result["identical"] != result["answers"])
