"""Tokeniser and chat template of a folder in the ``transformers`` format: byte-level BPE, run by its own pipeline."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Any

from tokenizers import Tokenizer as LibraryTokenizer

from verispec.errors import ArtifactError, UnsupportedError
from verispec.text.chat_template import KEY as TEMPLATE
from verispec.text.chat_template import ChatTemplate
from verispec.text.tokenizer import Tokenizer
from verispec.text.vocabulary import CONTROL, NORMAL, PREFIX, UNUSED, USER_DEFINED, read_vocabulary

TOKENIZER, CONFIG = "tokenizer.json", "tokenizer_config.json"
MODEL_CONFIG = "config.json"
GENERATION, TEMPLATE_FILE = "generation_config.json", "chat_template.jinja"
SPECIAL = {"bos_token": "bos", "eos_token": "eos", "unk_token": "unknown", "pad_token": "padding"}
MOST_TOKENS = 1 << 22
BYTE_LEVEL, SENTENCEPIECE = "byte-level", "SentencePiece"
END_KEYS = ("eos", "eot", "eom")


def read_published_files(folder: Path, vocabulary_size: int) -> tuple[Tokenizer, ChatTemplate | None]:
    """The tokeniser and template in ``folder``, for a model of ``vocabulary_size`` tokens.

    Raises ArtifactError for a file that is missing or no such thing, UnsupportedError for a tokeniser that is not
    byte-level BPE.
    """
    path = folder / TOKENIZER
    published = _json(path)
    check_kind(path, published, (BYTE_LEVEL,))
    metadata = published_metadata(folder, published, vocabulary_size)
    pipeline = LibraryTokenizer.from_str(json.dumps(_without_added_tokens(published)))
    template = published_template(folder)
    if template is not None:
        metadata[TEMPLATE] = template
    vocabulary = read_vocabulary(metadata, str(path))
    return Tokenizer(vocabulary, pipeline), ChatTemplate.from_gguf(metadata, str(folder))


def published_metadata(folder: Path, published: dict[str, Any], vocabulary_size: int) -> dict[str, Any]:
    """The ``tokenizer.ggml.*`` keys for ``published``, the content of the folder's ``tokenizer.json``.

    Written for byte-level BPE; ids without a text have an empty one, and the pre-tokeniser's name is the digest of the
    whole file. Raises ArtifactError for content that is malformed.
    """
    path = folder / TOKENIZER
    try:
        metadata = _facts(folder, published, vocabulary_size)
        whole = LibraryTokenizer.from_str(json.dumps(published))
    except Exception as error:  # the library raises bare Exception, facts of other types all kinds
        raise ArtifactError(
            path, "tokeniser", "one that the tokenizers library reads", repr(error)
        ) from error
    bos = metadata.get(PREFIX + "bos_token_id")
    metadata[PREFIX + "add_bos_token"] = bos is not None and whole.encode("a").ids[:1] == [bos]
    return metadata


def check_kind(path: Path, published: dict[str, Any], known: tuple[str, ...]) -> str:
    """The algorithm of ``published``, one of ``known``. Raises UnsupportedError for another."""
    model = published.get("model")
    if not isinstance(model, dict) or not isinstance(model.get("vocab"), (dict, list)):
        raise ArtifactError(path, "model", "a vocabulary", type(model).__name__)
    decoder = json.dumps(published.get("decoder"))
    pairs = model.get("type", "BPE") == "BPE" and isinstance(model["vocab"], dict)
    kinds = {BYTE_LEVEL: '"ByteLevel"', SENTENCEPIECE: '"ByteFallback"'}
    found = next((kind for kind in known if pairs and kinds[kind] in decoder), None)
    if found is None:
        raise UnsupportedError(
            "needs-byte-level-tokenizer",
            f"{path}: a tokeniser that is not {' or '.join(known)} BPE",
            "Load a GGUF file of this model",
        )
    return found


def _facts(folder: Path, published: dict[str, Any], size: int) -> dict[str, Any]:
    """The tokeniser as GGUF metadata. Its pre-tokeniser is named by the content of the whole file."""
    added = {entry["id"]: entry for entry in published.get("added_tokens", [])}
    texts = {token: text for text, token in published["model"]["vocab"].items()}
    texts |= {token: entry["content"] for token, entry in added.items()}
    size = max(size, max(texts, default=-1) + 1)
    if size > MOST_TOKENS:
        raise ValueError(f"token id {size - 1}")
    kinds = [NORMAL if token in texts else UNUSED for token in range(size)]
    for token, entry in added.items():
        kinds[token] = CONTROL if entry.get("special") else USER_DEFINED
    merges = published["model"].get("merges", [])
    ids = {text: token for token, text in texts.items()}
    named = {key: token for key, token in _config_ids(folder).items() if token in texts}
    named |= {key: ids[text] for key, text in _special_texts(folder).items() if text in ids}
    named |= dict(zip(END_KEYS, _end_ids(folder), strict=False))
    digest = hashlib.sha256((folder / TOKENIZER).read_bytes()).hexdigest()
    return {
        PREFIX + "model": "gpt2",
        PREFIX + "pre": f"{TOKENIZER} {digest}",
        PREFIX + "tokens": [texts.get(token, "") for token in range(size)],
        PREFIX + "token_type": kinds,
        PREFIX + "merges": [merge if isinstance(merge, str) else " ".join(merge) for merge in merges],
        **{f"{PREFIX}{key}_token_id": token for key, token in named.items()},
    }


def _without_added_tokens(published: dict[str, Any]) -> dict[str, Any]:
    """The pipeline for text of users, where no control token may be found: the tokeniser looks for those itself."""
    bare: dict[str, Any] = {"added_tokens": [], "post_processor": None, "truncation": None, "padding": None}
    model = dict(published["model"])
    if model.get("ignore_merges"):  # otherwise a word of user text could be a control token
        special = {entry["content"] for entry in published.get("added_tokens", []) if entry.get("special")}
        model["vocab"] = {text: token for text, token in model["vocab"].items() if text not in special}
    return {**published, **bare, "model": model}


def _special_texts(folder: Path) -> dict[str, str]:
    config = _json(folder / CONFIG, missing={})
    found = {}
    for key, name in SPECIAL.items():
        value = config.get(key)
        text = value.get("content") if isinstance(value, dict) else value
        if isinstance(text, str):
            found[name] = text
    return found


def _end_ids(folder: Path) -> list[int]:
    """The tokens that end a generation by the model's own settings; a chat model has several."""
    ends = _json(folder / GENERATION, missing={}).get("eos_token_id")
    return [end for end in (ends if isinstance(ends, list) else [ends]) if isinstance(end, int)]


def _config_ids(folder: Path) -> dict[str, int]:
    """Special tokens by the model's configuration, where the tokeniser's own says nothing."""
    config = _json(folder / MODEL_CONFIG, missing={})
    inner = config.get("text_config")
    values = {**config, **inner} if isinstance(inner, dict) else config
    found = {name: values.get(f"{key}_id") for key, name in SPECIAL.items()}
    return {name: token for name, token in found.items() if isinstance(token, int)}


def published_template(folder: Path) -> object:
    """What ``tokenizer_config.json`` or a file beside it holds; of several templates, the one called default."""
    if (folder / TEMPLATE_FILE).is_file():
        return (folder / TEMPLATE_FILE).read_text(encoding="utf-8", errors="replace")
    value = _json(folder / CONFIG, missing={}).get("chat_template")
    if isinstance(value, list):
        named = {entry.get("name"): entry.get("template") for entry in value if isinstance(entry, dict)}
        return named.get("default")
    return value


def _json(path: Path, missing: dict[str, Any] | None = None) -> dict[str, Any]:
    """The object in ``path``; ``missing``, where one is given, in the place of a file that is not there."""
    if missing is not None and not path.exists():
        return missing
    try:
        value = json.loads(path.read_bytes())
    except (OSError, ValueError) as error:
        raise ArtifactError(path, "file", "a JSON object", str(error)) from error
    if not isinstance(value, dict):
        raise ArtifactError(path, "file", "a JSON object", type(value).__name__)
    return value
