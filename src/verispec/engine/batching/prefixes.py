"""Prefixes that requests leave for later ones of the same identity."""

from __future__ import annotations

from collections.abc import Sequence

from verispec.backends.contract import BackendAdapter
from verispec.engine.batching.job import Job
from verispec.engine.batching.statistics import Statistics
from verispec.engine.prefix_cache import PrefixCache


class Prefixes:
    """The prefix cache beside a backend: committed blocks go in, beginnings of prompts come out.

    Only what is committed can be saved, so a rejected row never gets in.
    """

    def __init__(self, backend: BackendAdapter, max_bytes: int) -> None:
        """``max_bytes`` 0, or a backend that saves no blocks: nothing is kept."""
        self._backend = backend
        block = backend.capabilities.prefix_block
        self._cache = PrefixCache(block, max_bytes) if block and max_bytes else None

    def load(self, job: Job, sequence: int) -> None:
        """Puts the longest prefix known of the job's prompt into the empty ``sequence``."""
        if self._cache is None or not job.cache_prompt:
            return
        blocks = self._cache.match(job.identity, job.prepared.prompt)
        if blocks:
            self._backend.load_blocks(sequence, blocks)
            job.blocks = len(blocks)

    def keep(self, job: Job) -> None:
        """Saves the blocks that the job's last step has completed."""
        request = job.request
        if self._cache is None or not job.cache_prompt or request is None:
            return
        size = self._cache.block
        while (job.blocks + 1) * size <= request.target.length:
            index = job.blocks
            job.blocks += 1
            # held already, or what it follows is gone: nothing to save
            if self._cache.held(job.identity, request.tokens[: job.blocks * size]) == index:
                block = self._backend.save_block(request.target.sequence, index)
                self._cache.store(job.identity, request.tokens, index, block)

    def worth_waiting_for(self, job: Job, running: Sequence[Job]) -> bool:
        """Whether one of ``running`` is just reading the beginning of the same prompt, so that ``job`` need not."""
        cache, prompt = self._cache, job.prepared.prompt
        if cache is None or not job.cache_prompt:
            return False
        reading = [
            other
            for other in running
            if other.reading and other.cache_prompt and other.identity == job.identity
        ]
        if not reading:
            return False
        known = cache.held(job.identity, prompt[:-1])
        end = (known + 1) * cache.block
        beginning = prompt[:end]
        return end < len(prompt) and any(
            other.blocks <= known and other.prepared.prompt[:end] == beginning for other in reading
        )

    def report(self, statistics: Statistics) -> None:
        if self._cache is not None:
            statistics.prefix_query_tokens = self._cache.query_tokens
            statistics.prefix_hit_tokens = self._cache.hit_tokens
            statistics.prefix_bytes = self._cache.bytes
