"""Markdown notes: a note is a conversation in which only the user speaks.

Every section is a turn, so that a citation names the section. Front matter gives the date (`date`,
`created`) and the title; so does the name of a daily note, `2026-03-01.md`. The time of the file
is not used: copying a folder changes it.
"""

from __future__ import annotations

import hashlib
import re
from collections import Counter
from typing import TYPE_CHECKING

from core.memory.sources.dates import from_iso
from core.memory.sources.raw import RawConversation, RawTurn
from core.registry.files import open_regular

if TYPE_CHECKING:
    from collections.abc import Iterator
    from datetime import datetime
    from pathlib import Path

    from core.memory.sources.raw import ReadLog

MOST_BYTES = 4 * 2**20
"""Bytes of a note at most."""
_HEADING = re.compile(r" {0,3}#{1,3}[ \t]+(.{1,300})")
_FENCE = re.compile(r" {0,3}(```|~~~)")
_FIELD = re.compile(r"([A-Za-z_ -]{1,40}):[ \t]*(.{0,300})")
_DATES = ("date", "created", "created at", "created_at", "creation date", "datetime")
_DAY = re.compile(r"(\d{4}-\d{2}-\d{2})(?!\d)")
_MOST_FIELDS = 200


def read_note(path: Path, log: ReadLog, *, base: Path) -> Iterator[RawConversation]:
    """Yield a note as a conversation, if anything is written in it.

    Args:
        path: the file.
        log: counts it if it is too large or not UTF-8.
        base: the folder of notes; where the note lies in it is its id.

    Raises:
        OSError: the file cannot be read.
    """
    with open_regular(path) as (file, _):
        data = file.read(MOST_BYTES + 1)
    if len(data) > MOST_BYTES:
        log.skip(f"a note larger than {MOST_BYTES // 2**20} MiB")
        return
    try:
        text = data.decode("utf-8-sig").replace("\r\n", "\n")
    except UnicodeDecodeError:
        log.skip("a note that is not UTF-8")
        return
    fields, body = _front_matter(text)
    at = next((when for name in _DATES if (when := from_iso(fields.get(name)))), None)
    at = at or _day(path.stem)
    turns = tuple(_turns(body, at))
    if turns:
        place = path.relative_to(base).as_posix().encode("utf-8", "surrogateescape")
        yield RawConversation(
            kind="note",
            key=hashlib.sha256(place).hexdigest()[:16],
            title=fields.get("title") or path.stem,
            turns=turns,
            at=at,
        )


def _front_matter(text: str) -> tuple[dict[str, str], str]:
    """Return the one-line fields of YAML front matter, by lower-case name, and the rest."""
    if not text.startswith("---\n"):
        return {}, text
    end = text.find("\n---", 3)
    if end < 0:
        return {}, text
    fields: dict[str, str] = {}
    for line in text[4:end].split("\n", _MOST_FIELDS)[:_MOST_FIELDS]:
        if found := _FIELD.fullmatch(line.rstrip()):
            fields.setdefault(found[1].strip().lower(), found[2].strip().strip("\"'"))
    return fields, text[end + 4 :].partition("\n")[2]


def _day(name: str) -> datetime | None:
    found = _DAY.match(name)
    return from_iso(found[1]) if found else None


def _turns(body: str, at: datetime | None) -> Iterator[RawTurn]:
    """Yield the sections; an id is made of the heading, and of its number among twins."""
    twins: Counter[str] = Counter()
    for heading, text in _sections(body):
        if not (text.partition("\n")[2] if heading else text).strip():
            continue
        twins[heading] += 1
        name = f"{heading}\0{twins[heading]}".encode("utf-8", "surrogatepass")
        yield RawTurn(id=f"s{hashlib.sha256(name).hexdigest()[:12]}", role="user", text=text, at=at)


def _sections(body: str) -> Iterator[tuple[str, str]]:
    """Yield headings with what follows them, the heading's line included."""
    heading, lines, fence = "", list[str](), ""
    for line in body.split("\n"):
        if mark := _FENCE.match(line):
            fence = "" if fence == mark[1] else fence or mark[1]
        found = None if fence else _HEADING.fullmatch(line)
        if found:
            yield heading, "\n".join(lines)
            heading, lines = found[1].strip(), []
        lines.append(line)
    yield heading, "\n".join(lines)
