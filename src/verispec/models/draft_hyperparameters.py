"""The numbers of a draft head, read from its metadata and checked: its layers', and how it hangs on its target."""

from __future__ import annotations

from dataclasses import dataclass, replace

from verispec.artifacts.draft_config import MASK_TOKEN
from verispec.artifacts.draft_file import MARKOV, DraftFile, Kind
from verispec.errors import ArtifactError
from verispec.models.hyperparameters import Family, Hyperparameters, read_common
from verispec.models.metadata import MISSING, MetadataReader, shorten

MOST_TAPS = 32
MOST_BLOCK = 64
LARGEST_WIDTH = 1 << 18
LARGEST_VOCABULARY = 1 << 22


@dataclass(frozen=True)
class DraftHyperparameters:
    """One head's numbers. Widths are in elements."""

    kind: Kind
    decoder: Hyperparameters
    """Of its layers. ``vocabulary`` is the target's, ``trained_context`` bounds the positions it can be used at."""
    target_hidden_size: int
    named_taps: tuple[int, ...]
    """The hidden states that it reads, numbered as in ``ops.contract``; empty where it is left to the target."""
    outputs: int
    """Tokens that its output matrix scores."""
    norm_before_residual: bool = False
    norm_output: bool = False
    """Whether the next step reads the hidden state after the norm."""
    block: int = 0
    """Rows of a block drafter's pass, the anchor's included; 0 for EAGLE-3."""
    mask_token: int = 0
    sample_from_anchor: bool = False
    """Whether the anchor's row predicts the first token; otherwise a mask's row predicts its own."""
    markov_rank: int = 0

    def taps(self, layers: int) -> tuple[int, ...]:
        """The hidden states it reads of a target of ``layers`` layers; where it does not say, those of EAGLE-3."""
        return self.named_taps or (2, layers // 2, layers - 3)

    @property
    def features(self) -> int:
        """Columns of the hidden states that a row brings."""
        return self.target_hidden_size * (len(self.named_taps) or 3)

    @property
    def width(self) -> int:
        """Tokens that one block proposes; 0 for EAGLE-3, which goes on as long as it is asked to."""
        return self.block if self.sample_from_anchor else max(0, self.block - 1)


def read_draft_hyperparameters(file: DraftFile) -> DraftHyperparameters:
    """Raises ArtifactError for missing, malformed or absurd values."""
    kind = file.kind
    reader = MetadataReader(file.path, file.metadata, file.architecture)
    vocabulary = reader.integer("vocab_size", 1, LARGEST_VOCABULARY)
    normed = "blk.0.attn_q_norm.weight" in file.tensors
    eagle3 = kind == "eagle3"
    decoder = read_common(
        reader, Family(interleaved_rope=eagle3, qk_norm=normed, optional_biases=True), vocabulary
    )
    taps = _taps(reader, eagle3)
    common = DraftHyperparameters(
        kind=kind,
        decoder=decoder,
        target_hidden_size=reader.integer(
            "target_hidden_size", 1, LARGEST_WIDTH, default=decoder.hidden_size
        ),
        named_taps=taps,
        outputs=vocabulary if file.draft_ids is None else len(file.draft_ids),
    )
    _check_ids(file, vocabulary)
    if eagle3:
        return _with_eagle3(reader, common)
    return _with_block(reader, common, file)


def _taps(reader: MetadataReader, optional: bool) -> tuple[int, ...]:
    value = reader.value("target_layers")
    if value is MISSING and optional:
        return ()
    if not isinstance(value, list) or not 1 <= len(value) <= MOST_TAPS:
        raise reader.refuse("target_layers", f"a list of 1 to {MOST_TAPS} layers", value)
    if any(type(one) is not int or one < 0 for one in value):
        raise reader.refuse("target_layers", "layers of the target, by their input", value)
    return tuple(int(one) for one in value)


def _check_ids(file: DraftFile, vocabulary: int) -> None:
    ids = file.draft_ids
    if ids is None:
        return
    distinct = len(ids) and len(set(ids.tolist())) == len(ids)
    if not distinct or ids.min() < 0 or ids.max() >= vocabulary:
        expected = f"distinct token ids in 0 .. {vocabulary - 1}"
        raise ArtifactError(file.path, "table d2t", expected, shorten(str(ids.tolist())))


def _with_eagle3(reader: MetadataReader, common: DraftHyperparameters) -> DraftHyperparameters:
    if common.decoder.layers != 1:
        raise reader.refuse("block_count", "1 layer", common.decoder.layers)
    return replace(
        common,
        norm_before_residual=reader.flag("norm_before_residual", False),
        norm_output=reader.flag("norm_output", False),
    )


def _with_block(
    reader: MetadataReader, common: DraftHyperparameters, file: DraftFile
) -> DraftHyperparameters:
    decoder = common.decoder
    if common.target_hidden_size != decoder.hidden_size:
        raise reader.refuse(
            "target_hidden_size", f"{decoder.hidden_size}, the head's own", common.target_hidden_size
        )
    mask = file.metadata.get(MASK_TOKEN)
    if type(mask) is not int or not 0 <= mask < decoder.vocabulary:
        expected = f"a token id in 0 .. {decoder.vocabulary - 1}"
        raise ArtifactError(file.path, f"metadata key {MASK_TOKEN}", expected, repr(mask))
    markov = file.tensors.get(MARKOV[0])
    return replace(
        common,
        block=reader.integer("block_size", 2, MOST_BLOCK),
        mask_token=mask,
        sample_from_anchor=reader.flag("sample_from_anchor", common.kind == "dspark"),
        markov_rank=0 if markov is None else markov.shape[-1],
    )
