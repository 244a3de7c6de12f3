"""The accelerator's lease: one holder, who is named, and none that is dead."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from core.errors import AlreadyRunning, MlxbunError
from core.jobs.lease import hold_lease, lease_holder, try_lease
from tests.processes import wait_until


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "run" / "accelerator.lock"


def test_one_holds_it_and_is_named(path: Path) -> None:
    assert lease_holder(path) is None
    lease = try_lease(path, what="mlxbun train")
    assert lease is not None
    assert try_lease(path, what="another") is None
    holder = lease_holder(path)
    assert str(holder) == f"mlxbun train, process {os.getpid()}"
    with (
        pytest.raises(AlreadyRunning, match=r"is in use by mlxbun train, process \d+\.") as refusal,
        hold_lease(path, what="another", on_wait=None),
    ):
        pass
    assert refusal.value.hint is not None
    lease.release()
    assert lease_holder(path) is None
    with hold_lease(path, what="another", on_wait=None):
        assert try_lease(path, what="third") is None
    assert try_lease(path, what="third") is not None


def test_one_waits_for_it(path: Path) -> None:
    lease = try_lease(path, what="first")
    assert lease is not None
    told: list[str] = []
    waiting = threading.Event()

    def release() -> None:
        waiting.wait(10)
        assert lease is not None
        lease.release()

    def wait(holder: str) -> None:
        told.append(holder)
        waiting.set()

    thread = threading.Thread(target=release)
    thread.start()
    with hold_lease(path, what="second", on_wait=wait):
        pass
    thread.join()
    assert told == [f"first, process {os.getpid()}"]


def test_a_dead_holder_holds_nothing(path: Path) -> None:
    script = (
        "import sys, time; from pathlib import Path; from core.jobs.lease import try_lease;"
        "lease = try_lease(Path(sys.argv[1]), what='a job'); print(lease, flush=True);"
        "time.sleep(60)"
    )
    process = subprocess.Popen(
        [sys.executable, "-c", script, str(path)], stdout=subprocess.PIPE, text=True
    )
    assert process.stdout is not None
    assert "Lease" in process.stdout.readline()
    assert try_lease(path, what="me") is None
    assert str(lease_holder(path)) == f"a job, process {process.pid}"
    process.send_signal(signal.SIGKILL)
    process.wait()
    process.stdout.close()
    assert lease_holder(path) is None
    assert try_lease(path, what="me") is not None


@pytest.mark.parametrize(
    "data", [b"", b"{", b"[]", b'{"what":"x"}', b'{"what":"x","pid":"y","born":"z"}']
)
def test_a_file_that_names_nobody(path: Path, data: bytes) -> None:
    path.parent.mkdir()
    path.write_bytes(data)
    assert lease_holder(path) is None
    assert try_lease(path, what="me") is not None


def test_children_do_not_inherit_it(path: Path) -> None:
    lease = try_lease(path, what="me")
    assert lease is not None
    child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(60)"])
    lease.release()
    wait_until(lambda: try_lease(path, what="next") is not None, 5)
    child.kill()
    child.wait()


def test_a_file_that_was_tidied_away_is_not_the_lease(path: Path) -> None:
    first = try_lease(path, what="first")
    assert first is not None
    path.unlink()
    second = try_lease(path, what="second")
    assert second is not None
    assert try_lease(path, what="third") is None


def test_a_lease_that_cannot_be_written_is_told(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    place = tmp_path / "file" / "lease"
    with (
        pytest.raises(MlxbunError, match="cannot be written"),
        hold_lease(place, what="x", on_wait=None),
    ):
        pass
