"""Texts with a gap, in the form that models trained to fill one expect. Pure.

Forms are those of the models' cards and papers: PSM is prefix, suffix, gap; SPM is suffix first
(Bavarian et al. 2022, arXiv:2207.14255).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable


@dataclass(frozen=True, kw_only=True)
class InfillFormat:
    """The tokens around a text with a gap."""

    prefix: str
    """The token before the prefix."""
    suffix: str
    """The token before the suffix."""
    middle: str | None
    """Comes where the model continues; None: nothing does."""
    suffix_first: bool = False
    """Whether the text after the gap comes first."""
    ends: tuple[str, ...] = ()
    """Tokens that may end what is filled in, where the vocabulary has them."""
    spaced: bool = False
    """Whether the tokenizer puts a space before every text, which the suffix must go without."""

    @property
    def marks(self) -> tuple[str, ...]:
        """The tokens that it needs."""
        return tuple(mark for mark in (self.prefix, self.suffix, self.middle) if mark)


_FORMATS = (
    # Qwen2.5-Coder, Qwen3-Coder, CodeGemma, Granite 4.
    InfillFormat(
        prefix="<|fim_prefix|>",
        suffix="<|fim_suffix|>",
        middle="<|fim_middle|>",
        ends=("<|fim_pad|>", "<|repo_name|>", "<|file_sep|>", "<|file_separator|>"),
    ),
    # StarCoder, StarCoder2, Granite Code, StableCode.
    InfillFormat(
        prefix="<fim_prefix>",
        suffix="<fim_suffix>",
        middle="<fim_middle>",
        ends=("<fim_pad>", "<file_sep>", "<repo_name>", "<|endoftext|>"),
    ),
    InfillFormat(  # SantaCoder
        prefix="<fim-prefix>",
        suffix="<fim-suffix>",
        middle="<fim-middle>",
        ends=("<fim-pad>", "<|endoftext|>"),
    ),
    InfillFormat(  # DeepSeek-Coder
        prefix="<\uff5cfim\u2581begin\uff5c>",
        suffix="<\uff5cfim\u2581hole\uff5c>",
        middle="<\uff5cfim\u2581end\uff5c>",
    ),
    InfillFormat(  # Code Llama
        prefix="\u2581<PRE>",
        suffix="\u2581<SUF>",
        middle="\u2581<MID>",
        ends=("\u2581<EOT>",),
        spaced=True,
    ),
    InfillFormat(  # CodeGeeX4, GLM-4
        prefix="<|code_prefix|>",
        suffix="<|code_suffix|>",
        middle="<|code_middle|>",
        suffix_first=True,
    ),
    InfillFormat(  # Seed-Coder
        prefix="<[fim-prefix]>",
        suffix="<[fim-suffix]>",
        middle="<[fim-middle]>",
        suffix_first=True,
    ),
    # Codestral
    InfillFormat(prefix="[PREFIX]", suffix="[SUFFIX]", middle=None, suffix_first=True),
)


def find_infill(token_id: Callable[[str], int | None]) -> InfillFormat | None:
    """Return the form for which a vocabulary has tokens, or None.

    Args:
        token_id: returns the number of a token, or None.
    """
    return next(
        (one for one in _FORMATS if all(token_id(mark) is not None for mark in one.marks)), None
    )


def infill_tokens(
    prefix: str,
    suffix: str,
    wanted: InfillFormat,
    *,
    encode: Callable[[str], list[int]],
    token_id: Callable[[str], int | None],
) -> list[int]:
    """Return the tokens of a text with a gap, without those that begin any prompt.

    Args:
        prefix: the text before the gap.
        suffix: the text after it.
        wanted: the form.
        encode: returns the tokens of a text, without special ones of the tokenizer's own.
        token_id: returns the number of a mark.
    """
    before = [*_mark(wanted.prefix, token_id), *encode(prefix)]
    after = [*_mark(wanted.suffix, token_id), *_suffix(suffix, encode, spaced=wanted.spaced)]
    parts = (after, before) if wanted.suffix_first else (before, after)
    return [*parts[0], *parts[1], *_mark(wanted.middle, token_id)]


def _mark(mark: str | None, token_id: Callable[[str], int | None]) -> list[int]:
    number = token_id(mark) if mark else None
    return [] if number is None else [number]


def _suffix(text: str, encode: Callable[[str], list[int]], *, spaced: bool) -> list[int]:
    if not spaced:
        return encode(text)
    # A line end is a byte token of its own, after the space that is not wanted.
    return encode("\n" + text)[len(encode("\n")) :]
