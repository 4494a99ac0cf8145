"""A folder that is not what it says, or that no GGUF file could hold, is refused by name; nothing is written."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from tokenizers import AddedToken, Regex, decoders, models, normalizers, pre_tokenizers
from tokenizers import Tokenizer as LibraryTokenizer

from small_vocabularies import sentencepiece
from tiny_llama import VOCABULARY
from tiny_published import Published, tokenizer, write_published, write_tensors
from verispec.artifacts.convert import convert
from verispec.artifacts.model_file import open_model_file
from verispec.errors import ArtifactError, UnsupportedError, VerispecError
from verispec.text.tokenizer import Tokenizer

MODEL = Published("qwen3_5_text", prediction=1)


def refusal(folder: Path) -> VerispecError:
    output = folder.parent / "out" / "model.gguf"
    with pytest.raises(VerispecError) as caught:
        convert(folder, output)
    assert not output.parent.exists() or not list(output.parent.iterdir()), "nothing is left behind"
    return caught.value


def change_config(folder: Path, **changes: object) -> None:
    path = folder / "config.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), **changes}))


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"model_type": "opt"}, "model_type: expected one of llama, mistral"),
        ({"hidden_act": "relu"}, "hidden_act: expected silu"),
        ({"attention_bias": True}, "attention_bias: expected false"),
        ({"mtp_num_hidden_layers": 2}, "expected the 2 prediction blocks"),
        ({"mtp_num_hidden_layers": 0}, "expected the 0 prediction blocks"),
        ({"tie_word_embeddings": False}, "expected lm_head.weight"),
        ({"layer_types": ["linear_attention"]}, "layer_types: expected 4 entries"),
        ({"linear_key_head_dim": 32}, "linear_key_head_dim: expected 64"),
        ({"num_hidden_layers": "4"}, "num_hidden_layers: expected a whole number"),
        ({"rope_parameters": {"rope_type": "longrope"}}, "rope_type: expected default"),
        ({"rope_parameters": {"rope_type": "yarn"}}, "factor: expected a number, found nothing"),
        ({"rope_parameters": {"rope_theta": "x"}}, "rope_theta: expected a number, found 'x'"),
        ({"rope_parameters": {"partial_rotary_factor": "a"}}, "partial_rotary_factor: expected a number"),
        ({"rope_parameters": {"partial_rotary_factor": 1e9}}, "partial_rotary_factor: expected over 0"),
        ({"rope_parameters": {"mrope_section": 5}}, "mrope_section: expected a list"),
        ({"rope_parameters": {"full_attention": 3}}, "rope_parameters.full_attention: expected an object"),
        ({"full_attention_interval": 0, "layer_types": None}, "full_attention_interval: expected at least 1"),
        ({"model_type": ["qwen3"]}, "model_type: expected one of"),
        ({"layer_types": [["full_attention"]] * 4}, "layer_types: expected 4 entries"),
    ],
)
def test_configurations(changes: dict[str, object], message: str, tmp_path: Path) -> None:
    write_published(tmp_path / "published", MODEL)
    change_config(tmp_path / "published", **changes)
    assert message in str(refusal(tmp_path / "published"))


def test_a_tensor_that_no_graph_reads(tmp_path: Path) -> None:
    made = write_published(tmp_path / "published", MODEL)
    write_tensors(
        tmp_path / "published", {**made, "model.layers.0.adapter.weight": np.ones((2, 2), np.float32)}
    )
    assert "tensor 'model.layers.0.adapter.weight'" in str(refusal(tmp_path / "published"))


def test_an_expert_that_is_missing(tmp_path: Path) -> None:
    made = write_published(tmp_path / "published", Published("qwen3_5_moe_text"))
    del made["model.layers.1.mlp.experts.2.up_proj.weight"]
    write_tensors(tmp_path / "published", made)
    assert "blk.1.ffn_up_exps.weight: expected experts 0 .. 3, found 3" in str(
        refusal(tmp_path / "published")
    )


@pytest.mark.parametrize("file", ["config.json", "model.safetensors", "tokenizer.json"])
def test_a_file_that_is_missing(file: str, tmp_path: Path) -> None:
    write_published(tmp_path / "published", MODEL)
    (tmp_path / "published" / file).unlink()
    assert file in str(refusal(tmp_path / "published"))


@pytest.mark.parametrize("length", [0, 7, 100, 20000])
def test_a_shortened_file(length: int, tmp_path: Path) -> None:
    write_published(tmp_path / "published", MODEL)
    path = tmp_path / "published" / "model.safetensors"
    path.write_bytes(path.read_bytes()[:length])
    assert "expected a readable safetensors file" in str(refusal(tmp_path / "published"))


def test_an_index_that_leaves_the_folder(tmp_path: Path) -> None:
    write_published(tmp_path / "published", MODEL)
    index = {"weight_map": {"model.norm.weight": "../model.safetensors"}}
    (tmp_path / "published" / "model.safetensors.index.json").write_text(json.dumps(index))
    assert "weight_map: expected files in the folder" in str(refusal(tmp_path / "published"))


def test_a_pre_tokeniser_that_gguf_has_no_name_for(tmp_path: Path) -> None:
    write_published(tmp_path / "published", MODEL)
    strange = tokenizer()
    words = pre_tokenizers.Split(Regex(r"\w+|\W"), "isolated")
    strange.pre_tokenizer = pre_tokenizers.Sequence([words, pre_tokenizers.ByteLevel(False, use_regex=False)])
    strange.save(str(tmp_path / "published" / "tokenizer.json"))
    error = refusal(tmp_path / "published")
    assert isinstance(error, UnsupportedError)
    assert error.code == "unknown-pre-tokenizer"


@pytest.mark.parametrize(
    ("pre_tokenizer", "nfc", "name"),
    [
        (pre_tokenizers.ByteLevel(False), False, "gpt-2"),
        (
            pre_tokenizers.Sequence([pre_tokenizers.Digits(True), pre_tokenizers.ByteLevel(False)]),
            False,
            "smollm",
        ),
        (None, True, "qwen35"),
    ],
)
def test_a_known_pre_tokeniser_is_named(
    pre_tokenizer: pre_tokenizers.PreTokenizer | None, nfc: bool, name: str, tmp_path: Path
) -> None:
    write_published(tmp_path, MODEL)
    known = tokenizer()
    if pre_tokenizer is not None:
        known.pre_tokenizer = pre_tokenizer
    if not nfc:
        known.normalizer = None
    known.save(str(tmp_path / "tokenizer.json"))
    with open_model_file(tmp_path) as folder:
        assert folder.metadata["tokenizer.ggml.pre"] == name
        ours = Tokenizer.from_gguf(folder.metadata)
        text = "The 1234 étés, isn't it?\n\n  <eos> naïve"
        assert ours.encode(text) == known.encode(text.replace("<eos>", "")).ids or "<eos>" in text
        assert ours.encode(text, parse_special=True) == known.encode(text).ids
        assert ours.eos_ids == {known.token_to_id("<eos>")}


def test_the_input_is_never_the_output(tmp_path: Path) -> None:
    write_published(tmp_path / "published", MODEL)
    before = sorted(path.name for path in (tmp_path / "published").iterdir())
    with pytest.raises(VerispecError, match="output: expected"):
        convert(tmp_path / "published", tmp_path / "published")
    assert sorted(path.name for path in (tmp_path / "published").iterdir()) == before


def test_a_tensor_of_a_type_that_is_not_read(tmp_path: Path) -> None:
    made = write_published(tmp_path / "published", MODEL)
    stored = tmp_path / "published" / "model.safetensors"
    stored.write_bytes(stored.read_bytes().replace(b'"dtype":"F32"', b'"dtype":"I32"', 1))
    error = refusal(tmp_path / "published")
    assert isinstance(error, ArtifactError)
    assert "expected a type among F32, F16, BF16, found I32" in str(error)
    assert made


def sentencepiece_file(prefix: bool) -> LibraryTokenizer:
    """A SentencePiece vocabulary as its tokenizer.json: pairs ranked by the scores of what they make."""
    metadata = sentencepiece()
    tokens, scores = metadata["tokenizer.ggml.tokens"], metadata["tokenizer.ggml.scores"]
    ids = {text: token for token, text in enumerate(tokens) if text.strip() or not prefix}
    pieces = sorted(tokens[261:], key=lambda piece: -scores[ids[piece]])
    pairs = [(piece[:cut], piece[cut:]) for piece in pieces for cut in range(1, len(piece))]
    known = [pair for pair in pairs if pair[0] in ids and pair[1] in ids]
    made = LibraryTokenizer(models.BPE(ids, known, unk_token="<unk>", byte_fallback=True, fuse_unk=True))
    replace = normalizers.Replace(" ", "▁")
    made.normalizer = normalizers.Sequence([normalizers.Prepend("▁"), replace]) if prefix else replace
    made.decoder = decoders.Sequence([decoders.Replace("▁", " "), decoders.ByteFallback(), decoders.Fuse()])
    made.add_special_tokens(["<unk>", "<s>", "</s>"])
    if not prefix:  # with one, the library puts another space behind every token that is cut out
        made.add_tokens([AddedToken("\n\n", normalized=False), AddedToken("  ", normalized=False)])
    return made


@pytest.mark.parametrize("prefix", [False, True])
def test_a_sentencepiece_vocabulary_is_described_by_scores(prefix: bool, tmp_path: Path) -> None:
    write_published(tmp_path, MODEL)
    known = sentencepiece_file(prefix)
    known.save(str(tmp_path / "tokenizer.json"))
    with open_model_file(tmp_path) as folder:
        ours = Tokenizer.from_gguf(folder.metadata)
        assert folder.metadata["tokenizer.ggml.add_space_prefix"] is prefix
    assert ours.eos_ids == {known.token_to_id("</s>")}
    for text in ("hello hell ababa", "a  b\n\nhello Ω", "aba ba ab", "ll"):
        assert ours.encode(text, add_bos=False) == known.encode(text, add_special_tokens=False).ids


def test_an_added_token_without_a_row_is_left_out(tmp_path: Path) -> None:
    write_published(tmp_path, MODEL)
    known = tokenizer()
    known.add_special_tokens(["<image>"])
    known.save(str(tmp_path / "tokenizer.json"))
    with open_model_file(tmp_path) as folder:
        assert len(folder.metadata["tokenizer.ggml.tokens"]) == VOCABULARY
        assert "<image>" not in folder.metadata["tokenizer.ggml.tokens"]


def test_a_vocabulary_that_the_model_has_no_rows_for(tmp_path: Path) -> None:
    write_published(tmp_path / "published", MODEL)
    change_config(tmp_path / "published", vocab_size=200)
    assert "expected 200 tokens, the rows of the model, found 288" in str(refusal(tmp_path / "published"))
