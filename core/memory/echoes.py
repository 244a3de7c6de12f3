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
from contextlib import suppress
from typing import TYPE_CHECKING

from core.errors import MlxbunError
from core.memory.article import parse, sentences
from core.memory.citation import parse_citation
from core.memory.pages import PREFACE
from core.memory.sentences import split_lines
from core.memory.vault import path_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator
    from pathlib import Path
    from typing import Protocol

    from core.memory.store import ConversationStore
    from core.memory.turns import SourceConversation
    from core.memory.vault import Vault

    class _Memory(Protocol):
        @property
        def vault(self) -> Vault: ...
        @property
        def store(self) -> ConversationStore: ...


Words = tuple[str, ...]
"""Words of a sentence, as they are compared."""
_OPENING = re.compile(r"\[memory data ([0-9a-f]{16});")
_CITATION = re.compile(
    r"^[> \t]{0,20}\[\^[^\]\s]{1,100}\]:[ \t]{0,4}[a-z-]{1,20}:[^\s#]{1,200}#[^\s#]{1,200}"
    r" \((?:\d{4}-\d{2}-\d{2}|undated)\).*$",
    re.MULTILINE,
)
_FEWEST = 4
"""Words of a fragment that is recognised; fewer words are anyone's."""
_MOST_PLACES = 1000  # of the same four words
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
    """Return a text without what our tools answered (`core.memory.pages`), and without citations.

    A block that is not closed ends with the text: its end was cut off.
    """
    if "[memory data " in text:
        text = _without_blocks(text)
    return _CITATION.sub("", text) if "[^" in text else text


def _without_blocks(text: str) -> str:
    parts: list[str] = []
    at = 0
    while opened := _OPENING.search(text, at):
        parts.append(text[at : opened.start()])
        closing = f"[end of memory data {opened[1]}]"
        end = text.find(closing, opened.end())
        at = len(text) if end < 0 else end + len(closing)
    parts.append(text[at:])
    return "".join(parts).replace(PREFACE, "")


class EchoIndex:
    """The sentences of a vault, to recognise them in what is said later."""

    def __init__(self, sentences: Iterable[tuple[str, frozenset[str]]]) -> None:
        """Take the sentences of all articles.

        Args:
            sentences: as they stand there, each with the conversations that it cites.
        """
        self._whole: dict[Words, frozenset[str]] = {}
        self._by_start: dict[Words, list[tuple[Words, int]]] = defaultdict(list)
        for sentence, sources in sentences:
            found = words(sentence)
            if not found:
                continue
            known = self._whole.get(found)
            self._whole[found] = sources if known is None else known | sources
            # What is over may be true again: only its whole sentence, date and all, is an echo.
            if known is None and not _RETIRED.search(sentence):
                for place in range(len(found) - _FEWEST + 1):
                    self._by_start[found[place : place + _FEWEST]].append((found, place))

    def is_echo(self, text: str, *, source: str = "") -> bool:
        """Return whether all sentences of a text stand in the vault.

        A part of a sentence counts from four words on (of Chinese, Japanese or Thai from eight
        characters on).

        Args:
            text: a sentence, a quotation, or more.
            source: the conversation in which it stands; what the vault has from there only is not
                an echo of the vault there.
        """
        parts = [part for part in map(words, split_lines(text)) if part]
        return bool(parts) and all(self._is_known(part, source) for part in parts)

    def _is_known(self, part: Words, source: str) -> bool:
        if part in self._whole and self._is_foreign(part, source):
            return True
        fewest = _FEWEST * 2 if any(map(is_wide, part)) else _FEWEST
        if len(part) < fewest:
            return False
        places = self._by_start.get(part[:_FEWEST], ())
        return any(
            whole[at : at + len(part)] == part and self._is_foreign(whole, source)
            for whole, at in places[:_MOST_PLACES]
        )

    def _is_foreign(self, whole: Words, source: str) -> bool:
        return self._whole[whole] != {source}


def find_echoes(memory: _Memory, conversation: SourceConversation) -> Callable[[str], bool]:
    """Return what recognises the vault, and what the user has had forgotten, in a conversation.

    The sentences are read anew when an article has changed.

    Args:
        memory: has the vault and the store.
        conversation: what the vault has from it only is not an echo there.
    """
    index, store = vault_index(memory.vault), memory.store

    def recognised(text: str) -> bool:
        return index.is_echo(text, source=conversation.id) or is_forgotten(text, store)

    return recognised


def is_forgotten(text: str, store: ConversationStore) -> bool:
    """Return whether a sentence or a quotation is one that the user has had forgotten."""
    return bool(store.forgotten("words", [" ".join(words(text))]))


def vault_index(vault: Vault) -> EchoIndex:
    """Return the sentences of a vault's articles; pages that cannot be read have none."""
    stamp = _stamp(vault)
    known = _indexes.get(vault.root)
    if known is None or known[0] != stamp:
        _indexes.clear()
        _indexes[vault.root] = known = (stamp, EchoIndex(_sentences(vault)))
    return known[1]


_indexes: dict[Path, tuple[object, EchoIndex]] = {}  # of the last vault


def _stamp(vault: Vault) -> tuple[tuple[str, int, int], ...]:
    stamps = []
    for name in vault.names().articles:
        with suppress(OSError):
            status = (vault.root / path_of(name)).lstat()
            stamps.append((name, status.st_mtime_ns, status.st_size))
    return tuple(stamps)


def _sentences(vault: Vault) -> Iterator[tuple[str, frozenset[str]]]:
    for name in vault.names().articles:
        with suppress(MlxbunError):
            article = parse(vault.read(path_of(name)).text)
            for sentence in sentences(article):
                notes = [article.footnote(label) for label in sentence.labels]
                cited = [parse_citation(note.text) for note in notes if note is not None]
                yield sentence.text, frozenset(each.source for each in cited if each is not None)


def is_wide(word: str) -> bool:
    """Return whether a word is of a script that writes no spaces."""
    return _WIDE.match(word) is not None


def words(text: str) -> Words:
    """Return the words by which sentences are compared: without case, links and footnotes."""
    plain = _LINK.sub(r"\1", _MARKER.sub("", text))
    folded = unicodedata.normalize("NFKC", plain).casefold()
    return tuple(_WORD.findall(folded))
