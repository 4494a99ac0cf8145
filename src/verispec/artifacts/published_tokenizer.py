"""``tokenizer.json`` and its companions as GGUF metadata, in the form that llama.cpp's converter gives it.

GGUF names a pre-tokeniser, it does not hold its patterns: the name is found by comparing what the file does with the
families' published rules, and then checked by encoding a text that tells them apart.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from tokenizers import Tokenizer as LibraryTokenizer

from verispec.artifacts.gguf_header import MetadataValue
from verispec.artifacts.json_file import read_json_object
from verispec.errors import ArtifactError, UnsupportedError
from verispec.text import published_files
from verispec.text.chat_template import KEY as TEMPLATE
from verispec.text.pre_tokenizers import GPT2_WORDS, RULES
from verispec.text.published_files import BYTE_LEVEL, SENTENCEPIECE, TOKENIZER
from verispec.text.tokenizer import Tokenizer
from verispec.text.vocabulary import BYTE, CONTROL, PREFIX, UNKNOWN, USER_DEFINED

BYTE_TOKEN = re.compile("<0x[0-9A-F]{2}>")
LOOKS_SPECIAL = re.compile(r"<\|.*\|>|<｜.*｜>|<unused.*>|<pad>|<mask>", re.DOTALL)
"""Added tokens that are markup by their name, whatever their publisher marked them as: llama.cpp's rule."""

# Of names that mean the same rules, the one that every reader of GGUF files knows best.
PREFERRED = ("gpt-2", "smollm", "llama-bpe", "dbrx", "qwen2", "qwen35", "gpt-4o", "command-r", "olmo")

TELLING_TEXT = (
    "Hello  World, it's WE'LL isn'T\n\n\r\n \t  x1234567 + 3.14 == ٣٤٥ naïve café e\u0301 ﬁ ½ ² "
    "snake_case CamelCaseÉtat //path/to?q=1&r=[2]{3}\n\n\n    indented();\n\tΑλφα Ωμέγα привет мир नमस्ते "
    "你好,世界!こんにちは 한국어 🚀👩🏽‍🚀 ... !!! ---  \u00a0 \u3000end   "
)


def tokenizer_metadata(folder: Path, vocabulary: int) -> dict[str, MetadataValue]:
    """Every ``tokenizer.*`` key of the GGUF file, for a model whose embedding has ``vocabulary`` rows.

    Raises ArtifactError for files that are missing or malformed, UnsupportedError for a tokeniser of another kind than
    BPE, byte-level or SentencePiece's, and for one whose words no GGUF file can describe.
    """
    path = folder / TOKENIZER
    published = read_json_object(path)
    kind = published_files.check_kind(path, published, (BYTE_LEVEL, SENTENCEPIECE))
    facts = published_files.published_metadata(folder, published, vocabulary)
    drop_tokens_without_rows(path, facts, vocabulary)
    tokens, types = facts[PREFIX + "tokens"], facts[PREFIX + "token_type"]
    facts[PREFIX + "token_type"] = [
        CONTROL if type_ == USER_DEFINED and LOOKS_SPECIAL.fullmatch(text) else type_
        for text, type_ in zip(tokens, types, strict=True)
    ]
    facts[PREFIX + "tokens"] = [text or f"[PAD{token}]" for token, text in enumerate(tokens)]
    template = published_files.published_template(folder)
    if isinstance(template, str):
        facts[TEMPLATE] = template
    candidates = iter([sentencepiece_facts(facts, published)])
    if kind == BYTE_LEVEL:
        candidates = ({**facts, PREFIX + "pre": name} for name in pre_tokenizer_names(published))
    return first_that_agrees(path, published, candidates)


def drop_tokens_without_rows(path: Path, facts: dict[str, Any], vocabulary: int) -> None:
    """Takes out added tokens behind the model's last row, such as Gemma's image token in its text models.

    Raises ArtifactError when one of them is an ordinary token.
    """
    types = facts[PREFIX + "token_type"]
    if set(types[vocabulary:]) - {CONTROL, USER_DEFINED}:
        raise ArtifactError(
            path, "vocabulary", f"{vocabulary} tokens, the rows of the model", str(len(types))
        )
    for key in ("tokens", "token_type"):
        facts[PREFIX + key] = facts[PREFIX + key][:vocabulary]


def first_that_agrees(
    path: Path, published: dict[str, Any], candidates: Iterator[dict[str, Any]]
) -> dict[str, Any]:
    """The first of the descriptions that gives a telling text the ids that the published tokeniser gives it."""
    whole = LibraryTokenizer.from_str(json.dumps(published))
    expected = whole.encode(TELLING_TEXT, add_special_tokens=False).ids
    for candidate in candidates:
        ours = Tokenizer.from_gguf(candidate, str(path))
        if ours.encode(TELLING_TEXT, add_bos=False) == expected:
            return candidate
    raise UnsupportedError(
        "unknown-pre-tokenizer",
        f"{path}: expected the words of a family that GGUF has a name for ({', '.join(RULES)}), or SentencePiece's, "
        f"found pre_tokenizer {json.dumps(published.get('pre_tokenizer'))[:300]}",
        "Train or publish the tokeniser with the words of a known family",
    )


def sentencepiece_facts(facts: dict[str, Any], published: dict[str, Any]) -> dict[str, Any]:
    """The facts of a SentencePiece vocabulary, whose file holds ranked pairs where GGUF holds scores.

    The pairs were made from the scores: a piece's score is the better, the earlier a pair that makes it comes. The
    order is all that merging looks at.
    """
    tokens, types = facts[PREFIX + "tokens"], list(facts[PREFIX + "token_type"])
    ranks: dict[str, int] = {}
    for rank, merge in enumerate(facts[PREFIX + "merges"]):
        ranks.setdefault(merge.replace(" ", "", 1), rank)
    scores = [float(-ranks.get(text, len(facts[PREFIX + "merges"]))) for text in tokens]
    unknown = published["model"].get("unk_token")
    for token, text in enumerate(tokens):
        if BYTE_TOKEN.fullmatch(text):
            types[token] = BYTE
        elif text == unknown:
            types[token] = UNKNOWN
    prefix = '"Prepend"' in json.dumps(published.get("normalizer"))
    metaspace = json.dumps(published.get("pre_tokenizer"))
    prefix |= '"Metaspace"' in metaspace and '"never"' not in metaspace
    changed = {
        "model": "llama",
        "pre": "default",
        "token_type": types,
        "scores": scores,
        "add_space_prefix": prefix,
    }
    kept = {key: value for key, value in facts.items() if key != PREFIX + "merges"}
    return kept | {PREFIX + key: value for key, value in changed.items()}


def pre_tokenizer_names(published: dict[str, Any]) -> Iterator[str]:
    """GGUF's names for rules that read like those of ``tokenizer.json``, the best known first."""
    patterns = tuple(map(one_spelling, word_patterns(published.get("pre_tokenizer"))))
    normalizer = published.get("normalizer")
    nothing = normalizer is None or normalizer == {"type": "Sequence", "normalizers": []}
    nfc = not nothing and '"NFC"' in json.dumps(normalizer)
    if not nothing and not nfc:
        return
    whole_words = bool(published["model"].get("ignore_merges"))
    for name in dict.fromkeys((*PREFERRED, *RULES)):
        rules = RULES[name]
        same_words = tuple(map(one_spelling, rules.patterns)) == patterns
        if same_words and (rules.nfc, rules.whole_words) == (nfc, whole_words):
            yield name


def one_spelling(pattern: str) -> str:
    """The pattern with what publishers spell in two ways spelled in one."""
    return pattern.replace("\r", r"\r").replace("\n", r"\n").replace(r"\"", '"')


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
