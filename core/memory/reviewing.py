"""What a run that waits for its review changes, and what is left of it without some of it. Pure."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal

from core.errors import UsageProblem
from core.memory.article import parse, sentences
from core.memory.citation import parse_citation
from core.memory.edits import (
    add_footnote,
    add_section,
    insert_sentence,
    remove_footnote,
    remove_sentence,
)
from core.memory.links import MARKER
from core.memory.names import name_key
from core.memory.plain import unlinked
from core.memory.truth import retired_text, states, until, without_until
from core.memory.validate import Allowance, sentence_key

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from core.memory.citation import Citation
    from core.memory.parts import Article, Sentence

ItemKind = Literal["sentence", "citation"]


@dataclass(frozen=True, kw_only=True)
class ReviewItem:
    """Something to accept or reject."""

    id: str
    """The same whenever the run is looked at."""
    article: str
    """Name of the article."""
    new_article: bool
    """Whether the run creates it."""
    kind: ItemKind
    """A new sentence, or another footnote of a sentence that is there."""
    heading: str
    """Heading of the section; empty: the lead."""
    text: str
    """The sentence, without links and footnote markers."""
    citations: tuple[Citation, ...]
    """What it cites because of the run."""
    replaces: tuple[str, ...] = ()
    """Sentences that get "(until DATE)" because of it."""
    notes: tuple[str, ...] = field(default=(), repr=False)
    """Texts of its footnotes: what it is found by."""


def items(article: str, base: str | None, tip: str) -> tuple[ReviewItem, ...]:
    """Return what a run changes in an article, in order.

    Args:
        article: its name.
        base: its text before the run; None: it is new.
        tip: its text after it.
    """
    old, new = parse(base or ""), parse(tip)
    labels = _new_labels(old, new)
    retired = _retired(old, new, labels)
    found = []
    for sentence in sentences(new):
        own = [label for label in sentence.labels if label in labels]
        if not own:
            continue
        section = new.section(sentence.anchor) if sentence.anchor else None
        notes = tuple(labels[label] for label in own)
        cites = tuple(c for c in map(parse_citation, notes) if c is not None)
        is_new = len(own) == len(sentence.labels)
        found.append(
            ReviewItem(
                id=_id(article, sentence_key(sentence.text), notes),
                article=article,
                new_article=base is None,
                kind="sentence" if is_new else "citation",
                heading=section.heading if section else "",
                text=unlinked(sentence.text),
                citations=cites,
                replaces=tuple(
                    text for text, day, about in retired if _is_cause(cites, day, about)
                ),
                notes=notes,
            )
        )
    return tuple(found)


def without(
    base: str | None, tip: str, rejected: Iterable[ReviewItem], accepted: Iterable[ReviewItem]
) -> str | None:
    """Return an article after a run without what was rejected; None: nothing of it is left.

    Args:
        base: its text before the run; None: it is new.
        tip: its text after it.
        rejected: of the items of this article.
        accepted: the others.
    """
    out, kept = tuple(rejected), tuple(accepted)
    if not kept and base is None:
        return None
    if not kept:
        return base
    text = tip
    for item in out:
        text = _without_item(text, item)
    if out:
        text = _with_dates(base or "", text, out)
        text = _with_box(base or "", text, out)
        text = _without_empty_sections(base or "", text)
    return text


def without_links(text: str, names: Iterable[str]) -> str:
    """Return a text without links to some articles; their words stay, items of See also go."""
    gone = {name_key(name) for name in names}
    for link in reversed(parse(text).links if gone else ()):
        if name_key(link.target) not in gone:
            continue
        start = text.rfind("\n", 0, link.start) + 1
        end = text.find("\n", link.stop)
        stop = len(text) if end < 0 else end
        if (
            text[start : link.start].strip(" \t") in ("-", "*")
            and not text[link.stop : stop].strip()
        ):
            text = text[:start] + text[min(len(text), stop + 1) :]
        else:
            text = text[: link.start] + link.text + text[link.stop :]
    return _without_empty_sections("", text, only="see also") if gone else text


def replayed(now: str, wanted: str, accepted: Iterable[ReviewItem]) -> str:
    """Return an article that has changed meanwhile, with the accepted items put into it anew.

    Args:
        now: the article as it is.
        wanted: as the run, without what was rejected, wants it.
        accepted: items of the article.

    Raises:
        UsageProblem: the article cannot take them.
    """
    target = parse(wanted)
    text = now
    for item in accepted:
        sentence = _found(target, item)
        there = {note.text for note in parse(text).footnotes}
        if sentence is None or set(item.notes) <= there:
            continue
        if item.kind == "sentence":
            text = _inserted(text, item, unlinked(sentence.text))
        else:
            text = _cited(text, item)
    for key, day in _ends(target).items():
        text = _ended(text, key, day)
    return text


def allowance(now: str, result: str, *, names: Iterable[str], facts: int) -> Allowance:
    """Return what a review may add to an article: what it adds, as the gate wants it listed.

    The gate still holds that nothing is lost, and that what is new is cited and plain.
    """
    old, new = parse(now), parse(result)
    labels = _new_labels(old, new)
    before = _ends(old)
    retired = {key: day for key, day in _ends(new).items() if before.get(key) != day}
    cited = {
        sentence_key(sentence.text)
        for sentence in sentences(new)
        if any(label in labels for label in sentence.labels)
    }
    there = {name_key(section.heading) for section in old.sections}
    box = {name_key(key) for key, _ in (new.infobox.fields if new.infobox else ())}
    return Allowance(
        notes=labels,
        names=frozenset(map(name_key, names)),
        retired=retired,
        cited=frozenset(cited),
        headings=frozenset(
            name_key(section.heading)
            for section in new.sections
            if name_key(section.heading) not in there
        ),
        fields=frozenset(box),
        title=new.title if not old.title else "",
        facts=facts,
    )


# Finding.


def _id(article: str, sentence: str, notes: Sequence[str]) -> str:
    whole = "\0".join((article, sentence, *notes))
    return hashlib.sha256(whole.encode(errors="replace")).hexdigest()[:12]


def _new_labels(old: Article, new: Article) -> dict[str, str]:
    """Return label and text of the footnotes that are new."""
    there = {note.text for note in old.footnotes}
    return {note.label: note.text for note in new.footnotes if note.text not in there}


def _ends(article: Article) -> dict[str, str]:
    """Return for the keys of sentences with "(until DATE)" their dates."""
    found = ((sentence, until(sentence.text)) for sentence in sentences(article))
    return {sentence_key(sentence.text): day for sentence, day in found if day is not None}


def _cites(article: Article, sentence: Sentence) -> tuple[Citation, ...]:
    notes = (article.footnote(label) for label in sentence.labels)
    found = (parse_citation(note.text) for note in notes if note is not None)
    return tuple(citation for citation in found if citation is not None)


def _about(cites: Iterable[Citation]) -> frozenset[str]:
    return frozenset(name_key(citation.property) for citation in cites if citation.property)


def _retired(
    old: Article, new: Article, labels: Mapping[str, str]
) -> list[tuple[str, str, frozenset[str]]]:
    """Return text, date and properties of the sentences whose end date is new."""
    before = _ends(old)
    found = []
    for sentence in sentences(new):
        day = until(sentence.text)
        is_old = not all(label in labels for label in sentence.labels)
        if day is not None and is_old and before.get(sentence_key(sentence.text)) != day:
            about = _about(_cites(new, sentence))
            found.append((without_until(unlinked(sentence.text)), day, about))
    return found


def _is_cause(cites: Iterable[Citation], day: str, about: frozenset[str]) -> bool:
    return any(c.date == day and name_key(c.property or "") in about for c in cites)


def _found(article: Article, item: ReviewItem) -> Sentence | None:
    """Return the sentence of an item; None: it is not there."""
    labels = {note.label for note in article.footnotes if note.text in item.notes}
    wanted = sentence_key(item.text)
    for sentence in sentences(article):
        if labels & set(sentence.labels) and sentence_key(sentence.text) == wanted:
            return sentence
    return None


# Taking out.


def _without_item(text: str, item: ReviewItem) -> str:
    article = parse(text)
    sentence = _found(article, item)
    if sentence is None:
        return text
    if item.kind == "sentence":
        return remove_sentence(text, sentence)
    labels = [note.label for note in article.footnotes if note.text in item.notes]
    piece = MARKER.sub(
        lambda match: "" if match[1] in labels else match[0], text[sentence.start : sentence.end]
    )
    text = text[: sentence.start] + piece + text[sentence.end :]
    used = {marker.label for marker in parse(text).markers}
    for label in labels:
        if label not in used:
            text = remove_footnote(text, label)
    return text


def _with_dates(base: str, text: str, rejected: Sequence[ReviewItem]) -> str:
    """Correct the end dates that rejected facts have set."""
    before = _ends(parse(base))
    causes = [citation for item in rejected for citation in item.citations]
    article = parse(text)
    every = [(sentence, _cites(article, sentence)) for sentence in sentences(article)]
    for sentence, cites in reversed(every):
        day, about = until(sentence.text), _about(cites)
        if day is None or not _is_cause(causes, day, about):
            continue
        kept = {c.date for _, other in every for c in other if _about((c,)) & about and c.date}
        if day in kept:
            continue
        last = max((c.date for c in cites if c.date), default="")
        end = before.get(sentence_key(sentence.text))
        end = end or min((other for other in kept if other > last), default=None)
        text = _with_end(text, sentence, end)
    return text


def _with_end(text: str, sentence: Sentence, day: str | None) -> str:
    piece = text[sentence.start : sentence.end]
    piece = without_until(piece) if day is None else retired_text(piece, day)
    return text[: sentence.start] + piece + text[sentence.end :]


def _with_box(base: str, text: str, rejected: Sequence[ReviewItem]) -> str:
    """Take infobox values back that come from rejected facts."""
    old = parse(base).infobox
    was = {name_key(key): value for key, value in old.fields} if old else {}
    about = {name_key(c.property or "") for item in rejected for c in item.citations}
    article = parse(text)
    box = article.infobox
    if box is None:
        return text
    for key, value in reversed(box.fields):
        name = name_key(key)
        if name not in about or was.get(name) == value or _is_stated(article, name, value):
            continue
        line = f"{key}: {value}\n"
        at = text.find(line, box.start, box.stop)
        if at >= 0:
            instead = f"{key}: {was[name]}\n" if name in was else ""
            text = text[:at] + instead + text[at + len(line) :]
    return text


def _is_stated(article: Article, about: str, value: str) -> bool:
    """Return whether a sentence that holds states a value of a property."""
    return any(
        until(sentence.text) is None
        and about in _about(_cites(article, sentence))
        and states(unlinked(sentence.text), value)
        for sentence in sentences(article)
    )


def _without_empty_sections(base: str, text: str, *, only: str = "") -> str:
    """Remove the sections that are new and have nothing below them."""
    there = {name_key(section.heading) for section in parse(base).sections}
    for section in reversed(parse(text).sections):
        key = name_key(section.heading)
        if key in there or section.body.strip() or (only and key != only):
            continue
        text = text[: section.offset] + text[section.stop :]
    return text


# Putting in anew.


def _inserted(text: str, item: ReviewItem, sentence: str) -> str:
    anchor = ""
    if item.heading:
        key = name_key(item.heading)
        found = (s.anchor for s in parse(text).sections if name_key(s.heading) == key)
        anchor = next(found, "")
        if not anchor:
            text, anchor = add_section(text, item.heading)
    markers = ""
    for note in item.notes:
        text, label = add_footnote(text, note)
        markers += f"[^{label}]"
    return insert_sentence(text, sentence + markers, anchor=anchor)


def _cited(text: str, item: ReviewItem) -> str:
    key = sentence_key(item.text)
    if not any(sentence_key(sentence.text) == key for sentence in sentences(parse(text))):
        raise UsageProblem("The sentence that a footnote belongs to is not there any more.")
    markers = ""
    for note in item.notes:
        text, label = add_footnote(text, note)
        markers += f"[^{label}]"
    sentence = next(s for s in sentences(parse(text)) if sentence_key(s.text) == key)
    return text[: sentence.end] + markers + text[sentence.end :]


def _ended(text: str, key: str, day: str) -> str:
    for sentence in sentences(parse(text)):
        if sentence_key(sentence.text) == key and until(sentence.text) is None:
            return _with_end(text, sentence, day)
    return text
