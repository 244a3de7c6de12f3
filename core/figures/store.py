"""The benchmark store: one SQLite file, written by whoever measures, read by whoever predicts.

Every call opens the file and closes it again, so that processes never wait for each other longer
than a write takes. A file that is damaged is moved aside before the next write, and reads go on
without it; nothing of ours is deleted.
"""

from __future__ import annotations

import json
import secrets
import sqlite3
from contextlib import closing, contextmanager
from dataclasses import astuple, fields
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

from core.errors import MlxbunError, StoreCorrupt
from core.figures.identity import machine_key
from core.figures.migrations import migrate
from core.figures.records import Figure, MachineIdentity, Run, RunSettings

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

_WAIT_SECONDS = 30.0  # for another process that writes
_MACHINE = tuple(f.name for f in fields(MachineIdentity))
_SETTINGS = tuple(f.name for f in fields(RunSettings))
_OWN = ("measured_at", "complete", "model_id", "revision", "mlx", "mlx_lm", "mlxbun")
_RUN = (*_OWN, "machine", *_MACHINE, *_SETTINGS)
_FIGURE = tuple(f.name for f in fields(Figure))
# What SQLite says of a file that is none of its own, or that was damaged.
_DAMAGE = (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB)


class FigureStore:
    """The benchmark runs in one file. Safe in any thread and beside any number of processes."""

    def __init__(self, path: Path, *, on_note: Callable[[str], None] = lambda _note: None) -> None:
        """Name the file; nothing is opened or made yet.

        Args:
            path: the file.
            on_note: hears in one sentence that a damaged file is left out or moved aside.
        """
        self._path = path
        self._note = on_note

    def add(self, run: Run) -> int:
        """Keep a run, whole or not at all, and return its number.

        Raises:
            MlxbunError: the file cannot be written: no permission, no space, always busy.
            StoreCorrupt: a newer mlxbun has written it.
        """
        with self._explained("written"):
            self._path.parent.mkdir(parents=True, exist_ok=True)
            try:
                return self._insert(run)
            except sqlite3.DatabaseError as problem:
                if not _is_damage(problem):
                    raise
            self._set_aside()
            return self._insert(run)

    def runs(self, model: str | None = None, limit: int | None = None) -> list[Run]:
        """Return the runs, the newest first.

        Args:
            model: a whole model id; where no run has it, a part of one in any case. None: all.
            limit: most runs to return; None: all.

        Raises:
            MlxbunError: the file cannot be read.
        """
        where = """
            :model IS NULL OR model_id = :model
            OR NOT EXISTS (SELECT 1 FROM run WHERE model_id = :model)
            AND instr(lower(model_id), lower(:model))
        """
        return self._select(where, limit=limit, model=model)

    def latest(self, *, model_id: str, revision: str | None, machine: str) -> Run | None:
        """Return the newest complete run of a model on a machine, or None.

        Args:
            model_id: as `Run.model_id`.
            revision: as `Run.revision`; None: any.
            machine: what `machine_key` returns.

        Raises:
            MlxbunError: the file cannot be read.
        """
        where = """
            model_id = :model_id AND machine = :machine AND complete
            AND (:revision IS NULL OR revision = :revision)
        """
        found = self._select(where, limit=1, model_id=model_id, revision=revision, machine=machine)
        return found[0] if found else None

    def _insert(self, run: Run) -> int:
        row = _row(run)
        with self._open("rwc") as connection:
            connection.execute("BEGIN IMMEDIATE")
            cursor = connection.execute(_insert_into("run", _RUN), row)
            number = cursor.lastrowid
            assert number is not None
            connection.executemany(
                _insert_into("figure", ("run_id", *_FIGURE)),
                [(number, *_figure_row(figure)) for figure in run.figures],
            )
            connection.execute("COMMIT")
        return number

    def _select(self, where: str, *, limit: int | None, **values: Any) -> list[Run]:
        if not self._path.exists():
            return []
        order = "ORDER BY measured_at DESC, id DESC LIMIT :limit"
        chosen = f"SELECT id, {', '.join(_RUN)} FROM run WHERE {where} {order}"
        values["limit"] = -1 if limit is None else limit
        with self._explained("read"):
            try:
                with self._open("rw") as connection:
                    connection.execute("BEGIN")  # a run and its figures, of one moment
                    rows = connection.execute(chosen, values).fetchall()
                    return [_run(row, _figures(connection, row["id"])) for row in rows]
            except (sqlite3.DatabaseError, ValueError) as problem:
                if isinstance(problem, sqlite3.DatabaseError) and not _is_damage(problem):
                    raise
                self._note(f"The benchmark store {self._path} is damaged ({problem}): left out.")
                return []

    @contextmanager
    def _open(self, mode: str) -> Iterator[sqlite3.Connection]:
        address = f"file:{quote(str(self._path))}?mode={mode}"
        connection = sqlite3.connect(address, uri=True, timeout=_WAIT_SECONDS, isolation_level=None)
        # Closing ends a transaction that was not committed.
        with closing(connection):
            connection.row_factory = sqlite3.Row
            connection.execute("PRAGMA foreign_keys = ON")
            migrate(connection)
            yield connection

    def _set_aside(self) -> None:
        """Give a damaged file another name, unless another process has done so meanwhile."""
        import fcntl

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
            with self._open("rwc"):
                pass
        self._note(f"The benchmark store was damaged; it is kept as {aside}, and a new one begun.")

    def _is_damaged(self) -> bool:
        try:
            with self._open("rw") as connection:
                ((verdict,), *_) = connection.execute("PRAGMA integrity_check(1)").fetchall()
                return bool(verdict != "ok")
        except sqlite3.DatabaseError as problem:
            return _is_damage(problem)

    @contextmanager
    def _explained(self, done: str) -> Iterator[None]:
        """Turn what SQLite and the system raise into one sentence."""
        try:
            yield
        except StoreCorrupt:
            raise
        except (sqlite3.Error, OSError) as problem:
            raise MlxbunError(
                f"The benchmark store {self._path} cannot be {done}: {_reason(problem)}.",
                hint=_hint(problem),
            ) from problem


def _row(run: Run) -> tuple[Any, ...]:
    own = tuple(getattr(run, name) for name in _OWN)
    return (*own, machine_key(run.machine), *astuple(run.machine), *astuple(run.settings))


def _figure_row(figure: Figure) -> tuple[Any, ...]:
    return (*(getattr(figure, name) for name in _FIGURE[:-1]), json.dumps(figure.samples))


def _insert_into(table: str, columns: tuple[str, ...]) -> str:
    marks = ", ".join("?" for _ in columns)
    return f"INSERT INTO {table} ({', '.join(columns)}) VALUES ({marks})"


def _figures(connection: sqlite3.Connection, run_id: int) -> tuple[Figure, ...]:
    chosen = f"SELECT {', '.join(_FIGURE)} FROM figure WHERE run_id = ?"
    figures = [
        Figure(**{**dict(row), "samples": tuple(json.loads(row["samples"]))})
        for row in connection.execute(chosen, (run_id,))
    ]
    return tuple(sorted(figures, key=lambda figure: figure.order))


def _run(row: sqlite3.Row, figures: tuple[Figure, ...]) -> Run:
    own = {name: row[name] for name in _OWN}
    return Run(
        **{**own, "complete": bool(own["complete"])},
        machine=MachineIdentity(**{name: row[name] for name in _MACHINE}),
        settings=RunSettings(**{name: row[name] for name in _SETTINGS}),
        figures=figures,
        run_id=row["id"],
    )


def _code(problem: sqlite3.Error) -> int:
    """Return SQLite's primary result code (https://sqlite.org/rescode.html)."""
    return int(getattr(problem, "sqlite_errorcode", 0)) & 0xFF


def _is_damage(problem: sqlite3.Error) -> bool:
    return _code(problem) in _DAMAGE


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
