"""Whether a quote carries what a sentence says. Pure, linear time.

This is a check of words, not of meaning. What it holds: no number and no name stands in a sentence
that the user did not write, the value stands in the quote, and quote and sentence share a word.
"""

from __future__ import annotations

import re
import unicodedata
from dataclasses import dataclass
from functools import lru_cache

from core.memory.citation import collapsed

_WORD = re.compile(r"[^\W_]+(?:['’.&-][^\W_]+)*[+#]*")
_DIGITS = re.compile(r"\d+")
_CJK = re.compile(r"[\u2e80-\u9fff\uac00-\ud7af\uf900-\ufaff々ー]+")
_KATAKANA = re.compile(r"[\u30a1-\u30faー]{2,}")
_OURS = frozenset({"user", "user's", "user’s", "nutzer", "nutzers", "nutzerin", "team"})
_SHORTEST = 3  # letters of a word that counts
_STEM = 4  # letters that two forms of a word share: `work`, `worked`, `working` do
_FREE = frozenset(
    {"that", "this", "with", "from", "have", "been", "were", "will", "would", "about", "they"}
    | {"them", "their", "there", "what", "when", "which", "user", "does", "your", "the", "and"}
    | {"for", "her", "his", "she", "was", "has", "had", "are", "not", "but", "you", "our", "its"}
    | {"who", "all", "can", "any", "him", "out", "now", "how", "why", "did", "been", "than", "then"}
)


@dataclass(frozen=True, kw_only=True)
class Evidence:
    """What the user wrote in a conversation, made ready to look words up in."""

    numbers: frozenset[str]
    """Its runs of digits."""
    plain: str
    """All of it, folded."""
    words: frozenset[str]
    """Its words, folded, with and without their endings."""


@lru_cache(maxsize=2)
def evidence_of(text: str) -> Evidence:
    """Return a text as evidence; that of the last conversation is kept."""
    plain = folded(text)
    return Evidence(numbers=frozenset(_DIGITS.findall(text)), plain=plain, words=_words(plain))


def unsupported_name(sentence: str, evidence: Evidence) -> str | None:
    """Return the first number or name of a sentence that does not stand in the evidence.

    Args:
        sentence: what an article is to say.
        evidence: all that the user wrote in the conversation.
    """
    for number in _DIGITS.finditer(sentence):
        if number.group() not in evidence.numbers:
            return number.group()
    for name in _names(sentence):
        if not _stands(name, evidence.words):
            return name
    for match in _KATAKANA.finditer(sentence):
        if folded(match.group()) not in evidence.plain and match.group() != "ユーザー":
            return match.group()
    return None


def states_value(quote: str, value: str) -> bool:
    """Return whether a quote has a value: all its numbers and names, or else one of its words."""
    numbers = _DIGITS.findall(value)
    if not set(numbers) <= set(_DIGITS.findall(quote)):
        return False
    words = _words(folded(quote))
    names = list(_names(value, everywhere=True))
    if names:
        return all(_stands(name, words) for name in names)
    return bool(numbers) or shares_word(quote, value)


def has_names(text: str) -> bool:
    """Return whether a text has a number or a capitalized word."""
    return bool(_DIGITS.search(text) or _names(text, everywhere=True))


def shares_word(quote: str, text: str) -> bool:
    """Return whether two texts have a word in common, or two characters of a CJK script."""
    return bool(_content(folded(quote)) & _content(folded(text)))


def content_words(text: str) -> frozenset[str]:
    """Return the stems of the longer words of a text, its numbers, and pairs of CJK characters."""
    return _content(folded(text))


def folded(text: str) -> str:
    """Return a text as it is compared: NFKC, without case and accents, whitespace collapsed."""
    plain = unicodedata.normalize("NFKD", unicodedata.normalize("NFKC", text).casefold())
    kept = "".join(c for c in plain if not unicodedata.combining(c) or ord(c) > 0x3000)
    return collapsed(unicodedata.normalize("NFC", kept).replace("’", "'"))


def _tokens(text: str) -> list[str]:
    """Return the words of a text; a run of CJK characters is one."""
    return _WORD.findall(_CJK.sub(r" \g<0> ", text))


def _names(text: str, *, everywhere: bool = False) -> list[str]:
    """Return the capitalized words; the first of a sentence only if asked for."""
    found = []
    for number, word in enumerate(_tokens(text)):
        if (number or everywhere) and word[0].isupper() and word.casefold() not in _OURS:
            found.append(word)
    return found


def _words(plain: str) -> frozenset[str]:
    words = set(_tokens(plain))
    words.update(part for word in tuple(words) for part in re.split(r"['.&-]", word) if part)
    return frozenset(words | {_stem_of(word) for word in words})


def _stands(name: str, words: frozenset[str]) -> bool:
    plain = folded(name)
    if plain in words or _stem_of(plain) in words:
        return True
    parts = [part for part in re.split(r"['.&-]", plain) if part]
    return len(parts) > 1 and all(part in words for part in parts if len(part) > 1)


def _stem_of(word: str) -> str:
    return word.removesuffix("'s").removesuffix("s") if len(word) > 3 else word


def _content(plain: str) -> frozenset[str]:
    """Return the stems of the longer words, numbers, and the pairs of CJK characters."""
    found = set()
    for word in _tokens(plain):
        if word[0].isdigit():
            found.add(word)
        elif len(word) >= _SHORTEST and word not in _FREE and not _CJK.match(word):
            found.add(word[:_STEM])
        elif len(word) > 1 and (not word.isalpha() or not word.isascii()):
            found.add(word)
    for match in _CJK.finditer(plain):
        run = match.group()
        found.update(run[i : i + 2] for i in range(len(run) - 1))
    return frozenset(found)
