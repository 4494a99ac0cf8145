"""The native extension. Rows are float32 ``[rows, width]``; a program names its buffers by int handles.

Every function raises ValueError that says what was wrong, what was expected and what was found.
"""

import builtins
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

arithmetic_version: str
"""Names the bits the kernels produce; results of another version are not comparable."""

def compiler() -> str:
    """The compiler that built the extension."""

def cpu_features() -> list[str]:
    """Instruction-set extensions of this CPU that kernels know of."""

def available_isas() -> list[str]:
    """Instruction sets the kernels can use here, best first: of ``avx512``, ``avx2``, ``portable``."""

def resolve_isa(name: str | None = None) -> str:
    """``name``, or what VERISPEC_ISA names, or the best of this CPU. ValueError when it is not available."""

class ThreadPool:
    """Persistent threads, the calling one included. Runs of several programs queue up."""

    def __init__(self, threads: int) -> None: ...
    @property
    def threads(self) -> int: ...

class Workspace:
    """Scratch memory shared by programs that never run at the same time."""

    def __init__(self) -> None: ...
    @property
    def nbytes(self) -> int: ...

class Vector:
    """A norm weight or a bias: a copy of float32 ``data``."""

    def __init__(self, data: npt.NDArray[np.float32]) -> None: ...
    def __len__(self) -> int: ...

class Matrix:
    """A packed weight matrix [outputs, inputs]."""

    @property
    def type(self) -> str: ...
    @property
    def outputs(self) -> int: ...
    @property
    def inputs(self) -> int: ...
    @property
    def nbytes(self) -> int: ...
    def first_rows(self, n: int) -> Matrix:
        """Its first ``n`` outputs, in the same memory."""

class Experts:
    """Packed weight matrices [experts, outputs, inputs]."""

    @property
    def type(self) -> str: ...
    @property
    def experts(self) -> int: ...
    @property
    def outputs(self) -> int: ...
    @property
    def inputs(self) -> int: ...
    @property
    def nbytes(self) -> int: ...

class Weights:
    """Room for ``capacity`` bytes of packed matrices, committed as they are packed."""

    def __init__(self, capacity: int) -> None: ...
    @staticmethod
    def packed_size(kind: str, outputs: int, inputs: int) -> int:
        """Bytes a matrix takes of the capacity."""

    def pack(
        self, kind: str, outputs: int, inputs: int, data: npt.NDArray[np.uint8], pool: ThreadPool
    ) -> Matrix:
        """Packs a matrix from its bytes in a GGUF file, ``data`` uint8 [nbytes].

        Pages of a read-only file mapping are dropped once packed.
        """

    def pack_experts(
        self,
        kind: str,
        experts: int,
        outputs: int,
        inputs: int,
        data: npt.NDArray[np.uint8],
        pool: ThreadPool,
    ) -> Experts:
        """As ``pack``, for matrices that follow one another; each takes ``packed_size`` of the capacity."""

    @property
    def used(self) -> int: ...

class RopeTable:
    """Cosines and sines of a rotary embedding for positions below ``positions``."""

    def __init__(
        self, inverse_frequencies: Sequence[float], magnitude: float, interleaved: bool, positions: int
    ) -> None: ...
    @property
    def positions(self) -> int: ...
    @property
    def pairs(self) -> int: ...

class KvCache:
    """Keys and values of ``slots`` sequences; ``layers`` are (kv_heads, head_dim, positions kept).

    A layer that keeps fewer than ``positions`` is a ring, one of (0, 0, 0) keeps nothing. Memory is committed
    as positions are written.
    """

    def __init__(self, slots: int, positions: int, layers: Sequence[tuple[int, int, int]]) -> None: ...
    @property
    def slots(self) -> int: ...
    @property
    def positions(self) -> int: ...
    @property
    def layers(self) -> int: ...
    @property
    def nbytes(self) -> int:
        """Reserved bytes, committed or not."""

    @property
    def closed(self) -> bool: ...
    def kept(self, layer: int) -> int:
        """Positions the layer holds: what was asked for, in whole blocks of 16."""

    def save(self, slot: int, begin: int, end: int) -> bytes:
        """Keys and values of all layers at positions [begin, end), whole blocks of 16 that every layer keeps.

        What a ring holds there now: the caller knows whether those are still the positions meant. Without the
        interpreter lock. RuntimeError while a pass runs on the cache.
        """

    def load(self, slot: int, begin: int, end: int, saved: bytes) -> None:
        """Puts back what ``save`` gave for as many positions of a cache of the same layers."""

    def discard_slot(self, slot: int) -> None:
        """Gives a slot's memory back to the system."""

    def close(self) -> None:
        """Frees all memory at once; programs on this cache can no longer run."""

class StateCache:
    """What the recurrent layers keep: ``places`` whole copies of it, float32, committed as they are written.

    ``layers`` are (floats of the convolution, floats of the recurrent state), (0, 0) for a layer that keeps nothing.
    A layer's convolution keeps [kernel - 1, channels], the oldest input first; its delta rule, for each value head in
    turn and each panel of 64 of its value columns (the last one what is left), [key_dim, columns of the panel].
    """

    def __init__(self, places: int, layers: Sequence[tuple[int, int]]) -> None: ...
    @property
    def places(self) -> int: ...
    @property
    def layers(self) -> int: ...
    @property
    def bytes(self) -> int:
        """Bytes of all places that can be committed."""

    @property
    def saved_bytes(self) -> int:
        """Bytes of one place, saved."""

    @property
    def closed(self) -> bool: ...
    def save(self, place: int) -> builtins.bytes:
        """A place's states, layer after layer, without the interpreter lock. RuntimeError while a pass runs."""

    def load(self, place: int, saved: builtins.bytes) -> None:
        """Puts back what ``save`` gave into any place of a cache of the same layers."""

    def discard(self, place: int) -> None:
        """Gives a place's memory back to the system; it reads as zeros."""

    def close(self) -> None:
        """Frees all memory at once; programs on this cache can no longer run."""

class Program:
    """A pass over ``rows`` rows with ``outputs`` outputs: recorded, finished, then run at will."""

    def __init__(
        self,
        pool: ThreadPool,
        workspace: Workspace,
        rows: int,
        outputs: int,
        logits: bool = False,
        isa: str | None = None,
    ) -> None: ...
    def input(self, width: int) -> int:
        """A buffer whose contents every run is given, and reads where they lie."""

    def embedding(self, table: Matrix, scale: float) -> int: ...
    def linear(
        self, x: int, weights: Sequence[Matrix], biases: Sequence[Vector | None] = ()
    ) -> list[int]: ...
    def rms_norm(self, x: int, weight: Vector | None, epsilon: float, groups: int = 1) -> int: ...
    def rope(self, x: int, heads: int, table: RopeTable) -> int:
        """Rotates in place; the handle given names the rotated value from then on."""

    def attention(
        self,
        q: int,
        k: int,
        v: int,
        cache: KvCache,
        layer: int,
        heads: int,
        scale: float,
        window: int = 0,
        softcap: float = 0.0,
        first: int = 0,
        block: bool = False,
    ) -> int:
        """Positions below ``first`` hold nothing; no row may stand there. ``block``: the rows of a sequence see all of
        each other."""

    def store_kv(self, k: int, v: int, cache: KvCache, layer: int) -> None:
        """Stores the rows' keys and values for later passes to attend to."""

    def convolution(self, x: int, weight: Matrix, states: StateCache, layer: int) -> int:
        """Causal, depthwise, then SiLU; ``weight`` is a float matrix [channels, kernel]."""

    def delta_rule(
        self,
        qkv: int,
        beta: int,
        alpha: int,
        decay: Vector,
        dt_bias: Vector,
        states: StateCache,
        layer: int,
        key_heads: int,
        value_heads: int,
        key_dim: int,
        value_dim: int,
        epsilon: float,
        grouped: bool = False,
    ) -> int: ...
    def sigmoid_gate(self, x: int, gate: int) -> int: ...
    def split(self, x: int, widths: Sequence[int], groups: int = 1) -> list[int]: ...
    def concat(self, parts: Sequence[int]) -> int: ...
    def route(self, logits: int, used: int, normalise: bool) -> tuple[int, int]:
        """Ids and shares; only such ids choose the experts of ``expert_linear``."""

    def expert_linear(self, x: int, ids: int, weight: Experts) -> int: ...
    def expert_sum(self, x: int, shares: int) -> int: ...
    def add(self, a: int, b: int) -> int: ...
    def swiglu(self, gate: int, up: int) -> int: ...
    def geglu(self, gate: int, up: int) -> int: ...
    def scale(self, x: int, factor: float) -> int: ...
    def softcap(self, x: int, cap: float) -> int: ...
    def select_outputs(self, x: int) -> int: ...
    def tap(self, x: int, name: int) -> None: ...
    def output_head(
        self, x: int, weight: Matrix, bias: Vector | None = None, softcap: float = 0.0
    ) -> None: ...
    def finish(self) -> None:
        """Plans phases and memory; nothing can be recorded afterwards."""

    def run(
        self,
        tokens: npt.NDArray[np.int32],
        positions: npt.NDArray[np.int32],
        slots: npt.NDArray[np.int32],
        output_rows: npt.NDArray[np.int32],
        inputs: Sequence[npt.NDArray[np.float32]] = (),
        state_from: npt.NDArray[np.int32] | None = None,
        state_to: npt.NDArray[np.int32] | None = None,
    ) -> None:
        """Evaluates the pass without the interpreter lock. RuntimeError while the workspace is in use.

        ``inputs`` are C-contiguous and are read where they lie: the caller leaves them as they are until the run is
        over. A program with recurrent layers is given for every row the place its state is read from (-1: zeros) and
        the place it is left at, which may be the same. Rows of a slot stand side by side and in order, each reading
        the place that the one before it left its state at.
        """

    def evaluate(
        self,
        rows: Sequence[tuple[int, int, int, int]],
        output_rows: Sequence[int],
        state_from: Sequence[int] | None = None,
        state_to: Sequence[int] | None = None,
        inputs: Sequence[npt.NDArray[np.float32]] = (),
    ) -> list[int]:
        """``run`` for rows of (slot, position, token, parent), whose parents are taken as checked; gives ``argmax``."""

    def time_phases(
        self,
        tokens: npt.NDArray[np.int32],
        positions: npt.NDArray[np.int32],
        slots: npt.NDArray[np.int32],
        output_rows: npt.NDArray[np.int32],
        inputs: Sequence[npt.NDArray[np.float32]] = (),
        state_from: npt.NDArray[np.int32] | None = None,
        state_to: npt.NDArray[np.int32] | None = None,
    ) -> list[float]:
        """As ``run``, phase by phase: the seconds each took, in the order of ``phases``."""

    @property
    def argmax(self) -> list[int]:
        """Of each output row: the token of the greatest logit, lowest id on a tie, before the soft-cap."""

    def logits(self) -> npt.NDArray[np.float32]:
        """[outputs, vocabulary]: a view that holds until the workspace runs again."""

    def hidden(self, name: int) -> npt.NDArray[np.float32]:
        """A tapped buffer: a view that holds until the workspace runs again."""

    @property
    def rows(self) -> int: ...
    @property
    def outputs(self) -> int: ...
    @property
    def isa(self) -> str: ...
    @property
    def workspace_bytes(self) -> int: ...
    def phases(self) -> list[str]:
        """One line a phase: its operations and its number of chunks."""

class SuffixAutomaton:
    """Online suffix automaton over token ids (int32)."""

    def __init__(self) -> None: ...
    def __len__(self) -> int:
        """Tokens held."""

    @property
    def states(self) -> int:
        """At most two for each token."""

    def extend(self, tokens: Sequence[int]) -> None:
        """Append token ids in order."""

    def propose(
        self, limit: int, min_match: int, min_confidence: float
    ) -> tuple[list[int], list[float], int]:
        """Tokens, confidences, and the length of the match (0: none) they continue."""

    @staticmethod
    def confidence(count: float, total: float, match: int) -> float:
        """Probability that what came ``count`` times of ``total`` after ``match`` equal tokens comes again."""

class TokenHistory:
    """The tokens a request has seen, counted for penalties."""

    def __init__(self, prompt: Sequence[int]) -> None: ...
    def append(self, tokens: Sequence[int]) -> None:
        """Output tokens, in order."""

    def truncate(self, length: int) -> None:
        """Forgets all but the first ``length`` output tokens."""

    def __len__(self) -> int:
        """Output tokens counted."""

class Sampler:
    """Chooses a token from a row of logits.

    In this order: ``logit_bias`` (token, added); ``repetition_penalty`` over prompt and output;
    ``presence_penalty`` and ``frequency_penalty`` over the output; ``temperature``; ``top_k`` (0: all); ``top_p``;
    ``min_p``. Then the greatest logit, lowest id on a tie (temperature 0), or the greatest sum of logit / temperature
    and :func:`gumbel` noise. ``isa`` chooses kernels and changes no result.
    """

    def __init__(
        self,
        *,
        temperature: float = 1.0,
        top_k: int = 0,
        top_p: float = 1.0,
        min_p: float = 0.0,
        repetition_penalty: float = 1.0,
        presence_penalty: float = 0.0,
        frequency_penalty: float = 0.0,
        logit_bias: Sequence[tuple[int, float]] = (),
        seed: int = 0,
        choice: int = 0,
        isa: str | None = None,
    ) -> None: ...
    def choose(
        self,
        logits: npt.NDArray[np.float32],
        position: int,
        history: TokenHistory | None = None,
        allowed: npt.NDArray[np.uint32] | None = None,
    ) -> int:
        """The token at ``position`` for ``logits`` [vocabulary]. Depends on the arguments alone.

        ``allowed`` [(vocabulary + 31) // 32]: bit i % 32 of word i // 32 says whether token i may be chosen; the
        others count as being at -inf. ValueError when no token that may be chosen has a finite logit.
        """

def log_probabilities(
    logits: npt.NDArray[np.float32], token: int, alternatives: int = 0, isa: str | None = None
) -> tuple[float, list[tuple[int, float]]]:
    """Log-softmax of ``logits`` [vocabulary]: of ``token``, and of the most probable tokens, best first."""

def gumbel(seed: int, choice: int, position: int, token: int) -> float:
    """The sampler's noise for one token: standard Gumbel, from -3.81 to 45.05."""

class ReadStream:
    """A buffer of at least ``nbytes`` written bytes in huge pages, to measure how fast memory is read."""

    def __init__(self, nbytes: int) -> None: ...
    @property
    def nbytes(self) -> int: ...
    def read(self, pool: ThreadPool) -> float:
        """Reads the buffer once on all threads of the pool, without the interpreter lock; seconds."""
