"""The index: what was read of each model folder, so that it is read once. One SQLite file.

An entry counts only with the fingerprint that its folder had when it was read, so the index can be
old, but never wrong. It is a cache: whatever is wrong with the file (damaged, of another version,
in a folder that cannot be written, on a full disk, busy), we go on without it, and a file that
cannot be used is made anew.
"""

from __future__ import annotations

import json
import os
import sqlite3
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any
from urllib.parse import quote_from_bytes

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping
    from pathlib import Path

# Append only: a step that was released never changes. `PRAGMA user_version` holds how many of them
# a file has seen.
MIGRATIONS: tuple[tuple[str, ...], ...] = (
    (
        """
        CREATE TABLE folder (
            path BLOB PRIMARY KEY,
            fingerprint BLOB NOT NULL,
            facts TEXT NOT NULL
        ) WITHOUT ROWID
        """,
        """
        CREATE TABLE aside (
            name TEXT PRIMARY KEY,
            stamp TEXT NOT NULL,
            content TEXT NOT NULL
        ) WITHOUT ROWID
        """,
    ),
)

_WAIT_SECONDS = 0.5  # for another process that writes; after that we do without
# What SQLite says of a file that is none of its own, damaged, or has other tables than it should.
_USELESS = (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB, sqlite3.SQLITE_ERROR)


@dataclass(frozen=True, kw_only=True)
class Entry:
    """What was read of one folder."""

    fingerprint: bytes
    """Of the folder when it was read."""
    facts: str
    """What was read, as JSON."""


@dataclass(frozen=True, kw_only=True)
class Aside:
    """Something else that takes long to read."""

    stamp: str
    """Of where it was read."""
    content: str
    """What was read, as JSON."""


@dataclass(frozen=True, kw_only=True)
class Kept:
    """All that the index holds."""

    folders: Mapping[str, Entry]
    """By the folder's path."""
    asides: Mapping[str, Aside]
    """By name."""


def load_index(path: Path) -> Kept:
    """Return all that the index holds; nothing, where it cannot be used."""
    try:
        with _open(path, "ro") as connection:
            folders = connection.execute("SELECT path, fingerprint, facts FROM folder").fetchall()
            asides = connection.execute("SELECT name, stamp, content FROM aside").fetchall()
        return Kept(
            folders={os.fsdecode(key): _entry(mark, facts) for key, mark, facts in folders},
            asides={name: Aside(stamp=stamp, content=content) for name, stamp, content in asides},
        )
    except (sqlite3.Error, OSError, TypeError):
        return Kept(folders={}, asides={})


def save_index(
    path: Path,
    *,
    folders: Mapping[str, Entry] | None = None,
    gone: Iterable[str] = (),
    asides: Mapping[str, Aside] | None = None,
) -> bool:
    """Put entries into the index and take others out; return whether that could be done."""
    rows = [(os.fsencode(key), e.fingerprint, e.facts) for key, e in (folders or {}).items()]
    more = [(name, aside.stamp, aside.content) for name, aside in (asides or {}).items()]
    left = [(os.fsencode(key),) for key in gone]
    for _ in range(2):
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            with _open(path, "rwc") as connection:
                connection.execute("BEGIN IMMEDIATE")
                connection.executemany("DELETE FROM folder WHERE path = ?", left)
                connection.executemany("REPLACE INTO folder VALUES (?, ?, ?)", rows)
                connection.executemany("REPLACE INTO aside VALUES (?, ?, ?)", more)
                connection.execute("COMMIT")
            return True
        except sqlite3.Error as problem:
            if not _is_useless(problem) or not _discard(path):
                return False
        except OSError:
            return False
    return False


class _OtherVersionError(sqlite3.DatabaseError):
    """The file has tables of another version."""

    sqlite_errorcode = sqlite3.SQLITE_NOTADB


@contextmanager
def _open(path: Path, mode: str) -> Iterator[sqlite3.Connection]:
    address = f"file:{quote_from_bytes(os.fsencode(path))}?mode={mode}"
    connection = sqlite3.connect(address, uri=True, timeout=_WAIT_SECONDS, isolation_level=None)
    # Closing ends a transaction that was not committed.
    with closing(connection):
        connection.execute("PRAGMA synchronous = NORMAL")
        if mode != "ro":
            _migrate(connection)
        elif _version(connection) != len(MIGRATIONS):
            raise _OtherVersionError
        yield connection


def _migrate(connection: sqlite3.Connection) -> None:
    """Bring a file to the newest tables, all steps in one transaction."""
    if _version(connection) == len(MIGRATIONS):
        return
    connection.execute("BEGIN IMMEDIATE")
    version = _version(connection)  # another process may have been faster
    if version > len(MIGRATIONS):
        raise _OtherVersionError
    for step in MIGRATIONS[version:]:
        for statement in step:
            connection.execute(statement)
    connection.execute(f"PRAGMA user_version = {len(MIGRATIONS)}")
    connection.execute("COMMIT")


def _version(connection: sqlite3.Connection) -> int:
    (version,) = connection.execute("PRAGMA user_version").fetchone()
    return int(version)


def _is_useless(problem: sqlite3.Error) -> bool:
    """Return whether a file is the matter, and not its folder, the disk or another process."""
    return getattr(problem, "sqlite_errorcode", 0) & 0xFF in _USELESS


def _discard(path: Path) -> bool:
    """Remove a file that cannot be used, unless another process is about to."""
    import fcntl

    try:
        with path.with_name(f"{path.name}.lock").open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            with suppress(sqlite3.Error), _open(path, "ro") as connection:
                ((verdict,), *_) = connection.execute("PRAGMA integrity_check(1)").fetchall()
                if verdict == "ok" and _has_tables(connection):
                    return True  # another process has been faster
            for leftover in (path.with_name(f"{path.name}-journal"), path):
                leftover.unlink(missing_ok=True)
    except OSError:
        return False
    return True


def _has_tables(connection: sqlite3.Connection) -> bool:
    connection.execute("SELECT path, fingerprint, facts FROM folder LIMIT 1")
    connection.execute("SELECT name, stamp, content FROM aside LIMIT 1")
    return True


def _entry(fingerprint: Any, facts: Any) -> Entry:
    if not isinstance(fingerprint, bytes) or not isinstance(facts, str):
        raise TypeError("a column of another kind")
    return Entry(fingerprint=fingerprint, facts=facts)


def to_json(value: Any) -> str:
    """Return a value as the index keeps it; names that are no Unicode are kept, too."""
    return json.dumps(value, separators=(",", ":"))
