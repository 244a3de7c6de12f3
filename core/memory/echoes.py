"""What memory itself has said, recognised wherever it comes back. Pure and linear.

Without this, memory would feed on itself: a model reads an article, the chat about it is ingested,
and the article says it once more, now "from" that chat. Two things are recognised. Marked blocks,
which tools of ours put around every result, are taken out of a turn before it is stored. Sentences
that stand in the vault already are not facts again, whether the user pastes them or the assistant
repeats them (`EchoIndex`).
"""

from __future__ import annotations

import re
import unicodedata
from collections import defaultdict
from typing import TYPE_CHECKING

from core.memory import sentences as prose

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

OPENING = "<mlxbun-memory"
"""How a marked block begins; attributes and `>` follow."""
CLOSING = "</mlxbun-memory>"
"""How it ends."""
_FEWEST = 4
"""Words of a fragment that is recognised; fewer words are anyone's."""
_MARKER = re.compile(r"\[\^[^\]\s]{1,100}\]")
_LINK = re.compile(r"\[\[(?:[^\[\]|]{1,500}\|)?([^\[\]|]{1,500})\]\]")
_WORD = re.compile(
    # Chinese, Japanese, Thai and others write no spaces: a character is a word.
    r"[\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3040-\u30ff\u3400-\u9fff\uf900-\ufaff]"
    r"|[^\W_]+(?:['’][^\W_]+)*"
)
_WIDE = re.compile(r"[\u0e00-\u9fff\uf900-\ufaff]")
_RETIRED = re.compile(r"\(until (?:\d{4}(?:-\d{2}){0,2}|[^()]{1,40})\)")


def strip_marked(text: str) -> str:
    """Return a text without the marked blocks in it.

    A block that is not closed ends with the text: its end was cut off.
    """
    if OPENING not in text:
        return text
    parts: list[str] = []
    at = 0
    while (start := text.find(OPENING, at)) >= 0:
        parts.append(text[at:start])
        end = text.find(CLOSING, start)
        if end < 0:
            at = len(text)
            break
        at = end + len(CLOSING)
    parts.append(text[at:])
    return "".join(parts)


class EchoIndex:
    """The sentences of a vault, to recognise them in what is said later."""

    def __init__(self, sentences: Iterable[str]) -> None:
        """Take the sentences of all articles, as they stand there."""
        self._whole: set[tuple[str, ...]] = set()
        self._by_start: dict[tuple[str, ...], list[tuple[tuple[str, ...], int]]] = defaultdict(list)
        for sentence in sentences:
            found = words(sentence)
            if not found or found in self._whole:
                continue
            self._whole.add(found)
            # What is over may be true again: only its whole sentence, date and all, is an echo.
            if not _RETIRED.search(sentence):
                for place in range(len(found) - _FEWEST + 1):
                    self._by_start[found[place : place + _FEWEST]].append((found, place))

    def is_echo(self, text: str) -> bool:
        """Return whether all sentences of a text stand in the vault.

        A part of a sentence counts from four words on (of Chinese, Japanese or Thai from eight
        characters on).
        """
        parts = [part for part in map(words, _parts(text)) if part]
        return bool(parts) and all(self._is_known(part) for part in parts)

    def _is_known(self, part: tuple[str, ...]) -> bool:
        if part in self._whole:
            return True
        fewest = _FEWEST * 2 if any(_WIDE.match(word) for word in part) else _FEWEST
        if len(part) < fewest:
            return False
        places = self._by_start.get(part[:_FEWEST], ())
        return any(whole[at : at + len(part)] == part for whole, at in places[:_MOST_PLACES])


_MOST_PLACES = 1000  # of the same four words


def is_echo(text: str, index: EchoIndex) -> bool:
    """Return whether a sentence or a quotation came out of the vault."""
    return index.is_echo(text)


def words(text: str) -> tuple[str, ...]:
    """Return the words by which sentences are compared: without case, links and footnotes."""
    plain = _LINK.sub(r"\1", _MARKER.sub("", text))
    folded = unicodedata.normalize("NFKC", plain).casefold()
    return tuple(_WORD.findall(folded))


def _parts(text: str) -> Sequence[str]:
    """Return the sentences of a text, line by line."""
    return [part for line in text.split("\n") for part in prose.split(line)]
