"""Remove forgotten text from pages. Pure: takes a text and returns a text.

What is forgotten is a text (its words in a row, without case) or an article (its name, as the
target of links). Whole sentences are removed, with the footnotes that only they use; so are
sentences that cite a quotation with these words, lines of an infobox (also one with the value that
a removed sentence states), and entries on a Talk page. Where only the words can be removed (a
heading, code), `[…]` takes their place. Cleaning a page twice changes nothing more.
"""

from __future__ import annotations

import re
from collections import defaultdict
from dataclasses import dataclass
from typing import TYPE_CHECKING

from core.errors import UsageProblem
from core.memory.article import parse, sentences
from core.memory.citation import Citation, parse_citation
from core.memory.echoes import is_wide, words
from core.memory.edits import remove_footnote, remove_sentences
from core.memory.links import wikilinks
from core.memory.names import name_key

if TYPE_CHECKING:
    from core.memory.article import Article, Sentence

FORGOTTEN = "[…]"
"""Stands where only the words could be taken out; it has no words itself."""
MOST_SENTENCES = 500
"""Sentences of one page that are removed at once."""
_LONGEST = 2000  # characters of a text to forget
_ENTRY = re.compile(r"^## .*?^<!-- mlxbun [0-9a-f]{12} -->[ \t\r]*\n?", re.MULTILINE | re.DOTALL)
_BULLET = re.compile(r"[ \t]*[-*+][ \t]+")
_TITLE = re.compile(r"# [^\n]*")


@dataclass(frozen=True, kw_only=True)
class Cleaned:
    """A page without what is forgotten."""

    text: str
    """What is left."""
    removed: tuple[str, ...] = ()
    """What was removed: sentences, entries and lines, as they stood there."""
    citations: tuple[Citation, ...] = ()
    """What the removed sentences cited."""


class Needle:
    """A text that is looked for by its words."""

    def __init__(self, text: str) -> None:
        """Take the text.

        Raises:
            UsageProblem: it has no words, or too many.
        """
        self.words = words(text)
        if not self.words or len(text) > _LONGEST:
            raise UsageProblem(f"A text to forget needs a word, and at most {_LONGEST} characters.")
        self._joined = f"\0{chr(0).join(self.words)}\0"
        start = "" if is_wide(self.words[0]) else r"(?<!\w)"
        end = "" if is_wide(self.words[-1]) else r"(?!\w)"
        gap = r"[\W_]{0,20}"
        inner = gap.join(map(re.escape, self.words))
        self._pattern = re.compile(f"{start}{inner}{end}", re.IGNORECASE)

    def is_in(self, text: str) -> bool:
        """Return whether the words stand in a text, in a row."""
        return self._joined in f"\0{chr(0).join(words(text))}\0"

    def without(self, text: str) -> str:
        """Return a text in which `[…]` stands for the words, or for a line that hides them."""
        text = self._pattern.sub(FORGOTTEN, text)
        if not self.is_in(text):
            return text
        # The words in another form: with a ligature, in full width, with a soft hyphen.
        lines = text.split("\n")
        return "\n".join(FORGOTTEN if self.is_in(line) else line for line in lines)


def clean_article(text: str, needle: Needle) -> Cleaned:
    """Return an article without a text; its title stays.

    Raises:
        UsageProblem: too many sentences match.
    """
    if not needle.is_in(text) and needle.without(text) == text:
        return Cleaned(text=text)
    removed: list[str] = []
    citations: list[Citation] = []
    stated: defaultdict[str, str] = defaultdict(str)  # by property: the words that state it
    article = parse(text)
    hits = [each for each in sentences(article) if _is_hit(each, article, needle)]
    if len(hits) > MOST_SENTENCES:
        raise UsageProblem(
            f"The text stands in {len(hits)} sentences of one article.",
            hint="Forget the article, or name more words.",
        )
    for sentence in hits:
        removed.append(sentence.text)
        found = _citations(sentence, article)
        citations += found
        for each in found:
            if each.property:
                stated[name_key(each.property)] += f"{sentence.text}\n{each.quote}\n"
    text = remove_sentences(text, hits)
    for note in parse(text).footnotes:  # that nothing cites
        if needle.is_in(note.text):
            removed.append(note.text)
            text = remove_footnote(text, note.label)
    text, lines = _without_infobox_lines(text, needle, stated)
    text, rest = _without_words(text, needle)
    return Cleaned(
        text=text,
        removed=(*removed, *lines, *rest),
        citations=tuple(dict.fromkeys(citations)),
    )


def clean_talk(text: str, needle: Needle) -> Cleaned:
    """Return a Talk page, or another page of ours, without a text."""
    if not needle.is_in(text) and needle.without(text) == text:
        return Cleaned(text=text)
    removed: list[str] = []

    def entry(match: re.Match[str]) -> str:
        if not needle.is_in(match[0]):
            return match[0]
        removed.append(" ".join(match[0].split())[:500])
        return ""

    text, rest = _without_words(_ENTRY.sub(entry, text), needle)
    return Cleaned(text=text, removed=(*removed, *rest))


def unlink(text: str, name: str) -> str:
    """Return a page in which links to an article are plain words.

    Items of a list that are nothing but such a link go.
    """
    key = name_key(name)
    parts: list[str] = []
    at = 0
    for link in wikilinks(text, 0, len(text)):
        if name_key(link.target) != key or link.start < at:
            continue
        line = text.rfind("\n", 0, link.start) + 1
        end = text.find("\n", link.stop)
        end = len(text) if end < 0 else end + 1
        if _BULLET.fullmatch(text, line, link.start) and not text[link.stop : end].strip():
            parts.append(text[at:line])
            at = end
        else:
            parts += [text[at : link.start], link.text]
            at = link.stop
    return "".join([*parts, text[at:]])


def cited(text: str) -> tuple[tuple[str, ...], tuple[Citation, ...]]:
    """Return the sentences of an article, and all that its footnotes cite."""
    article = parse(text)
    notes = (parse_citation(note.text) for note in article.footnotes)
    return (
        tuple(sentence.text for sentence in sentences(article)),
        tuple(note for note in notes if note is not None),
    )


def _is_hit(sentence: Sentence, article: Article, needle: Needle) -> bool:
    if needle.is_in(sentence.text):
        return True
    notes = (article.footnote(label) for label in sentence.labels)
    return any(needle.is_in(note.text) for note in notes if note is not None)


def _citations(sentence: Sentence, article: Article) -> list[Citation]:
    notes = [article.footnote(label) for label in sentence.labels]
    found = [parse_citation(note.text) for note in notes if note is not None]
    return [each for each in found if each is not None]


def _without_infobox_lines(
    text: str, needle: Needle, stated: dict[str, str]
) -> tuple[str, list[str]]:
    box = parse(text).infobox
    if box is None:
        return text, []

    def stays(line: str) -> bool:
        return line.lstrip().startswith("`") or not (needle.is_in(line) or _is_said(line, stated))

    lines = text[box.start : box.stop].splitlines(keepends=True)
    kept = [line for line in lines if stays(line)]
    gone = [line.strip() for line in lines if line not in kept]
    return text[: box.start] + "".join(kept) + text[box.stop :], gone


def _is_said(line: str, stated: dict[str, str]) -> bool:
    """Return whether removed words state the property of an infobox line with this value.

    Of several lines with one name, the first counts: it is taken out of `stated`.
    """
    name, _, value = line.partition(":")
    said = stated.pop(name_key(name), "")
    is_text = len(value) <= _LONGEST and bool(words(value))
    return is_text and Needle(value).is_in(said)


def _without_words(text: str, needle: Needle) -> tuple[str, list[str]]:
    """Replace the words where they are left, but for the title; return the lines, too."""
    title = _TITLE.match(text)
    start = title.end() if title else 0
    rest = needle.without(text[start:])
    if rest == text[start:]:
        return text, []
    before, after = text[start:].split("\n"), set(rest.split("\n"))
    return text[:start] + rest, [line.strip() for line in before if line not in after]
