"""Compares verispec's token ids with its peers' and writes the golden ids that the tests use.

    python benchmarks/golden_tokens.py --gguf smollm2=FILE --gguf gemma3=FILE --random 2000 --write \\
        --published llama-bpe=tokenizer.json --published qwen2=tokenizer.json

Peers, each used where it applies: llama.cpp (``llama-cpp-python``, on the GGUF file itself),
``sentencepiece`` (a model made of the file's own pieces and scores: the library that Gemma and Llama 2 were
trained with), and the ``tokenizers`` library on published ``tokenizer.json`` files. A published file given
under the name of a GGUF (``gemma3``) is compared with it; under a pre-tokeniser's name it is turned into GGUF
metadata first.

Where they differ, the published tokeniser or ``sentencepiece`` is right, being what the model was trained
with. llama.cpp keeps bytes that SmolLM2's vocabulary lacks until merging is over, so they part their
neighbours; takes Gemma's user-defined ``</s>`` for an end token; and does not take ▁ written in text for a
space where user-defined tokens of spaces are looked for, nor does the published Gemma file.

Golden files hold the ids of the peer that counts (the last one named for each case in ``main``), and of the
vocabulary only the tokens that can occur in the golden texts: merges look at nothing else.
"""

from __future__ import annotations

import argparse
import json
import re
import sys
import unicodedata
from collections.abc import Callable
from pathlib import Path
from typing import Any

from token_corpus import random_texts, texts
from verispec.artifacts.gguf import GgufFile
from verispec.text.byte_level_bpe import byte_characters
from verispec.text.tokenizer import Tokenizer
from verispec.text.vocabulary import BYTE, CONTROL, NORMAL, PREFIX, UNKNOWN, USER_DEFINED, Vocabulary

DATA = Path(__file__).parent.parent / "tests" / "data"
AGREEMENT = Path(__file__).parent / "results" / "token_agreement.json"
GOLDEN_RANDOM = 40
LONG_RUN = re.compile(
    r"(.)\1{33}", re.DOTALL
)  # vocabularies have a token, and merges, for each length of these
Encode = Callable[[str], list[int]]
Metadata = dict[str, Any]


def llama_cpp_encoder(path: Path) -> Encode:
    from llama_cpp import Llama

    model = Llama(str(path), vocab_only=True, verbose=False)
    return lambda text: list(model.tokenize(text.encode(), add_bos=False, special=False))


def sentencepiece_encoder(vocabulary: Vocabulary) -> Encode:
    from sentencepiece import SentencePieceProcessor, sentencepiece_model_pb2

    model = sentencepiece_model_pb2.ModelProto()
    facts = zip(vocabulary.tokens, vocabulary.types, vocabulary.scores, strict=True)
    for text, kind, score in facts:
        piece = text.replace(" ", "▁") if kind == USER_DEFINED else text
        model.pieces.add(piece=piece, score=score, type=kind or NORMAL)
    special = vocabulary.special
    for name, key in (("unk", "unknown"), ("bos", "bos"), ("eos", "eos"), ("pad", "padding")):
        token = special.get(key, -1)
        setattr(model.trainer_spec, f"{name}_id", token)
        if token >= 0:
            setattr(model.trainer_spec, f"{name}_piece", vocabulary.tokens[token])
    model.trainer_spec.model_type = 2  # BPE
    model.trainer_spec.byte_fallback = True
    model.normalizer_spec.name = "identity"
    model.normalizer_spec.add_dummy_prefix = vocabulary.add_space_prefix is not False
    model.normalizer_spec.remove_extra_whitespaces = False
    processor = SentencePieceProcessor()
    processor.LoadFromSerializedProto(model.SerializeToString())
    return lambda text: list(processor.Encode(text))


def published_encoder(published: dict[str, Any], vocabulary: Vocabulary) -> Encode:
    """The published tokeniser, told not to look for control tokens, as it would in text of a user."""
    from tokenizers import Tokenizer as Library

    control = set(vocabulary.of_type(CONTROL, UNKNOWN))
    kept = [
        token
        for token in published["added_tokens"]
        if token["id"] not in control and token["id"] < len(vocabulary.tokens)
    ]
    library = Library.from_str(json.dumps({**published, "added_tokens": kept}))
    return lambda text: list(library.encode(text, add_special_tokens=False).ids)


def published_metadata(published: dict[str, Any], pre: str) -> Metadata:
    """GGUF tokeniser keys for a published byte-level tokeniser."""
    added = {token["id"]: token for token in published["added_tokens"]}
    tokens = {token: text for text, token in published["model"]["vocab"].items()}
    tokens |= {token: facts["content"] for token, facts in added.items()}
    size = max(tokens) + 1
    kinds = [NORMAL] * size
    for token, facts in added.items():
        kinds[token] = CONTROL if facts["special"] else USER_DEFINED
    merges = published["model"]["merges"]
    return {
        PREFIX + "model": "gpt2",
        PREFIX + "pre": pre,
        PREFIX + "tokens": [tokens.get(token, f"[PAD{token}]") for token in range(size)],
        PREFIX + "token_type": kinds,
        PREFIX + "merges": [merge if isinstance(merge, str) else " ".join(merge) for merge in merges],
        PREFIX + "add_bos_token": False,
    }


def compare(tokenizer: Tokenizer, peers: dict[str, Encode], cases: list[str]) -> dict[str, Any]:
    """Counts of equal ids with each peer, and the first few texts that differ."""
    report: dict[str, Any] = {"texts": len(cases), "peers": {}}
    for name, encode in peers.items():
        different = [text for text in cases if tokenizer.encode(text, add_bos=False) != encode(text)]
        report["peers"][name] = {
            "equal": len(cases) - len(different),
            "different": [ascii(text)[:120] for text in different[:5]],
        }
    return report


def golden(tokenizer: Tokenizer, metadata: Metadata, encode: Encode, cases: list[str]) -> dict[str, Any]:
    """Texts with the peer's ids, over the part of the vocabulary that they can touch, renumbered."""
    vocabulary = tokenizer.vocabulary
    space = "▁" if vocabulary.model == "llama" else " "
    spellings = {text for case in cases for text in (case, unicodedata.normalize("NFC", case))}
    if vocabulary.model == "gpt2":
        characters = byte_characters()
        spellings = {"".join(characters[byte] for byte in text.encode()) for text in spellings}
    haystack = "\ud800".join(sorted(spellings)).replace(" ", space)
    always = set(vocabulary.special.values()) | set(vocabulary.of_type(BYTE))
    always |= {token for token in vocabulary.end_ids if token < len(vocabulary.tokens)}
    kept = [
        token
        for token, text in enumerate(vocabulary.tokens)
        if token in always
        or text.replace(" ", space) in haystack
        or (len(text) == 1 and vocabulary.model == "gpt2")
    ]
    number = {token: index for index, token in enumerate(kept)}
    part = {key: value for key, value in metadata.items() if key.startswith(PREFIX)}
    for key in ("tokens", "token_type", "scores"):
        if PREFIX + key in part:
            part[PREFIX + key] = [part[PREFIX + key][token] for token in kept]
    for key, value in part.items():
        if key.endswith("_token_id"):
            part[key] = number[value]
    texts_kept = set(part[PREFIX + "tokens"])
    if PREFIX + "merges" in part:
        part[PREFIX + "merges"] = [m for m in part[PREFIX + "merges"] if m.replace(" ", "") in texts_kept]
    return {
        "metadata": part,
        "cases": [{"text": case, "ids": [number[token] for token in encode(case)]} for case in cases],
    }


def versions() -> dict[str, str]:
    """Of the peers that took part."""
    names = ("tokenizers", "sentencepiece", "llama_cpp")
    return {name: sys.modules[name].__version__ for name in names if name in sys.modules}


def named_paths(arguments: list[str]) -> dict[str, Path]:
    return {name: Path(path) for name, _, path in (argument.partition("=") for argument in arguments)}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--gguf", action="append", default=[], metavar="NAME=FILE")
    parser.add_argument("--published", action="append", default=[], metavar="NAME=tokenizer.json")
    parser.add_argument("--random", type=int, default=2000, help="random texts to compare")
    parser.add_argument("--write", action="store_true", help=f"write golden files to {DATA}")
    arguments = parser.parse_args()
    published = {
        name: json.loads(path.read_text()) for name, path in named_paths(arguments.published).items()
    }
    cases = [*texts(), *random_texts(arguments.random)]
    reports = {}
    sources: dict[str, tuple[Metadata, Path | None]] = {
        name: (dict(GgufFile.open(path).metadata), path) for name, path in named_paths(arguments.gguf).items()
    }
    for name, facts in published.items():
        if name not in sources:
            sources[name] = published_metadata(facts, name), None
    for name, (metadata, path) in sources.items():
        tokenizer = Tokenizer.from_gguf(metadata, name)
        peers: dict[str, Encode] = {}
        if name in published:
            peers["published"] = published_encoder(published[name], tokenizer.vocabulary)
        if path is not None:
            peers["llama.cpp"] = llama_cpp_encoder(path)
        if tokenizer.vocabulary.model == "llama":
            peers["sentencepiece"] = sentencepiece_encoder(tokenizer.vocabulary)
        reports[name] = compare(tokenizer, peers, cases)
        if arguments.write:
            chosen = [*texts()[:-3], *random_texts(GOLDEN_RANDOM, seed=11)]
            chosen = [text for text in chosen if not LONG_RUN.search(text)]
            data = golden(tokenizer, metadata, list(peers.values())[-1], chosen)
            target = DATA / f"golden_tokens_{name}.json"
            target.write_text(json.dumps(data, ensure_ascii=False, separators=(",", ":")) + "\n", "utf-8")
    report = json.dumps({"versions": versions(), "tokenisers": reports}, indent=1) + "\n"
    if arguments.write:
        AGREEMENT.parent.mkdir(exist_ok=True)
        AGREEMENT.write_text(report, "utf-8")
    sys.stdout.write(report)
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
