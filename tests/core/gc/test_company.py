"""What others are at work with stays: servers, downloads of ours and of huggingface_hub."""

from __future__ import annotations

import json
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path

import pytest
from filelock import FileLock
from huggingface_hub import scan_cache_dir

from core.download.job import DownloadRequest, start_download
from core.download.ledger import Ledger
from core.download.names import parse_name
from core.errors import DownloadFailed
from core.gc.locks import holding
from core.jobs.store import JobStore
from core.servers import RunningServer, process_born
from tests.core.gc.box import DAY, MAIN, OLD, Box, age, commits, mishaps, reasons
from tests.fakehub import FakeHub, weights
from tests.processes import wait_until

FILES = {"config.json": b"{}"}
_SERVER = """
import sys, time
from pathlib import Path
from core.servers import registered
run, model = map(Path, sys.argv[1:])
with registered(run, url="http://h:1", model="org/one", model_folder=model):
    print("up", flush=True)
    time.sleep(60)
"""
_THEIRS = """
import sys
from huggingface_hub import snapshot_download
snapshot_download("org/one", cache_dir=sys.argv[1], token=False, max_workers=1)
"""


@contextmanager
def served(box: Box, folder: Path) -> Iterator[int]:
    """Have a living process say that it serves a folder."""
    command = [sys.executable, "-c", _SERVER, str(box.paths.run_folder), str(folder)]
    with subprocess.Popen(command, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        process.stdout.readline()
        yield process.pid
        process.kill()


def test_a_snapshot_that_is_served_stays(box: Box) -> None:
    old = box.pair()
    plan = box.plan()
    with served(box, old) as pid:
        reason = f"the server {pid} at http://h:1 serves it"
        assert (commits(box.plan()), reasons(box.plan())) == ([], [reason])
        assert commits(box.plan(unique=True, older_than=0)) == []
        # Also when the server has come after the plan.
        assert mishaps(box.execute(plan)) == [reason, "a snapshot links to it"]
        assert (old / "w").read_bytes() == b"old" * 100
    assert commits(box.plan()) == [OLD]
    assert "1 file of a dead server" in [item.what for item in box.plan().items]


@pytest.mark.parametrize("name", ["model_dir", "model_id"])
def test_what_a_job_works_with_stays(box: Box, name: str) -> None:
    old = box.pair()
    plan = box.plan()
    store = JobStore(box.paths.jobs_folder)
    for model in (str(old), "org/one", f"org/one@{OLD[:12]}"):
        job = store.add("finetune", {name: model})
        reason = f"job {job.id} works with it"
        assert reasons(box.plan()) == [reason]
        assert reason in mishaps(box.execute(plan))
        store.fail(job, "over")
    assert commits(box.plan()) == [OLD]
    store.add("finetune", {name: "/elsewhere", "other": str(old)})
    store.add("finetune", {name: 5})
    assert not mishaps(box.gc())
    assert not old.exists()


def test_a_cache_behind_a_link_is_the_same_cache(box: Box, tmp_path: Path) -> None:
    old = box.pair()
    (tmp_path / "by-link").symlink_to(box.hub)
    with served(box, tmp_path / "by-link" / old.relative_to(box.hub)):
        assert commits(box.plan()) == []


def test_a_served_folder_with_links_into_the_cache_protects_what_they_lead_to(
    box: Box, tmp_path: Path
) -> None:
    old = box.pair()
    mine = tmp_path / "mine"
    mine.mkdir()
    (mine / "config.json").write_text("{}")
    (mine / "w").symlink_to(old / "w")
    with served(box, mine):
        assert commits(box.plan()) == []


def test_a_server_that_does_not_say_which_snapshot_protects_all(box: Box) -> None:
    box.pair()
    box.pair("models--org--two")
    pid = int(subprocess.run(["sh", "-c", "echo $PPID"], capture_output=True, check=True).stdout)
    server = RunningServer(
        pid=pid, born=process_born(pid) or "", url="u", model="org/one@v1", started_at=1.0
    )
    fields = asdict(server)
    del fields["folder"]  # as an older mlxbun writes it
    box.paths.run_folder.mkdir(parents=True)
    (box.paths.run_folder / f"{pid}.json").write_text(json.dumps(fields))
    plan = box.plan()
    assert [i.repository.repo_id for i in plan.items if i.repository] == ["org/two"]
    assert reasons(plan) == [f"the server {pid} at u serves it"]


def test_the_file_of_a_server_that_came_back_stays(box: Box) -> None:
    box.paths.run_folder.mkdir(parents=True)
    file = box.paths.run_folder / "1.json"
    file.write_text("{")
    plan = box.plan()
    assert [item.what for item in plan.items] == ["1 file of a dead server"]
    with served(box, box.hub) as pid:
        file.write_bytes((box.paths.run_folder / f"{pid}.json").read_bytes())
        assert mishaps(box.execute(plan)) == ["it has changed since"]
    assert file.exists()


def test_a_lock_that_filelock_holds_closes_the_repository(box: Box) -> None:
    box.pair()
    (box.repo() / "blobs" / "orphan").write_bytes(b"o")
    lock = box.hub / ".locks" / "models--org--one" / "abc.lock"
    lock.parent.mkdir(parents=True)
    plan = box.plan()
    with FileLock(lock, mode=0o664):
        assert (box.plan().items, reasons(box.plan())) == ((), ["it is being downloaded"])
        assert set(mishaps(box.execute(plan))) == {
            "it is being downloaded",
            "a snapshot links to it",
        }
    assert commits(box.plan()) == [OLD]


def test_filelock_waits_for_us_and_then_makes_its_own(box: Box) -> None:
    """Whoever waited for a lock file that is gone when its turn comes looks again."""
    lock = box.hub / ".locks" / "models--org--one" / "abc.lock"
    got = threading.Event()

    def wait() -> None:
        with FileLock(lock, mode=0o664):
            got.set()
            assert lock.exists()

    with holding(lock):
        thread = threading.Thread(target=wait)
        thread.start()
        assert not got.wait(0.2)
    assert got.wait(10)
    thread.join()


@pytest.fixture
def hub() -> Iterator[FakeHub]:
    with FakeHub() as hub:
        yield hub


@pytest.fixture(autouse=True)
def no_proxies(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY"):
        monkeypatch.delenv(name, raising=False)
        monkeypatch.delenv(name.lower(), raising=False)


def test_what_huggingface_hub_downloads_stays(box: Box, hub: FakeHub) -> None:
    box.pair()
    hub.add("org/one", {"config.json": b"{ }", "w": b"w", "model.safetensors": weights(400_000)})
    hub.pace = 0.05
    environ = {"HF_ENDPOINT": hub.url, "HOME": str(box.hub.parent), "PATH": "/usr/bin:/bin"}
    environ["HF_HUB_DISABLE_XET"] = "1"
    plan = box.plan(older_than=0)
    with subprocess.Popen([sys.executable, "-c", _THEIRS, str(box.hub)], env=environ) as process:
        wait_until(lambda: hub.served["model.safetensors"] > 20_000)
        assert list(box.repo().glob("blobs/*.incomplete"))
        now = box.plan(older_than=0, unique=True)
        assert (now.items, reasons(now)) == ((), ["it is being downloaded"])
        assert not any(result.bytes for result in box.execute(plan))
        assert process.wait(60) == 0
    cached = scan_cache_dir(box.hub)
    assert (cached.warnings, cached.incomplete_files) == ([], frozenset())
    assert set(commits(box.plan())) == {OLD, MAIN}
    box.gc()
    assert not scan_cache_dir(box.hub).warnings


def test_what_we_download_stays_until_it_is_linked(box: Box, hub: FakeHub) -> None:
    files = {"config.json": b"{}", "a.safetensors": weights(40_000), "b.safetensors": weights(9, 2)}
    hub.add("org/one", files)
    hub.pace = 0.2
    environ = {"HF_ENDPOINT": hub.url, "HOME": str(box.hub.parent)}
    work = start_download(
        DownloadRequest(name=parse_name("org/one")), paths=box.paths, environ=environ
    )
    wait_until(lambda: len(list(box.repo().glob("blobs/*"))) >= 3)
    plan = box.plan(older_than=0)
    assert (plan.items, reasons(plan)) == ((), ["it is being downloaded"])
    folder = work.result().plan.folder
    assert {path.name: path.read_bytes() for path in folder.iterdir()} == files
    assert box.plan().items == ()


def test_what_a_stopped_download_of_ours_can_go_on_with_stays_for_a_day(
    box: Box, hub: FakeHub
) -> None:
    hub.add("org/one", {"config.json": b"{}", "model.safetensors": weights(400_000)})
    hub.pace = 0.05
    environ = {"HF_ENDPOINT": hub.url, "HOME": str(box.hub.parent)}
    work = start_download(
        DownloadRequest(name=parse_name("org/one")), paths=box.paths, environ=environ
    )
    wait_until(lambda: hub.served["model.safetensors"] > 100_000)
    work.cancel()
    with pytest.raises(DownloadFailed):
        work.result()
    assert [item.what for item in box.plan().items] == []
    told = "younger than 1 day, and `mlxbun download` goes on with it"
    assert [(kept.what, kept.reason) for kept in box.plan().kept] == [
        ("1 incomplete download", told),
        ("1 file of a stopped download", told),
    ]
    for path in (box.repo() / "blobs").iterdir():
        age(path, 2)
    # The list of downloads says that it stopped a moment ago.
    assert [item.what for item in box.plan().items] == [
        "1 orphaned blob",
        "1 incomplete download",
    ]


def test_a_whole_file_of_a_stopped_download_stays_by_the_list_alone(box: Box) -> None:
    box.add(MAIN, FILES, refs=["main"])
    orphan = box.repo() / "blobs" / "orphan"
    orphan.write_bytes(b"o")
    number = Ledger(box.paths.downloads_file).begin("org/one", "main")
    assert reasons(box.plan()) == ["it is being downloaded"]
    Ledger(box.paths.downloads_file).end(number, "failed", error="x")
    assert box.plan().items == ()
    assert [
        item.what for item in box.plan(older_than=0, now=orphan.stat().st_mtime + 90).items
    ] == ["1 orphaned blob"]
    number = Ledger(box.paths.downloads_file).begin("org/one", "main")
    Ledger(box.paths.downloads_file).end(number, "done")
    assert len(box.plan().items) == 1


def test_a_download_that_starts_meanwhile_stops_the_deletion(box: Box) -> None:
    box.pair()
    (box.repo() / "blobs" / "orphan").write_bytes(b"o")
    plan = box.plan()
    number = Ledger(box.paths.downloads_file).begin("org/one", "main")
    before = box.tree()
    assert set(mishaps(box.execute(plan))) == {"it is being downloaded"}
    assert {k: v for k, v in box.tree().items() if ".locks" not in k} == before
    Ledger(box.paths.downloads_file).end(number, "done")
    assert not mishaps(box.execute(plan))


def test_a_dead_download_does_not_keep_anything_for_ever(box: Box) -> None:
    box.pair()
    lock = box.hub / ".locks" / "models--org--one" / "abc.lock"
    lock.parent.mkdir(parents=True)
    script = (
        "import fcntl, os, sys; f = open(sys.argv[1], 'w'); fcntl.flock(f, fcntl.LOCK_EX);"
        "os.kill(os.getpid(), 9)"
    )
    subprocess.run([sys.executable, "-c", script, str(lock)], check=False)
    age(lock, 2)
    assert {item.what for item in box.plan().items} == {"snapshot 00000000", "1 unused lock file"}
    box.gc(older_than=DAY)
    assert not lock.exists()
