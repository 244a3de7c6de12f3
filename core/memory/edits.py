"""Changes to an article that leave every other byte as it is. Pure.

Each function takes a text and returns a new one; a change that the format cannot hold (a sentence
that would become a heading, a place inside of code that never ends) is refused. New lines end as
the text's first line does.
"""

from __future__ import annotations

import bisect
import re
import unicodedata
from typing import TYPE_CHECKING

from core.errors import UsageProblem
from core.memory import lines, links
from core.memory import sentences as splitting
from core.memory.article import NOTES, REFERENCES, SEE_ALSO, parse, sentences
from core.memory.names import name_key

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from core.memory.article import Article, Section, Sentence
    from core.memory.lines import Line
    from core.memory.stages.types import EntityKind

_NOT_IN_LINK = re.compile(r"[\[\]|#^\n]")


def new_article(
    title: str,
    *,
    kind: EntityKind,
    type: str = "",  # noqa: A002 - the name of the field
    aliases: Sequence[str] = (),
    series: str = "",
) -> str:
    """Return an article without text: title, banner and infobox."""
    banner = f"*Part of a series on [[{_name(series)}]].*\n\n" if series else ""
    fields = [("type", type), ("kind", kind), ("aliases", ", ".join(map(_alias, aliases)))]
    box = "".join(f"{key}: {_one_line(value)}\n" for key, value in fields if value.strip())
    return f"# {_one_line(title)}\n\n{banner}```info\n{box}```\n"


def insert_sentence(text: str, sentence: str, *, anchor: str = "", note: str | None = None) -> str:
    """Add a sentence at the end of the lead or of a section's own text.

    Args:
        text: the article.
        sentence: one line, with its stop, without markers.
        anchor: of the section; empty: the lead.
        note: text of the footnote that it cites; one with the same text is used again.

    Raises:
        UsageProblem: there is no such section, or the sentence would not be one there.
    """
    marker = ""
    if note is not None:
        text, label = add_footnote(text, note)
        marker = f"[^{label}]"
    article = _closed(text)
    start, stop = _region(article, anchor)
    piece = _one_line(sentence) + marker
    at, lead, tail = _place(text, start, stop, piece)
    changed = f"{text[:at]}{lead}{piece}{tail}{text[at:]}"
    _check_sentence(changed, article, at + len(lead), at + len(lead) + len(piece), anchor)
    return changed


def remove_sentence(text: str, sentence: Sentence) -> str:
    """Remove a sentence, the line or paragraph that it leaves empty, and footnotes of it alone.

    Footnotes that were not used before stay.
    """
    return remove_sentences(text, [sentence])


def remove_sentences(text: str, sentences: Sequence[Sentence]) -> str:
    """Remove several sentences of a text, as `remove_sentence` does; linear in text and number."""
    article = parse(text)
    inside = sorted((sentence.start, sentence.end) for sentence in sentences)
    starts = [start for start, _ in inside]
    used: set[str] = set()
    for marker in article.markers:
        before = bisect.bisect_right(starts, marker.start) - 1
        if before < 0 or marker.start >= inside[before][1]:
            used.add(marker.label.casefold())
    cited = {label.casefold() for sentence in sentences for label in sentence.labels}
    for sentence in sorted(sentences, key=lambda each: each.start, reverse=True):
        start, stop = _with_space(text, sentence)
        text = text[:start] + text[stop:]
    return _without_notes(text, cited - used)


def add_section(text: str, heading: str, *, level: int = 2) -> tuple[str, str]:
    """Add an empty section and return the text and its anchor.

    It comes before See also, Notes and References, else at the end.

    Raises:
        UsageProblem: the heading is not one.
    """
    title = _one_line(heading).strip("# ")
    article = _closed(text)
    # Sections that follow the article's text, and so this one, too.
    order = [SEE_ALSO, NOTES, REFERENCES]
    at = _before(article, order[order.index(title) + 1 :] if title in order else order)
    changed = _with_block(text, at, f"{'#' * level} {title}")
    after = parse(changed)
    added = [section for section in after.sections if section.offset >= at]
    if len(after.sections) != len(article.sections) + 1 or not any(map(str.isalnum, title)):
        raise UsageProblem(f"{heading[:80]!r} cannot be the heading of a section.")
    return changed, added[0].anchor


def add_footnote(text: str, note: str) -> tuple[str, str]:
    """Add a footnote below References, and return the text and the label.

    A footnote that says the same is used again. References is added where it is missing.
    """
    article = _closed(text)
    wanted = _one_line(note)
    same = next((f.label for f in article.footnotes if f.text == wanted), None)
    if same is not None:
        return text, same
    label = str(_next_label(article))
    line = f"[^{label}]: {wanted}"
    if article.footnotes:
        at = article.footnotes[-1].stop
        return _with_line(text, at, line), label
    section = _section(article, REFERENCES)
    if section is None:
        text, _ = add_section(text, REFERENCES)
        section = _section(parse(text), REFERENCES)
    if section is None:
        raise UsageProblem("The article cannot have a section for its references.")
    at, lead, tail = _paragraph_place(text, section.content, section.own_stop)
    return f"{text[:at]}{lead}{line}{tail}{text[at:]}", label


def remove_footnote(text: str, label: str) -> str:
    """Remove the definitions of a label."""
    return _without_notes(text, {label.casefold()})


def _without_notes(text: str, labels: set[str]) -> str:
    """Remove the definitions of labels, in lower case."""
    notes = [note for note in parse(text).footnotes if note.label.casefold() in labels]
    for note in reversed(notes):
        text = text[: note.start] + text[note.stop :]
    return text


def add_link(text: str, start: int, stop: int, target: str) -> str:
    """Make a link of a phrase.

    Args:
        text: the article.
        start: offset of the phrase.
        stop: offset behind it.
        target: name of the article that it links to.

    Raises:
        UsageProblem: the phrase or the name cannot be in a link, or no link is possible there.
    """
    phrase = text[start:stop]
    if not phrase.strip() or _NOT_IN_LINK.search(phrase) or _NOT_IN_LINK.search(target):
        raise UsageProblem(f"{phrase[:80]!r} cannot be a link to {target[:80]!r}.")
    line_start = text.rfind("\n", 0, start) + 1
    line_stop = (text.find("\n", stop) + 1 or len(text) + 1) - 1
    taken = splitting.protected(text, line_start, line_stop)
    if any(begin < stop and start < end for begin, end in taken):
        raise UsageProblem(f"There is a link or code at {phrase[:80]!r} already.")
    row = text[line_start:start].lstrip().startswith("|")
    bar = "\\|" if row else "|"
    link = f"[[{target}]]" if phrase == target else f"[[{target}{bar}{phrase}]]"
    changed = text[:start] + link + text[stop:]
    if not any(found.start == start for found in parse(changed).links):
        raise UsageProblem(f"There can be no link at {phrase[:80]!r}.")
    return changed


def add_see_also(text: str, name: str) -> str:
    """Add an article to See also, unless it is there."""
    article = _closed(text)
    section = _section(article, SEE_ALSO)
    if section is None:
        text, _ = add_section(text, SEE_ALSO)
        section = _section(parse(text), SEE_ALSO)
    if section is None:
        raise UsageProblem("The article cannot have a section See also.")
    there = {name_key(link.target) for link in links.wikilinks(text, section.content, section.stop)}
    if name_key(name) in there:
        return text
    item = f"- [[{_name(name)}]]"
    last = _last_line(text, section.content, section.own_stop)
    if last is not None and last.kind == "list":
        return _with_line(text, last.end, item)
    at, lead, tail = _paragraph_place(text, section.content, section.own_stop)
    return f"{text[:at]}{lead}{item}{tail}{text[at:]}"


# Where things go.


def _closed(text: str) -> Article:
    """Return the article, if something can be added at its end."""
    article = parse(text)
    if not article.closed:
        raise UsageProblem("The article has code or a comment that does not end.")
    return article


def _region(article: Article, anchor: str) -> tuple[int, int]:
    """Return where the lead or the own text of a section stands."""
    if not anchor:
        return _head_stop(article), article.preamble_stop
    section = article.section(anchor)
    if section is None:
        raise UsageProblem(f"The article has no section {anchor[:80]!r}.")
    return section.content, section.own_stop


def _head_stop(article: Article) -> int:
    bom = 1 if article.source.startswith(lines.BOM) else 0
    return max(article.head_stop, bom)


def _lines(text: str, start: int, stop: int) -> Iterator[Line]:
    return (line for line in lines.scan(text) if start <= line.start < stop)


def _last_line(text: str, start: int, stop: int) -> Line | None:
    """Return the last line between two offsets that is not blank."""
    full = [line for line in _lines(text, start, stop) if line.kind != "blank"]
    return full[-1] if full else None


def _place(text: str, start: int, stop: int, piece: str) -> tuple[int, str, str]:
    """Return where a sentence goes, and what comes before and after it."""
    paragraph: list[Line] = []
    for line in _lines(text, start, stop):
        if line.kind == "blank":
            continue
        if paragraph and paragraph[-1].number != line.number - 1:
            paragraph = []
        paragraph.append(line)
    if not paragraph or any(line.kind != "text" for line in paragraph):
        return _paragraph_place(text, start, stop)
    last = paragraph[-1]
    at = last.start + len(text[last.start : last.stop].rstrip())
    return at, _space(text[:at], piece), ""


def _paragraph_place(text: str, start: int, stop: int) -> tuple[int, str, str]:
    """Return where a new paragraph goes at the end of a region, and the line endings around it."""
    ending = lines.newline(text)
    last = _last_line(text, start, stop)
    at = last.stop if last else start
    if last:
        return at, ending * 2, ""
    before = text[max(0, at - 4) : at]
    missing = 0 if at == _bom(text) else (1 if before.endswith("\n") else 2)
    behind = text[at : at + 2]
    if behind.startswith(("\n", "\r\n")):
        return at, ending * missing, ending
    return at, ending * missing, ending * 2 if behind else ending


def _bom(text: str) -> int:
    return 1 if text.startswith(lines.BOM) else 0


def _space(before: str, piece: str) -> str:
    """Return what separates two sentences: nothing after a wide stop in Chinese and Japanese."""
    stop = splitting.stop_offset(before[-300:])
    ends_wide = before[-300:][stop : stop + 1] in splitting.WIDE_STOPS
    wide = unicodedata.east_asian_width(piece[:1] or " ") in "WF"
    return "" if wide and ends_wide and stop < len(before[-300:]) else " "


def _with_line(text: str, at: int, line: str) -> str:
    """Insert a line where one begins, or after a last line without an ending."""
    ending = lines.newline(text)
    if at and not text[:at].endswith("\n"):
        return f"{text[:at]}{ending}{line}{text[at:]}"
    return f"{text[:at]}{line}{ending}{text[at:]}"


def _with_block(text: str, at: int, block: str) -> str:
    """Insert a block where a line begins, with blank lines around it."""
    ending = lines.newline(text)
    before = text[_bom(text) : at]
    if not before:
        lead = ""
    elif not before.endswith("\n"):
        lead = ending * 2
    else:
        lead = "" if before.endswith(("\n\n", "\n\r\n")) else ending
    tail = "" if text[at : at + 2].startswith(("\n", "\r\n")) or at == len(text) else ending
    return f"{text[:at]}{lead}{block}{ending}{tail}{text[at:]}"


def _before(article: Article, headings: Sequence[str]) -> int:
    """Return the offset of the first section with one of these headings, or of the end."""
    keys = {name_key(heading) for heading in headings}
    found = (s.offset for s in article.sections if s.level <= 2 and name_key(s.heading) in keys)
    return next(found, len(article.source))


def _section(article: Article, heading: str) -> Section | None:
    key = name_key(heading)
    return next((s for s in article.sections if name_key(s.heading) == key), None)


def _next_label(article: Article) -> int:
    labels = [n.label for n in article.footnotes] + [m.label for m in article.markers]
    return (
        max((int(label) for label in labels if re.fullmatch(r"[0-9]{1,9}", label)), default=0) + 1
    )


def _check_sentence(text: str, before: Article, start: int, stop: int, anchor: str) -> None:
    """Refuse a change after which a sentence is not what it should be."""
    after = parse(text)
    found = [s for s in sentences(after) if start <= s.start < stop]
    wanted = before.section(anchor) if anchor else None
    fits = (
        bool(found)
        and (found[0].start, found[-1].end) == (start, stop)
        and all(s.anchor == (wanted.anchor if wanted else "") for s in found)
        and len(after.sections) == len(before.sections)
        and len(after.footnotes) == len(before.footnotes)
    )
    if not fits:
        raise UsageProblem(f"{text[start:stop][:80]!r} cannot be a sentence there.")


def _with_space(text: str, sentence: Sentence) -> tuple[int, int]:
    """Return the offsets of a sentence with the space after it, or its whole line or paragraph."""
    start, stop = sentence.start, sentence.end
    line_start = text.rfind("\n", 0, start) + 1
    found = text.find("\n", stop)
    line_stop = len(text) if found < 0 else found
    alone = re.fullmatch(r"[ \t>]*(?:(?:[-*+]|\d{1,9}[.)])[ \t]+)?", text[line_start:start])
    if not alone or text[stop:line_stop].strip():
        return _without_gap(text, start, stop)
    stop = min(len(text), line_stop + 1)
    # A paragraph of its own is removed with one of the blank lines around it.
    blank_before = line_start == 0 or text[:line_start].endswith(("\n\n", "\n\r\n"))
    gap = re.match(r"\r?\n", text[stop : stop + 2])
    return line_start, stop + (gap.end() if gap and blank_before else 0)


def _without_gap(text: str, start: int, stop: int) -> tuple[int, int]:
    """Return offsets with the spaces after a sentence, or those before it at the end of a line."""
    after = stop
    while after < len(text) and text[after] in " \t":
        after += 1
    if after < len(text) and text[after] not in "\r\n":
        return start, after
    while start and text[start - 1] in " \t":
        start -= 1
    return start, stop


def _one_line(text: str) -> str:
    return " ".join(text.split())


def _alias(alias: str) -> str:
    return _one_line(alias.replace(",", " ").replace("`", ""))


def _name(name: str) -> str:
    if _NOT_IN_LINK.search(name) or not name.strip():
        raise UsageProblem(f"{name[:80]!r} cannot be the target of a link.")
    return _one_line(name)
