"""How byte-level tokenizers cut a text into words before merging, by GGUF's names of the ways.

A GGUF file only names the way; the expressions are those of the families' published tokenizers. A
name that is not listed is refused: another way to cut gives other tokens.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

_CONTRACTIONS = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)"
_REST = r" ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
_SLASHED_REST = r" ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+"
_WORD = r"[^\r\n\p{L}\p{N}]?\p{L}+"
_UPPER, _LOWER = r"[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]", r"[\p{Ll}\p{Lm}\p{Lo}\p{M}]"
_LLAMA3_WORDS = rf"{_CONTRACTIONS}|{_WORD}|\p{{N}}{{1,3}}|{_REST}"
_QWEN2_WORDS = rf"{_CONTRACTIONS}|{_WORD}|\p{{N}}|{_REST}"
_GPT4O_WORDS = (
    rf"[^\r\n\p{{L}}\p{{N}}]?{_UPPER}*{_LOWER}+{_CONTRACTIONS}?"
    rf"|[^\r\n\p{{L}}\p{{N}}]?{_UPPER}+{_LOWER}*{_CONTRACTIONS}?"
    rf"|\p{{N}}{{1,3}}|{_SLASHED_REST}"
)
_TEKKEN_WORDS = (
    rf"[^\r\n\p{{L}}\p{{N}}]?{_UPPER}*{_LOWER}+|[^\r\n\p{{L}}\p{{N}}]?{_UPPER}+{_LOWER}*"
    rf"|\p{{N}}|{_SLASHED_REST}"
)


@dataclass(frozen=True, kw_only=True)
class Cutting:
    """One way to cut text into words."""

    cutters: tuple[dict[str, Any], ...]
    """Pre-tokenizers, as tokenizer.json has them, in their order."""
    composes: bool = False
    """Whether characters are composed first (NFC)."""
    whole_words: bool = False
    """Whether a word that is a token is taken without merging."""
    starts: bool = False
    """Whether a text begins with BOS where the file does not say."""


def byte_level(*, use_regex: bool) -> dict[str, Any]:
    """Return the pre-tokenizer that turns bytes into characters; it may cut as GPT-2 does."""
    return {
        "type": "ByteLevel",
        "add_prefix_space": False,
        "trim_offsets": True,
        "use_regex": use_regex,
    }


def _split(pattern: str) -> dict[str, Any]:
    return {
        "type": "Split",
        "pattern": {"Regex": pattern},
        "behavior": "Isolated",
        "invert": False,
    }


def _by(*patterns: str) -> tuple[dict[str, Any], ...]:
    return (*map(_split, patterns), byte_level(use_regex=False))


_AS_GPT2 = byte_level(use_regex=True)
_DIGITS = {"type": "Digits", "individual_digits": True}
_GPT2 = Cutting(cutters=(_AS_GPT2,))
_STARCODER = Cutting(cutters=(_DIGITS, _AS_GPT2))
_LLAMA3 = Cutting(cutters=_by(_LLAMA3_WORDS), whole_words=True, starts=True)
_DBRX = Cutting(cutters=_by(_LLAMA3_WORDS))
_DEEPSEEK_CODER = Cutting(
    cutters=(
        *map(_split, (r"[\r\n]", r"\s?\p{L}+", r"\s?\p{P}+", "[一-龥ࠀ-一가-퟿]+")),
        _DIGITS,
        byte_level(use_regex=False),
    )
)
# What llama.cpp does for a file that does not say.
_DEFAULT = Cutting(
    cutters=(
        _split(r"[\p{P}\$\+<=>\^~\|]+"),
        _split(r"\p{N}+"),
        _split(r"[0-9]{3}"),
        _AS_GPT2,
    )
)

CUTTINGS = {
    **dict.fromkeys(("gpt-2", "phi-2", "mpt", "olmo"), _GPT2),
    **dict.fromkeys(("smollm", "starcoder", "refact", "command-r", "codeshell"), _STARCODER),
    **dict.fromkeys(("llama-bpe", "llama3", "llama-v3"), _LLAMA3),
    **dict.fromkeys(("dbrx", "smaug-bpe"), _DBRX),
    "qwen2": Cutting(cutters=_by(_QWEN2_WORDS), composes=True),
    "deepseek-r1-qwen": Cutting(cutters=_by(_QWEN2_WORDS)),
    "deepseek-coder": _DEEPSEEK_CODER,
    "gpt-4o": Cutting(cutters=_by(_GPT4O_WORDS)),
    "tekken": Cutting(cutters=_by(_TEKKEN_WORDS), whole_words=True, starts=True),
    "default": _DEFAULT,
}
"""By GGUF's name."""
