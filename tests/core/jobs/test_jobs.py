"""Jobs in processes of their own: how they begin, what they tell, and every way they end."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from datetime import datetime
from pathlib import Path

import pytest

from core.errors import AlreadyRunning, MlxbunError, UsageProblem
from core.jobs.cancel import cancel_job
from core.jobs.launch import start_job
from core.jobs.lease import hold_lease
from core.jobs.store import JobStore
from core.jobs.tail import Tail
from core.servers import process_born
from tests.core.jobs.desk import Desk, events_of, job_command, types_of
from tests.processes import wait_until


def test_a_job_from_its_start_to_its_end(desk: Desk) -> None:
    job = desk.start("quick", rank=16)
    assert (job.status, job.kind, json.loads(job.config_json)) == (
        "queued",
        "finetune",
        {"rank": 16},
    )
    done = desk.end(job)
    assert (done.status, done.progress, done.output_path) == ("done", 1.0, "/made/here")
    assert (done.error, done.message) == (None, None)
    assert done.ended_at is not None
    assert datetime.fromisoformat(done.started_at) <= datetime.fromisoformat(done.ended_at)
    started, stage, metric, line, last = events_of(done)
    assert set(started) == {"type", "ts"}
    assert stage == {
        "type": "stage", "stage": "load", "progress": 0.1, "message": "loading the model",
    }  # fmt: skip
    assert metric == {
        "type": "metric", "kind": "train", "step": 1, "loss": 2.5, "learning_rate": 1e-4,
        "grad_norm": None,
    }  # fmt: skip
    assert line == {"type": "log", "line": "nearly there"}
    assert (last["type"], last["output_dir"]) == ("done", "/made/here")
    assert last["summary"] == {"steps": 1, "rank": 16}
    assert started["ts"] <= last["ts"]
    assert not done.output_file.exists()


def test_the_row_follows_while_it_runs(desk: Desk) -> None:
    job = desk.start("busy", steps=3000)
    wait_until(lambda: 0 < desk.job(job.id).progress < 1)
    running = desk.job(job.id)
    assert (running.status, running.ended_at) == ("running", None)
    assert running.owner.pid != os.getpid()
    # A session and a process group of its own: Ctrl-C at our shell does not reach it.
    assert os.getsid(running.owner.pid) == running.owner.pid
    cancel_job(desk.store, job.id, patience=20)


@pytest.mark.parametrize(
    ("work", "error"),
    [
        ("wrong", "internal error: ValueError: first line"),
        ("too_large", "It needs 9 GB. Take a smaller batch."),
        ("leaving", "The work ended its process with 3 before it was done."),
        ("no_such_work", "internal error: AttributeError: "),
    ],
)
def test_what_the_work_raises_is_the_error(desk: Desk, work: str, error: str) -> None:
    job = desk.end(desk.start(work))
    assert job.status == "failed"
    assert job.error is not None
    assert job.error.startswith(error)
    assert "\n" not in job.error
    last = events_of(job)[-1]
    assert (last["type"], last["error"]) == ("failed", job.error)
    told = [event["line"] for event in events_of(job) if event["type"] == "log"]
    assert any("Traceback" in line for line in told) == error.startswith("internal")


def test_what_is_printed_is_in_the_log(desk: Desk, capfd: pytest.CaptureFixture[str]) -> None:
    job = desk.end(desk.start("loud"))
    assert job.status == "done"
    lines = [event["line"] for event in events_of(job) if event["type"] == "log"]
    assert sorted(lines) == sorted(
        ["printed", "warned", "from a child", "100%", "bytes \ufffd", "x" * 32_000, "told",
         "no end of line"]
    )  # fmt: skip
    assert types_of(job)[-1] == "done"
    assert capfd.readouterr() == ("", "")


def test_a_crash_leaves_its_last_words(desk: Desk) -> None:
    job = desk.end(desk.start("crash"))
    assert job.status == "zombie"
    assert job.error is not None
    assert job.error.endswith("Insufficient Memory")
    assert job.progress in (0.0, 0.3)  # the row follows once a second
    assert job.ended_at is not None
    lines = [event["line"] for event in events_of(job) if event["type"] == "log"]
    assert any("Insufficient Memory" in line for line in lines)
    assert set(types_of(job)) == {"started", "stage", "log"}
    assert not job.output_file.exists()
    before = events_of(job)
    assert desk.job(job.id) == job
    assert events_of(job) == before


def test_a_program_that_is_none(desk: Desk) -> None:
    with pytest.raises(MlxbunError, match="could not be started") as refusal:
        start_job(desk.store, "finetune", {}, command=["/no/such/program"], environ={})
    (job,) = desk.store.recent()
    assert (job.status, job.error) == ("failed", refusal.value.message)
    assert types_of(job) == ["failed"]


def test_a_program_that_never_takes_the_job(desk: Desk) -> None:
    command = [sys.executable, "-c", "print('what job?')"]
    job = start_job(desk.store, "dataset", {}, command=command, environ=desk.environ)
    ended = desk.end(job)
    assert ended.status == "zombie"
    assert ended.error is not None
    assert ended.error.endswith("what job?")


def test_a_job_is_done_once(desk: Desk) -> None:
    job = desk.end(desk.start("quick"))
    again = [*job_command("quick"), job.id]
    done = subprocess.run(again, env=desk.environ, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (1, f"mlxbun: Job {job.id} is done already.\n")
    again[-1] = "nonesuch"
    done = subprocess.run(again, env=desk.environ, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (1, "mlxbun: There is no job nonesuch.\n")


# Cancelling


@pytest.mark.parametrize("work", ["saving", "polite", "obedient"])
def test_a_running_job_is_cancelled(desk: Desk, work: str) -> None:
    job = desk.running(desk.start(work))
    ended = cancel_job(desk.store, job.id, patience=20)
    assert (ended.status, ended.error, ended.output_path) == ("failed", "cancelled", None)
    kept = {"type": "log", "line": "saved a checkpoint"}
    assert (kept in events_of(ended)) == (work != "obedient")
    assert events_of(ended)[-1]["error"] == "cancelled"
    wait_until(lambda: process_born(job.owner.pid) != job.owner.born)
    with pytest.raises(UsageProblem, match="is over already: failed"):
        cancel_job(desk.store, job.id, patience=0)


def test_a_second_wish_interrupts_a_work_that_does_not_hear(desk: Desk) -> None:
    job = desk.running(desk.start("deaf"))
    wait_until(lambda: "log" in types_of(job))
    assert not cancel_job(desk.store, job.id, patience=0.5).is_over
    assert cancel_job(desk.store, job.id, patience=20).error == "cancelled"


def test_a_job_is_cancelled_on_a_full_disk(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_words: object) -> None:
        raise MlxbunError("The list of jobs cannot be written: the disk is full.")

    job = desk.running(desk.start("busy"))
    store = desk.store
    monkeypatch.setattr(store, "ask_to_cancel", full)
    assert cancel_job(store, job.id, patience=20).error == "cancelled"


def test_a_queued_job_is_cancelled(desk: Desk, tmp_path: Path) -> None:
    gate = tmp_path / "gate"
    first = desk.running(desk.start("until", gate=str(gate)))
    second = desk.start("quick")
    wait_until(lambda: desk.job(second.id).message)
    ended = cancel_job(desk.store, second.id, patience=20)
    assert (ended.status, ended.error, types_of(ended)) == ("failed", "cancelled", ["failed"])
    gate.touch()
    assert desk.end(first).status == "done"


def test_a_job_is_cancelled_before_its_process_has_come_up(desk: Desk) -> None:
    job = desk.store.add("finetune", {})
    assert not cancel_job(desk.store, job.id, patience=0).is_over  # and we still live
    done = subprocess.run(
        [*job_command("quick"), job.id], env=desk.environ, capture_output=True, check=False
    )
    assert done.returncode == 1
    assert (desk.job(job.id).error, types_of(job)) == ("cancelled", ["failed"])


def test_a_note_in_the_row_is_enough(desk: Desk) -> None:
    job = desk.running(desk.start("busy"))
    desk.store.ask_to_cancel(job.id)
    assert desk.end(job).error == "cancelled"


_IMPATIENT = """
import os, sys
from core.jobs.runner import Patience, run_job
from core.paths import Paths
from tests.core.jobs import works
patience = Patience(to_hear=0.5, to_end=0.5)
paths = Paths.from_environ(os.environ)
work = getattr(works, sys.argv[1])
sys.exit(run_job(sys.argv[2], work, paths=paths, environ={}, patience=patience))
"""


@pytest.mark.parametrize("work", ["deaf", "stubborn", "saving"])
def test_no_work_outlives_the_wish_for_long(desk: Desk, work: str) -> None:
    command = [sys.executable, "-c", _IMPATIENT, work]
    job = start_job(desk.store, "finetune", {}, command=command, environ=desk.environ)
    wait_until(lambda: len(types_of(job)) > 1)
    assert cancel_job(desk.store, job.id, patience=30).error == "cancelled"
    owner = desk.job(job.id).owner
    wait_until(lambda: process_born(owner.pid) != owner.born)
    assert types_of(job)[-1] == "failed"


# Turns


def test_a_job_waits_for_a_command_in_the_foreground(desk: Desk) -> None:
    with hold_lease(desk.paths.lease_file, what="mlxbun train", on_wait=None):
        job = desk.start("quick")
        told = f"Waits for mlxbun train, process {os.getpid()}."
        wait_until(lambda: desk.job(job.id).message == told)
        assert desk.job(job.id).status == "queued"
    assert desk.end(job).status == "done"


def test_a_command_in_the_foreground_hears_of_a_job(desk: Desk) -> None:
    job = desk.running(desk.start("busy"))
    with (
        pytest.raises(AlreadyRunning) as refusal,
        hold_lease(desk.paths.lease_file, what="mlxbun train", on_wait=None),
    ):
        pass
    holder = f"job {job.id} (finetune), process {job.owner.pid}"
    assert refusal.value.message == f"The accelerator is in use by {holder}."


def test_jobs_take_turns_in_their_order(desk: Desk, tmp_path: Path) -> None:
    gate = tmp_path / "gate"
    first = desk.running(desk.start("until", gate=str(gate)))
    others = [desk.start("quick", kind="quantize")]
    wait_until(lambda: desk.job(others[0].id).message)
    others.append(desk.start("quick"))
    wait_until(lambda: desk.job(others[1].id).message)
    held = f"Waits for job {first.id} (finetune), process {first.owner.pid}."
    assert desk.job(others[0].id).message == held
    came_before = f"Waits for job {others[0].id} (quantize), which came before."
    assert desk.job(others[1].id).message == came_before
    assert {desk.job(job.id).status for job in others} == {"queued"}
    free = desk.start("quick", kind="dataset", accelerator=False)
    assert desk.end(free).status == "done"
    gate.touch()
    ended = [desk.end(job) for job in (first, *others)]
    assert [job.status for job in ended] == ["done"] * 3
    starts = [datetime.fromisoformat(job.started_at) for job in ended]
    assert starts == sorted(starts)
    assert ended[0].ended_at is not None
    assert datetime.fromisoformat(ended[0].ended_at) <= starts[1]


def test_the_next_one_goes_on_when_a_holder_is_killed(desk: Desk) -> None:
    first = desk.running(desk.start("busy"))
    second = desk.start("quick")
    wait_until(lambda: desk.job(second.id).message)
    os.kill(first.owner.pid, signal.SIGKILL)
    assert desk.end(second).status == "done"
    assert desk.end(first).status == "zombie"


# Tails


def test_a_tail_reads_all_of_it_once(desk: Desk) -> None:
    job = desk.start("busy", steps=300)
    tail = Tail(desk.store, job)
    events = []
    while not tail.over:
        events += tail.read()
    assert events == events_of(job)
    assert [event["step"] for event in events[1:-1]] == list(range(1, 301))
    assert (tail.job.status, events[-1]["type"]) == ("done", "done")
    assert tail.read() == []
    assert JobStore(desk.paths.jobs_folder).get(job.id) == tail.job
