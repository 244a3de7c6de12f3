"""Search in all conversations, and find the file for a path that a client sent.

Both read what others may have put into the folder: only regular files in it, within limits.
"""

from __future__ import annotations

import os
import stat
import time
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from core.errors import MlxbunError, NotFound
from core.sessions.conversation import text_of
from core.sessions.store import LIMIT, read_entries
from core.sessions.text import clean

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

_AROUND = 60  # characters of a snippet on either side
_MOST_MATCHES = 50
_MOST_PER_SESSION = 10
_MOST_BYTES = 256 * 2**20  # over all files
_MOST_SECONDS = 10.0
_LONGEST_TITLE = 60
_SUFFIX = ".jsonl"


@dataclass(frozen=True, kw_only=True)
class Match:
    """A place where the words stand."""

    snippet: str
    """The words with what stands around them."""
    start: int
    """Where they begin in the snippet, in characters."""
    end: int
    """Where they end."""
    role: str
    """Who said them: `user` or `assistant`."""


@dataclass(frozen=True, kw_only=True)
class Found:
    """A conversation that holds the words."""

    path: Path
    """Its file."""
    title: str
    """The beginning of its first question, or its name."""
    matches: tuple[Match, ...]
    """Where they stand, in the order of the conversation; at least one."""


@dataclass(frozen=True, kw_only=True)
class SearchResult:
    """What a search has found."""

    found: tuple[Found, ...]
    """The conversation that was written to last first."""
    complete: bool
    """Whether every conversation was looked through, up to the limits for matches."""


def search_sessions(
    folder: Path, words: str, *, clock: Callable[[], float] = time.monotonic
) -> SearchResult:
    """Find words in questions and answers, ignoring case.

    At most 50 matches, 10 of them in one conversation; at most 256 MiB are read, for 10 seconds.

    Args:
        folder: of the session files; it need not be there.
        words: not empty.
        clock: a monotonic clock in seconds.
    """
    found: list[Found] = []
    wanted, left, room = words.casefold(), _MOST_MATCHES, _MOST_BYTES
    deadline, complete = clock() + _MOST_SECONDS, True
    for path, size in _files(folder):
        if not left:
            break
        room -= size
        if size > LIMIT or room < 0 or clock() > deadline:
            complete, room = False, max(room, 0)
            continue
        session = _search_file(path, wanted, most=min(left, _MOST_PER_SESSION))
        if session:
            found.append(session)
            left -= len(session.matches)
    return SearchResult(found=tuple(found), complete=complete)


def session_file(folder: Path, given: str) -> Path | None:
    """Return the session file that a path means; None: it leads out of the folder.

    Args:
        folder: of the session files.
        given: a path, or the name of a file in the folder; `..` and links are followed.

    Raises:
        NotFound: there is no such session file in it.
    """
    try:
        path = Path(os.path.realpath(folder / given))
        inside = path.is_relative_to(os.path.realpath(folder))
    except ValueError as problem:  # no path holds a NUL or half a character
        raise NotFound("There is no such conversation.") from problem
    if not inside:
        return None
    if path.suffix != _SUFFIX or not _is_regular(path):
        raise NotFound("There is no such conversation.")
    return path


def _files(folder: Path) -> list[tuple[Path, int]]:
    """Return the session files with their sizes in bytes, the one written to last first."""
    try:
        names = [path.name for path in folder.iterdir() if path.name.endswith(_SUFFIX)]
    except OSError:
        return []
    files = []
    for name in names:
        with suppress(MlxbunError, OSError):
            if session_file(folder, name):
                status = (folder / name).stat()
                files.append((status.st_mtime_ns, folder / name, status.st_size))
    return [(path, size) for _, path, size in sorted(files, reverse=True)]


def _is_regular(path: Path) -> bool:
    try:
        return stat.S_ISREG(path.stat().st_mode)
    except (OSError, ValueError):
        return False


def _search_file(path: Path, wanted: str, *, most: int) -> Found | None:
    title, matches = "", list[Match]()
    try:
        for role, text in _messages(path):
            if not title and role == "user":
                title = " ".join(text.split())
            matches += _matches(text, wanted, role, most=most - len(matches))
            if len(matches) >= most and title:
                break
    except MlxbunError:  # it was taken away in between, or is not ours to read
        return None
    if not matches:
        return None
    return Found(path=path, title=_shortened(title) or path.stem, matches=tuple(matches))


def _messages(path: Path) -> Iterator[tuple[str, str]]:
    """Yield who said what."""
    for entry in read_entries(path):
        message: Any = entry.get("message") if entry.get("type") == "message" else None
        if not isinstance(message, dict) or message.get("role") not in ("user", "assistant"):
            continue
        if text := text_of(message.get("content")):
            yield message["role"], clean(text)


def _matches(text: str, wanted: str, role: str, *, most: int) -> Iterator[Match]:
    folded = text.casefold()
    at, places = folded.find(wanted), None
    for _ in range(most):
        if at < 0:
            return
        places = places or _places(text, folded)
        start, end = places[at], places[at + len(wanted) - 1] + 1
        first = max(0, start - _AROUND)
        snippet = text[first : end + _AROUND]
        yield Match(snippet=snippet, start=start - first, end=end - first, role=role)
        at = folded.find(wanted, at + len(wanted))


def _places(text: str, folded: str) -> range | list[int]:
    """Return for each character of a folded text where the one that it came from stands.

    Folding makes one character of one, or several: `ß` becomes `ss`.
    """
    if len(text) == len(folded):
        return range(len(text))
    return [index for index, character in enumerate(text) for _ in character.casefold()]


def _shortened(title: str) -> str:
    return title if len(title) <= _LONGEST_TITLE else title[: _LONGEST_TITLE - 1] + "…"
