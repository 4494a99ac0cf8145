"""``bench pass``: the seconds of one pass by its number of rows, held against what reading the weights must cost."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from verispec import _native
from verispec.backends.native import NativeBackend
from verispec.bench.own_engine import OwnEngine
from verispec.bench.samples import Samples
from verispec.bench.subject import filler_tokens
from verispec.engine.model import Model
from verispec.errors import OptionError, UnsupportedError

PASSES_A_TURN = 5
READS_A_TURN = 3


@dataclass(frozen=True, slots=True)
class PassCurve:
    """Samples by rows, taken in turns with reads of as many bytes as the packed weights have."""

    context: int
    seconds: dict[int, Samples]
    reads: Samples
    bytes_read: int

    def as_dict(self) -> dict[str, Any]:
        """``ratio`` is to the fewest rows measured; all of it on minima, which noise cannot lower."""
        first = self.seconds[min(self.seconds)].minimum
        bandwidth = self.bytes_read / self.reads.minimum
        return {
            "context": self.context,
            "bytes_read": self.bytes_read,
            "bandwidth_bytes_per_second": round(bandwidth),
            "curve": [
                {
                    "rows": rows,
                    "seconds": samples.minimum,
                    "median_seconds": samples.median,
                    "ratio": round(samples.minimum / first, 4),
                    "share_of_bandwidth": round(self.bytes_read / samples.minimum / bandwidth, 4),
                    "passes": len(samples.values),
                }
                for rows, samples in self.seconds.items()
            ],
        }


def measure_pass_curve(model: Model, rows: Sequence[int], context: int, repeats: int) -> PassCurve:
    """Times every row count ``repeats`` times in turns of five passes, each turn beside a streaming read.

    OptionError when context and rows do not fit, UnsupportedError for a backend whose weights are not ours to read.
    """
    backend = model.backend
    if not isinstance(backend, NativeBackend):
        raise UnsupportedError(
            "not-native", f"bench pass on backend {backend.name}", "Use the native backend"
        )
    _check(rows, context, backend.capabilities.context)
    engine = OwnEngine(model)
    nbytes = backend.memory.weights
    stream, pool = _native.ReadStream(nbytes), _native.ThreadPool(backend.threads)
    vocabulary = backend.capabilities.vocabulary
    tokens = filler_tokens(context, vocabulary)
    seconds = {count: Samples() for count in rows}
    reads = Samples()
    for _ in range(-(-repeats // PASSES_A_TURN)):
        for count, samples in seconds.items():
            samples.add(engine.passes(tokens, filler_tokens(count, vocabulary), PASSES_A_TURN))
        reads.add([stream.read(pool) * nbytes / stream.nbytes for _ in range(READS_A_TURN)])
    return PassCurve(context, seconds, reads, nbytes)


def _check(rows: Sequence[int], context: int, room: int) -> None:
    if not rows or min(rows) < 1 or len(set(rows)) < len(rows):
        raise OptionError(f"rows: expected different counts over 0, found {list(rows)}")
    if context < 0 or context + max(rows) > room:
        raise OptionError(f"context: expected 0 to {room - max(rows)} for {max(rows)} rows, found {context}")
