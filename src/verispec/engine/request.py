"""One generation: its participants, its committed tokens, and what was counted on the way."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

from verispec.backends.contract import Checkpoint, Evaluation
from verispec.drafting.contract import Proposal
from verispec.engine.decoder import Decoder, DecoderMark
from verispec.engine.guarded_drafter import GuardedDrafter
from verispec.engine.sampler import Sampled, Sampler
from verispec.engine.target import Target


@dataclass(slots=True)
class Counters:
    """What a request's passes cost, in wall seconds, and what they did not have to do.

    ``replays`` counts prefixes that were there and evaluated again, because a sliding window had forgotten them.
    """

    reused_tokens: int = 0
    prompt_passes: int = 0
    replays: int = 0
    prompt_seconds: float = 0.0
    draft_seconds: float = 0.0
    pass_seconds: float = 0.0


class Emitted(NamedTuple):
    """What one round added: the accepted tokens and the target's own next one, and the text they made certain."""

    tokens: list[Sampled]
    text: str
    drafted: int
    accepted: int


class Retained(NamedTuple):
    """A checkpoint of every participant at the last committed transaction."""

    tokens: int
    emissions: int
    target: Checkpoint
    drafter: tuple[object, object, int]
    sampler: int
    decoder: DecoderMark


class Request:
    """The state a round works on. Only ``run_round`` and ``process_prompt`` change it."""

    def __init__(
        self,
        prompt: Sequence[int],
        target: Target,
        drafter: GuardedDrafter,
        sampler: Sampler,
        decoder: Decoder,
    ) -> None:
        self.tokens = list(prompt)
        self.prompt_length = len(self.tokens)
        self.target = target
        self.drafter = drafter
        self.sampler = sampler
        self.decoder = decoder
        self.counters = Counters(reused_tokens=target.length)
        self.emissions: list[Emitted] = []
        self.cancelled = False
        self._unfinished: Retained | None = None

    @property
    def finish_reason(self) -> str | None:
        return self.decoder.finish_reason or ("cancelled" if self.cancelled else None)

    def process_prompt(self) -> bool:
        """Evaluates one chunk of the prompt, when more is waiting than the first round's own pass takes."""
        waiting = len(self.tokens) - self.target.length
        chunk = min(self.target.max_rows, waiting - (self.target.max_rows - self.drafter.widest))
        if chunk <= 0:
            return False
        started = time.perf_counter()
        self.target.process_chunk(self.tokens[self.target.length : self.target.length + chunk])
        self.counters.prompt_passes += 1
        self.counters.prompt_seconds += time.perf_counter() - started
        return True

    def recover(self) -> None:
        """Completes the restore of a failed round, when that restore was itself interrupted."""
        if self._unfinished is not None:
            self.restore(self._unfinished)

    def checkpoint(self) -> Retained:
        self._unfinished = Retained(
            len(self.tokens),
            len(self.emissions),
            self.target.checkpoint(),
            self.drafter.checkpoint(),
            self.sampler.checkpoint(),
            self.decoder.checkpoint(),
        )
        return self._unfinished

    def draft(self) -> Proposal:
        started = time.perf_counter()
        room = self.target.context - len(self.tokens)
        proposal = self.drafter.propose(min(self.decoder.remaining - 1, room), self.tokens)
        self.counters.draft_seconds += time.perf_counter() - started
        return proposal

    def evaluate(self, proposal: Proposal) -> Evaluation:
        started = time.perf_counter()
        pending = self.tokens[self.target.length :]
        evaluation = self.target.evaluate(pending, proposal.tokens, self.sampler.needs_logits)
        self.counters.pass_seconds += time.perf_counter() - started
        return evaluation

    def commit(self, emitted: Emitted) -> None:
        """Every emitted token but the last was evaluated in this pass; the last is the next anchor."""
        tokens = [sampled.token for sampled in emitted.tokens]
        self.tokens += tokens
        self.target.commit(len(self.tokens) - 1)
        self.drafter.record(tokens)

    def emit(self, emitted: Emitted) -> Emitted:
        self.emissions.append(emitted)
        self._unfinished = None
        return emitted

    def restore(self, retained: Retained) -> None:
        self._unfinished = retained  # an interrupted restore is completed before the next round
        del self.tokens[retained.tokens :]
        del self.emissions[retained.emissions :]
        self.target.restore(retained.target)
        self.drafter.restore(retained.drafter)
        self.sampler.restore(retained.sampler)
        self.decoder.restore(retained.decoder)
        self._unfinished = None
