"""A folder in the transformers format: its tokeniser and template give the ids that a GGUF file of it would."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from small_vocabularies import byte_level
from verispec.errors import ArtifactError, UnsupportedError
from verispec.text.published_files import read_published_files
from verispec.text.tokenizer import Tokenizer


def write_folder(folder: Path, **model: object) -> Path:
    facts = {key.removeprefix("tokenizer.ggml."): value for key, value in byte_level().items()}
    added = [
        {"id": token, "content": facts["tokens"][token], "special": token < 262} for token in range(260, 263)
    ]
    flags = {"single_word": False, "lstrip": False, "rstrip": False, "normalized": False}
    vocabulary = {text: token for token, text in enumerate(facts["tokens"][:260])}
    split = {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": True}
    published = {
        "version": "1.0",
        "added_tokens": [entry | flags for entry in added],
        "pre_tokenizer": split,
        "decoder": split,
        "model": {"type": "BPE", "vocab": vocabulary, "merges": facts["merges"], **model},
    }
    (folder / "tokenizer.json").write_text(json.dumps(published))
    config = {
        "bos_token": "<|im_start|>",
        "eos_token": {"content": "<|im_end|>"},
        "chat_template": "{{ messages[0].content }}",
    }
    (folder / "tokenizer_config.json").write_text(json.dumps(config))
    return folder


def test_a_folder_and_a_gguf_file_give_the_same_ids(tmp_path: Path) -> None:
    tokenizer, template = read_published_files(write_folder(tmp_path), 300)
    twin = Tokenizer.from_gguf(byte_level())
    for text in ("hello, hell <tool>", "<|im_start|>hello<|im_end|>", "Über\n\n  x"):
        for parse_special in (False, True):
            ids = tokenizer.encode(text, parse_special=parse_special)
            assert ids == twin.encode(text, parse_special=parse_special)
            assert tokenizer.decode(ids, skip_special=False) == text
    assert tokenizer.vocabulary_size == 300
    assert tokenizer.eos_ids == twin.eos_ids
    assert template is not None
    assert template.render([{"role": "user", "content": "hi"}]) == "hi"


def test_other_tokenisers_are_refused_by_name(tmp_path: Path) -> None:
    with pytest.raises(UnsupportedError, match="needs-byte-level-tokenizer"):
        read_published_files(write_folder(tmp_path, type="Unigram"), 300)
    with pytest.raises(ArtifactError, match="token"):
        read_published_files(write_folder(tmp_path, vocab={"a": 1 << 40}), 300)
    (tmp_path / "tokenizer.json").write_text("[")
    with pytest.raises(ArtifactError, match="a JSON object"):
        read_published_files(tmp_path, 300)
