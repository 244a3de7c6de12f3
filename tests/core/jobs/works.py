"""What jobs of tests do, each in a process of its own: `python -m mlxbun_cli.job here:quick ID`."""

from __future__ import annotations

import os
import resource
import signal
import subprocess
import sys
import time
from pathlib import Path

import core.jobs.run
from core.errors import DoesNotFit
from core.jobs.job import Job
from core.jobs.run import JobRun, Outcome
from core.jobs.stop import Cancelled
from core.jobs.store import JobStore


def quick(run: JobRun) -> Outcome:
    run.stage("load", 0.1, "loading the model")
    run.metric("train", 1, 2.5, progress=0.5, learning_rate=1e-4, grad_norm=float("nan"))
    run.log("nearly there")
    return Outcome(output_dir="/made/here", summary={"steps": 1, "rank": run.config.get("rank")})


def busy(run: JobRun) -> Outcome:
    """Tell a step every few milliseconds, for as long as it is let."""
    steps = int(run.config.get("steps", 100_000))
    for step in range(1, steps + 1):
        run.metric("train", step, 1.0 / step, progress=step / steps)
        time.sleep(0.002)
    return Outcome(output_dir="/made/here")


def saving(run: JobRun) -> Outcome:
    """End in order: tell what is kept."""
    try:
        return busy(run)
    except Cancelled:
        run.log("saved a checkpoint")
        raise


def deaf(run: JobRun) -> Outcome:
    """Say nothing, and never ask whether it is to end."""
    run.log("deaf from here on")
    while True:
        time.sleep(0.01)


def stubborn(run: JobRun) -> Outcome:
    """Do not end at all."""
    run.log("stubborn from here on")
    while True:
        try:
            time.sleep(60)
        except KeyboardInterrupt:
            continue


def polite(run: JobRun) -> Outcome:
    """Ask between two steps, and say by itself that it was ended."""
    step = 0
    while not run.is_cancelled:
        step += 1
        run.tell({"type": "metric", "kind": "train", "step": step, "loss": 1.0}, progress=0.5)
        time.sleep(0.002)
    run.tell({"type": "log", "line": "saved a checkpoint"})
    raise Cancelled


def obedient(run: JobRun) -> Outcome:
    """Swallow the wish, and end at once all the same."""
    try:
        return busy(run)
    except KeyboardInterrupt:
        return Outcome(output_dir="/half")


def wrong(_run: JobRun) -> Outcome:
    raise ValueError("first line\nsecond line")


def too_large(_run: JobRun) -> Outcome:
    raise DoesNotFit("It needs 9 GB.", need=9, have=8, hint="Take a smaller batch.")


def leaving(_run: JobRun) -> Outcome:
    sys.exit(3)


def loud(run: JobRun) -> Outcome:
    say, complain = sys.stdout.write, sys.stderr.write
    say("printed\n")
    complain("warned\n")
    subprocess.run([sys.executable, "-c", "print('from a child')"], check=True)
    say("\r 1%")
    say("\r99%\r100%\n")
    os.write(1, b"bytes \xff\n")
    say("x" * 100_000 + "\n")
    run.log("told")
    say("no end of line")
    return Outcome(output_dir="/loud")


def crash(run: JobRun) -> Outcome:
    run.stage("train", 0.3, "training")
    os.write(2, b"terminating due to uncaught exception: Insufficient Memory\n")
    os.abort()


def until(run: JobRun) -> Outcome:
    """Wait for a file, whose path the config holds."""
    gate = Path(run.config["gate"])
    while not gate.exists():
        run.check()
        time.sleep(0.01)
    return Outcome(output_dir=str(gate))


def unkept(_run: JobRun) -> Outcome:
    """Be killed between the log's last event and the row."""
    save = JobStore.save

    def save_or_die(self: JobStore, job: Job) -> bool:
        if job.is_over:
            os.kill(os.getpid(), signal.SIGKILL)
        return save(self, job)

    JobStore.save = save_or_die  # type: ignore[method-assign]
    return Outcome(output_dir="/made/here")


def cramped(run: JobRun) -> Outcome:
    """Run on a disk that is full, for a while or for good."""
    run.metric("train", 1, 1.0)
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    size = run.job.log_path.stat().st_size
    resource.setrlimit(resource.RLIMIT_FSIZE, (size + 100, limits[1]))
    for step in range(2, 300):
        run.metric("train", step, 1.0, progress=step / 300)
        time.sleep(0.005)
    if run.config["for_good"]:
        core.jobs.run._FAREWELL = 0.5
    else:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    return Outcome(output_dir="/made/here")
