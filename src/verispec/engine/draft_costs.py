"""What drafting costs on this machine, measured once for each thing that drafts."""

from __future__ import annotations

from weakref import ref

from verispec.backends.contract import BackendAdapter
from verispec.backends.draft_block import DraftBlock
from verispec.backends.prediction_block import PredictionBlock
from verispec.drafting.draft_text import DraftText
from verispec.drafting.options import DRAFT_MODEL
from verispec.drafting.resolution import Resolution
from verispec.drafting.strategies import Part
from verispec.engine.draft_files import RequestSources
from verispec.engine.draft_timing import DraftTiming, Seconds
from verispec.engine.model_lock import ModelLock

NOTHING: Seconds = (0.0, 0.0)


class DraftCosts:
    """``assumed`` takes the place of measuring, where it is set."""

    def __init__(self, backend: BackendAdapter, lock: ModelLock) -> None:
        """``lock`` guards ``backend``."""
        self.assumed: Seconds | None = None
        self._backend = backend
        self._lock = lock
        self._measured: dict[int, tuple[ref[object], Seconds]] = {}  # by identity, while the part is in use

    def seconds(self, resolution: Resolution, sources: RequestSources) -> Seconds:
        """What the strategy's drafter takes. Nothing where it cannot be measured: a block of the target's own while
        every sequence is held, an artifact where the request's has no place left, one that fails."""
        strategy = resolution.strategy
        if strategy.part is None:
            return NOTHING
        with self._lock:
            if self.assumed is not None:
                return self.assumed
            part = strategy.part(resolution.settings, sources)
            what = part.model if isinstance(part, DraftText) else part
            known = self._measured.get(id(what))
            if known is not None and known[0]() is what:
                return known[1]
            try:
                seconds = self._measure(part, DRAFT_MODEL.name in resolution.settings, sources.sequence)
            except Exception:  # a head that fails here fails in a round too, where it is counted
                return NOTHING
            self._measured = {key: one for key, one in self._measured.items() if one[0]() is not None}
            self._measured[id(what)] = ref(what), seconds
            return seconds

    def _measure(self, part: Part, is_artifact: bool, sequence: int) -> Seconds:
        """``sequence``: the request's own. What is evaluated there is not committed."""
        if is_artifact:
            timing = DraftTiming(self._backend, sequence)
            if isinstance(part, DraftText):
                return timing.text(part)
            nobodys = self._backend.capabilities.sequences  # a head's own cache has a place more
            if isinstance(part, DraftBlock):
                return timing.block(part, nobodys)
            return timing.prediction(part, nobodys)
        assert isinstance(part, PredictionBlock)
        empty = self._backend.open_sequence()  # its entries are those of the target's sequences
        try:
            return DraftTiming(self._backend, empty).prediction(part, empty)
        finally:
            self._backend.close_sequence(empty)
