"""Prefixes that requests leave for later ones of the same identity."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

from verispec.backends.contract import BackendAdapter
from verispec.engine.batching.job import Job
from verispec.engine.batching.statistics import Statistics
from verispec.engine.prefix_cache import PrefixCache
from verispec.engine.request import Request
from verispec.errors import VerispecError


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
        job.prefix = self._cache.match(job.prefix_identity, job.prepared.prompt)
        if job.prefix:
            self._backend.load_blocks(sequence, self._cache.blocks(job.prefix))

    def prepare(self, request: Request) -> None:
        """A recurrent state can be saved where a pass ends or keeps it: the prompt is cut there."""
        if self._cache is not None and self._backend.capabilities.recurrent:
            request.block_end = self._cache.block
            self._backend.keep_states(request.target.sequence, request.window or 0, block_ends=True)

    def keep(self, job: Job) -> None:
        """Saves the blocks that the job's last step has completed. A failure costs the job nothing but the cache."""
        request, path = job.request, job.prefix
        if self._cache is None or path is None or request is None:
            return
        size, target = self._cache.block, request.target
        if (len(path) + 1) * size <= target.length:
            request.settle()
        if job.prepared.options.resolution.strategy.keeps_entries and not request.drafter.drafting:
            job.prefix = None  # its drafter's entries end here
            return
        while (len(path) + 1) * size <= target.length:
            index = len(path)
            own = request.tokens[index * size : (index + 1) * size]
            save = partial(self._backend.save_block, target.sequence, index)
            try:
                kept = self._cache.extend(path, own, save)
            except (VerispecError, MemoryError):
                kept = False
            if not kept:
                job.prefix = None
                return

    def worth_waiting_for(self, job: Job, running: Sequence[Job]) -> bool:
        """Whether one of ``running`` is just reading the beginning of the same prompt, so that ``job`` need not."""
        if self._cache is None or not job.cache_prompt:
            return False
        prompt, size = job.prepared.prompt, self._cache.block
        for other in running:
            if other.reading and other.prefix is not None and other.prefix_identity == job.prefix_identity:
                begin = len(other.prefix) * size
                end = begin + size
                theirs = other.prepared.prompt
                # the block that it is reading first: where that differs, no more need be compared
                if (
                    end < len(prompt)
                    and prompt[begin:end] == theirs[begin:end]
                    and prompt[:end] == theirs[:end]
                ):
                    return True
        return False

    def report(self, statistics: Statistics) -> None:
        if self._cache is not None:
            statistics.prefix_query_tokens = self._cache.query_tokens
            statistics.prefix_hit_tokens = self._cache.hit_tokens
            statistics.prefix_bytes = self._cache.bytes
            statistics.prefix_evicted_blocks = self._cache.evicted_blocks
