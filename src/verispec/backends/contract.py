"""The one interface a backend implements, and the words it speaks.

A sequence is a slot of model state. Evaluating rows writes state but commits nothing: ``commit`` keeps the
first ``length`` positions of a sequence and forgets whatever was evaluated behind them.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Literal, NamedTuple

import numpy as np
import numpy.typing as npt

from verispec.artifacts.draft_file import DraftFile
from verispec.backends.draft_block import DraftBlock
from verispec.backends.prediction_block import PredictionBlock
from verispec.errors import UnsupportedError
from verispec.models.draft_hyperparameters import DraftHyperparameters

DEFAULT_CONTEXT = 4096
"""Positions a sequence holds unless told otherwise, or as many as the model was trained on, if fewer."""

COMMITTED = -1
"""The parent of a row that continues the committed prefix of its sequence."""

Exactness = Literal["exact", "token-checked"]


class Row(NamedTuple):
    """One token at one position, to be evaluated by the target."""

    sequence: int
    position: int
    token: int
    parent: int
    """Index, within the pass, of the row this one follows; ``COMMITTED`` for the first row after the
    prefix."""


def chain(sequence: int, position: int, tokens: Sequence[int], index: int = 0) -> list[Row]:
    """The rows of ``tokens`` one after another from ``position``, which is the sequence's committed length.

    ``index`` is the place of the first of them in its pass.
    """
    rows = [Row(sequence, position + i, token, index + i - 1) for i, token in enumerate(tokens)]
    if index and rows:
        rows[0] = rows[0]._replace(parent=COMMITTED)
    return rows


@dataclass(frozen=True)
class Evaluation:
    """What one ``evaluate`` gave, in the order of its ``outputs``."""

    argmax: list[int]
    """Token of the greatest logit of each output row, lowest id on a tie, taken before any final soft-cap."""
    logits: npt.NDArray[np.float32] | None
    """``[outputs, vocabulary]`` float32 when asked for; a view that holds until the next ``evaluate``."""
    hidden: dict[int, npt.NDArray[np.float32]] = field(default_factory=dict)
    """Tap -> ``[rows, hidden_size]`` float32, every row of the pass; valid until the next ``evaluate``."""


@dataclass(frozen=True)
class Capabilities:
    """What a backend with its model can do. Strategies are resolved against this before anything is
    allocated."""

    exactness: Exactness
    """``exact`` promises row invariance (C1); otherwise ``token-checked``."""
    architecture: str
    vocabulary: int
    hidden_size: int
    layers: int
    context: int
    """Positions a sequence can hold."""
    sequences: int
    """Sequences that can be open at once."""
    max_rows: int
    """Rows evaluated in one pass; ``evaluate`` splits longer lists."""
    rollback: int
    """Uncommitted rows a sequence can always take back; more may need ``oldest_length``, or ``holds``."""
    logits: bool = True
    trees: bool = False
    """Whether a row's parent may be another than the row before it."""
    recurrent: bool = False
    """Whether the model has state that is not addressed by position."""
    window: int = 0
    """For a recurrent model, S: the states just before the live one that a pass can keep to go back to."""
    taps: tuple[int, ...] = ()
    """Hidden states that can be captured: i = input of layer i, ``layers`` = output of the last, -1 = after
    the final norm."""
    prediction_layers: int = 0
    """Multi-token-prediction blocks that came with the model."""
    draft_heads: bool = False
    """Whether ``draft_head`` opens heads that read the target's hidden states."""
    own_draft: str = ""
    """Name of the draft artifact that comes with the package for this model; empty where there is none."""
    prefix_block: int = 0
    """Positions of a block that ``save_block`` copies out and ``load_blocks`` puts back; 0: neither is offered."""


@dataclass(frozen=True)
class Checkpoint:
    """A committed state of one sequence, to return to. ``state`` belongs to the backend that made it."""

    sequence: int
    length: int
    state: object = None


@dataclass(frozen=True, eq=False)
class PrefixBlock:
    """A copy of what a backend keeps for one block of committed positions, with everything that a sequence needs to go
    on behind it: keys and values, and for a recurrence its state at the block's end. Never changed once made."""

    layout: object
    """Names model, arithmetic and shape by value: only a backend of an equal layout takes the block."""
    index: int
    """The block of positions ``[index * B, (index + 1) * B)``, where B is ``Capabilities.prefix_block``."""
    bytes: int
    """Memory it holds."""
    state: object
    """Belongs to the backend that made it."""
    resumable: bool = True
    """Whether a sequence can go on right behind it: a recurrence's state is there at the ends of some blocks only."""


class BackendAdapter(ABC):
    """A target model behind one interface. Not thread-safe: one caller at a time."""

    @property
    @abstractmethod
    def name(self) -> str:
        """Short and stable, such as ``native``."""

    @property
    @abstractmethod
    def capabilities(self) -> Capabilities:
        """Constant for the adapter's life."""

    @abstractmethod
    def open_sequence(self) -> int:
        """A fresh sequence of length 0. Raises BackendError when all are taken."""

    @abstractmethod
    def close_sequence(self, sequence: int) -> None:
        """Frees the sequence."""

    @abstractmethod
    def length(self, sequence: int) -> int:
        """Committed positions."""

    @abstractmethod
    def oldest_length(self, sequence: int) -> int:
        """The shortest length that ``commit`` and ``restore`` can return to, but for 0, which always works.

        A sliding window's ring or a recurrence forgets what lies further back: a shorter prefix must be
        evaluated again from position 0.
        """

    def holds(self, sequence: int, length: int) -> bool:
        """Whether ``commit`` can return to ``length``, which is evaluated: a recurrence keeps few of the states on its
        way. Where it cannot, the rows behind the last committed length must be evaluated again."""
        return length == 0 or length >= self.oldest_length(sequence)

    def keep_states(  # noqa: B027 - keys and values are all kept anyway
        self, sequence: int, states: int, block_ends: bool = False
    ) -> None:
        """For a recurrent model: keep ``states`` before the live one, at most ``Capabilities.window``.

        ``block_ends``: a pass that wants no output of the sequence, as one over a prompt, keeps the states at the ends
        of prefix blocks in their stead, for ``save_block``; it can be committed as a whole or there.
        """

    def prediction_block(self, rows: int | None, ranked: npt.NDArray[np.int64] | None) -> PredictionBlock:
        """The prediction block with a head over the whole vocabulary, its first ``rows`` ids or the ``ranked`` ids.

        Raises UnsupportedError when ``Capabilities.prediction_layers`` is 0.
        """
        raise UnsupportedError(
            "needs-prediction-tensors",
            f"backend {self.name}: expected a model with a prediction block, found none",
            "Use a model file that carries one",
        )

    def draft_head(self, file: DraftFile, draft: DraftHyperparameters) -> PredictionBlock | DraftBlock:
        """An open draft head on this target: a ``PredictionBlock`` for EAGLE-3, a ``DraftBlock`` otherwise.

        It shares the target's sequences and, where the file holds none of its own, embedding and output matrix. One
        sequence more, numbered ``Capabilities.sequences``, is nobody's: for a check of the head. Raises ArtifactError
        for a head that does not fit the target, MemoryLimitError, and UnsupportedError for a backend that has none.
        """
        raise UnsupportedError(
            "backend-without-draft-heads",
            f"backend {self.name}: expected one that runs draft heads, found none",
            "Use the native backend",
        )

    @abstractmethod
    def evaluate(
        self, rows: Sequence[Row], outputs: Sequence[int], want_logits: bool, taps: Sequence[int] = ()
    ) -> Evaluation:
        """Evaluates rows of any number of sequences and gives outputs for ``outputs`` (row indices,
        ascending).

        A sequence's rows start at its committed length, with parent ``COMMITTED``. Nothing is committed, and
        a second ``evaluate`` before ``commit`` starts over from the committed length. More than ``max_rows``
        rows run as several passes; a caller that wants to cancel in between evaluates and commits chunk by
        chunk, which gives the same bits. Raises ContextOverflowError when a position lies outside the
        context, BackendError for rows that are malformed.
        """

    @abstractmethod
    def checkpoint(self, sequence: int) -> Checkpoint:
        """The committed state, cheap to take."""

    @abstractmethod
    def commit(self, sequence: int, length: int) -> None:
        """Keeps the first ``length`` positions, which have been evaluated or committed, and drops all behind
        them."""

    @abstractmethod
    def restore(self, checkpoint: Checkpoint) -> None:
        """Returns the checkpoint's sequence to its state. BackendError when that state is gone."""

    def save_block(self, sequence: int, index: int) -> PrefixBlock:
        """A copy of block ``index`` of the committed positions; the sequence is not changed.

        To be asked for as soon as the block is complete, before the next ``evaluate``: a sliding window displaces
        positions, a recurrence goes on. Of a recurrent model the block is resumable if the state at its end is still
        held.
        Raises BackendError when the block is not committed as a whole or no longer held, UnsupportedError when
        ``Capabilities.prefix_block`` is 0.
        """
        raise self._no_blocks()

    def load_blocks(self, sequence: int, blocks: Sequence[PrefixBlock]) -> None:
        """Makes the empty ``sequence`` what it was when it had just committed ``blocks``, which are 0, 1, 2, ... of one
        sequence: the caller knows that each was evaluated behind the ones before it.

        Going on gives the bits of evaluating all their tokens. Raises BackendError, and leaves the sequence empty, for
        a sequence that has a length, for blocks out of order, past the context or of another layout, for a last one
        that is not resumable; UnsupportedError
        when ``Capabilities.prefix_block`` is 0.
        """
        raise self._no_blocks()

    def _no_blocks(self) -> UnsupportedError:
        return UnsupportedError(
            "prefix-blocks",
            f"backend {self.name}: expected one that saves blocks of a prefix, found prefix_block 0",
            "Evaluate the whole prompt",
        )

    @abstractmethod
    def identity(self) -> dict[str, str | int]:
        """Everything that can change a bit of the output: kernels, arithmetic version, artifact digest,
        build."""

    @abstractmethod
    def close(self) -> None:
        """Frees the model. Safe to call twice."""
