"""The round: one transaction of speculative decoding, in seven steps."""

from __future__ import annotations

import time

from verispec.backends.contract import Evaluation
from verispec.drafting.contract import Proposal
from verispec.engine.request import Emitted, Request
from verispec.engine.sampler import Sampled
from verispec.engine.shared_pass import Step
from verispec.errors import VerispecError


def run_round(request: Request, rows: int) -> Step[Emitted]:
    """Adds at least one token to an unfinished request, or leaves it exactly as it was and raises.

    It stops at step 3, for a pass that other requests may share, to which it brings at most ``rows`` rows.
    """
    retained = request.checkpoint()  # 1. retain every participant
    try:
        proposal = request.draft(rows)  # 2. ask the drafter
        evaluation = yield from request.evaluate(proposal)  # 3. one target pass over anchor + proposal
        emitted = sample_through_mismatch(request, evaluation, proposal)  # 4. the target decides
        request.commit(emitted, evaluation)  # 5. keep the accepted prefix, drop every rejected row
        return request.emit(emitted)  # 6. exactly one token of the target's own goes out with it
    except BaseException:
        request.restore(retained)  # 7. nothing half-done is visible
        raise


def sample_through_mismatch(request: Request, evaluation: Evaluation, proposal: Proposal) -> Emitted:
    """Samples output rows in order until one differs from the proposal or the request is finished.

    A row that no token can be chosen from ends the round before it; being the first of the next, it fails that one.

    Sampler and decoder take each token in before the next row is looked at, so that penalties, grammars, stop strings
    and limits act inside a block as they would one token at a time.
    """
    started = time.perf_counter()
    tokens: list[Sampled] = []
    text = ""
    accepted = 0
    for row, proposed in enumerate([*proposal.tokens, None]):
        before = request.sampler.checkpoint()
        try:
            sampled = request.sampler.sample(evaluation, row)
            request.sampler.accept(sampled.token)
            complete = request.sampler.finished
        except VerispecError:
            if not tokens:
                raise
            request.sampler.restore(before)  # what came before is kept, as it would be one token at a time
            break
        text += request.decoder.push(sampled.token)
        if complete:
            text += request.decoder.complete()
        tokens.append(sampled)
        if sampled.token != proposed:
            break
        accepted += 1
        if request.decoder.finish_reason is not None:
            break
    request.counters.sampling_seconds += time.perf_counter() - started
    return Emitted(tokens, text, len(proposal.tokens), accepted, request.schedule, proposal.source)
