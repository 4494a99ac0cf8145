"""A model file's tokeniser as a folder that transformers' ``AutoTokenizer`` loads.

transformers reads the tokeniser of a GGUF file too, but not how it cuts text into words: it would read numbers
differently from the model.
"""

from __future__ import annotations

import json
from pathlib import Path

from tokenizers import AddedToken, decoders, models
from tokenizers import Tokenizer as LibraryTokenizer

from verispec.text.pre_tokenizers import RULES
from verispec.text.vocabulary import CONTROL, Vocabulary


def write_tokenizer(vocabulary: Vocabulary, folder: Path) -> None:
    """Writes ``tokenizer.json`` and its configuration for a byte-level vocabulary."""
    rules = RULES[vocabulary.pre]
    merges = [tuple(merge.split(" ", 1)) for merge in vocabulary.merges]
    library = LibraryTokenizer(models.BPE(vocabulary.ids, merges, ignore_merges=rules.whole_words))
    library.pre_tokenizer = rules.pre_tokenizer()
    library.decoder = decoders.ByteLevel()
    normalizer = rules.normalizer()
    if normalizer is not None:
        library.normalizer = normalizer
    control = [vocabulary.tokens[token] for token in vocabulary.of_type(CONTROL)]
    library.add_special_tokens([AddedToken(text, normalized=False) for text in control])
    folder.mkdir(parents=True, exist_ok=True)
    library.save(str(folder / "tokenizer.json"))
    special = {
        f"{name}_token": vocabulary.tokens[token]
        for name, token in vocabulary.special.items()
        if name in ("bos", "eos")
    }
    configuration = {
        "tokenizer_class": "PreTrainedTokenizerFast",
        "clean_up_tokenization_spaces": False,
        **special,
    }
    (folder / "tokenizer_config.json").write_text(json.dumps(configuration, indent=1), encoding="utf-8")
