"""A crash between any two steps leaves a cache that huggingface_hub reads, and the next gc tidies.

The process ends as by kill -9: nothing that would run at the end of a block runs.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from huggingface_hub import scan_cache_dir, snapshot_download
from huggingface_hub.utils import _shared_blobs

from core.gc.locks import is_held
from tests.core.gc.box import DAY, MAIN, OLD, Box, age, commits
from tests.processes import wait_until

FILES = {"config.json": b"{}", "deep/er/tokenizer.json": b"t"}
STEPS = ("unlink", "rename", "replace", "rmdir", "mkdir")
KILLED = 77


def fill(box: Box) -> None:
    """Make a cache with something of every kind to delete."""
    for links, name in ((True, "models--org--one"), (False, "datasets--org--two")):
        box.add("a" * 40, {**FILES, "w": b"a" * 50, "s": b"s" * 9}, repo=name, links=links)
        box.add(OLD, {**FILES, "w": b"b" * 50, "s": b"s" * 9}, repo=name, links=links, days=30)
        box.add(MAIN, {**FILES, "w": b"c" * 50, "s": b"t"}, repo=name, links=links, refs=["main"])
        blobs, locks = box.repo(name) / "blobs", box.hub / ".locks" / name
        locks.mkdir(parents=True)
        for path in (blobs / "orphan", blobs / "x.incomplete", locks / "x.lock"):
            path.write_bytes(b"x")
            age(path, 3)
    age(share(box, "models--org--one", b"shared by nobody else"), 30)
    stage = box.hub / ".locks" / "mlxbun-abc"
    (stage / "files").mkdir(parents=True)
    (stage / "files" / "w").write_bytes(b"w")
    for path in (stage / "files" / "w", stage / "files", stage):
        age(path, 3)


def share(box: Box, repo: str, data: bytes) -> Path:
    """Put a content of the old snapshot into the shared store, as huggingface_hub does it."""
    blob = box.blob(data, repo=repo)
    blob.write_bytes(data)
    (box.repo(repo) / "snapshots" / OLD / "s").unlink()
    (box.repo(repo) / "snapshots" / OLD / "s").symlink_to(f"../../blobs/{blob.name}")
    hashed = f"{len(data):064x}"
    assert _shared_blobs.publish_blob_to_shared_store(
        blob_path=str(blob), xet_hash=hashed, cache_dir=box.hub, expected_size=len(data)
    )
    return _shared_blobs.shared_blob_path(box.hub, hashed)


def crash_after(step: int, box: Box) -> int:
    """Delete in another process that ends after some steps; return its exit code."""
    child = os.fork()
    if child:
        return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    left = step

    def counted(act: Callable[..., Any]) -> Callable[..., Any]:
        def act_and_count(*arguments: Any, **more: Any) -> Any:
            nonlocal left
            done = act(*arguments, **more)
            left -= 1
            if left == 0:
                os._exit(KILLED)
            return done

        return act_and_count

    try:
        plan = box.plan(older_than=DAY)
        for name in STEPS:
            setattr(os, name, counted(getattr(os, name)))
        box.execute(plan)
    except BaseException:
        os._exit(1)
    os._exit(0)


def check(box: Box) -> None:
    """Check that others find everything that had to stay."""
    cached = scan_cache_dir(box.hub)
    assert not cached.warnings
    for repo_type, repo_id, name in (
        ("model", "org/one", "models--org--one"),
        ("dataset", "org/two", "datasets--org--two"),
    ):
        found = Path(
            snapshot_download(
                repo_id, repo_type=repo_type, cache_dir=box.hub, local_files_only=True
            )
        )
        assert found == box.repo(name) / "snapshots" / MAIN
        files = {p.relative_to(found).as_posix(): p for p in found.rglob("*") if p.is_file()}
        assert {name: path.read_bytes() for name, path in files.items()} == {
            **FILES,
            "w": b"c" * 50,
            "s": b"t",
        }
    # What is left of a superseded snapshot is the whole of it.
    for path in box.hub.glob("*/snapshots/*"):
        assert len([p for p in path.rglob("*") if p.exists() and not p.is_dir()]) == 4


def test_a_crash_after_any_step(tmp_path: Path) -> None:
    steps = 0
    while True:
        steps += 1
        box = Box.at(tmp_path / str(steps))
        fill(box)
        code = crash_after(steps, box)
        check(box)
        assert code in (KILLED, 0)
        box.gc(older_than=DAY)
        check(box)
        # Where huggingface_hub reads there is nothing left to do, and elsewhere nothing to see.
        assert [item.what for item in box.plan(older_than=DAY).items] == []
        left = [path.name for path in box.hub.rglob("*") if path.suffix != ".lock"]
        assert not [name for name in left if ".mlxbun" in name or "orphan" in name]
        if code == 0:
            break
    assert steps > 45


def test_ctrl_c_between_two_steps(box: Box, monkeypatch: pytest.MonkeyPatch) -> None:
    fill(box)
    plan = box.plan()
    calls = []

    def interrupted(*arguments: Any, **more: Any) -> None:
        calls.append(1)
        if len(calls) == 7:
            raise KeyboardInterrupt
        unlink(*arguments, **more)

    unlink = os.unlink
    monkeypatch.setattr(os, "unlink", interrupted)
    with pytest.raises(KeyboardInterrupt):
        box.execute(plan)
    monkeypatch.undo()
    check(box)
    box.gc()
    check(box)
    assert box.plan().items == ()


_SLOW = """
import os, sys, time
from pathlib import Path
from tests.core.gc.box import Box
unlink = os.unlink
def slow(*arguments, **more):
    unlink(*arguments, **more)
    time.sleep(0.02)
os.unlink = slow
box = Box.at(Path(sys.argv[1]))
plan = box.plan()
print("go", flush=True)
box.execute(plan)
"""


@pytest.mark.parametrize("moment", [0.03, 0.11, 0.19, 0.27])
def test_killed_at_any_moment(box: Box, moment: float) -> None:
    fill(box)
    command = [sys.executable, "-c", _SLOW, str(box.hub.parent)]
    with subprocess.Popen(command, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        process.stdout.readline()
        time.sleep(moment)
        process.send_signal(signal.SIGKILL)
    check(box)
    wait_until(lambda: not is_held(box.hub / ".locks" / "mlxbun.gc.lock"))
    box.gc()
    check(box)
    assert commits(box.plan()) == []
