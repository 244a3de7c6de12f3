"""A SQLite file that outlives whatever happens to it.

Every call opens the file and closes it again, so that processes never wait for each other longer
than a write takes. It keeps a rollback journal rather than a write-ahead log: with the latter, a
disk that is full or read-only could not even be read. A damaged file is left out by reads and
moved aside before the next write; nothing of it is deleted. Knows no tables.

A file that can be made again (`disposable`) only its user may read. If it is damaged or of another
version, reads leave it out and the next write replaces it; no copy is kept, because what it held
may have to be forgotten.
"""

from __future__ import annotations

import os
import sqlite3
import threading
from contextlib import closing, contextmanager, suppress
from typing import TYPE_CHECKING, TypeVar
from urllib.parse import quote

from core.errors import MlxbunError, StoreCorrupt

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from pathlib import Path

_Result = TypeVar("_Result")

_WAIT_SECONDS = 30.0  # for another process that writes
# What SQLite says of a file that is none of its own, or that was damaged.
_DAMAGE = (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB)


class _Stale(sqlite3.DatabaseError):
    """A disposable file of another version."""


class Database:
    """One file. Safe in any thread and beside any number of processes."""

    def __init__(
        self,
        path: Path,
        *,
        name: str,
        migrations: Sequence[Sequence[str]],
        on_note: Callable[[str], None],
        disposable: int | None = None,
        private: bool = False,
    ) -> None:
        """Name the file; nothing is opened or made yet.

        Args:
            path: the file.
            name: what sentences call it: `The list of jobs`.
            migrations: statements by step, append only.
            on_note: hears in one sentence that a damaged file is left out, moved aside or replaced.
            disposable: version of a file that can be made again, at least 1; its steps may change
                with the version. None: the file is precious.
            private: whether only the user may read the file, and deleted rows are overwritten.
        """
        self._private = private
        self._path = path
        self._name = name
        self._migrations = migrations
        self._note = on_note
        self._disposable = disposable

    def read(self, look: Callable[[sqlite3.Connection], _Result], *, otherwise: _Result) -> _Result:
        """Return what `look` finds at one moment, or `otherwise` where there is no file to read.

        Args:
            look: reads; a ValueError of it means that what it found is damaged.
            otherwise: what there is without a file.

        Raises:
            MlxbunError: it cannot be read: no permission, always busy.
            StoreCorrupt: a newer mlxbun has written it.
        """
        if not self._path.exists():
            return otherwise
        with self._explained("read"):
            try:
                with self._opened("rw") as connection:
                    connection.execute("BEGIN")
                    return look(connection)
            except (sqlite3.DatabaseError, ValueError) as problem:
                if isinstance(problem, sqlite3.DatabaseError) and not self._is_damage(problem):
                    raise
                if not isinstance(problem, _Stale):
                    self._note(f"{self._name} {self._path} is damaged ({problem}): left out.")
                return otherwise

    def write(self, change: Callable[[sqlite3.Connection], _Result]) -> _Result:
        """Make a change whole or not at all, beside no other writer, and return what it returns.

        Raises:
            MlxbunError: it cannot be written: no permission, no space, always busy.
            StoreCorrupt: a newer mlxbun has written it.
        """
        with self._explained("written"):
            inode = self._prepare()
            try:
                return self._change(change)
            except sqlite3.DatabaseError as problem:
                if not self._is_damage(problem):
                    raise
                stale = isinstance(problem, _Stale)
            if self._disposable is None:
                self._set_aside()
            else:
                self._replace(inode, why="" if stale else "was damaged")
            return self._change(change)

    def erase(self) -> None:
        """Delete a disposable file, with everything that it held.

        Raises:
            MlxbunError: it cannot be deleted.
        """
        with self._explained("deleted"):
            self._delete()

    def _prepare(self) -> int:
        """Make the folder, and an empty file if only the user may read it; return its inode."""
        if self._disposable is None:
            mode = 0o700 if self._private else 0o777
            self._path.parent.mkdir(mode=mode, parents=True, exist_ok=True)
            return 0
        self._path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        with suppress(FileExistsError):
            os.close(os.open(self._path, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o600))
        return self._path.stat().st_ino

    def _change(self, change: Callable[[sqlite3.Connection], _Result]) -> _Result:
        with self._opened("rwc") as connection:
            connection.execute("BEGIN IMMEDIATE")
            result = change(connection)
            connection.execute("COMMIT")
            return result

    @contextmanager
    def _opened(self, mode: str) -> Iterator[sqlite3.Connection]:
        if self._private and mode == "rwc":  # SQLite gives its journal the same permissions
            os.close(os.open(self._path, os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC, 0o600))
        address = f"file:{quote(str(self._path))}?mode={mode}"
        connection = sqlite3.connect(address, uri=True, timeout=_WAIT_SECONDS, isolation_level=None)
        # Closing ends a transaction that was not committed.
        with closing(connection):
            connection.row_factory = sqlite3.Row
            connection.execute("PRAGMA foreign_keys = ON")
            if self._private:
                connection.execute("PRAGMA secure_delete = ON")
            self._migrate(connection)
            yield connection

    def _migrate(self, connection: sqlite3.Connection) -> None:
        """Bring the file to the newest tables, all steps in one transaction."""
        newest = self._disposable or len(self._migrations)
        found = _version(connection)
        if found == newest:
            return
        if self._disposable and found:
            raise _Stale(f"version {found} instead of {newest}")
        connection.execute("BEGIN IMMEDIATE")
        version = _version(connection)  # another process may have been faster
        if version > newest:
            raise StoreCorrupt(
                f"{self._name} {self._path} has version {version}, and this mlxbun knows {newest}.",
                hint="A newer mlxbun has written it: update this one.",
            )
        for step in self._migrations[version:]:
            for statement in step:
                connection.execute(statement)
        connection.execute(f"PRAGMA user_version = {newest}")
        connection.execute("COMMIT")

    def _set_aside(self) -> None:
        """Give a damaged file another name, unless another process has done so meanwhile."""
        import fcntl
        import secrets

        with self._path.with_name(f"{self._path.name}.lock").open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            if not self._is_damaged():
                return
            aside = self._path.with_name(f"{self._path.name}.damaged-{secrets.token_hex(4)}")
            for suffix in ("-journal", ""):
                source = self._path.with_name(self._path.name + suffix)
                if source.exists():
                    source.rename(aside.with_name(aside.name + suffix))
            # The empty successor, made before the lock goes, is what others find.
            with self._opened("rwc"):
                pass
        self._note(f"{self._name} was damaged; it is kept as {aside}, and a new one begun.")

    def _replace(self, inode: int, *, why: str) -> None:
        """Begin a disposable file anew, unless another process has done so meanwhile."""
        import fcntl

        name = self._path.with_name(f"{self._path.name}.lock")
        with os.fdopen(os.open(name, os.O_WRONLY | os.O_CREAT, 0o600), "w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            if self._prepare() != inode:
                return
            self._delete()
            self._prepare()
        if why:
            self._note(f"{self._name} {why} and is made again.")

    def _delete(self) -> None:
        for suffix in ("-journal", ""):
            self._path.with_name(self._path.name + suffix).unlink(missing_ok=True)

    def _is_damage(self, problem: sqlite3.Error) -> bool:
        """Tell damage from trouble; a disposable file without its tables is damaged, too."""
        useless = self._disposable is not None and _code(problem) == sqlite3.SQLITE_ERROR
        return useless or isinstance(problem, _Stale) or _code(problem) in _DAMAGE

    def _is_damaged(self) -> bool:
        try:
            with self._opened("rw") as connection:
                ((verdict,), *_) = connection.execute("PRAGMA integrity_check(1)").fetchall()
                return bool(verdict != "ok")
        except sqlite3.DatabaseError as problem:
            return self._is_damage(problem)

    @contextmanager
    def _explained(self, done: str) -> Iterator[None]:
        """Turn what SQLite and the system raise into one sentence."""
        try:
            yield
        except (sqlite3.Error, OSError) as problem:
            raise MlxbunError(
                f"{self._name} {self._path} cannot be {done}: {_reason(problem)}.",
                hint=_hint(problem),
            ) from problem


class MemoryDatabase:
    """The same for what only this process keeps: where no file can be written."""

    def __init__(self, statements: Sequence[str]) -> None:
        """Make the tables.

        Args:
            statements: what makes them.

        Raises:
            MlxbunError: this SQLite cannot make them.
        """
        self._statements = statements
        self._lock = threading.Lock()
        self.erase()

    def read(self, look: Callable[[sqlite3.Connection], _Result], *, otherwise: _Result) -> _Result:  # noqa: ARG002
        """Return what `look` finds; there is always something to read."""
        with self._lock:
            return look(self._connection)

    def write(self, change: Callable[[sqlite3.Connection], _Result]) -> _Result:
        """Make a change whole or not at all, and return what it returns."""
        with self._lock:
            self._connection.execute("BEGIN")
            try:
                result = change(self._connection)
            except BaseException:
                self._connection.execute("ROLLBACK")
                raise
            self._connection.execute("COMMIT")
            return result

    def erase(self) -> None:
        """Begin with empty tables."""
        with self._lock:
            self._connection = sqlite3.connect(
                ":memory:", isolation_level=None, check_same_thread=False
            )
            self._connection.row_factory = sqlite3.Row
            try:
                for statement in self._statements:
                    self._connection.execute(statement)
            except sqlite3.Error as problem:
                raise MlxbunError(
                    f"SQLite {sqlite3.sqlite_version} cannot make a table: {problem}.",
                    hint="Use a Python whose SQLite has FTS5.",
                ) from problem


def _version(connection: sqlite3.Connection) -> int:
    (version,) = connection.execute("PRAGMA user_version").fetchone()
    return int(version)


def _code(problem: sqlite3.Error) -> int:
    """Return SQLite's primary result code (https://sqlite.org/rescode.html)."""
    return int(getattr(problem, "sqlite_errorcode", 0)) & 0xFF


def _reason(problem: sqlite3.Error | OSError) -> str:
    if isinstance(problem, OSError):
        return problem.strerror or str(problem)
    if _code(problem) == sqlite3.SQLITE_FULL:
        return "the disk is full"
    if _code(problem) == sqlite3.SQLITE_BUSY:
        return "another process does not let go of it"
    return str(problem)


def _hint(problem: sqlite3.Error | OSError) -> str:
    if isinstance(problem, sqlite3.Error) and _code(problem) == sqlite3.SQLITE_BUSY:
        return "Find who uses it, for example with `lsof`, and try again."
    return "Make room on the disk, check the folder's permissions, or set MLXBUN_HOME elsewhere."
