"""The gate: what may change in an article. Pure, linear time.

`faults` compares an article before and after. Every stage uses it for what it changes, and the
pipeline uses it once more for the whole change before anything is written. It knows nothing of how
a change was made: only what a run may add (`Allowance`).

- Every sentence stays, in its section and its order, with its words, links and footnotes. It may
  get a footnote of the run, and "(until DATE)" where a fact of the run replaces it.
- A new sentence cites footnotes of the run, and only those; it is plain words and links.
- Footnotes stay, word for word; new ones are those of the run, and are used.
- Links stay; new ones stand in new sentences or in See also, lead to articles that exist, and are
  at most one per target and section.
- Everything else (headings, infobox, code, lists, tables, comments) stays, in order. New are only
  headings, infobox fields and items of See also that were announced.
- An article grows by a bounded size for each fact.
"""

from __future__ import annotations

import bisect
import re
from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, TypeVar

from core.memory import lines
from core.memory.article import REFERENCES, SEE_ALSO, parse, sentences
from core.memory.links import MARKER
from core.memory.names import name_key
from core.memory.plain import LONGEST_SENTENCE, has_markup, unlinked
from core.memory.stages.orders import is_order
from core.memory.truth import MOST_CITATIONS, until, without_until

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from core.memory.article import Article
    from core.memory.links import Link
    from core.memory.parts import Sentence

LARGEST_ARTICLE = 1024 * 1024
"""Characters of an article that a run writes."""
_GROWTH_BASE = 2_000
_GROWTH_PER_FACT = 2_500
_UNTIL = re.compile(r" \(until \d{4}-\d{2}-\d{2}\)")
_ITEM = re.compile(r"[-*+] \[\[[^\[\]|#\n]{1,300}\]\][ \t\r]*")
_Item = TypeVar("_Item")


@dataclass(frozen=True, kw_only=True)
class Allowance:
    """What a run may add to an article."""

    notes: Mapping[str, str]
    """Label and text of each new footnote."""
    names: frozenset[str] = frozenset()
    """Keys of the names that new links may have."""
    retired: Mapping[str, str] = field(default_factory=dict)
    """For sentences (their key, see `sentence_key`) the date that they may get."""
    cited: frozenset[str] = frozenset()
    """Keys of the sentences that may get another footnote."""
    headings: frozenset[str] = frozenset()
    """Keys of the headings that may be new."""
    fields: frozenset[str] = frozenset()
    """Keys of the infobox fields that may be new or have another value."""
    title: str = ""
    """Title of a new article."""
    facts: int = 0
    """How many facts go in."""


def sentence_key(text: str) -> str:
    """Return the key of a sentence: without links and "(until DATE)", case and spacing aside."""
    return name_key(without_until(unlinked(text)))


def faults(before: str, after: str, allowed: Allowance) -> tuple[str, ...]:
    """Return what is wrong with a change, one sentence each; empty: it may be made.

    Args:
        before: the article as it is; empty: it is new.
        after: as it is to be.
        allowed: what the run may add.
    """
    old, new = parse(before), parse(after)
    check = _Check(old, new, allowed)
    found = (
        *check.size(),
        *check.head(),
        *check.sentences(),
        *check.footnotes(),
        *check.links(),
        *check.rest(),
    )
    return tuple(dict.fromkeys(found))


class _Check:
    """Two versions of an article."""

    def __init__(self, old: Article, new: Article, allowed: Allowance) -> None:
        self.old, self.new, self.allowed = old, new, allowed
        self.fresh: list[Sentence] = []
        """Sentences that are new, in order; set by `sentences`."""

    def size(self) -> Iterator[str]:
        growth = len(self.new.source) - len(self.old.source)
        if len(self.new.source) > LARGEST_ARTICLE:
            yield "The article is too large."
        if growth > _GROWTH_BASE + _GROWTH_PER_FACT * self.allowed.facts:
            yield "The article grows by more than its facts."

    def head(self) -> Iterator[str]:
        if self.new.title != (self.old.title or self.allowed.title):
            yield "The title is not that of the article."
        if self.new.series != self.old.series:
            yield "The series has changed."
        yield from self._infobox()

    def _infobox(self) -> Iterator[str]:
        old = dict(self.old.infobox.fields) if self.old.infobox else {}
        new = dict(self.new.infobox.fields) if self.new.infobox else {}
        changed = {key for key in old.keys() | new.keys() if old.get(key) != new.get(key)}
        if any(name_key(key) not in self.allowed.fields or key not in new for key in changed):
            yield "The infobox has changed."

    def sentences(self) -> Iterator[str]:
        old, new = _by_anchor(self.old), _by_anchor(self.new)
        for anchor, was in old.items():
            fresh, lost = self._matched(was, new.get(anchor, []))
            self.fresh += fresh
            if lost:
                yield "A sentence is lost or changed, or its footnotes are."
        for anchor, now in new.items():
            if anchor not in old:
                self.fresh += now
        for sentence in self.fresh:
            yield from self._sentence(sentence)

    def _matched(
        self, was: Sequence[Sentence], now: Sequence[Sentence]
    ) -> tuple[list[Sentence], bool]:
        """Return the new sentences of a section, and whether an old one is not there any more."""
        fresh = []
        at = 0
        for sentence in now:
            if at < len(was) and self._is_same(was[at], sentence):
                at += 1
            else:
                fresh.append(sentence)
        return fresh, at < len(was)

    def _is_same(self, was: Sentence, now: Sentence) -> bool:
        if without_until(was.text) != without_until(now.text):
            return False
        key = sentence_key(was.text)
        if until(was.text) != until(now.text) and self.allowed.retired.get(key) != until(now.text):
            return False
        more = now.labels[len(was.labels) :]
        if now.labels[: len(was.labels)] != was.labels:
            return False
        return not more or (
            key in self.allowed.cited
            and len(now.labels) <= MOST_CITATIONS
            and all(label in self.allowed.notes for label in more)
        )

    def _sentence(self, sentence: Sentence) -> Iterator[str]:
        """Check a new sentence by itself."""
        plain = unlinked(sentence.text)
        if not sentence.labels:
            yield "A new sentence has no citation."
        if not all(label in self.allowed.notes for label in sentence.labels):
            yield "A new sentence cites a footnote that is not one of its facts."
        if len(plain) > LONGEST_SENTENCE:
            yield "A new sentence is too long."
        if has_markup(plain):
            yield "A new sentence has markup."
        if is_order(plain):
            yield "A new sentence gives an order."

    def footnotes(self) -> Iterator[str]:
        was = [(note.label, note.text) for note in self.old.footnotes]
        now = [(note.label, note.text) for note in self.new.footnotes]
        more = _added(was, now)
        if more is None:
            yield "A footnote is lost or changed."
            return
        if any(self.allowed.notes.get(label) != text for label, text in more):
            yield "A footnote was not announced."
        defined = {label.casefold() for label, _ in now}
        if len(defined) < len(now) and len({label.casefold() for label, _ in was}) == len(was):
            yield "A footnote is defined twice."
        missing = _used(self.new) - defined - _used(self.old)
        if missing:
            yield "A footnote is cited and not defined."
        if any(label.casefold() not in _used(self.new) for label, _ in more):
            yield "A footnote is defined and not cited."

    def links(self) -> Iterator[str]:
        was = Counter((name_key(link.target), link.text) for link in self.old.links)
        now = Counter((name_key(link.target), link.text) for link in self.new.links)
        if was - now:
            yield "A link is lost."
        more = now - was
        for target, _ in more:
            if target not in self.allowed.names:
                yield "A link leads to an article that does not exist."
        fresh = Counter(
            (name_key(link.target), link.text)
            for sentence in self.fresh
            for link in links_within(self.new, sentence.start, sentence.end)
            if not (link.embed or link.anchor)
        )
        if more - fresh - _listed(self.new):
            yield "A link was added outside of new sentences."
        yield from self._crowded()

    def _crowded(self) -> Iterator[str]:
        """Look for a second link to the same target in a section, if the run has added one."""
        counts: Counter[tuple[str, str]] = Counter()
        for sentence in sentences(self.new):
            for link in links_within(self.new, sentence.start, sentence.end):
                counts[sentence.anchor, name_key(link.target)] += 1
        for sentence in self.fresh:
            for link in links_within(self.new, sentence.start, sentence.end):
                if counts[sentence.anchor, name_key(link.target)] > 1:
                    yield "A section has a second link to the same article."

    def rest(self) -> Iterator[str]:
        """Compare what is not prose, line by line."""
        was, now = list(_skeleton(self.old, self)), list(_skeleton(self.new, self))
        more = _added(was, now)
        if more is None:
            yield "Something other than sentences is lost or changed."
            return
        for kind, text in more:
            if not self._may_be_new(kind, text):
                yield "Something other than sentences was added."

    def _may_be_new(self, kind: str, text: str) -> bool:
        if kind == "heading":
            title = text.lstrip("# \t").strip()
            apparatus = {name_key(SEE_ALSO), name_key(REFERENCES)}
            if text.startswith("# ") and not self.old.title:
                return title == self.allowed.title
            return text.startswith("## ") and (name_key(title) in self.allowed.headings | apparatus)
        return kind == "list" and _ITEM.fullmatch(text) is not None

    def plain_line(self, text: str) -> str:
        """Return a line without what a run may add to a sentence in it."""
        bare = MARKER.sub(lambda m: "" if m[1] in self.allowed.notes else m[0], text)
        return _UNTIL.sub("", bare)


def _by_anchor(article: Article) -> dict[str, list[Sentence]]:
    found: dict[str, list[Sentence]] = {}
    for sentence in sentences(article):
        found.setdefault(sentence.anchor, []).append(sentence)
    return found


def links_within(article: Article, start: int, stop: int) -> Sequence[Link]:
    """Return the wikilinks between two offsets."""
    first = bisect.bisect_left(article.links, start, key=lambda link: link.start)
    last = bisect.bisect_left(article.links, stop, key=lambda link: link.start)
    return article.links[first:last]


def _listed(article: Article) -> Counter[tuple[str, str]]:
    """Return the links of See also."""
    key = name_key(SEE_ALSO)
    sections = (section for section in article.sections if name_key(section.heading) == key)
    return Counter(
        (name_key(link.target), link.text)
        for section in sections
        for link in links_within(article, section.content, section.own_stop)
    )


def _used(article: Article) -> frozenset[str]:
    """Return the labels that are cited somewhere."""
    return frozenset(marker.label.casefold() for marker in article.markers)


def _skeleton(article: Article, check: _Check) -> Iterator[tuple[str, str]]:
    """Yield the lines that are more than prose, footnotes and infobox."""
    box = article.infobox
    for line in lines.scan(article.source):
        if line.kind in ("blank", "note", "more"):
            continue
        if box is not None and box.start <= line.start < box.stop:
            continue
        text = article.source[line.start : line.stop]
        if line.kind != "text" or not any(map(str.isalnum, text)):
            yield line.kind, check.plain_line(text.rstrip())


def _added(was: Sequence[_Item], now: Sequence[_Item]) -> list[_Item] | None:
    """Return what a sequence has more than another one; None: it does not contain that one."""
    at = 0
    more = []
    for item in now:
        if at < len(was) and was[at] == item:
            at += 1
        else:
            more.append(item)
    return more if at == len(was) else None
