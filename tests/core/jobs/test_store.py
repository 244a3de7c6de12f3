"""The list of jobs: what goes in comes out, and what a process leaves behind is noticed."""

from __future__ import annotations

import multiprocessing
import os
import sqlite3
from dataclasses import replace
from pathlib import Path

import pytest

from core.database import Database
from core.errors import AlreadyRunning, Ambiguous, MlxbunError, NotFound, StoreCorrupt
from core.jobs.job import Job, Owner
from core.jobs.log import LogWriter
from core.jobs.migrations import MIGRATIONS
from core.jobs.store import JobStore


class Clock:
    now = 1_764_410_400.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def store(tmp_path: Path, clock: Clock) -> JobStore:
    return JobStore(tmp_path / "jobs", clock=clock)


def test_a_job_comes_back_as_it_went_in(store: JobStore, tmp_path: Path) -> None:
    job = store.add("quantize", {"bits": 4, "name": "\u00e9\ud800"}, accelerator=False)
    assert store.get(job.id) == job
    assert job.config == {"bits": 4, "name": "\u00e9\ud800"}
    assert (job.started_at, job.ended_at) == ("2025-11-29T10:00:00.000+00:00", None)
    assert job.log_path == tmp_path / "jobs" / f"{job.id}.ndjson"
    claimed = store.claim(job.id)
    assert store.get(job.id) == claimed == replace(job, claimed=True)
    store.save(replace(claimed, status="running", progress=0.5, message="halfway"))
    running = store.get(job.id)
    assert running is not None
    assert (running.status, running.progress, running.message) == ("running", 0.5, "halfway")


def test_reading_where_there_is_nothing_makes_nothing(store: JobStore, tmp_path: Path) -> None:
    assert store.recent() == []
    assert store.get("1a2b3c4d") is None
    assert store.first_in_line() is None
    with pytest.raises(NotFound, match="There is no job 'x'"):
        store.find("x")
    assert list(tmp_path.iterdir()) == []


def test_the_newest_is_first_and_choices_hold(store: JobStore) -> None:
    kinds = [store.add(kind, {}) for kind in ("finetune", "dataset", "finetune")]
    assert [job.id for job in store.recent()] == [job.id for job in reversed(kinds)]
    assert [job.id for job in store.recent(kind="finetune")] == [kinds[2].id, kinds[0].id]
    assert [job.id for job in store.recent(limit=1)] == [kinds[2].id]
    assert store.recent(kind="nonesuch") == []


def test_a_part_of_an_id_is_enough(store: JobStore) -> None:
    ids = ["1a2b3c4d", "1a2bffff", "99999999"]
    for job_id in ids:
        job = store.add("finetune", {})
        _change(store, job, id=job_id)
    assert store.find("9").id == "99999999"
    assert store.find("1A2B3").id == "1a2b3c4d"
    with pytest.raises(Ambiguous) as several:
        store.find("1a2b")
    assert several.value.candidates == ("1a2b3c4d", "1a2bffff")
    for none in ("", "5", "%", "_", "1a2b3c4d0"):
        with pytest.raises(NotFound):
            store.find(none)


def _change(store: JobStore, job: Job, **columns: object) -> None:
    file = job.log_path.parent / "jobs.db"
    with sqlite3.connect(file) as connection:
        assigned = ", ".join(f"{name} = ?" for name in columns)
        connection.execute(f"UPDATE job SET {assigned} WHERE id = ?", (*columns.values(), job.id))


# Processes


def test_a_job_is_claimed_once(store: JobStore) -> None:
    job = store.add("finetune", {})
    store.claim(job.id)
    with pytest.raises(AlreadyRunning, match="is queued already"):
        store.claim(job.id)
    with pytest.raises(NotFound):
        store.claim("nonesuch")


def test_a_process_that_is_gone_makes_a_zombie(tmp_path: Path, clock: Clock) -> None:
    alive = {os.getpid(): "then"}
    store = JobStore(tmp_path, clock=clock, born=alive.get)
    job = store.claim(store.add("finetune", {}).id)
    store.save(replace(job, status="running"))
    seen = clock.now
    clock.now += 60
    assert [each.status for each in store.recent()] == ["running"]
    del alive[os.getpid()]
    for _ in range(2):
        (zombie,) = store.recent()
        assert (zombie.status, zombie.claimed) == ("zombie", True)
        assert zombie.ended_at is not None
        assert zombie.ended_at.startswith("2025-11-29T10:00:00")
    assert clock.now > seen
    assert not zombie.log_path.exists()


def test_a_number_that_another_process_has_now(tmp_path: Path) -> None:
    alive = {os.getpid(): "then"}
    store = JobStore(tmp_path, born=alive.get)
    job = store.claim(store.add("finetune", {}).id)
    alive[os.getpid()] = "later"
    found = store.get(job.id)
    assert found is not None
    assert found.status == "zombie"


def test_a_log_that_has_come_to_its_end_tells_the_outcome(tmp_path: Path) -> None:
    alive = {os.getpid(): "then"}
    store = JobStore(tmp_path, born=alive.get)
    jobs = [store.claim(store.add("finetune", {}).id) for _ in range(2)]
    ends = [{"type": "done", "output_dir": "/o"}, {"type": "failed", "error": "cancelled"}]
    for job, end in zip(jobs, ends, strict=True):
        LogWriter(job.log_path).write({**end, "ts": 1_764_410_401_000})
    alive.clear()
    failed, done = store.recent()
    assert (done.status, done.output_path, done.progress) == ("done", "/o", 1.0)
    assert (failed.status, failed.error) == ("failed", "cancelled")
    assert done.ended_at == failed.ended_at == "2025-11-29T10:00:01.000+00:00"


def test_a_process_elsewhere_is_gone_after_a_long_silence(store: JobStore, clock: Clock) -> None:
    job = store.claim(store.add("finetune", {}).id)
    _change(store, job, machine="elsewhere", pid=1)
    for seconds, status in ((100, "queued"), (30, "zombie")):
        clock.now += seconds
        found = store.get(job.id)
        assert found is not None
        assert found.status == status


def test_the_own_process_knows_better_than_who_judged_it(store: JobStore) -> None:
    job = store.claim(store.add("finetune", {}).id)
    _change(store, job, status="zombie", error="gone")
    store.save(replace(job, status="running"))
    found = store.get(job.id)
    assert found is not None
    assert (found.status, found.error) == ("running", None)


def test_a_process_that_owns_nothing_changes_nothing(store: JobStore) -> None:
    job = store.claim(store.add("finetune", {}).id)
    stranger = replace(job, owner=Owner(machine="m", pid=1, born="b"), status="failed")
    store.save(stranger)
    store.hand_over(job.id, 1)
    assert store.get(job.id) == job


def test_the_line_holds_those_that_wait_and_live(tmp_path: Path) -> None:
    alive = {os.getpid(): "then", 1: "boot"}
    store = JobStore(tmp_path, born=alive.get)
    dead, other, unclaimed = (store.add("finetune", {}) for _ in range(3))
    free = store.add("dataset", {}, accelerator=False)
    for job in (dead, other, free):
        store.claim(job.id)
    _change(store, dead, pid=1, born="before")
    line = store.first_in_line()
    assert line is not None
    assert line.id == other.id
    store.save(replace(line, status="running"))
    assert store.first_in_line() is None
    assert store.get(unclaimed.id) is not None


# The file


def _add_many(folder: Path, kind: str, count: int) -> None:
    for _ in range(count):
        JobStore(folder).add(kind, {})  # type: ignore[arg-type]


def test_processes_that_add_together_lose_nothing(tmp_path: Path) -> None:
    (tmp_path / "jobs.db").write_bytes(b"this was never a database " * 100)
    context = multiprocessing.get_context("spawn")
    kinds = ("quantize", "finetune", "dataset")
    writers = [context.Process(target=_add_many, args=(tmp_path, kind, 10)) for kind in kinds]
    for writer in writers:
        writer.start()
    for writer in writers:
        writer.join(60)
    assert [writer.exitcode for writer in writers] == [0, 0, 0]
    jobs = JobStore(tmp_path).recent()
    assert len({job.id for job in jobs}) == 30
    assert {kind: sum(job.kind == kind for job in jobs) for kind in kinds} == dict.fromkeys(
        kinds, 10
    )
    assert len(list(tmp_path.glob("jobs.db.damaged-*"))) == 1


@pytest.mark.parametrize("start", [0, 100, 5000])
def test_a_damaged_file_is_left_alone_by_reads_and_moved_aside_by_a_write(
    tmp_path: Path, start: int
) -> None:
    path = tmp_path / "jobs.db"
    notes: list[str] = []
    store = JobStore(tmp_path, on_note=notes.append)
    for _ in range(40):
        store.add("finetune", {"text": "x" * 300})
    data = bytearray(path.read_bytes())
    data[start:] = b"\xa5" * (len(data) - start)
    path.write_bytes(data)
    assert store.recent() == []
    assert "damaged" in notes[0]
    assert path.read_bytes() == data
    job = store.add("quantize", {})
    assert [each.id for each in store.recent()] == [job.id]
    (aside,) = tmp_path.glob("jobs.db.damaged-*")
    assert aside.read_bytes() == data
    assert str(aside) in notes[-1]


def test_a_file_of_version_1(tmp_path: Path) -> None:
    with sqlite3.connect(tmp_path / "jobs.db") as connection:
        for statement in MIGRATIONS[0]:
            connection.execute(statement)
        connection.execute("PRAGMA user_version = 1")
        connection.execute(
            "INSERT INTO job (id, kind, status, config_json, started_at, accelerator, machine,"
            " pid, born, seen_at)"
            " VALUES ('aaaaaaaa', 'finetune', 'done', '{}', 't', 1, 'm', 1, 'b', 0)"
        )
    store = JobStore(tmp_path)
    (job,) = store.recent()
    assert (job.id, job.status, job.cancel_asked, job.claimed) == ("aaaaaaaa", "done", False, False)
    store.add("dataset", {})
    assert len(store.recent()) == 2
    with sqlite3.connect(tmp_path / "jobs.db") as connection:
        assert connection.execute("PRAGMA user_version").fetchone() == (len(MIGRATIONS),)


def test_a_newer_file_is_refused_and_kept(store: JobStore, tmp_path: Path) -> None:
    store.add("finetune", {})
    with sqlite3.connect(tmp_path / "jobs" / "jobs.db") as connection:
        connection.execute(f"PRAGMA user_version = {len(MIGRATIONS) + 1}")
    for use in (store.recent, lambda: store.add("finetune", {})):
        with pytest.raises(StoreCorrupt, match=f"version {len(MIGRATIONS) + 1}"):
            use()
    assert [path.name for path in (tmp_path / "jobs").iterdir()] == ["jobs.db"]


def test_a_folder_in_the_way_is_one_sentence(tmp_path: Path) -> None:
    (tmp_path / "jobs.db").mkdir()
    with pytest.raises(MlxbunError, match="cannot be written"):
        JobStore(tmp_path).add("finetune", {})
    with pytest.raises(MlxbunError, match="cannot be read"):
        JobStore(tmp_path).recent()
    (tmp_path / "file").write_text("")
    with pytest.raises(MlxbunError, match="cannot be written"):
        JobStore(tmp_path / "file").add("finetune", {})


def test_a_list_that_cannot_be_written_is_still_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    alive = {os.getpid(): "then"}
    store = JobStore(tmp_path / "jobs", born=alive.get)
    store.claim(store.add("finetune", {}).id)
    alive.clear()

    def refuse(_database: Database, _change: object) -> None:
        raise MlxbunError("The disk is full.")

    monkeypatch.setattr(Database, "write", refuse)
    assert [job.status for job in store.recent()] == ["zombie"]
