"""How many of the prediction block's proposals the target accepts, on held-out text.

    python -m training.acceptance --run DIR --out FILE.json

Measured as drafting is used: the target continues held-out prompts greedily, in rounds of DEPTHS proposals, each
round accepting the longest prefix that equals the target's own choices. The same comparison along the held-out
text itself (text given, not generated) and the agreement that chance alone would give stand beside it. Everything
runs in float32 on the weights as exported, bfloat16.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional
from transformers import DynamicCache

from training import corpus, held_out
from training.architecture import HybridModel
from training.chains import chains
from training.model_folder import NAME, read_model
from training.tokens import TokenisedText, read_tokens

DEPTHS = 7
MEASURED_PROMPTS = 160
PROMPT_TOKENS = 48
"""Prompts with fewer tokens are left out, longer ones lose their beginning: one batch, no padding."""
NEW_TOKENS = 128
WINDOW = 256
"""Tokens of held-out text that are read at once."""
LOSS_WINDOWS, CHAIN_WINDOWS = 4, 16
"""One window in so many is read for the loss, and for the chains, which cost many times what reading costs."""


def main() -> None:
    arguments = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    arguments.add_argument("--run", type=Path, required=True, help="folder of a finished run")
    arguments.add_argument("--out", type=Path, required=True, help="file to write")
    given = arguments.parse_args()
    with torch.inference_mode():
        found = measure(read_model(given.run / NAME), read_tokens(given.run))
    given.out.write_text(json.dumps(found, indent=1) + "\n")
    print(json.dumps(found, indent=1))


def measure(model: HybridModel, text: TokenisedText) -> dict[str, Any]:
    """Every figure, as the manifest holds it."""
    ids = text.held_out[: len(text.held_out) // WINDOW * WINDOW].astype("int64")
    windows = torch.from_numpy(ids).view(-1, WINDOW)
    read = windows[::LOSS_WINDOWS]
    nats = 0.0
    for window in torch.split(read, 16):
        logits = model.head(model.hidden(window))[:, :-1]
        nats += functional.cross_entropy(logits.flatten(0, 1), window[:, 1:].flatten()).item() * len(window)
    agrees, chance = [], []
    for window in torch.split(windows[::CHAIN_WINDOWS], 16):
        proposed, chosen = proposals(model, window, model.hidden(window))
        agrees.append(proposed == chosen)
        chance.append(proposed[..., 0].flatten().roll(101) == chosen[..., 0].flatten())
    _, held_out_documents = corpus.split(corpus.read_documents())
    return {
        "held_out_loss_nats_per_token": round(nats / len(read), 4),
        "held_out_loss_conditions": f"{len(read)} windows of {WINDOW} tokens, spread evenly",
        "along_the_text": {
            "conditions": f"{sum(map(len, agrees))} windows of {WINDOW} tokens; a chain from every row, fed the text",
            "agreement_with_target_argmax_by_position": _shares(
                torch.cat(agrees).flatten(0, 1).float().mean(0)
            ),
            "agreement_by_chance": round(torch.cat(chance).float().mean().item(), 4),
        },
        "greedy_generation": generation(model, greedy(model, prompt_tokens(text, held_out_documents))),
    }


def prompt_tokens(text: TokenisedText, documents: list[corpus.Document]) -> Tensor:
    """The ends of the held-out prompts, [prompts, PROMPT_TOKENS]."""
    ids = [text.tokenizer.encode(prompt.text).ids for prompt in held_out.prompts(documents, MEASURED_PROMPTS)]
    return torch.tensor([row[-PROMPT_TOKENS:] for row in ids if len(row) >= PROMPT_TOKENS])


def greedy(model: HybridModel, prompts: Tensor) -> Tensor:
    """``prompts`` and NEW_TOKENS of the target's own greedy choices, [prompts, PROMPT_TOKENS + NEW_TOKENS]."""
    cache = DynamicCache(config=model.target.config)
    tokens = newest = prompts
    for _ in range(NEW_TOKENS):
        logits = model.target(newest, cache=cache, use_cache=True, logits_to_keep=1).logits
        newest = logits[:, -1:].argmax(-1)
        tokens = torch.cat([tokens, newest], dim=1)
    return tokens


def proposals(model: HybridModel, tokens: Tensor, hidden: Tensor) -> tuple[Tensor, Tensor]:
    """For a chain from each row: what the block proposes and what the target chooses, both [batch, rows, DEPTHS].

    The chains are fed the tokens of the text. A draft is fed its own proposals, which are the same up to the first
    that is rejected, and what comes after that does not count.
    """
    proposed, chosen = [], []
    choices = model.head(hidden).argmax(-1)
    for at, x in chains(model, tokens, hidden, DEPTHS):
        proposed.append(model.head(x).argmax(-1))
        chosen.append(choices[:, at])
    return torch.stack(proposed, -1), torch.stack(chosen, -1)


def generation(model: HybridModel, tokens: Tensor) -> dict[str, Any]:
    """Rounds as a decoder takes them over the greedily generated ``tokens``: acceptance and tokens a pass."""
    lengths = []
    for batch in torch.split(tokens, 32):
        proposed, chosen = proposals(model, batch, model.hidden(batch))
        lengths.append((proposed == chosen).cumprod(-1).sum(-1))
    accepted = [_rounds(row, PROMPT_TOKENS - 1) for row in torch.cat(lengths).tolist()]
    counts = torch.tensor([count for row in accepted for count in row])
    reached = torch.tensor(
        [(counts >= depth).sum().item() for depth in range(DEPTHS + 1)], dtype=torch.float64
    )
    return {
        "conditions": f"{len(tokens)} held-out prompts of {PROMPT_TOKENS} tokens, about {NEW_TOKENS} greedy "
        f"tokens each, {DEPTHS} proposals a round",
        "rounds": len(counts),
        "tokens_per_pass": round(1 + counts.double().mean().item(), 3),
        "accepted_share_of_proposals": round(counts.double().mean().item() / DEPTHS, 4),
        "accepted_by_position": _shares(reached[1:] / reached[0]),
        "accepted_by_position_given_the_one_before": _shares(reached[1:] / reached[:-1].clamp(min=1)),
    }


def _rounds(lengths: list[int], first: int) -> list[int]:
    """Accepted counts of the rounds, the first of them at row ``first``, where row i's chain accepts ``lengths[i]``.

    A chain from row i has token i + 1 as its anchor; a round that accepts n ends with the target's own token, the
    anchor of the next, n + 1 rows on.
    """
    counts = []
    row = first
    while row < len(lengths):
        counts.append(lengths[row])
        row += lengths[row] + 1
    return counts


def _shares(values: Tensor) -> list[float]:
    return [round(value, 4) for value in values.tolist()]


if __name__ == "__main__":
    main()
