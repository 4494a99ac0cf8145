"""From a completion to its receipt."""

from __future__ import annotations

import os
import platform
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from verispec.artifacts.digests import file_sha256
from verispec.artifacts.draft_manifest import artifact_sha256
from verispec.artifacts.resolve import resolve_model
from verispec.drafting.options import DRAFT_MODEL, FR_RANKING, SUFFIX_CORPUS
from verispec.engine.completion import Completion
from verispec.evidence.receipt import Evidence, Receipt


def make_receipt(
    completion: Completion,
    *,
    runtime: Mapping[str, Any],
    artifacts: Mapping[str, str],
    tokenizer: str,
    include_text: bool,
) -> Receipt:
    """The receipt of one completion.

    ``runtime`` is the backend's identity, ``artifacts`` role to SHA-256 of the model's files, ``tokenizer`` its digest.
    """
    options = completion.options
    counters = completion.counters
    evidence = Evidence(
        runtime=runtime,
        artifacts={**artifacts, **_drafting_artifacts(completion)},
        tokenizer=tokenizer,
        sampling={**options.sampling.as_dict(), "seed": completion.seed},
        limits={
            "max_tokens": options.limits.max_tokens,
            "stop": list(options.limits.stop),
            "ignore_eos": options.limits.ignore_eos,
            "shown_tokens": list(options.limits.shown_tokens),
            "grammar": None if options.grammar is None else options.grammar.as_dict(),
        },
        prompt_tokens=completion.prompt_tokens,
        tokens=completion.tokens,
        text=completion.text,
        finish_reason=completion.finish_reason,
        stop_string=completion.stop_string,
        logprobs=completion.logprobs,
        speculation={
            **options.resolution.as_dict(),
            "strict_drafter": options.strict_drafter,
            "drafter_deadline": options.drafter_deadline,
            # what an adaptive draft width went by: without it nobody could compute the rounds again
            "draft_seconds": completion.draft_seconds,
            "block_seconds": completion.block_seconds,
            "pass_costs": None if completion.pass_costs is None else completion.pass_costs.as_dict(),
        },
        rounds=completion.rounds,
        schedule=completion.schedule,
        sources=completion.sources,
        counts={
            "passes": completion.passes,
            "prompt_passes": counters.prompt_passes,
            "reused_tokens": counters.reused_tokens,
            "replays": counters.replays,
            "guarded_round": counters.guarded_round,
            "declined": dict(completion.declined),
        },
        faults=completion.faults,
        warnings=completion.warnings,
        timings={
            "queued_seconds": completion.timings.queued,
            "first_token_seconds": completion.timings.first_token,
            "total_seconds": completion.timings.total,
            "prompt_seconds": completion.timings.prompt,
            "draft_seconds": completion.timings.draft,
            "pass_seconds": completion.timings.passes,
            "sampling_seconds": completion.timings.sampling,
        },
        machine={
            "system": platform.system(),
            "machine": platform.machine(),
            "processors": os.cpu_count() or 0,
            "python": platform.python_version(),
        },
    )
    return Receipt.of(evidence, include_text=include_text)


def _drafting_artifacts(completion: Completion) -> dict[str, str]:
    """Role to SHA-256 of the files the drafter read."""
    settings = completion.options.resolution.settings
    files = {"corpus": settings.get(SUFFIX_CORPUS.name), "ranking": settings.get(FR_RANKING.name)}
    digests = {role: file_sha256(Path(str(path))) for role, path in files.items() if path is not None}
    draft = settings.get(DRAFT_MODEL.name)
    if draft is not None:
        digests["drafter"] = artifact_sha256(resolve_model(str(draft)).path)
    return digests
