"""How byte-level BPE families cut text into words before merging: ``tokenizer.ggml.pre`` to a pipeline.

The patterns are facts, as the families publish them in their ``tokenizer.json`` (checked against the
published files of Llama 3, Qwen 3, DeepSeek V3, GPT-4o and gpt-oss). Where llama.cpp uses an approximation
(its regex engine knows fewer classes; it does no Unicode normalisation), the published form is used here,
since that is what the models were trained with.
"""

from __future__ import annotations

from dataclasses import dataclass

from tokenizers import Regex, normalizers, pre_tokenizers

CONTRACTIONS = "(?i:'s|'t|'re|'ve|'m|'ll|'d)"
GPT2_WORDS = r"'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+"
SPACES = r"\s*[\r\n]+|\s+(?!\S)|\s+"
WORDS = CONTRACTIONS + r"|[^\r\n\p{L}\p{N}]?\p{L}+|"
SIGNS = r"| ?[^\s\p{L}\p{N}]+[\r\n]*|" + SPACES
LLAMA3 = WORDS + r"\p{N}{1,3}" + SIGNS
QWEN2 = WORDS + r"\p{N}" + SIGNS
QWEN35 = CONTRACTIONS + r"|[^\r\n\p{L}\p{N}]?[\p{L}\p{M}]+|\p{N}| ?[^\s\p{L}\p{M}\p{N}]+[\r\n]*|" + SPACES
UPPER, LOWER = r"[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]", r"[\p{Ll}\p{Lm}\p{Lo}\p{M}]"
CASED_WORD = r"[^\r\n\p{L}\p{N}]?"
CASED_TAIL = r" ?[^\s\p{L}\p{N}]+[\r\n/]*|" + SPACES
GPT4O = (
    f"{CASED_WORD}{UPPER}*{LOWER}+{CONTRACTIONS}?|{CASED_WORD}{UPPER}+{LOWER}*{CONTRACTIONS}?"
    rf"|\p{{N}}{{1,3}}|{CASED_TAIL}"
)
TEKKEN = rf"{CASED_WORD}{UPPER}*{LOWER}+|{CASED_WORD}{UPPER}+{LOWER}*|\p{{N}}|{CASED_TAIL}"
DEEPSEEK3 = (
    r"\p{N}{1,3}",
    "[一-龥぀-ゟ゠-ヿ]+",
    r"[!\"#$%&'()*+,\-./:;<=>?@\[\\\]^_`{|}~][A-Za-z]+|[^\r\n\p{L}\p{P}\p{S}]?[\p{L}\p{M}]+"
    r"| ?[\p{P}\p{S}]+[\r\n]*|" + SPACES,
)
DEEPSEEK_CODER = (r"[\r\n]", r"\s?\p{L}+", r"\s?\p{P}+", "[一-龥ࠀ-一가-퟿]+", r"\p{N}")
# What llama.cpp does for files that name no pre-tokeniser; no publisher's own form exists for them.
DEFAULT = (r"[\p{P}\$\+<=>\^~\|]+", GPT2_WORDS, r"\p{N}+", "[0-9][0-9][0-9]")
SINGLE_DIGITS = (r"\p{N}", GPT2_WORDS)


@dataclass(frozen=True)
class WordRules:
    """One family's rules: ``patterns`` cut in turn, each piece of one being cut by the next.

    ``nfc``: the family normalises text first. ``whole_words``: a word that is a token is taken without
    merging. ``add_bos``: the default where the file is silent.
    """

    patterns: tuple[str, ...]
    nfc: bool = False
    whole_words: bool = False
    add_bos: bool = False

    def pre_tokenizer(self) -> pre_tokenizers.PreTokenizer:
        steps: list[pre_tokenizers.PreTokenizer] = [
            pre_tokenizers.Split(Regex(pattern), "isolated") for pattern in self.patterns
        ]
        return pre_tokenizers.Sequence([*steps, pre_tokenizers.ByteLevel(False, use_regex=False)])

    def normalizer(self) -> normalizers.Normalizer | None:
        return normalizers.NFC() if self.nfc else None


_GPT2 = WordRules((GPT2_WORDS,))
_GPT2_NFC = WordRules((GPT2_WORDS,), nfc=True)
_DIGITS = WordRules(SINGLE_DIGITS)
_LLAMA3 = WordRules((LLAMA3,), whole_words=True, add_bos=True)
_QWEN2 = WordRules((QWEN2,), nfc=True)
_GPT4O = WordRules((GPT4O,))

RULES: dict[str, WordRules] = {
    "default": WordRules(DEFAULT),
    **dict.fromkeys(("gpt-2", "gpt2", "phi-2", "jais", "exaone4", "trillion", "granite-docling"), _GPT2),
    **dict.fromkeys(("olmo", "mpt"), _GPT2_NFC),
    **dict.fromkeys(("smollm", "starcoder", "refact", "codeshell", "exaone", "minerva-7b"), _DIGITS),
    "command-r": WordRules(SINGLE_DIGITS, nfc=True),
    **dict.fromkeys(("llama-bpe", "llama3", "llama-v3", "falcon3", "pixtral", "lfm2"), _LLAMA3),
    **dict.fromkeys(("dbrx", "smaug-bpe", "glm4", "chatglm-bpe"), WordRules((LLAMA3,))),
    **dict.fromkeys(("qwen2", "deepseek-r1-qwen", "megrez"), _QWEN2),
    "qwen35": WordRules((QWEN35,), nfc=True),
    **dict.fromkeys(("gpt-4o", "llama4"), _GPT4O),
    "tekken": WordRules((TEKKEN,), whole_words=True, add_bos=True),
    "deepseek-v3": WordRules(DEEPSEEK3),
    "deepseek-coder": WordRules(DEEPSEEK_CODER),
    "falcon": WordRules((r"[\p{P}\$\+<=>\^~\|`]+", GPT2_WORDS, "[0-9][0-9][0-9]")),
}
