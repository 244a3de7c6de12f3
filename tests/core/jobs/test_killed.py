"""kill -9 at any moment of whoever takes part, and full disks: what is left is readable."""

from __future__ import annotations

import os
import random
import signal
import sqlite3
import subprocess
import sys
import time

import pytest

from core.jobs.ending import GONE
from core.jobs.log import LogWriter
from tests.core.jobs.desk import ROOT, Desk, events_of, types_of
from tests.processes import wait_until


def test_a_runner_that_is_killed_at_random(desk: Desk) -> None:
    moments = random.Random(6)
    ends = set()
    for _ in range(20):
        job = desk.start("busy", steps=60)
        time.sleep(moments.uniform(0.0, 0.5))
        pid = desk.job(job.id).owner.pid
        if not desk.job(job.id).is_over:
            os.kill(pid, signal.SIGKILL)
        ended = desk.end(job)
        ends.add(ended.status)
        events = events_of(ended)
        steps = [event["step"] for event in events if event["type"] == "metric"]
        assert steps == list(range(1, len(steps) + 1))
        assert ended.status in ("zombie", "done")
        assert (events[-1:] != [] and events[-1]["type"] == "done") == (ended.status == "done")
    assert "zombie" in ends
    assert desk.end(desk.start("quick")).status == "done"
    assert len(desk.store.recent()) == 21
    with sqlite3.connect(desk.paths.jobs_folder / "jobs.db") as connection:
        assert connection.execute("PRAGMA integrity_check").fetchone() == ("ok",)


def test_a_writer_that_is_killed_between_log_and_row(desk: Desk) -> None:
    job = desk.end(desk.start("unkept"))
    assert (job.status, job.output_path, job.error) == ("done", "/made/here", None)
    assert types_of(job) == ["started", "done"]
    assert job.ended_at is not None
    assert job.ended_at >= job.started_at


def test_a_line_that_was_cut_short(desk: Desk) -> None:
    job = desk.running(desk.start("busy"))
    wait_until(lambda: "metric" in types_of(job))
    os.kill(job.owner.pid, signal.SIGKILL)
    assert desk.end(job).status == "zombie"
    whole = events_of(job)
    with job.log_path.open("ab") as file:
        file.write(b'{"type":"metric","kind":"tra')
    assert events_of(job) == whole
    LogWriter(job.log_path).write({"type": "log", "line": "after"})
    assert events_of(job) == [*whole, {"type": "log", "line": "after"}]


_ASK = """
import sys
from tests.core.jobs.desk import Desk, job_command
import os, signal
desk = Desk(environ=dict(os.environ))
{}
os.kill(os.getpid(), signal.SIGKILL)
"""


def _ask_and_die(desk: Desk, what: str) -> None:
    command = [sys.executable, "-c", _ASK.format(what)]
    done = subprocess.run(command, env=desk.environ, cwd=ROOT, check=False)
    assert done.returncode == -signal.SIGKILL


def test_who_asks_is_killed_and_the_job_goes_on(desk: Desk) -> None:
    _ask_and_die(desk, "desk.start('busy', steps=200)")
    (job,) = desk.store.recent()
    assert desk.end(job).status == "done"
    assert len(events_of(job)) == 202


def test_who_asks_is_killed_before_there_is_a_process(desk: Desk) -> None:
    _ask_and_die(desk, "desk.store.add('finetune', {})")
    (job,) = desk.store.recent()
    assert (job.status, job.error) == ("zombie", GONE)
    assert types_of(job) == []


def test_a_disk_that_is_full_for_a_while(desk: Desk) -> None:
    job = desk.end(desk.start("cramped", for_good=False))
    assert job.status == "done"
    events = events_of(job)
    assert [event["type"] for event in (events[0], events[-1])] == ["started", "done"]
    (told,) = [event["line"] for event in events if event["type"] == "log"]
    assert told.endswith("events could not be written here: the disk did not take it.")
    lost = int(told.split()[0])
    assert lost > 200
    assert sum(event["type"] == "metric" for event in events) + lost == 299


def test_a_disk_that_is_full_for_good(desk: Desk) -> None:
    job = desk.end(desk.start("cramped", for_good=True))
    assert job.status == "zombie"
    assert set(types_of(job)) == {"started", "metric"}
    assert desk.end(desk.start("quick")).status == "done"


@pytest.mark.parametrize("name", ["jobs.db", "jobs.db-journal"])
def test_a_list_that_is_damaged_while_a_job_runs(desk: Desk, name: str) -> None:
    job = desk.running(desk.start("busy", steps=800))
    (desk.paths.jobs_folder / name).write_bytes(b"\xa5" * 9000)
    wait_until(lambda: desk.store.get(job.id) is not None)
    ended = desk.end(job)
    assert ended.status == "done"
    assert len(events_of(ended)) == 802
