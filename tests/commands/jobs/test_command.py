"""`mlxbun jobs` as a user runs it."""

from __future__ import annotations

import json
import os
import signal
import sqlite3
import subprocess

import pytest

from core.jobs.log import LogWriter
from mlxbun_cli.completion.command import complete
from tests.core.jobs.desk import Desk, events_of, types_of
from tests.processes import SCRIPT, mlxbun


def _run(desk: Desk, *words: str) -> subprocess.CompletedProcess[str]:
    return mlxbun("jobs", *words, environ=desk.environ)


def test_where_there_are_none(desk: Desk) -> None:
    done = _run(desk, "list")
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "There is no job yet.\n")
    assert json.loads(_run(desk, "list", "--json").stdout) == {"schema": 1, "jobs": []}
    for verb in ("show", "logs", "cancel"):
        done = _run(desk, verb, "1a2b")
        assert done.returncode == 3
        assert done.stderr.startswith("mlxbun: There is no job '1a2b'.\n")
    assert not desk.paths.jobs_folder.exists()


def test_a_job_that_is_done(desk: Desk) -> None:
    job = desk.end(desk.start("quick", rank=16))
    desk.end(desk.start("wrong", kind="quantize"))
    listed = _run(desk, "list").stdout.splitlines()
    assert listed[0].split() == ["JOB", "KIND", "STATUS", "DONE", "STARTED", "(UTC)"]
    assert [line.split()[1:3] for line in listed[1:]] == [
        ["quantize", "failed"],
        ["finetune", "done"],
    ]
    only = json.loads(_run(desk, "list", "--kind", "finetune", "--json").stdout)["jobs"]
    assert [each["id"] for each in only] == [job.id]
    assert len(json.loads(_run(desk, "list", "--limit", "1", "--json").stdout)["jobs"]) == 1
    shown = json.loads(_run(desk, "show", job.id[:6], "--json").stdout)["job"]
    assert shown == only[0]
    assert json.loads(shown["config_json"]) == {"rank": 16}
    assert (shown["status"], shown["pid"], shown["log_path"]) == ("done", None, str(job.log_path))
    record = _run(desk, "show", job.id).stdout
    assert "rank  16" in record
    assert "/made/here" in record


def test_logs_in_words_and_as_json(desk: Desk) -> None:
    job = desk.end(desk.start("quick"))
    lines = _run(desk, "logs", job.id).stdout.splitlines()
    assert lines[0].startswith("started 20")
    assert lines[1:4] == [
        "10% loading the model",
        "train step 1: loss 2.5, learning_rate 0.0001",
        "nearly there",
    ]
    assert lines[4].startswith("done 20")
    assert lines[4].endswith(": /made/here")
    printed = [
        json.loads(line) for line in _run(desk, "logs", job.id, "--json").stdout.splitlines()
    ]
    assert printed == [{"schema": 1, **event} for event in events_of(job)]


def test_figures_have_their_units(desk: Desk) -> None:
    job = desk.end(desk.start("quick"))
    metric = {"type": "metric", "kind": "train", "step": 3, "steps": 9, "loss": None}
    more = {"memory_bytes": 1_500_000_000, "seconds_left": 75.0, "trained_tokens": 12, "note": "x"}
    LogWriter(job.log_path).write(metric | more)
    assert _run(desk, "logs", job.id).stdout.splitlines()[-1] == (
        "train step 3 of 9: loss is not a number, memory 1.5 GB, 1 min 15 s left,"
        " trained_tokens 12, note x"
    )
    job.log_path.unlink()
    told = f"Job {job.id} has told nothing, or its log was tidied away.\n"
    assert _run(desk, "logs", job.id).stderr == told


def test_following_ends_with_the_job(desk: Desk) -> None:
    job = desk.start("busy", steps=200)
    done = _run(desk, "logs", "--follow", job.id)
    assert done.returncode == 0
    assert len(done.stdout.splitlines()) == 202
    failed = desk.start("wrong")
    done = _run(desk, "logs", "-f", failed.id, "--json")
    assert done.returncode == 1
    error = f"Job {failed.id} has failed: internal error: ValueError: first line"
    assert done.stderr == f"mlxbun: {error}\n"
    last = json.loads(done.stdout.splitlines()[-1])
    assert (last["event"], last["error"]["message"]) == ("failed", error)
    assert _run(desk, "logs", failed.id).returncode == 0


def test_following_a_job_whose_process_is_killed(desk: Desk) -> None:
    job = desk.running(desk.start("busy"))
    command = [SCRIPT, "jobs", "logs", "-f", job.id]
    with subprocess.Popen(
        command, env=desk.environ, stdout=subprocess.PIPE, stderr=subprocess.PIPE
    ) as watching:
        assert watching.stdout is not None
        watching.stdout.readline()
        os.kill(job.owner.pid, signal.SIGKILL)
        _, err = watching.communicate(timeout=30)
    assert watching.returncode == 1
    assert b"has failed: Its process ended without a word" in err
    assert desk.job(job.id).status == "zombie"


def test_ctrl_c_ends_the_watching_alone(desk: Desk) -> None:
    job = desk.running(desk.start("busy"))
    command = [SCRIPT, "jobs", "logs", "-f", job.id]
    with subprocess.Popen(
        command, env=desk.environ, stdout=subprocess.PIPE, stderr=subprocess.PIPE
    ) as watching:
        assert watching.stdout is not None
        watching.stdout.readline()
        watching.send_signal(signal.SIGINT)
        _, err = watching.communicate(timeout=30)
    assert watching.returncode == 130
    assert f"Job {job.id} goes on".encode() in err
    assert desk.job(job.id).status == "running"
    done = _run(desk, "cancel", job.id)
    assert (done.returncode, done.stderr) == (0, f"Job {job.id} is cancelled.\n")
    assert desk.job(job.id).error == "cancelled"


def test_cancelling_what_is_over(desk: Desk) -> None:
    job = desk.end(desk.start("quick"))
    done = _run(desk, "cancel", job.id, "--json")
    assert done.returncode == 2
    assert json.loads(done.stdout)["error"]["message"] == f"Job {job.id} is over already: done."


def test_cancelling_by_json(desk: Desk) -> None:
    job = desk.running(desk.start("saving"))
    told = json.loads(_run(desk, "cancel", job.id, "--json").stdout)["job"]
    assert (told["id"], told["status"], told["error"]) == (job.id, "failed", "cancelled")


@pytest.mark.parametrize(
    ("words", "error"),
    [
        (
            ["list", "--kind", "cooking"],
            "--kind is one of quantize, finetune, dataset, not 'cooking'.",
        ),
        (["list", "--limit", "0"], "--limit is at least 1."),
    ],
)
def test_wrong_words(desk: Desk, words: list[str], error: str) -> None:
    done = _run(desk, *words)
    assert (done.returncode, done.stderr) == (2, f"mlxbun: {error}\n")


def test_a_damaged_list_is_said(desk: Desk) -> None:
    desk.paths.jobs_folder.mkdir(parents=True)
    (desk.paths.jobs_folder / "jobs.db").write_bytes(b"no database " * 100)
    done = _run(desk, "list")
    assert done.returncode == 0
    assert "is damaged" in done.stderr


def test_damaged_rows_and_lines_are_shown_as_far_as_they_go(desk: Desk) -> None:
    job = desk.end(desk.start("quick"))
    LogWriter(job.log_path).write({"type": "started", "ts": 10**20})
    assert _run(desk, "logs", job.id).returncode == 0
    with sqlite3.connect(desk.paths.jobs_folder / "jobs.db") as connection:
        connection.execute("UPDATE job SET config_json = '{', progress = 'much'")
    for words in (("list",), ("show", job.id)):
        done = _run(desk, *words)
        assert done.returncode == 0, done.stderr
        assert job.id in done.stdout


def test_a_hint_names_a_few_jobs(desk: Desk) -> None:
    for _ in range(40):  # of which some begin alike
        desk.store.add("dataset", {})
    ids = [job.id for job in desk.store.recent()]
    first = max("0123456789abcdef", key=lambda digit: sum(i.startswith(digit) for i in ids))
    done = _run(desk, "show", first)
    assert done.returncode == 3
    assert done.stderr.count(", ") < 9


def test_what_a_program_printed_moves_no_cursor(desk: Desk) -> None:
    job = desk.end(desk.start("quick"))
    log = LogWriter(job.log_path)
    log.write({"type": "log", "line": "\x1b[2Jred\rover"})
    log.write({"type": "of the future", "x": 1})
    printed = _run(desk, "logs", job.id).stdout
    assert "\ufffd[2Jred\ufffdover\n" in printed
    assert "future" not in printed
    assert types_of(job)[-1] == "of the future"


def test_tab_offers_jobs(desk: Desk) -> None:
    over, running = desk.end(desk.start("quick")), desk.running(desk.start("busy"))

    def offered(*words: str) -> list[str]:
        return complete("fish", words, desk.environ)[1:]

    both = [f"{running.id}\tfinetune, running", f"{over.id}\tfinetune, done"]
    assert offered("jobs", "show", "") == both
    assert offered("jobs", "logs", over.id[:7]) == both[1:]
    assert offered("jobs", "cancel", "") == both[:1]
    kinds = [line.split("\t")[0] for line in offered("jobs", "list", "--kind", "")]
    assert kinds == ["quantize", "finetune", "dataset"]
