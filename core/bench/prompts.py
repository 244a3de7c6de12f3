"""Prompts of an exact length that no cache has seen. Pure, given a tokenizer's count.

The engine takes texts, not tokens, so that what is measured is what users send. A text of plain
words is cut to the length and filled up with short ones.
"""

from __future__ import annotations

from bisect import bisect_right
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable
    from random import Random

# Common words that most vocabularies hold as one token.
_TEXT = (
    "time year people way day man thing woman life child world school state family student group "
    "country problem hand part place case week company system program question work government "
    "number night point home water room mother area money story fact month lot right study book "
    "eye job word business issue side kind head house service friend father power hour game line "
    "end member law car city community name president team minute idea kid body information back "
    "parent face others level office door health person art war history party result change "
    "morning reason research girl guy moment air teacher force education"
)
_WORDS = tuple(_TEXT.split())
# Ends that add one token to a text in one vocabulary or another.
_FILLERS = (" a", " the", " I", ".", " 1", "a", "\n")


def make_text(tokens: int, *, count: Callable[[str], int], random: Random) -> str:
    """Return a new text of `tokens` tokens, or of the nearest number below that can be had.

    Args:
        tokens: wanted length; the tokenizer's own special tokens count.
        count: tokens of a text; may return any larger number for a text that is far too long.
        random: chooses the words; the same state gives the same text.
    """
    words = random.choices(_WORDS, k=tokens)  # a word is a token at least
    fitting = bisect_right(
        range(1, tokens + 1), tokens, key=lambda number: count(" ".join(words[:number]))
    )
    text = " ".join(words[:fitting]) or words[0][0]
    return _fill(text, tokens, count)


def _fill(text: str, tokens: int, count: Callable[[str], int]) -> str:
    while count(text) < tokens:
        longer = (text + filler for filler in _FILLERS)
        fitting = next((each for each in longer if count(text) < count(each) <= tokens), None)
        if fitting is None:
            return text
        text = fitting
    return text
