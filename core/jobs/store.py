"""All jobs of this user, the newest last: one SQLite file, beside a log for each job.

A row belongs to a process. Whoever reads rows notices when that process is gone (there is none of
its number, or one that started at another time) and writes down how the job has ended: as its log
says, where that had come to its end; else it is a `zombie`.
"""

from __future__ import annotations

import json
import time
from dataclasses import fields, replace
from typing import TYPE_CHECKING, Any

from core.database import Database
from core.errors import AlreadyRunning, Ambiguous, MlxbunError, NotFound
from core.jobs.ending import iso, settled
from core.jobs.job import Job, Kind, Owner
from core.jobs.lives import Lives
from core.jobs.log import LogWriter
from core.jobs.migrations import MIGRATIONS

if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Callable, Mapping
    from pathlib import Path

_FOREIGN_SILENCE = 120.0  # seconds after which a process of another machine counts as gone
_NAMED = 8  # jobs that a hint lists at most
_OWNER = tuple(field.name for field in fields(Owner))
_OWN = tuple(f.name for f in fields(Job) if f.name not in ("owner", "log_path"))
_COLUMNS = (*_OWN, *_OWNER)
_FLAGS = ("accelerator", "claimed", "cancel_asked")
# What others write, while the job's own process keeps the rest.
_NOT_SAVED = ("id", "cancel_asked")


class JobStore:
    """The jobs in one folder. Safe in any thread and beside any number of processes."""

    def __init__(
        self,
        folder: Path,
        *,
        on_note: Callable[[str], None] = lambda _note: None,
        clock: Callable[[], float] = time.time,
        born: Callable[[int], str | None] | None = None,
    ) -> None:
        """Name the folder; nothing is opened or made yet.

        Args:
            folder: where the list and the logs lie.
            on_note: hears in one sentence that a damaged list is left out or moved aside.
            clock: tells Unix seconds.
            born: tells when a process started, or None; None: the system is asked.
        """
        self._folder = folder
        self._clock = clock
        self._born = born or Lives()
        self._database = Database(
            folder / "jobs.db", name="The list of jobs", migrations=MIGRATIONS, on_note=on_note
        )

    def add(self, kind: Kind, config: Mapping[str, Any], *, accelerator: bool = True) -> Job:
        """Keep a new job, queued, which depends on this process until its own one claims it.

        Args:
            kind: what sort of work it is.
            config: what was asked for, as JSON has it.
            accelerator: it takes turns with others that use the accelerator.

        Raises:
            MlxbunError: the list cannot be written.
        """
        import secrets  # brings OpenSSL along, which those who only read do not need

        now = self._clock()
        job_id = secrets.token_hex(4)
        job = Job(
            id=job_id,
            kind=kind,
            status="queued",
            config_json=json.dumps(config),
            log_path=self._log_of(job_id),
            started_at=iso(now),
            accelerator=accelerator,
            owner=Owner.this(self._born),
            seen_at=now,
        )
        self._database.write(lambda connection: _insert(connection, job))
        return job

    def hand_over(self, job_id: str, pid: int) -> None:
        """Let a job depend on the process that was started for it, unless that has claimed it.

        Raises:
            MlxbunError: the list cannot be written.
        """
        owner = Owner.of(pid, self._born)
        self._database.write(
            lambda connection: connection.execute(
                "UPDATE job SET machine = ?, pid = ?, born = ? WHERE id = ? AND NOT claimed",
                (*_values(owner, _OWNER), job_id),
            )
        )

    def claim(self, job_id: str) -> Job:
        """Make this process the job's own, and return the job.

        Raises:
            NotFound: there is none of that id.
            AlreadyRunning: it is over, or another process does it.
            MlxbunError: the list cannot be written.
        """

        def change(connection: sqlite3.Connection) -> Job:
            job = self._one(connection, job_id)
            if job is None:
                raise NotFound(f"There is no job {job_id}.")
            if job.is_over or job.claimed:
                raise AlreadyRunning(f"Job {job_id} is {job.status} already.")
            owner, now = Owner.this(self._born), self._clock()
            claimed = replace(job, owner=owner, claimed=True, seen_at=now)
            _update(connection, claimed, "id = ?", (job_id,))
            return claimed

        return self._database.write(change)

    def save(self, job: Job) -> bool:
        """Write down where a job of this process stands, and return whether it is to end.

        What another process wrote about its end is corrected: the job's own process knows better.
        A row that was lost with a damaged list comes back.

        Raises:
            MlxbunError: the list cannot be written.
        """

        def change(connection: sqlite3.Connection) -> bool:
            mine = "id = ? AND machine = ? AND pid = ? AND born = ?"
            if not _update(connection, job, mine, (job.id, *_values(job.owner, _OWNER))):
                if (found := self._one(connection, job.id)) is None:
                    _insert(connection, job)
                return False if found is None else found.cancel_asked
            row = connection.execute("SELECT cancel_asked FROM job WHERE id = ?", (job.id,))
            return bool(row.fetchone()[0])

        job = replace(job, seen_at=self._clock())
        return self._database.write(change)

    def ask_to_cancel(self, job_id: str) -> Job | None:
        """Note that a job is to end, and return it; None: there is none of that id.

        Raises:
            MlxbunError: the list cannot be written.
        """

        def change(connection: sqlite3.Connection) -> Job | None:
            connection.execute("UPDATE job SET cancel_asked = 1 WHERE id = ?", (job_id,))
            return self._one(connection, job_id)

        job = self._database.write(change)
        return None if job is None else self._judged(job)

    def fail(self, job: Job, error: str) -> Job:
        """Note that a job has failed before its own process came up, and return it.

        Raises:
            MlxbunError: the list cannot be written.
        """
        now = self._clock()
        log = LogWriter(job.log_path)
        log.write({"type": "failed", "error": error, "ts": int(now * 1000)})
        log.close()
        failed = replace(job, status="failed", error=error, ended_at=iso(now))
        self._database.write(
            lambda connection: _update(connection, failed, "id = ? AND NOT claimed", (job.id,))
        )
        return failed

    def get(self, job_id: str) -> Job | None:
        """Return a job as it is now; None: there is none of that id.

        Raises:
            MlxbunError: the list cannot be read.
        """
        job = self._database.read(lambda c: self._one(c, job_id), otherwise=None)
        return None if job is None else self._judged(job)

    def find(self, prefix: str) -> Job:
        """Return the job whose id begins so.

        Raises:
            NotFound: none does.
            Ambiguous: several do.
            MlxbunError: the list cannot be read.
        """
        fitting = self._select("substr(id, 1, length(:prefix)) = :prefix", prefix=prefix.lower())
        if not prefix or not fitting:
            raise NotFound(
                f"There is no job {prefix!r}.",
                hint="`mlxbun jobs list` shows those that there are.",
            )
        if len(fitting) > 1:
            ids = tuple(sorted(job.id for job in fitting))
            raise Ambiguous(
                f"Several jobs begin with {prefix!r}.",
                candidates=ids,
                hint=f"Name one of {_few(ids)}.",
            )
        return self._judged(fitting[0])

    def recent(self, *, kind: str | None = None, limit: int = 50) -> list[Job]:
        """Return the last jobs, the newest first, as they are now.

        Args:
            kind: of which sort; None: of all.
            limit: most jobs to return.

        Raises:
            MlxbunError: the list cannot be read.
        """
        found = self._select(":kind IS NULL OR kind = :kind", limit=limit, kind=kind)
        return [self._judged(job) for job in found]

    def first_in_line(self) -> Job | None:
        """Return the job that waits for the accelerator the longest; None: none does.

        Raises:
            MlxbunError: the list cannot be read.
        """
        waiting = self._select("status = 'queued' AND accelerator AND claimed")
        return next((j for job in reversed(waiting) if not (j := self._judged(job)).is_over), None)

    def _select(self, where: str, *, limit: int = -1, **values: Any) -> list[Job]:
        def look(connection: sqlite3.Connection) -> list[Job]:
            rows = connection.execute(
                f"SELECT {', '.join(_COLUMNS)} FROM job WHERE {where}"
                " ORDER BY number DESC LIMIT :limit",
                {**values, "limit": limit},
            )
            return [self._job(row) for row in rows.fetchall()]

        return self._database.read(look, otherwise=[])

    def _one(self, connection: sqlite3.Connection, job_id: str) -> Job | None:
        chosen = f"SELECT {', '.join(_COLUMNS)} FROM job WHERE id = ?"
        row = connection.execute(chosen, (job_id,)).fetchone()
        return None if row is None else self._job(row)

    def _job(self, row: sqlite3.Row) -> Job:
        own: dict[str, Any] = {
            name: bool(row[name]) if name in _FLAGS else row[name] for name in _OWN
        }
        if not isinstance(own["progress"], int | float):  # damaged: the rest is worth showing
            own["progress"] = 0.0
        owner = Owner(**{name: row[name] for name in _OWNER})
        return Job(**own, owner=owner, log_path=self._log_of(row["id"]))

    def _log_of(self, job_id: str) -> Path:
        return self._folder / f"{job_id}.ndjson"

    def _judged(self, job: Job) -> Job:
        """Return a job as it is now, and write it down if its process is gone."""
        if job.is_over or self._is_alive(job):
            return job
        ended = settled(job)
        same = "id = ? AND status = ? AND machine = ? AND pid = ? AND born = ?"
        known = (job.id, job.status, *_values(job.owner, _OWNER))

        def change(connection: sqlite3.Connection) -> Job | None:
            if _update(connection, ended.job, same, known):
                ended.write_last_words()
                return ended.job
            return self._one(connection, job.id)  # it has been claimed, or judged, meanwhile

        try:
            return self._database.write(change) or ended.job
        except MlxbunError:  # a disk that is full or read-only: it is said again by the next reader
            return ended.job

    def _is_alive(self, job: Job) -> bool:
        if not job.owner.is_here:
            return self._clock() - job.seen_at < _FOREIGN_SILENCE
        return self._born(job.owner.pid) == job.owner.born


def _few(ids: tuple[str, ...]) -> str:
    rest = len(ids) - _NAMED
    return ", ".join(ids[:_NAMED]) + (f" or {rest} more" if rest > 0 else "")


def _insert(connection: sqlite3.Connection, job: Job) -> None:
    marks = ", ".join("?" for _ in _COLUMNS)
    connection.execute(
        f"INSERT INTO job ({', '.join(_COLUMNS)}) VALUES ({marks})", _row(job, _COLUMNS)
    )


def _update(connection: sqlite3.Connection, job: Job, where: str, values: tuple[Any, ...]) -> bool:
    """Write all of a job that changes into its row and return whether there was such a row."""
    columns = [name for name in _COLUMNS if name not in _NOT_SAVED]
    assigned = ", ".join(f"{name} = ?" for name in columns)
    cursor = connection.execute(
        f"UPDATE job SET {assigned} WHERE {where}", (*_row(job, columns), *values)
    )
    return cursor.rowcount > 0


def _row(job: Job, columns: Any) -> tuple[Any, ...]:
    return tuple(getattr(job.owner if name in _OWNER else job, name) for name in columns)


def _values(owner: Owner, names: tuple[str, ...]) -> tuple[Any, ...]:
    return tuple(getattr(owner, name) for name in names)
