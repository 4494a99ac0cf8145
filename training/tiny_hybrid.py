"""Trains the small hybrid model:  python -m training.tiny_hybrid --out DIR

DIR gets the tokeniser, the tokens, a checkpoint every few minutes, train.log, and in the end the model as a
Hugging Face folder (DIR/tiny-hybrid). Started again after an interruption, the run goes on from its last checkpoint and
ends in the same state: what a step reads is a function of the seed and the step's number.
"""

from __future__ import annotations

import argparse
import logging
from pathlib import Path

import torch

from training import corpus
from training.loop import Run, train
from training.model_folder import NAME, write_model
from training.settings import Settings
from training.tokens import prepare_tokens


def main() -> None:
    arguments = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    arguments.add_argument("--out", type=Path, required=True, help="folder of the run, made or continued")
    arguments.add_argument(
        "--library", type=Path, help="standard library to read (default: this interpreter's)"
    )
    arguments.add_argument(
        "--steps", type=int, default=Settings.steps, help="optimiser steps (default: %(default)s)"
    )
    arguments.add_argument("--threads", type=int, default=2, help="threads of torch (default: %(default)s)")
    given = arguments.parse_args()
    given.out.mkdir(parents=True, exist_ok=True)
    logging.basicConfig(
        filename=given.out / "train.log", level=logging.INFO, format="%(asctime)s %(message)s", force=True
    )
    torch.set_num_threads(given.threads)

    documents = corpus.read_documents(given.library)
    tokens = prepare_tokens(documents, given.out)
    run = Run.begin_or_continue(given.out, Settings(steps=given.steps))
    train(run, tokens)
    write_model(run.model, tokens.tokenizer, given.out / NAME)


if __name__ == "__main__":
    main()
