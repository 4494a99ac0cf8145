"""One generation: its participants, its committed tokens, and what was counted on the way."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

from verispec.backends.contract import Checkpoint, Evaluation
from verispec.drafting.contract import Proposal
from verispec.engine.decoder import Decoder, DecoderMark
from verispec.engine.guarded_drafter import DrafterMark, GuardedDrafter
from verispec.engine.prompt_scores import PromptScores
from verispec.engine.sampler import Sampled, Sampler
from verispec.engine.shared_pass import Step
from verispec.engine.target import Target


@dataclass(slots=True)
class Counters:
    """What a request's passes cost, in wall seconds, and what they did not have to do.

    ``draft_seconds`` are those of proposing and of taking in what a round's pass showed, ``sampling_seconds`` those of
    choosing tokens and of making text of them.

    ``replays`` counts prefixes that were there and evaluated again: a sliding window had forgotten them, or a rejection
    went back further than the rollback window. ``guarded_round`` is the round, from 0, whose rejection did so first:
    from then on no proposal is longer than the window.
    """

    reused_tokens: int = 0
    prompt_passes: int = 0
    replays: int = 0
    guarded_round: int | None = None
    prompt_seconds: float = 0.0
    draft_seconds: float = 0.0
    pass_seconds: float = 0.0
    sampling_seconds: float = 0.0


class Schedule(NamedTuple):
    """What a round was told before its pass; an adaptive draft width and the length of a proposal go by it.

    ``rows``: the most it could bring, 0 for no bound but the backend's. ``company``: the rows that others had planned
    to bring. ``others``: how many of those others would write.
    """

    rows: int
    company: int
    others: int


ALONE = Schedule(0, 0, 0)


class Emitted(NamedTuple):
    """What one round added: the accepted tokens and the target's own next one, and the text they made certain."""

    tokens: list[Sampled]
    text: str
    drafted: int
    accepted: int
    schedule: Schedule = ALONE
    source: str = ""
    """Of a chain: the strategy whose proposal it was."""


class Retained(NamedTuple):
    """A checkpoint of every participant at the last committed transaction."""

    tokens: int
    emissions: int
    target: Checkpoint
    drafter: DrafterMark
    sampler: int
    decoder: DecoderMark
    replays: int
    guarded_round: int | None


class Request:
    """The state a round works on. Only the steps of ``next_step`` change it."""

    def __init__(
        self,
        prompt: Sequence[int],
        target: Target,
        drafter: GuardedDrafter,
        sampler: Sampler,
        decoder: Decoder,
        scores: PromptScores | None = None,
        window: int | None = None,
    ) -> None:
        """``scores``: where the prompt's own log-probabilities go, when they were asked for. ``window``: S of a
        recurrent target, None for one that takes back whatever it evaluated."""
        self.tokens = list(prompt)
        self.prompt_length = len(self.tokens)
        self.target = target
        self.drafter = drafter
        self.sampler = sampler
        self.decoder = decoder
        self.scores = scores
        self.window = window
        self.block_end = 1
        """Where a prompt is cut, in multiples of positions: a recurrent state can be saved there."""
        self.counters = Counters(reused_tokens=target.length)
        self.emissions: list[Emitted] = []
        self.schedule = ALONE
        self.cancelled = False
        self._transaction: Retained | None = None  # the last one begun
        self._unfinished: Retained | None = None

    @property
    def finish_reason(self) -> str | None:
        if self.cancelled and (self.decoder.finish_reason is None or self._waiting()):
            return "cancelled"
        return self.decoder.finish_reason

    @property
    def over(self) -> bool:
        """Whether nothing is left to do: an answer of no tokens still has its prompt to be scored."""
        return self.cancelled or (self.finish_reason is not None and not self._waiting())

    def _waiting(self) -> int:
        """Prompt tokens that need a pass before the first round."""
        waiting = self.prompt_length - 1 - self.target.length if self.scores is not None else 0
        return waiting if waiting > 0 else 0

    def prompt_chunk(self, rows: int) -> int:
        """How many prompt tokens the next pass takes, of at most ``rows``, before a round can begin.

        0 when the first round's own pass can take the rest of the prompt and leave room for a proposal.
        """
        if self.scores is not None:  # the rows of the round itself score nothing
            return min(rows, self._waiting())
        waiting = len(self.tokens) - self.target.length
        chunk = max(0, min(rows, waiting - max(1, rows - self.drafter.widest)))
        if self.block_end > 1 and self.target.length < self.prompt_length - 1:
            return self._to_block_end(chunk or min(rows, waiting - 1)) or chunk
        return chunk

    def _to_block_end(self, rows: int) -> int:
        """How many of the next ``rows`` pending tokens end with a block; 0 when no block ends among them."""
        length = self.target.length
        return max(0, (length + rows) // self.block_end * self.block_end - length)

    def process_prompt(self, chunk: int) -> Step[None]:
        """Evaluates and commits the next ``chunk`` tokens of the prompt."""
        started = time.perf_counter()
        length = self.target.length
        tokens = self.tokens[length : length + chunk]
        scores = self.scores
        taps = self.drafter.taps
        evaluation = yield self.target.share(tokens, chunk if scores else 0, scores is not None, taps)
        if scores is not None:
            scores.take(evaluation, self.tokens, length, chunk)
        # first what can be done twice: an interrupt in between has the chunk read again
        self.drafter.absorb(length, self.tokens[length : length + chunk + 1], evaluation.hidden)
        self.target.commit(length + chunk)
        self.counters.prompt_passes += 1
        self.counters.prompt_seconds += time.perf_counter() - started

    def recover(self) -> None:
        """Completes the restore of a failed round, when that restore was itself interrupted."""
        if self._unfinished is not None:
            self.restore(self._unfinished)

    def checkpoint(self) -> Retained:
        self._transaction = self._unfinished = Retained(
            len(self.tokens),
            len(self.emissions),
            self.target.checkpoint(),
            self.drafter.checkpoint(),
            self.sampler.checkpoint(),
            self.decoder.checkpoint(),
            self.counters.replays,
            self.counters.guarded_round,
        )
        return self._unfinished

    def share_pass(self, schedule: Schedule) -> None:
        """What the next round has to go by."""
        self.schedule = schedule
        self.drafter.policy.share_pass(schedule.company, schedule.others + 1)

    def draft(self, rows: int) -> Proposal:
        """A proposal that fits a pass of ``rows`` rows beside the tokens still pending."""
        started = time.perf_counter()
        pending = len(self.tokens) - self.target.length
        room = min(self.target.context - len(self.tokens), rows - pending)
        limit = min(self.decoder.remaining - 1, room)
        proposal = self._forced(limit) or self.drafter.propose(limit, self.tokens, self.sampler.legal_prefix)
        self.counters.draft_seconds += time.perf_counter() - started
        return proposal

    def _forced(self, limit: int) -> Proposal:
        """What a grammar leaves no choice about costs no drafter, and is never wrong."""
        forced = self.sampler.forced()[: max(0, min(limit, self.drafter.widest))]
        if forced:
            self.drafter.policy.spend(len(forced), len(self.tokens))
        return Proposal(forced, [1.0] * len(forced))

    def evaluate(self, proposal: Proposal) -> Step[Evaluation]:
        """What follows the anchor, then what follows each proposed token, from one pass."""
        started = time.perf_counter()
        pending = self.tokens[self.target.length :]
        rows = [*pending, *proposal.tokens]
        outputs = 1 + len(proposal.tokens)
        evaluation = yield self.target.share(rows, outputs, self.sampler.needs_logits, self.drafter.taps)
        self.counters.pass_seconds += time.perf_counter() - started
        return evaluation

    def commit(self, emitted: Emitted, evaluation: Evaluation) -> None:
        """Every emitted token but the last was evaluated in this pass; the last is the next anchor.

        A rejection outside the rollback window leaves the target where it was before the pass. The tokens are pending
        then, and the next pass evaluates them once more, before its own proposal: the replay.
        """
        tokens = [sampled.token for sampled in emitted.tokens]
        begin = self.target.length
        self.tokens += tokens
        if not self.target.commit(len(self.tokens) - 1) and self.decoder.finish_reason is None:
            self._guard()
        started = time.perf_counter()
        self.drafter.record(tokens)
        self.drafter.absorb(begin, self.tokens[begin:], evaluation.hidden)
        self.counters.draft_seconds += time.perf_counter() - started

    def settle(self) -> None:
        """Completes the drafter's cache, before somebody else goes on from it."""
        started = time.perf_counter()
        self.drafter.settle()
        self.counters.draft_seconds += time.perf_counter() - started

    def _guard(self) -> None:
        """Counts the replay; from here on no rejection of this request can need another."""
        self.counters.replays += 1
        if self.counters.guarded_round is None:
            self.counters.guarded_round = len(self.emissions)
        assert self.window is not None
        self.drafter.bound = self.window

    def emit(self, emitted: Emitted) -> Emitted:
        self.emissions.append(emitted)
        self._unfinished = None
        return emitted

    def restore(self, retained: Retained) -> None:
        if retained is not self._transaction:
            return  # a round that an interrupt left hanging, closed only after another had begun
        self._unfinished = retained  # an interrupted restore is completed before the next round
        del self.tokens[retained.tokens :]
        del self.emissions[retained.emissions :]
        self.target.restore(retained.target)
        self.drafter.restore(retained.drafter)
        self.sampler.restore(retained.sampler)
        self.decoder.restore(retained.decoder)
        self.counters.replays = retained.replays
        self.counters.guarded_round = retained.guarded_round
        self._unfinished = None
