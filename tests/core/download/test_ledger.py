"""The list of downloads: of all processes, true after any has died, one for each repository."""

from __future__ import annotations

import os
import platform
import sqlite3
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from core.download.job import start_download
from core.download.ledger import INTERRUPTED, Ledger
from core.download.patience import Patience
from core.errors import AlreadyRunning, DownloadFailed, MlxbunError
from core.progress import Progress, Transfer
from core.servers import process_born
from tests.core.download.conftest import REPO, WANTED_BYTES, WEIGHTS, Desk
from tests.fakehub import Fault
from tests.processes import wait_until

NOW = Transfer(
    task=REPO,
    moving=(Progress(task="b.safetensors", done=5, total=10),),
    done=15,
    total=20,
    rate=2.5,
    files_done=1,
    files_total=2,
)


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "cache" / "downloads.db"


class Clock:
    def __init__(self) -> None:
        self.now = 1_000_000.0

    def __call__(self) -> float:
        return self.now


def test_a_download_from_its_start_to_its_end(file: Path) -> None:
    clock = Clock()
    ledger = Ledger(file, clock=clock)
    number = ledger.begin(REPO, "main")
    (record,) = ledger.recent()
    assert (record.repo_id, record.revision, record.state) == (REPO, "main", "running")
    assert (record.pid, record.born) == (os.getpid(), process_born(os.getpid()))
    clock.now += 1
    ledger.report(number, NOW)
    (record,) = ledger.recent()
    assert (record.current_file, record.done_bytes, record.total_bytes) == ("b.safetensors", 15, 20)
    assert (record.files_done, record.files_total, record.bytes_per_second) == (1, 2, 2.5)
    assert (record.started_at, record.updated_at) == (1_000_000.0, 1_000_001.0)
    assert record.finished_at is None
    ledger.end(number, "failed", error="It rained.")
    (record,) = ledger.recent()
    assert (record.state, record.error, record.finished_at) == ("failed", "It rained.", clock.now)
    assert (record.current_file, record.bytes_per_second, record.done_bytes) == (None, 0, 15)


def test_a_rate_grows_old(file: Path) -> None:
    clock = Clock()
    ledger = Ledger(file, clock=clock)
    ledger.report(ledger.begin(REPO, "main"), NOW)
    clock.now += 5
    assert ledger.recent()[0].bytes_per_second == 2.5
    clock.now += 5
    assert ledger.recent()[0].bytes_per_second == 0


def test_the_newest_come_first_and_old_ones_go(file: Path) -> None:
    ledger = Ledger(file)
    for number in range(120):
        ledger.end(ledger.begin(f"org/m{number}", "main"), "done")
    assert [record.repo_id for record in ledger.recent(3)] == ["org/m119", "org/m118", "org/m117"]
    assert len(ledger.recent(1000)) == 100


def test_the_same_repository_twice_is_refused_in_any_revision(file: Path) -> None:
    ledger = Ledger(file)
    number = ledger.begin(REPO, "main")
    with pytest.raises(AlreadyRunning, match="A download of org/name is already in progress"):
        Ledger(file).begin(REPO, "v1")
    other = ledger.begin("org/other", "main")
    assert [record.id for record in ledger.running()] == [other, number]
    ledger.end(number, "cancelled")
    ledger.end(other, "done")
    ledger.end(ledger.begin(REPO, "v1"), "done")
    assert ledger.running() == []


_HOLDS = """
import sys
from pathlib import Path
from core.download.ledger import Ledger
Ledger(Path(sys.argv[1])).begin("org/name", "main")
print("begun", flush=True)
sys.stdin.read()
"""


def test_a_process_that_is_gone_has_failed_and_stands_in_nobodys_way(file: Path) -> None:
    with subprocess.Popen(
        [sys.executable, "-c", _HOLDS, str(file)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "begun\n"
        ledger = Ledger(file)
        assert [record.pid for record in ledger.running()] == [process.pid]
        with pytest.raises(AlreadyRunning, match=str(process.pid)):
            ledger.begin(REPO, "main")
        process.kill()
    (record,) = ledger.recent()
    assert (record.state, record.error) == ("failed", INTERRUPTED)
    assert record.finished_at == record.updated_at
    ledger.end(ledger.begin(REPO, "main"), "done")
    assert [record.state for record in ledger.recent()] == ["done", "failed"]


def _forge(file: Path, **values: object) -> None:
    with sqlite3.connect(file) as connection:
        for name, value in values.items():
            connection.execute(f"UPDATE download SET {name} = ?", (value,))
    connection.close()


@pytest.mark.parametrize(
    ("values", "runs"),
    [
        ({"pid": os.getppid(), "born": process_born(os.getppid())}, True),
        ({"pid": os.getppid(), "born": "another process with that number"}, False),
        ({"machine": "elsewhere", "pid": 1, "born": "x"}, True),
        ({"machine": "elsewhere", "updated_at": 999_000.0}, False),
        ({"pid": os.getppid(), "born": process_born(os.getppid()), "updated_at": 1.0}, False),
    ],
)
def test_whose_entries_live(file: Path, values: dict[str, object], runs: bool) -> None:
    ledger = Ledger(file, clock=Clock())
    ledger.begin(REPO, "main")
    _forge(file, **values)
    assert bool(ledger.running()) is runs
    if runs:
        with pytest.raises(AlreadyRunning):
            ledger.begin(REPO, "main")
    else:
        ledger.end(ledger.begin(REPO, "main"), "done")


def test_an_end_that_could_not_be_written_still_is_one(
    file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ledger = Ledger(file)
    number = ledger.begin(REPO, "main")
    with monkeypatch.context() as patch:
        patch.setattr(sqlite3, "connect", _refuse)
        with pytest.raises(MlxbunError, match="cannot be written: disk I/O error"):
            ledger.end(number, "failed")
    assert ledger.recent()[0].state == "failed"
    ledger.end(ledger.begin(REPO, "main"), "done")


def _refuse(*_what: object, **_more: object) -> None:
    raise sqlite3.OperationalError("disk I/O error")


@pytest.mark.parametrize("rubbish", [b"", b"this is no database" * 100, b"SQLite format 3\0" * 99])
def test_a_damaged_file_is_made_anew(file: Path, rubbish: bytes) -> None:
    file.parent.mkdir(parents=True)
    file.write_bytes(rubbish)
    ledger = Ledger(file)
    assert ledger.recent() == []
    ledger.end(ledger.begin(REPO, "main"), "done")
    assert [record.state for record in ledger.recent()] == ["done"]


def test_no_file_is_an_empty_list_and_reading_makes_none(file: Path) -> None:
    assert Ledger(file).recent() == []
    assert not file.parent.exists()


def test_what_the_system_refuses_is_told_in_words(file: Path) -> None:
    file.parent.parent.mkdir(parents=True, exist_ok=True)
    file.parent.write_bytes(b"")
    with pytest.raises(MlxbunError, match=r"cannot be written: \w[\w ]+\.$"):
        Ledger(file).begin(REPO, "main")


def test_a_folder_in_its_place_is_one_sentence(file: Path) -> None:
    file.mkdir(parents=True)
    with pytest.raises(MlxbunError) as caught:
        Ledger(file).begin(REPO, "main")
    assert "\n" not in caught.value.message
    assert Ledger(file).recent() == []


def test_of_many_that_begin_at_once_one_comes_through(file: Path) -> None:
    results: list[object] = []
    gate = threading.Barrier(8)

    def begin() -> None:
        gate.wait()
        try:
            results.append(Ledger(file).begin(REPO, "main"))
        except AlreadyRunning as refused:
            results.append(refused)

    threads = [threading.Thread(target=begin) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(30)
    assert sorted(isinstance(result, int) for result in results) == [False] * 7 + [True]


# With downloads


def test_a_running_download_is_seen_and_a_second_one_refused(desk: Desk) -> None:
    desk.hub.faults = [Fault(name=WEIGHTS, stall=100_000)]
    ledger = Ledger(desk.paths.downloads_file)
    patience = Patience(stall_seconds=60)
    work = start_download(desk.request(patience=patience), paths=desk.paths, environ=desk.environ)
    with pytest.raises(AlreadyRunning):
        start_download(desk.request(), paths=desk.paths, environ=desk.environ)
    wait_until(lambda: ledger.recent()[0].done_bytes >= 100_000)
    (record,) = ledger.recent()
    assert (record.state, record.current_file) == ("running", WEIGHTS)
    assert (record.total_bytes, record.files_total) == (WANTED_BYTES, 4)
    assert record.bytes_per_second > 0
    work.cancel()
    with pytest.raises(DownloadFailed):
        work.result()
    desk.fetch()
    assert [record.state for record in ledger.recent()] == ["done", "cancelled"]
    assert ledger.recent()[0].machine == platform.node()
