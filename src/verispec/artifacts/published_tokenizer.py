"""``tokenizer.json`` and its companions as GGUF metadata, in the form that llama.cpp's converter gives it.

GGUF names a pre-tokeniser, it does not hold its patterns: the name is found by comparing what the file does with the
families' published rules, and then checked by encoding a text that tells them apart.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from tokenizers import Tokenizer as LibraryTokenizer

from verispec.artifacts.gguf_header import MetadataValue
from verispec.artifacts.json_file import read_json_object
from verispec.errors import UnsupportedError
from verispec.text import published_files
from verispec.text.chat_template import KEY as TEMPLATE
from verispec.text.pre_tokenizers import GPT2_WORDS, RULES, WordRules
from verispec.text.tokenizer import Tokenizer
from verispec.text.vocabulary import PREFIX

TOKENIZER = published_files.TOKENIZER

# Of names that mean the same rules, the one that every reader of GGUF files knows best.
PREFERRED = ("gpt-2", "smollm", "llama-bpe", "dbrx", "qwen2", "qwen35", "gpt-4o", "command-r", "olmo")

TELLING_TEXT = (
    "Hello  World, it's WE'LL isn'T\n\n\r\n \t  x1234567 + 3.14 == ٣٤٥ naïve café e\u0301 ﬁ ½ ² "
    "snake_case CamelCaseÉtat //path/to?q=1&r=[2]{3}\n\n\n    indented();\n\tΑλφα Ωμέγα привет мир नमस्ते "
    "你好,世界!こんにちは 한국어 🚀👩🏽‍🚀 ... !!! ---  \u00a0 \u3000end   "
)


def tokenizer_metadata(folder: Path, vocabulary: int) -> dict[str, MetadataValue]:
    """Every ``tokenizer.*`` key of the GGUF file, for a model whose embedding has ``vocabulary`` rows.

    Raises ArtifactError for files that are missing or malformed, UnsupportedError for a tokeniser that is not
    byte-level BPE or whose pre-tokeniser no GGUF name stands for.
    """
    published = read_json_object(folder / TOKENIZER)
    facts = published_files.published_metadata(folder, published, vocabulary)
    tokens = facts[PREFIX + "tokens"]
    facts[PREFIX + "tokens"] = [text or f"[PAD{token}]" for token, text in enumerate(tokens)]
    whole = LibraryTokenizer.from_str(json.dumps(published))
    for name in pre_tokenizer_names(published):
        candidate = {**facts, PREFIX + "pre": name}
        ours = Tokenizer.from_gguf(candidate, str(folder / TOKENIZER))
        theirs = whole.encode(TELLING_TEXT, add_special_tokens=False).ids
        if ours.encode(TELLING_TEXT, add_bos=False) == theirs:
            template = published_files.published_template(folder)
            return {**candidate, TEMPLATE: template} if isinstance(template, str) else candidate
    raise UnsupportedError(
        "unknown-pre-tokenizer",
        f"{folder / TOKENIZER}: pre_tokenizer: expected one that a GGUF name stands for ({', '.join(RULES)}), "
        f"found {json.dumps(published.get('pre_tokenizer'))[:300]}",
        "Train or publish the tokeniser with the words of a known family",
    )


def pre_tokenizer_names(published: dict[str, Any]) -> Iterator[str]:
    """GGUF's names for rules that read like those of ``tokenizer.json``, the best known first."""
    patterns = tuple(word_patterns(published.get("pre_tokenizer")))
    normalizer = published.get("normalizer")
    nfc = isinstance(normalizer, dict) and '"NFC"' in json.dumps(normalizer)
    if normalizer is not None and not nfc:
        return
    whole_words = bool(published["model"].get("ignore_merges"))
    wanted = WordRules(patterns, nfc=nfc, whole_words=whole_words)
    for name in dict.fromkeys((*PREFERRED, *RULES)):
        rules = RULES[name]
        if (rules.patterns, rules.nfc, rules.whole_words) == (
            wanted.patterns,
            wanted.nfc,
            wanted.whole_words,
        ):
            yield name


def word_patterns(step: Any) -> Iterator[str]:
    """The patterns that a ``pre_tokenizer`` cuts by, in turn; a step that is none of the known kinds gives its name."""
    kind = step.get("type") if isinstance(step, dict) else None
    if kind == "Sequence":
        for inner in step.get("pretokenizers", []):
            yield from word_patterns(inner)
    elif kind == "Split":
        pattern = step.get("pattern", {})
        yield pattern["Regex"] if isinstance(pattern, dict) and "Regex" in pattern else f"<{pattern}>"
    elif kind == "Digits":
        yield r"\p{N}" if step.get("individual_digits") else "<Digits>"
    elif kind == "ByteLevel":
        if step.get("add_prefix_space"):
            yield "<add_prefix_space>"
        if step.get("use_regex", True):
            yield GPT2_WORDS
    else:
        yield f"<{kind}>"
