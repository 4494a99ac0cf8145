"""Sampling stated again in plain Python, slowly: what the native sampler must choose."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Collection, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

MASK = 2**64 - 1
STEP = 0x9E3779B97F4A7C15


def mix(z: int, second: int) -> int:
    z = ((z ^ (z >> 30)) * 0xBF58476D1CE4E5B9) & MASK
    z ^= second
    z = ((z ^ (z >> 27)) * 0x94D049BB133111EB) & MASK
    return z ^ (z >> 31)


def noise_bits(seed: int, choice: int, position: int, token: int) -> int:
    state = mix((seed + STEP) & MASK, 0)
    state = mix(((state ^ choice) + STEP) & MASK, 0)
    state = mix(((state ^ position) + STEP) & MASK, 0)
    second = mix((state + STEP) & MASK, 0)
    return mix((state + STEP * (token + 1)) & MASK, second)


def gumbel(seed: int, choice: int, position: int, token: int) -> float:
    bits = noise_bits(seed, choice, position, token)
    if bits < 2**63:
        return -math.log(-math.log1p(-(bits + 0.5) / 2**64))
    return -math.log(-math.log((MASK - bits + 0.5) / 2**64))


@dataclass(frozen=True)
class Restated:
    temperature: float = 1.0
    top_k: int = 0
    top_p: float = 1.0
    min_p: float = 0.0
    repetition_penalty: float = 1.0
    presence_penalty: float = 0.0
    frequency_penalty: float = 0.0
    logit_bias: tuple[tuple[int, float], ...] = ()
    seed: int = 0
    choice: int = 0

    def adjusted(
        self, logits: npt.NDArray[np.float32], prompt: Sequence[int], output: Sequence[int]
    ) -> list[float]:
        row = [float(x) for x in logits]
        for token, bias in self.logit_bias:
            row[token] = float(np.float32(row[token] + bias))
        counts = Counter(output)
        for token in {*prompt, *output}:
            x = row[token]
            x = x / self.repetition_penalty if x > 0 else x * self.repetition_penalty
            if counts[token]:
                x -= self.presence_penalty + self.frequency_penalty * counts[token]
            row[token] = float(np.float32(x))
        return row

    def kept(self, row: Sequence[float]) -> list[int]:
        order = sorted(range(len(row)), key=lambda token: (-row[token], token))
        order = [token for token in order if row[token] > -math.inf]
        if self.top_k:
            order = order[: self.top_k]
        weights = [math.exp((row[token] - row[order[0]]) / self.temperature) for token in order]
        if self.top_p < 1.0:
            total, running, length = math.fsum(weights), 0.0, 0
            while length < len(order) and running < self.top_p * total:
                running += weights[length]
                length += 1
            order, weights = order[:length], weights[:length]
        return [token for token, w in zip(order, weights, strict=True) if w >= self.min_p]

    def choose(
        self,
        logits: npt.NDArray[np.float32],
        position: int,
        prompt: Sequence[int] = (),
        output: Sequence[int] = (),
        allowed: Collection[int] | None = None,
    ) -> int:
        row = self.adjusted(logits, prompt, output)
        if allowed is not None:
            row = [x if token in allowed else -math.inf for token, x in enumerate(row)]
        if self.temperature == 0.0:
            return max(range(len(row)), key=lambda token: (row[token], -token))

        def height(token: int) -> tuple[float, int]:
            noise = gumbel(self.seed, self.choice, position, token)
            return row[token] / self.temperature + noise, -token

        return max(self.kept(row), key=height)
