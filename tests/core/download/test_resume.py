"""Whatever ends a download, the next one goes on at the byte where it stopped."""

from __future__ import annotations

import os
import random
import shutil
import signal
import subprocess
import sys
import threading
import time
from dataclasses import replace
from pathlib import Path

import pytest
from huggingface_hub import scan_cache_dir

from core.download import blob
from core.download.events import FetchedAnew, FileDone, Moved, Retrying
from core.download.job import start_download
from core.download.patience import Patience
from core.errors import DoesNotFit, DownloadFailed
from tests.core.download.conftest import FILES, QUICK, REPO, WANTED_BYTES, WEIGHTS, Desk
from tests.fakehub import Fault, weights
from tests.processes import wait_until

SIZE = len(FILES[WEIGHTS])
FOR_GOOD = 10**6


def _weights(desk: Desk) -> bytes:
    return (desk.layout.snapshot(desk.hub.repos[REPO].commit) / WEIGHTS).read_bytes()


def _ranges(desk: Desk) -> list[str | None]:
    """Return the ranges that were asked of the host that has the weights."""
    return [request.headers.get("range") for request in desk.hub.requests if not request.on_hub]


def _partial_bytes(desk: Desk) -> int:
    """Return how much of the weights is here, in a file that another process may rename."""
    try:
        return desk.partial().stat().st_size
    except FileNotFoundError:
        return 0


# Within one call


def test_a_cut_connection_goes_on_at_its_byte(desk: Desk) -> None:
    desk.hub.faults = [Fault(name=WEIGHTS, cut=100_000), Fault(name=WEIGHTS, cut=50_000)]
    desk.fetch()
    assert _ranges(desk) == [None, "bytes=100000-", "bytes=150000-"]
    assert desk.hub.served[WEIGHTS] == SIZE
    assert _weights(desk) == FILES[WEIGHTS]
    reasons = {event.reason for event in desk.told(Retrying) if isinstance(event, Retrying)}
    assert reasons == {"the connection was cut"}


def test_a_stalled_transfer_is_noticed_and_goes_on(desk: Desk) -> None:
    desk.hub.faults = [Fault(name=WEIGHTS, stall=100_000)]
    desk.fetch(patience=replace(QUICK, stall_seconds=0.5))
    assert _ranges(desk) == [None, "bytes=100000-"]
    assert _weights(desk) == FILES[WEIGHTS]
    (event,) = desk.told(Retrying)
    assert isinstance(event, Retrying)
    assert (event.name, event.reason) == (WEIGHTS, "nothing has come for a while")


@pytest.mark.parametrize("status", [429, 500, 502, 503, 403])
def test_a_server_in_trouble_is_asked_again(desk: Desk, status: int) -> None:
    # 403 of the storage: its address has expired, and the Hub gives a new one.
    desk.hub.faults = [Fault(name=WEIGHTS, status=status, times=2)]
    desk.fetch()
    assert _weights(desk) == FILES[WEIGHTS]
    assert [event.failures for event in desk.told(Retrying) if isinstance(event, Retrying)] == [
        1,
        2,
    ]
    assert desk.hub.log.count(f"GET /{REPO}/resolve/{desk.hub.repos[REPO].commit}/{WEIGHTS}") == 3


def test_a_wait_that_the_server_asks_for_is_kept(desk: Desk) -> None:
    desk.hub.faults = [
        Fault(name="config.json", status=429, headers={"Retry-After": "1"}),
    ]
    start = time.monotonic()
    desk.fetch(patience=replace(QUICK, longest_wish=2))
    assert time.monotonic() - start >= 1
    (event,) = desk.told(Retrying)
    assert isinstance(event, Retrying)
    assert 1 <= event.wait <= 2


def test_a_server_without_ranges_loses_nothing(desk: Desk) -> None:
    desk.hub.faults = [Fault(name=WEIGHTS, cut=200_000), Fault(name=WEIGHTS, no_ranges=True)]
    desk.fetch()
    assert _weights(desk) == FILES[WEIGHTS]
    assert desk.hub.served[WEIGHTS] == SIZE + 200_000


@pytest.mark.parametrize(
    "headers",
    [{"Content-Range": "bytes 7-9/10"}, {"Content-Range": "rubbish"}, {"Content-Encoding": "br"}],
)
def test_an_answer_about_another_part_is_not_taken(desk: Desk, headers: dict[str, str]) -> None:
    desk.hub.faults = [Fault(name=WEIGHTS, cut=200_000), Fault(name=WEIGHTS, headers=headers)]
    desk.fetch()
    assert _ranges(desk) == [None, "bytes=200000-", None]
    assert _weights(desk) == FILES[WEIGHTS]


def test_wrong_bytes_are_thrown_away_and_fetched_anew_once(desk: Desk) -> None:
    desk.hub.faults = [Fault(name=WEIGHTS, flip=123_456)]
    desk.fetch()
    assert desk.told(FetchedAnew) == [FetchedAnew(name=WEIGHTS)]
    assert desk.hub.served[WEIGHTS] == 2 * SIZE
    assert _weights(desk) == FILES[WEIGHTS]
    last = [event for event in desk.events if isinstance(event, Moved)][-1].transfer
    assert (last.done, last.total) == (WANTED_BYTES, WANTED_BYTES)


@pytest.mark.parametrize("name", [WEIGHTS, "config.json"])
def test_bytes_that_stay_wrong_get_no_name(desk: Desk, name: str) -> None:
    desk.hub.faults = [Fault(name=name, flip=3, times=FOR_GOOD)]
    with pytest.raises(DownloadFailed, match="2 times with another content") as caught:
        desk.fetch()
    assert "\n" not in caught.value.message
    assert desk.hub.served[name] == 2 * len(FILES[name])
    assert not desk.partial(name).exists()
    assert not desk.layout.blob(desk.partial(name).name.partition(".")[0]).exists()
    assert len(desk.told(FetchedAnew)) == 1


# Between calls


def test_tries_without_a_byte_are_bounded_and_what_came_stays(desk: Desk) -> None:
    desk.hub.faults = [
        Fault(name=WEIGHTS, cut=100_000),
        Fault(name=WEIGHTS, cut=0, times=FOR_GOOD),
    ]
    with pytest.raises(DownloadFailed, match="could not be fetched") as caught:
        desk.fetch()
    assert "the same command goes on there" in str(caught.value.hint)
    assert f"{QUICK.tries} times in a row" in caught.value.message
    assert desk.partial().read_bytes() == FILES[WEIGHTS][:100_000]
    record = desk.records()[0]
    assert (record.state, record.error) == ("failed", caught.value.message)
    cached = scan_cache_dir(desk.paths.hub_cache)
    assert [file.file_path for file in cached.incomplete_files] == [desk.partial()]
    assert not cached.warnings
    desk.hub.faults = []
    desk.hub.forget()
    desk.fetch()
    assert desk.hub.served[WEIGHTS] == SIZE - 100_000
    assert _weights(desk) == FILES[WEIGHTS]
    assert not scan_cache_dir(desk.paths.hub_cache).incomplete_files


def test_progress_resets_the_bound(desk: Desk) -> None:
    desk.hub.faults = [Fault(name=WEIGHTS, cut=20_000, times=12)]
    desk.fetch()
    assert len(desk.told(Retrying)) == 12
    assert _weights(desk) == FILES[WEIGHTS]


def test_the_start_of_a_file_that_is_wrong_on_disk_is_found_out(desk: Desk) -> None:
    desk.layout.prepare()
    desk.partial().write_bytes(FILES[WEIGHTS][:50_000] + bytes(50_000))
    desk.fetch()
    assert desk.told(FetchedAnew) == [FetchedAnew(name=WEIGHTS)]
    assert desk.hub.served[WEIGHTS] == SIZE - 100_000 + SIZE
    assert _weights(desk) == FILES[WEIGHTS]


def test_a_partial_file_that_is_whole_is_only_checked(desk: Desk) -> None:
    desk.layout.prepare()
    desk.partial().write_bytes(FILES[WEIGHTS])
    done = desk.fetch()
    assert not desk.hub.served[WEIGHTS]
    assert _weights(desk) == FILES[WEIGHTS]
    assert done.plan.missing_bytes == WANTED_BYTES - SIZE
    assert done.received_bytes == WANTED_BYTES - SIZE


def test_a_partial_file_that_is_too_long_counts_for_nothing(desk: Desk) -> None:
    desk.layout.prepare()
    desk.partial().write_bytes(FILES[WEIGHTS] + b"more")
    assert desk.fetch().plan.missing_bytes == WANTED_BYTES
    assert _weights(desk) == FILES[WEIGHTS]


def test_a_file_that_has_changed_is_another_file(desk: Desk) -> None:
    desk.hub.faults = [Fault(name=WEIGHTS, cut=100_000), Fault(cut=0, times=FOR_GOOD)]
    with pytest.raises(DownloadFailed):
        desk.fetch()
    desk.hub.faults = []
    changed = weights(200_000, seed=2)
    desk.hub.repos[REPO].files[WEIGHTS] = changed
    desk.fetch()
    assert _weights(desk) == changed


def test_a_partial_file_that_is_tidied_away_meanwhile(desk: Desk) -> None:
    """`hf cache prune` removes partial files without asking who writes to them."""
    desk.hub.pace = 0.03
    work = start_download(
        desk.request(), paths=desk.paths, environ=desk.environ, on_event=desk.events.append
    )
    wait_until(lambda: _partial_bytes(desk) > 50_000)
    desk.partial().unlink()
    work.result()
    assert desk.told(FetchedAnew) == [FetchedAnew(name=WEIGHTS)]
    assert _weights(desk) == FILES[WEIGHTS]


def test_a_mirror_may_have_etags_of_its_own(desk: Desk) -> None:
    desk.hub.faults = [
        Fault(name="config.json", headers={"ETag": '"' + "0" * 40 + '"'}),
        Fault(name="tokenizer.json", headers={"ETag": 'W/"odd"'}),
    ]
    desk.fetch()
    assert desk.told(Retrying) == []


def test_cancelling_leaves_what_came(desk: Desk) -> None:
    desk.hub.faults = [Fault(name=WEIGHTS, stall=100_000)]
    cancel = threading.Event()
    patience = Patience(stall_seconds=60)
    work = start_download(
        desk.request(patience=patience), paths=desk.paths, environ=desk.environ, cancel=cancel
    )
    wait_until(lambda: _partial_bytes(desk) == 100_000)
    cancel.set()
    assert work.wait(5)
    with pytest.raises(DownloadFailed, match="was ended"):
        work.result()
    assert desk.records()[0].state == "cancelled"
    desk.hub.forget()
    desk.fetch()
    assert desk.hub.served[WEIGHTS] == SIZE - 100_000
    assert _weights(desk) == FILES[WEIGHTS]


def test_cancelling_while_the_hub_is_asked(desk: Desk) -> None:
    blocked = threading.Event()

    class Slow(dict[str, bytes]):
        def __contains__(self, path: object) -> bool:
            blocked.set()
            desk.hub.over.wait(30)
            return False

    desk.hub.raw = Slow()
    patience = Patience(stall_seconds=60)
    work = start_download(desk.request(patience=patience), paths=desk.paths, environ=desk.environ)
    assert blocked.wait(10)
    work.cancel()
    assert work.wait(5)
    assert desk.records()[0].state == "cancelled"


def test_a_disk_that_fills_up_is_one_sentence_and_what_fitted_stays(
    desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    room = [100_000]

    def write(descriptor: int, data: memoryview) -> int:
        if not room[0]:
            raise OSError(28, "No space left on device")
        taken = os.write(descriptor, data[: room[0]])
        room[0] -= taken
        return taken

    class Disk:
        def __getattr__(self, name: str) -> object:
            return write if name == "write" else getattr(os, name)

    monkeypatch.setattr(blob, "os", Disk())
    with pytest.raises(DoesNotFit, match="is full") as caught:
        desk.fetch()
    assert "the same command goes on there" in str(caught.value.hint)
    monkeypatch.undo()
    have = desk.partial().stat().st_size
    assert have > 50_000
    desk.hub.forget()
    desk.fetch()
    assert desk.hub.served[WEIGHTS] == SIZE - have
    assert _weights(desk) == FILES[WEIGHTS]


# Killed

_KILLED = """
import os, sys
from pathlib import Path
from core.download.job import DownloadRequest, download_repository
from core.download.names import parse_name
from core.paths import Paths
download_repository(
    DownloadRequest(name=parse_name("org/name")),
    paths=Paths.from_environ(os.environ), environ=os.environ,
)
"""


def _start(desk: Desk, tmp_path: Path) -> subprocess.Popen[bytes]:
    environ = {
        "HOME": str(tmp_path),
        "HF_ENDPOINT": desk.hub.url,
        "HF_HUB_CACHE": str(desk.paths.hub_cache),
        "MLXBUN_HOME": str(desk.paths.home),
        "MLXBUN_CACHE": str(desk.paths.cache),
        "PATH": "/usr/bin:/bin",
    }
    return subprocess.Popen([sys.executable, "-c", _KILLED], env=environ, stderr=subprocess.PIPE)


@pytest.mark.parametrize("sign", [signal.SIGKILL, signal.SIGINT, signal.SIGTERM])
def test_a_process_that_is_ended_loses_no_byte(desk: Desk, tmp_path: Path, sign: int) -> None:
    desk.hub.pace = 0.02
    with _start(desk, tmp_path) as process:
        wait_until(lambda: _partial_bytes(desk) > 100_000)
        process.send_signal(sign)
        process.wait(20)
    wait_until(lambda: not desk.hub.sending)
    have = desk.partial().stat().st_size
    assert 100_000 < have < SIZE
    assert not scan_cache_dir(desk.paths.hub_cache).warnings
    assert desk.records()[0].state == ("cancelled" if sign == signal.SIGINT else "failed")
    desk.hub.pace = 0.0
    desk.hub.forget()
    desk.fetch()
    assert _ranges(desk) == [f"bytes={have}-"]
    assert desk.hub.served[WEIGHTS] == SIZE - have
    assert _weights(desk) == FILES[WEIGHTS]
    assert not scan_cache_dir(desk.paths.hub_cache).incomplete_files


def test_a_kill_while_the_ref_is_written_leaves_nothing_in_the_repository(
    desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: list[int] = []

    def look(_descriptor: int) -> None:
        seen.append(len(list(desk.layout.blobs.iterdir())))

    monkeypatch.setattr(os, "fsync", look)
    desk.fetch()
    assert seen[-1] == 4  # the ref is the last to be synced, and the blobs are whole


@pytest.mark.slow  # budget: 3 minutes
def test_fifty_kills_at_any_moment(desk: Desk, tmp_path: Path) -> None:
    chance = random.Random(7)
    for _ in range(50):
        desk.hub.pace = 0.02
        moment = chance.randrange(SIZE)
        with _start(desk, tmp_path) as process:
            wait_until(lambda: process.poll() is not None or _partial_bytes(desk) > moment)  # noqa: B023
            time.sleep(chance.uniform(0, 0.05))
            process.kill()
        desk.hub.pace = 0.0
        before = sum(path.stat().st_size for path in desk.layout.blobs.glob("*"))
        desk.events.clear()
        done = desk.fetch()
        assert {path.name: path.read_bytes() for path in done.plan.folder.iterdir()} == {
            name: FILES[name] for name in FILES if name != "pytorch_model.bin"
        }
        assert done.received_bytes == WANTED_BYTES - before
        cached = scan_cache_dir(desk.paths.hub_cache)
        assert (cached.warnings, cached.incomplete_files) == ([], frozenset())
        assert len(desk.told(FileDone)) <= 4
        shutil.rmtree(desk.paths.hub_cache)
