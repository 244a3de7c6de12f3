"""Which downloads run and which have run, of every mlxbun on this machine: one SQLite file.

It is what a running server shows of a download at the shell, and what keeps two downloads of one
repository apart. An entry belongs to a process; when that is gone, the entry has failed, whatever
it says. Every call opens the file and closes it again. The file can be made again: one that is
damaged is.
"""

from __future__ import annotations

import os
import platform
import sqlite3
import time
from contextlib import closing, contextmanager
from dataclasses import dataclass, fields, replace
from typing import TYPE_CHECKING, Any, ClassVar, Literal

from core.errors import AlreadyRunning, MlxbunError
from core.servers import process_born

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from core.progress import Transfer

State = Literal["running", "done", "failed", "cancelled"]

INTERRUPTED = "The process that fetched it has ended. The next download goes on where it stopped."
_WAIT_SECONDS = 10.0  # for another process that writes
_KEPT = 100  # entries; older ones go
_FRESH_SECONDS = 6.0  # how old a rate may be and still be one
_SILENT_SECONDS = 60.0  # after which a process on another machine counts as gone
_STUCK_SECONDS = 600.0  # after which one on this machine does: a download reports every second
_DAMAGE = (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB)
_SETTLE_BYTES = 2**62  # what SQLite's integers hold, with room

# Numbered steps, append only; `PRAGMA user_version` tells how many a file has seen.
_MIGRATIONS = (
    """
    CREATE TABLE download (
        id INTEGER PRIMARY KEY AUTOINCREMENT,
        repo_id TEXT NOT NULL,
        revision TEXT NOT NULL,
        state TEXT NOT NULL,
        current_file TEXT,
        done_bytes INTEGER NOT NULL DEFAULT 0,
        total_bytes INTEGER NOT NULL DEFAULT 0,
        files_done INTEGER NOT NULL DEFAULT 0,
        files_total INTEGER NOT NULL DEFAULT 0,
        bytes_per_second REAL NOT NULL DEFAULT 0,
        started_at REAL NOT NULL,
        updated_at REAL NOT NULL,
        finished_at REAL,
        error TEXT,
        machine TEXT NOT NULL,
        pid INTEGER NOT NULL,
        born TEXT NOT NULL
    )
    """,
)


@dataclass(frozen=True, kw_only=True)
class DownloadRecord:
    """One download, running or over."""

    id: int
    """Its number, growing."""
    repo_id: str
    """`org/name`."""
    revision: str
    """A branch, a tag or a commit."""
    state: State
    """A process that is gone has failed."""
    current_file: str | None
    """A file that is on its way."""
    done_bytes: int
    """Bytes that are there, those of earlier downloads included."""
    total_bytes: int
    """Bytes of all its files; 0 until the Hub has told."""
    files_done: int
    """Files that are there."""
    files_total: int
    """Files in all; 0 until the Hub has told."""
    bytes_per_second: float
    """Over the last five seconds; 0 when it does not run."""
    started_at: float
    """Unix seconds."""
    updated_at: float
    """Unix seconds of its last sign of life."""
    finished_at: float | None
    """Unix seconds; None while it runs."""
    error: str | None
    """Why it failed, in a sentence."""
    machine: str
    """The name of the machine that it runs on."""
    pid: int
    """Its process there."""
    born: str
    """When that process started, as `core.servers.process_born` tells it."""


_NAMES = tuple(f.name for f in fields(DownloadRecord))
_COLUMNS = ", ".join(_NAMES)


class Ledger:
    """The downloads in one file. Safe in any thread and beside any number of processes."""

    # What threads of this process have begun and not ended, also where no end could be written.
    _begun: ClassVar[set[tuple[Path, int]]] = set()

    def __init__(self, path: Path, *, clock: Callable[[], float] = time.time) -> None:
        """Name the file; nothing is opened or made yet.

        Args:
            path: the file.
            clock: tells Unix seconds.
        """
        self._path = path
        self._clock = clock

    def begin(self, repo_id: str, revision: str) -> int:
        """Note that this process starts a download, and return its number.

        Of several processes that begin the same repository at once, one comes through.

        Raises:
            AlreadyRunning: a living process downloads the repository.
            MlxbunError: the file cannot be written.
        """
        now = self._clock()
        with self._written() as connection:
            running = f"SELECT {_COLUMNS} FROM download WHERE state = 'running' AND repo_id = ?"
            for row in connection.execute(running, (repo_id,)).fetchall():
                record = self._judge(_record(row))
                if record.state == "running":
                    raise _already(record)
                self._write_end(connection, record.id, "failed", INTERRUPTED)
            cursor = connection.execute(
                "INSERT INTO download (repo_id, revision, state, started_at, updated_at,"
                " machine, pid, born) VALUES (?, ?, 'running', ?, ?, ?, ?, ?)",
                (repo_id, revision, now, now, *_this_process()),
            )
            connection.execute(
                "DELETE FROM download WHERE state != 'running' AND id <="
                " (SELECT max(id) FROM download) - ?",
                (_KEPT,),
            )
            number = int(cursor.lastrowid or 0)
        self._begun.add((self._path, number))
        return number

    def report(self, number: int, transfer: Transfer) -> None:
        """Note where a download stands.

        Raises:
            MlxbunError: the file cannot be written.
        """
        current = transfer.moving[0].task if transfer.moving else None
        with self._written() as connection:
            connection.execute(
                "UPDATE download SET current_file = ?, done_bytes = ?, total_bytes = ?,"
                " files_done = ?, files_total = ?, bytes_per_second = ?, updated_at = ?"
                " WHERE id = ? AND state = 'running'",
                (
                    current,
                    min(transfer.done, _SETTLE_BYTES),
                    min(transfer.total, _SETTLE_BYTES),
                    transfer.files_done,
                    transfer.files_total,
                    transfer.rate,
                    self._clock(),
                    number,
                ),
            )

    def end(self, number: int, state: State, *, error: str | None = None) -> None:
        """Note how a download ended.

        Raises:
            MlxbunError: the file cannot be written.
        """
        self._begun.discard((self._path, number))
        with self._written() as connection:
            self._write_end(connection, number, state, error)

    def recent(self, limit: int = 5) -> list[DownloadRecord]:
        """Return the last downloads, the newest first. A file that cannot be read holds none."""
        try:
            with closing(self._connect(read_only=True)) as connection:
                rows = connection.execute(
                    f"SELECT {_COLUMNS} FROM download ORDER BY id DESC LIMIT ?", (limit,)
                ).fetchall()
        except sqlite3.Error:
            return []
        return [self._judge(_record(row)) for row in rows]

    def running(self) -> list[DownloadRecord]:
        """Return the downloads that run now, on this machine or on one that shares the file."""
        return [record for record in self.recent(_KEPT) if record.state == "running"]

    def _judge(self, record: DownloadRecord) -> DownloadRecord:
        """Return a record as it is now: its process may be gone, and its rate old."""
        if record.state != "running":
            return replace(record, bytes_per_second=0.0, current_file=None)
        age = self._clock() - record.updated_at
        if not self._is_alive(record, age):
            return replace(
                record,
                state="failed",
                error=INTERRUPTED,
                finished_at=record.updated_at,
                bytes_per_second=0.0,
                current_file=None,
            )
        return record if age < _FRESH_SECONDS else replace(record, bytes_per_second=0.0)

    def _is_alive(self, record: DownloadRecord, age: float) -> bool:
        if record.machine != platform.node():
            return age < _SILENT_SECONDS
        if record.pid == os.getpid():
            return (self._path, record.id) in self._begun
        return age < _STUCK_SECONDS and process_born(record.pid) == record.born

    def _write_end(
        self, connection: sqlite3.Connection, number: int, state: State, error: str | None
    ) -> None:
        now = self._clock()
        connection.execute(
            "UPDATE download SET state = ?, error = ?, updated_at = ?, finished_at = ?,"
            " bytes_per_second = 0, current_file = NULL WHERE id = ? AND state = 'running'",
            (state, error, now, now, number),
        )

    @contextmanager
    def _written(self) -> Iterator[sqlite3.Connection]:
        """Yield the file inside a transaction that nobody else writes beside.

        Raises:
            MlxbunError: it cannot be written.
        """
        try:
            with closing(self._ready()) as connection:
                connection.execute("BEGIN IMMEDIATE")
                yield connection
                connection.execute("COMMIT")
        except (sqlite3.Error, OSError) as problem:
            reason = getattr(problem, "strerror", None) or problem
            raise MlxbunError(
                f"The list of downloads in {self._path} cannot be written: {reason}.",
                hint="Make its folder writable, or set MLXBUN_CACHE to another one.",
            ) from problem

    def _ready(self) -> sqlite3.Connection:
        """Return the file with its tables; a damaged one is made anew."""
        self._path.parent.mkdir(parents=True, exist_ok=True)
        try:
            return self._migrated()
        except sqlite3.DatabaseError as problem:
            if getattr(problem, "sqlite_errorcode", 0) & 0xFF not in _DAMAGE:
                raise
            self._path.unlink(missing_ok=True)
            self._path.with_name(f"{self._path.name}-journal").unlink(missing_ok=True)
            return self._migrated()

    def _migrated(self) -> sqlite3.Connection:
        connection = self._connect(read_only=False)
        try:
            if _version(connection) < len(_MIGRATIONS):
                connection.execute("BEGIN IMMEDIATE")
                for step in _MIGRATIONS[_version(connection) :]:
                    connection.execute(step)
                connection.execute(f"PRAGMA user_version = {len(_MIGRATIONS)}")
                connection.execute("COMMIT")
        except BaseException:
            connection.close()
            raise
        return connection

    def _connect(self, *, read_only: bool) -> sqlite3.Connection:
        mode = "ro" if read_only else "rwc"
        connection = sqlite3.connect(
            f"{self._path.absolute().as_uri()}?mode={mode}",
            uri=True,
            timeout=_WAIT_SECONDS,
            isolation_level=None,
        )
        # A lost list costs nobody anything: no waiting for the disk several times a second.
        connection.execute("PRAGMA synchronous = OFF")
        return connection


def _record(row: tuple[Any, ...]) -> DownloadRecord:
    return DownloadRecord(**dict(zip(_NAMES, row, strict=True)))


def _version(connection: sqlite3.Connection) -> int:
    (version,) = connection.execute("PRAGMA user_version").fetchone()
    return int(version)


def _this_process() -> tuple[str, int, str]:
    pid = os.getpid()
    return platform.node(), pid, process_born(pid) or ""


def _already(record: DownloadRecord) -> AlreadyRunning:
    place = "" if record.machine == platform.node() else f" on {record.machine}"
    return AlreadyRunning(
        f"A download of {record.repo_id} is already in progress (process {record.pid}{place}).",
        hint="Wait for it, or end that process: the next download goes on where it stopped.",
    )
