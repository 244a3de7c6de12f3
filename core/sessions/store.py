"""Session files: one conversation each, JSON lines, appended to and never rewritten.

A line that cannot be read (a crash, a full disk, another program) is skipped; what is whole counts.
A file belongs to one chat at a time: it is locked while it is open. Does not know what the entries
mean; `core.sessions.conversation` does.
"""

from __future__ import annotations

import difflib
import fcntl
import json
import os
import uuid
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from itertools import count
from typing import TYPE_CHECKING, Any

from core.errors import Ambiguous, NotFound, StoreCorrupt, UsageProblem
from core.registry.files import read_bytes
from core.sessions.text import slug

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from pathlib import Path

LIMIT = 64 * 2**20
"""Most bytes of a session file; the longest conversations have a few."""

_SUFFIX = ".jsonl"
_SHOWN = 10  # names in an error


@dataclass(frozen=True, kw_only=True)
class SessionFile:
    """A conversation on disk."""

    name: str
    """When it began and its first words: `2026-11-29_16-40-07_why-is-the-sky-blue`."""
    path: Path
    """Where it lies."""
    modified_ns: int
    """When it was last written to, in nanoseconds since 1970."""


class SessionWriter:
    """The open end of a session file. One thread at a time.

    Attributes:
        path: the file.
    """

    def __init__(self, path: Path, descriptor: int) -> None:
        """Take over a locked descriptor that was opened for appending."""
        self.path = path
        self._descriptor = descriptor
        self._torn = _ends_torn(descriptor)

    @property
    def name(self) -> str:
        """The conversation's name."""
        return self.path.name.removesuffix(_SUFFIX)

    def append(self, entry: Mapping[str, Any], *, now: datetime | None = None) -> None:
        """Write one entry as a line, and onto the disk.

        Raises:
            OSError: it cannot be written; what was there stays whole.
        """
        stamp = (now or datetime.now(UTC)).isoformat(timespec="milliseconds")
        line = json.dumps({**entry, "timestamp": stamp}, ensure_ascii=False)
        # What an earlier line lacks of its end must not spoil this one.
        data = (b"\n" if self._torn else b"") + line.encode("utf-8", "replace") + b"\n"
        self._torn = True
        while data:
            data = data[os.write(self._descriptor, data) :]
        self._torn = False
        os.fsync(self._descriptor)

    def close(self) -> None:
        """Let go of the file. Safe to call twice."""
        if self._descriptor >= 0:
            os.close(self._descriptor)
            self._descriptor = -1


class SessionStore:
    """The folder of session files. It is made when the first is written."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def create(self, header: Mapping[str, Any], *, first: str, now: datetime) -> SessionWriter:
        """Start a file, named after the moment and the first words.

        Args:
            header: what its first line tells besides its id and the time: `cwd`, `model`.
            first: the first message.
            now: the moment, in the user's time zone.

        Raises:
            OSError: the folder cannot be made or written.
        """
        self.folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        stem = f"{now:%Y-%m-%d_%H-%M-%S}_{slug(first)}"
        for attempt in count(1):
            path = self.folder / f"{stem}{'' if attempt == 1 else f'_{attempt}'}{_SUFFIX}"
            # Whoever makes the file owns it; another chat of this second takes the next name.
            with suppress(FileExistsError):
                flags = os.O_RDWR | os.O_APPEND | os.O_CREAT | os.O_EXCL
                writer = SessionWriter(path, os.open(path, flags, 0o600))
                break
        _lock(writer.path, writer._descriptor)
        about = {"type": "session", "version": 1, "id": str(uuid.uuid4()), **header}
        writer.append({**about, "created": now.isoformat(timespec="seconds")}, now=now)
        return writer

    def open(self, file: SessionFile) -> SessionWriter:
        """Open a file to go on with it.

        Raises:
            UsageProblem: another chat has it open.
            StoreCorrupt: it cannot be opened for writing.
        """
        try:
            descriptor = os.open(file.path, os.O_RDWR | os.O_APPEND)
        except OSError as problem:
            raise _unreadable(file.path, problem) from problem
        _lock(file.path, descriptor)
        return SessionWriter(file.path, descriptor)

    def files(self) -> list[SessionFile]:
        """Return the conversations, the one written to last first. No folder holds none.

        Raises:
            StoreCorrupt: the folder cannot be read.
        """
        try:
            found = [_describe(path) for path in self.folder.glob(f"*{_SUFFIX}")]
        except OSError as problem:
            raise _unreadable(self.folder, problem) from problem
        return sorted(found, key=lambda file: (file.modified_ns, file.name), reverse=True)

    def latest(self) -> SessionFile:
        """Return the conversation that was written to last.

        Raises:
            NotFound: there is none.
            StoreCorrupt: the folder cannot be read.
        """
        files = self.files()
        if not files:
            raise NotFound(
                f"There is no conversation in {self.folder} yet.", hint="Start one: `mlxbun chat`."
            )
        return files[0]

    def find(self, name: str) -> SessionFile:
        """Return the conversation of a name, or of a part that only one name has.

        Raises:
            Ambiguous: several names have that part.
            NotFound: none has; the hint holds near misses.
            StoreCorrupt: the folder cannot be read.
        """
        files = self.files()
        wanted = name.removesuffix(_SUFFIX)
        if exact := [file for file in files if file.name == wanted]:
            return exact[0]
        fits = [file for file in files if wanted and wanted.lower() in file.name.lower()]
        if len(fits) == 1:
            return fits[0]
        names = [file.name for file in fits or files]
        raise _ambiguous(name, names) if fits else _not_found(name, names)


def read_entries(path: Path) -> Iterator[dict[str, Any]]:
    """Yield the entries of a session file; lines that are none are skipped.

    Raises:
        StoreCorrupt: the file cannot be opened or read, or is larger than any conversation.
    """
    for _, entry in read_lines(path):
        yield entry


def read_lines(path: Path) -> Iterator[tuple[bytes, dict[str, Any]]]:
    """Yield the lines of a session file that hold an entry, each with what it holds.

    Raises:
        StoreCorrupt: as `read_entries`.
    """
    try:
        data = read_bytes(path, limit=LIMIT)
    except OSError as problem:
        raise _unreadable(path, problem) from problem
    for line in data.split(b"\n"):
        # RecursionError: a thousand brackets are no entry either.
        with suppress(ValueError, RecursionError):
            entry = json.loads(line.decode("utf-8"), parse_constant=_refuse)
            if isinstance(entry, dict):
                yield line, entry


def _refuse(constant: str) -> None:
    """Refuse NaN and Infinity, which are not JSON."""
    raise ValueError(constant)


def _ends_torn(descriptor: int) -> bool:
    size = os.fstat(descriptor).st_size
    return size > 0 and os.pread(descriptor, 1, size - 1) != b"\n"


def _lock(path: Path, descriptor: int) -> None:
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(descriptor)
        raise UsageProblem(
            f"The conversation {path.name.removesuffix(_SUFFIX)} is open in another chat.",
            hint="Leave that one first, or start a new conversation: `mlxbun chat`.",
        ) from None
    except OSError:
        pass  # a file system without locks: two chats on one file are then the user's to avoid


def _describe(path: Path) -> SessionFile:
    return SessionFile(
        name=path.name.removesuffix(_SUFFIX), path=path, modified_ns=path.stat().st_mtime_ns
    )


def _unreadable(path: Path, problem: OSError) -> StoreCorrupt:
    return StoreCorrupt(
        f"{path} cannot be read: {problem.strerror}.",
        hint="Mend its permissions, or chat with --no-save.",
    )


def _ambiguous(name: str, names: list[str]) -> Ambiguous:
    shown = ", ".join(names[:_SHOWN]) + (", ..." if len(names) > _SHOWN else "")
    return Ambiguous(
        f"{name!r} fits {len(names)} conversations: {shown}.",
        candidates=tuple(sorted(names)),
        hint="Write more of the one you mean.",
    )


def _not_found(name: str, names: list[str]) -> NotFound:
    words = {known.rpartition("_")[2]: known for known in reversed(names)}
    keys = {**words, **{known: known for known in names}}
    close = difflib.get_close_matches(name.lower(), keys, n=3, cutoff=0.5)
    near = list(dict.fromkeys(keys[key] for key in close)) or names[:3]
    hint = f"Did you mean {' or '.join(near)}?" if close else f"The latest: {', '.join(near)}."
    return NotFound(
        f"There is no conversation {name!r}.",
        hint=hint if near else "There are none yet: `mlxbun chat` starts one.",
    )
