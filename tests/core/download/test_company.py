"""Several programs on one cache at once: nothing is fetched twice, and nothing is mixed up."""

from __future__ import annotations

import asyncio
import subprocess
import sys
import threading
from dataclasses import replace
from pathlib import Path

import pytest
from huggingface_hub import scan_cache_dir

from core.download.events import Waiting
from core.download.job import start_download
from core.download.ledger import Ledger
from core.download.lock import blob_lock
from core.download.work import Work
from core.errors import AlreadyRunning
from tests.core.download.conftest import FILES, REPO, WANTED, WEIGHTS, Desk
from tests.processes import wait_until

_THEIRS = """
import sys
from huggingface_hub import snapshot_download
print(snapshot_download("org/name", cache_dir=sys.argv[1], token=False,
                        allow_patterns=["*.json", "*.md", "*.safetensors"]))
"""
_OURS = """
import os, sys
from core.download.job import DownloadRequest, download_repository
from core.download.names import parse_name
from core.errors import AlreadyRunning
from core.paths import Paths
try:
    download_repository(
        DownloadRequest(name=parse_name("org/name")),
        paths=Paths.from_environ(os.environ), environ=os.environ,
    )
    print("fetched")
except AlreadyRunning:
    print("refused")
"""


def _environ(desk: Desk, tmp_path: Path) -> dict[str, str]:
    return {
        "HOME": str(tmp_path),
        "HF_ENDPOINT": desk.hub.url,
        "HF_HUB_CACHE": str(desk.paths.hub_cache),
        "MLXBUN_HOME": str(desk.paths.home),
        "MLXBUN_CACHE": str(desk.paths.cache),
        "PATH": "/usr/bin:/bin",
    }


def _all_is_well(desk: Desk) -> None:
    folder = desk.layout.snapshot(desk.hub.repos[REPO].commit)
    assert {path.name: path.read_bytes() for path in folder.iterdir()} == {
        name: FILES[name] for name in WANTED
    }
    cached = scan_cache_dir(desk.paths.hub_cache)
    assert (cached.warnings, cached.incomplete_files) == ([], frozenset())


def test_of_two_processes_one_fetches(desk: Desk, tmp_path: Path) -> None:
    desk.hub.pace = 0.1  # slow enough for both to be there
    processes = [
        subprocess.Popen(
            [sys.executable, "-c", _OURS],
            env=_environ(desk, tmp_path),
            stdout=subprocess.PIPE,
            text=True,
        )
        for _ in range(3)
    ]
    said = sorted(process.communicate(timeout=60)[0] for process in processes)
    assert said == ["fetched\n", "refused\n", "refused\n"]
    assert desk.hub.served[WEIGHTS] == len(FILES[WEIGHTS])
    _all_is_well(desk)


def test_two_lists_on_one_cache_share_each_file(desk: Desk, tmp_path: Path) -> None:
    """Two caches of ours, so nobody is refused; the lock on the blob keeps them apart."""
    desk.hub.pace = 0.02
    events: list[object] = []
    works = [
        start_download(
            desk.request(),
            paths=replace(desk.paths, cache=tmp_path / name),
            environ=desk.environ,
            on_event=events.append,
        )
        for name in ("one", "two")
    ]
    for work in works:
        work.result()
    assert desk.hub.served[WEIGHTS] == len(FILES[WEIGHTS])
    assert any(isinstance(event, Waiting) for event in events)
    _all_is_well(desk)


def test_beside_the_hubs_own_library(desk: Desk, tmp_path: Path) -> None:
    desk.hub.pace = 0.05
    environ = {**_environ(desk, tmp_path), "HF_HUB_DISABLE_XET": "1"}
    with subprocess.Popen(
        [sys.executable, "-c", _THEIRS, str(desk.paths.hub_cache)],
        env=environ,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    ) as theirs:
        wait_until(lambda: desk.hub.served[WEIGHTS])  # it has the lock
        desk.fetch()
        said, _ = theirs.communicate(timeout=60)
    assert theirs.returncode == 0
    assert said.strip() == str(desk.layout.snapshot(desk.hub.repos[REPO].commit))
    assert desk.hub.served[WEIGHTS] == len(FILES[WEIGHTS])
    _all_is_well(desk)


def test_the_hubs_own_library_waits_for_us(desk: Desk, tmp_path: Path) -> None:
    desk.hub.pace = 0.1
    work = start_download(desk.request(), paths=desk.paths, environ=desk.environ)
    wait_until(lambda: desk.hub.served[WEIGHTS])
    environ = {**_environ(desk, tmp_path), "HF_HUB_DISABLE_XET": "1"}
    done = subprocess.run(
        [sys.executable, "-c", _THEIRS, str(desk.paths.hub_cache)],
        env=environ,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    work.result()
    assert desk.hub.served[WEIGHTS] == len(FILES[WEIGHTS])
    _all_is_well(desk)


def test_different_repositories_do_not_wait_for_each_other(desk: Desk) -> None:
    desk.hub.add("org/other", FILES)
    works = [
        start_download(desk.request(name), paths=desk.paths, environ=desk.environ)
        for name in (REPO, "org/other")
    ]
    assert [work.result().plan.name.repo_id for work in works] == [REPO, "org/other"]
    assert {record.state for record in Ledger(desk.paths.downloads_file).recent()} == {"done"}


def test_a_lock_that_is_tidied_away_is_taken_anew(tmp_path: Path) -> None:
    path = tmp_path / "locks" / "x.lock"
    order: list[str] = []

    async def hold() -> None:
        async with blob_lock(path, on_wait=lambda: order.append("waits")):
            order.append("holds")

    async def both() -> None:
        async with blob_lock(path, on_wait=lambda: None):
            second = asyncio.create_task(hold())
            await asyncio.sleep(0.3)
            path.unlink()
            order.append("removed")
        await second

    asyncio.run(both())
    assert order == ["waits", "removed", "holds"]
    assert path.exists()


def test_a_work_hands_on_what_it_raised_and_waits_only_so_long() -> None:
    flag = threading.Event()

    def wait(cancel: threading.Event) -> int:
        flag.wait(10)
        if cancel.is_set():
            raise AlreadyRunning("x")
        return 7

    work = Work(wait, cancel=threading.Event())
    assert not work.wait(0.05)
    flag.set()
    assert work.result() == 7
    cancelled = threading.Event()
    cancelled.set()
    with pytest.raises(AlreadyRunning):
        Work(wait, cancel=cancelled).result()
