"""Jobs that the scenes show: made up, and the same every time."""

from __future__ import annotations

import sqlite3
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

from core.jobs.job import Job
from core.jobs.log import Event, LogWriter
from core.jobs.run import JobRun, Outcome
from core.jobs.store import JobStore
from scripts.docs.places import ROOT

DONE, BROKEN, RUNNING = "7d20c1f4", "b81e5a90", "3fa94c02"

_BEGUN = 1_764_410_400.0  # 2025-11-29 10:00 UTC
_MODEL = "acme/Brook-1B-Instruct"


def add_jobs(home: Path) -> None:
    """Fill a home: a job that is done, one that failed, and one that this process runs."""
    store = JobStore(home / ".mlxbun" / "jobs", clock=lambda: _BEGUN)
    made = str(home / "notes-lora")
    config = {"model_dir": _MODEL, "data_dir": str(home / "notes"), "adapter_path": made}
    done = _add(store, DONE, config | {"method": "sft", "rank": 16, "iters": 300})
    ended_at = "2025-11-29T10:14:22.481+00:00"
    store.save(replace(done, status="done", progress=1.0, output_path=made, ended_at=ended_at))
    _write(done, _events(made))
    failed = _add(store, BROKEN, config | {"method": "orpo"})
    error = "Row 17 of train.jsonl has no rejected answer. Mend it, or leave strict out."
    store.save(replace(failed, status="failed", error=error, ended_at=failed.started_at))
    _write(failed, [_moment("started", 0), _moment("failed", 3, error=error)])
    running = _add(store, RUNNING, config | {"method": "dpo"})
    store.save(replace(running, status="running", progress=0.42, message="training"))


@contextmanager
def waiting_job(home: Path, environ: Mapping[str, str]) -> Iterator[None]:
    """Let the running job have a process of its own while the block runs."""
    store = JobStore(home / ".mlxbun" / "jobs")
    _change(store, RUNNING, claimed=0, status="queued")
    command = [sys.executable, "-m", "mlxbun_cli.job", "scripts.docs.jobs:wait", RUNNING]
    process = subprocess.Popen(command, cwd=ROOT, env={**environ, "PYTHONPATH": str(ROOT)})
    try:
        while (job := store.get(RUNNING)) is not None and job.status == "queued":
            time.sleep(0.05)
        yield
    finally:
        process.kill()
        process.wait()


def wait(run: JobRun) -> Outcome:
    """Be cancelled."""
    while True:
        run.check()
        time.sleep(0.02)


def _add(store: JobStore, job_id: str, config: Mapping[str, Any]) -> Job:
    new = store.add("finetune", config)
    _change(store, new.id, id=job_id)
    return store.claim(job_id)


def _change(store: JobStore, job_id: str, **columns: Any) -> None:
    job = store.get(job_id)
    assert job is not None
    with sqlite3.connect(job.log_path.parent / "jobs.db") as connection:
        assigned = ", ".join(f"{name} = ?" for name in columns)
        connection.execute(f"UPDATE job SET {assigned} WHERE id = ?", (*columns.values(), job_id))


def _events(made: str) -> list[Event]:
    losses = {100: 1.41, 200: 0.87, 300: 0.633}
    steps = [
        {"type": "metric", "kind": "train", "step": step, "loss": loss, "learning_rate": 2e-4}
        for step, loss in losses.items()
    ]
    return [
        _moment("started", 0),
        {"type": "log", "line": "412 rows to learn from, 46 to measure on"},
        {"type": "stage", "stage": "train", "progress": 0.02, "message": "training"},
        *steps,
        {"type": "metric", "kind": "val", "step": 300, "loss": 0.702},
        _moment("done", 862, output_dir=made, summary={"val_loss": 0.702}),
    ]


def _moment(kind: str, seconds: int, **more: Any) -> Event:
    return {"type": kind, "ts": int((_BEGUN + seconds) * 1000), **more}


def _write(job: Job, events: list[Event]) -> None:
    log = LogWriter(job.log_path)
    for event in events:
        log.write(event)
    log.close()
