"""What goes wrong on the way: tried again, gone on with, or told in one sentence."""

from __future__ import annotations

import hashlib
import os
import socket
import threading
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from huggingface_hub import constants

from core.download.work import Work
from core.errors import UploadFailed
from core.upload import hub as hub_side
from core.upload.events import Event, FileSent, Moved, Present, Retrying
from core.upload.gather import LocalFile
from core.upload.job import Pace, _Job
from tests.core.upload.conftest import MODEL, QUICK, REPO, WEIGHTS, Desk, fill
from tests.core.upload.hub import Broken, Refusal
from tests.fakehub import weights
from tests.processes import NOWHERE, wait_until


def _failed(desk: Desk, *, pace: Pace = QUICK, **environ: str) -> UploadFailed:
    with pytest.raises(UploadFailed) as caught:
        desk.upload(environ=environ, pace=pace)
    assert "\n" not in caught.value.message
    assert caught.value.hint
    return caught.value


def _retries(desk: Desk) -> list[tuple[str, str]]:
    return [(event.name, event.reason) for event in desk.told(Retrying)]


# Goes on


def test_a_cut_connection(desk: Desk) -> None:
    desk.hub.broken_bodies = [Broken(cut=100_000, times=2)]
    done = desk.upload()
    assert desk.hub.files(REPO)["model.safetensors"] == WEIGHTS
    assert desk.hub.received_bytes == 200_000 + len(WEIGHTS)
    assert done.sent_bytes >= len(WEIGHTS) + 200_000
    assert [name for name, _ in _retries(desk)] == ["model.safetensors"] * 2
    assert desk.told(FileSent) == [FileSent(name="model.safetensors", size=len(WEIGHTS))]


def test_a_connection_that_takes_no_bytes_any_more(desk: Desk) -> None:
    pace = replace(QUICK, patience=replace(QUICK.patience, stall_seconds=0.3))
    large = weights(20_000_000)  # more than the system keeps for a connection
    fill(desk.folder, {"model.safetensors": large})
    desk.hub.broken_bodies = [Broken(stall=50_000)]
    desk.upload(pace=pace)
    assert desk.hub.files(REPO)["model.safetensors"] == large
    assert _retries(desk) == [("model.safetensors", "the connection has gone quiet")]


def test_an_answer_that_does_not_come(desk: Desk) -> None:
    desk.hub.broken_bodies = [Broken(stall=len(WEIGHTS))]
    desk.upload(pace=replace(QUICK, answer_seconds=0.5))
    assert _retries(desk) == [("model.safetensors", "the connection has gone quiet")]


@pytest.mark.parametrize("status", [429, 500, 502, 503, 504, 408])
@pytest.mark.parametrize(
    ("method", "path"),
    [
        ("GET", "/api/models/me/name"),
        ("POST", "/api/repos/create"),
        ("POST", "/preupload/"),
        ("POST", "/objects/batch"),
        ("PUT", "/object/"),
        ("POST", "/commit/"),
    ],
)
def test_a_hub_that_is_not_well(desk: Desk, status: int, method: str, path: str) -> None:
    desk.hub.refusals = [Refusal(method=method, path=path, status=status, times=2)]
    desk.upload()
    assert desk.hub.files(REPO)["model.safetensors"] == WEIGHTS
    assert len(desk.hub.commits) == 1
    assert len(_retries(desk)) == 2
    assert all(f"status {status}" in reason for _, reason in _retries(desk))


@pytest.mark.parametrize(
    "headers", [{"Retry-After": "3"}, {"RateLimit": '"api";r=0;t=3'}, {"Retry-After": "soon"}]
)
def test_a_hub_that_asks_to_wait(desk: Desk, headers: dict[str, str]) -> None:
    desk.hub.refusals = [Refusal(path="/preupload/", status=429, headers=headers)]
    patience = replace(QUICK.patience, longest_wish=0.05, chance=lambda: 0.0)
    desk.upload(pace=replace(QUICK, patience=patience))
    (waited,) = desk.told(Retrying)
    assert waited.wait == (0.05 if "soon" not in headers.values() else 0.005)


@pytest.mark.parametrize(
    ("headers", "wait"), [({"Retry-After": "3"}, 0.05), ({"Retry-After": "soon"}, 0.005)]
)
def test_a_hub_that_asks_to_wait_with_the_commit(
    desk: Desk, headers: dict[str, str], wait: float
) -> None:
    desk.hub.refusals = [Refusal(path="/commit/", status=429, headers=headers)]
    patience = replace(QUICK.patience, longest_wish=0.05, chance=lambda: 0.0)
    desk.upload(pace=replace(QUICK, patience=patience))
    assert [waited.wait for waited in desk.told(Retrying)] == [wait]


def test_a_hub_that_takes_no_commit_for_a_while_is_tried_as_often_as_any(desk: Desk) -> None:
    desk.hub.refusals = [Refusal(path="/commit/", status=429, times=7)]
    desk.upload(pace=replace(QUICK, patience=replace(QUICK.patience, tries=8)))
    assert len(desk.hub.commits) == 1


def test_an_address_that_has_expired_is_asked_for_anew(desk: Desk) -> None:
    desk.hub.refusals = [Refusal(method="PUT", path="/object/", status=403, times=2)]
    desk.upload()
    assert desk.hub.files(REPO)["model.safetensors"] == WEIGHTS
    assert _retries(desk) == [("the upload", "its storage answers with status 403")] * 2
    assert sum("/objects/batch" in line for line in desk.hub.log) == 3


def test_one_file_has_arrived_when_another_is_refused(desk: Desk) -> None:
    fill(desk.folder, {"model-2.safetensors": weights(50_000)})
    desk.hub.refusals = [Refusal(method="PUT", path="/object/", status=403)]
    desk.upload(pace=replace(QUICK, connections=1))
    assert desk.hub.received_bytes == len(WEIGHTS) + len(weights(50_000))
    assert len(desk.told(Present)) <= 1


def test_a_commit_whose_answer_is_lost_is_not_made_twice(desk: Desk) -> None:
    desk.hub.refusals = [Refusal(path="/commit/", lost=True)]
    done = desk.upload()
    assert len(desk.hub.commits) == 1
    assert done.commit == desk.hub.repos[REPO].commit
    assert done.changed
    assert _retries(desk) == [("the upload", "the connection was cut")]
    assert desk.hub.received_bytes == len(WEIGHTS)


@pytest.mark.parametrize("status", [409, 412])
def test_somebody_else_commits_meanwhile(desk: Desk, status: int) -> None:
    desk.hub.refusals = [Refusal(path="/commit/", status=status)]
    desk.upload()
    assert _retries(desk) == [("the upload", "somebody else has committed meanwhile")]
    assert len(desk.hub.commits) == 1


def test_an_account_that_is_busy(desk: Desk) -> None:
    words = b'{"error": "Cannot create repo: another conflicting operation is in progress"}'
    desk.hub.refusals = [Refusal(path="/api/repos/create", status=409, body=words, times=2)]
    desk.upload()
    assert _retries(desk) == [("the Hub", "the Hub is busy")] * 2


def test_a_repository_that_appears_meanwhile(desk: Desk) -> None:
    desk.hub.add(REPO, {"README.md": b"# Mine"})
    code = {"X-Error-Code": "RepoNotFound"}
    desk.hub.refusals = [
        Refusal(method="GET", path="/api/models/me/name", status=404, headers=code)
    ]
    desk.upload()
    assert desk.hub.files(REPO)["model.safetensors"] == WEIGHTS


# Does not go on


def test_a_hub_that_is_not_there(desk: Desk) -> None:
    error = _failed(desk, HF_ENDPOINT=NOWHERE)
    assert error.message.startswith("The Hugging Face Hub does not help: it cannot be reached (")
    assert desk.told(Retrying) == []  # a person waits, and nothing was there to begin with


def test_a_name_that_is_not_found(desk: Desk) -> None:
    error = _failed(desk, HF_ENDPOINT="http://hub.invalid")
    assert "it cannot be reached" in error.message


@pytest.mark.parametrize("name", ["HF_HUB_OFFLINE", "TRANSFORMERS_OFFLINE"])
def test_offline(desk: Desk, name: str) -> None:
    error = _failed(desk, pace=QUICK, **{name: "1"})
    assert error.message == f"{name} is set, so nothing is uploaded."
    assert desk.hub.log == []


def test_a_library_that_was_told_to_stay_offline(
    desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", True)
    assert "HF_HUB_OFFLINE is set" in _failed(desk).message


def test_a_defect_of_ours_is_not_blamed_on_the_hub(
    desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object) -> None:
        raise KeyError("ours")

    fail.__globals__["__name__"] = "core.upload.hub"
    try:
        monkeypatch.setattr(hub_side.Hub, "_head", fail)
        with pytest.raises(KeyError):
            desk.upload()
    finally:
        fail.__globals__["__name__"] = __name__


def test_answers_that_cannot_be_read(desk: Desk) -> None:
    encoded = {"Content-Encoding": "gzip"}
    desk.hub.refusals = [Refusal(path="/preupload/", status=200, headers=encoded)]
    desk.upload()
    assert _retries(desk) == [("the Hub", "its answer cannot be read")]


def test_a_hub_that_goes_away(desk: Desk) -> None:
    """It is waited for once it has been there, but not for ever."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        address = f"http://127.0.0.1:{free.getsockname()[1]}"
    desk.hub.refusals = []
    original = type(desk.hub).storage_url
    try:
        type(desk.hub).storage_url = property(lambda self: address)  # type: ignore[assignment]
        error = _failed(desk)
    finally:
        type(desk.hub).storage_url = original  # type: ignore[method-assign]
    assert "it cannot be reached" in error.message
    assert "what has been sent is not sent again" in str(error.hint)
    assert len(desk.told(Retrying)) == QUICK.patience.tries - 1
    assert desk.hub.commits == []


@pytest.mark.parametrize(
    ("method", "path"), [("POST", "/preupload/"), ("PUT", "/object/"), ("GET", "/api/models/")]
)
def test_a_hub_that_stays_unwell(desk: Desk, method: str, path: str) -> None:
    desk.hub.refusals = [Refusal(method=method, path=path, status=503, times=999)]
    error = _failed(desk)
    host = "its storage" if method == "PUT" else "the Hub"
    assert error.message == (f"The Hugging Face Hub does not help: {host} answers with status 503.")
    assert len(desk.told(Retrying)) == QUICK.patience.tries - 1


def test_a_storage_that_takes_nothing(desk: Desk) -> None:
    desk.hub.refusals = [Refusal(method="PUT", path="/object/", status=403, times=999)]
    error = _failed(desk)
    assert error.message == (
        "The Hub does not take what is uploaded to me/name: its storage answers with status 403."
    )


def test_commits_that_never_come_about(desk: Desk) -> None:
    desk.hub.refusals = [Refusal(path="/commit/", status=504, times=999)]
    error = _failed(desk)
    assert "the Hub answers with status 504" in error.message
    assert desk.hub.received_bytes == len(WEIGHTS)


def test_the_first_failure_ends_the_other_files(desk: Desk) -> None:
    large = weights(5_000_000)
    fill(desk.folder, {"model-2.safetensors": large})
    desk.hub.slow = 0.05
    failing = f"/object/{hashlib.sha256(WEIGHTS).hexdigest()}"
    desk.hub.refusals = [Refusal(method="PUT", path=failing, status=503, times=999)]
    assert "status 503" in _failed(desk, pace=replace(QUICK, connections=2)).message
    assert desk.hub.received[hashlib.sha256(large).hexdigest()] < len(large)
    assert desk.hub.commits == []


# Files that change meanwhile


def _reads(event: Event) -> bool:
    return isinstance(event, Moved) and event.stage == "reading"


def _has_read(event: Event) -> bool:
    return _reads(event) and event.transfer.done == event.transfer.total  # type: ignore[union-attr]


def _has_sent(event: Event) -> bool:
    return isinstance(event, FileSent)


class _Meddler:
    """Changes a file once something has happened."""

    def __init__(self, file: Path, when: Callable[[Event], bool]) -> None:
        self._file = file
        self._when = when
        self.done = False

    def __call__(self, event: Event, /) -> None:
        if not self.done and self._when(event):
            self.done = True
            self.meddle()

    def meddle(self) -> None:
        data = bytearray(self._file.read_bytes())
        data[-1] ^= 1
        self._file.write_bytes(data)


def _upload_with(desk: Desk, meddler: _Meddler) -> UploadFailed:
    job = _Job(desk.plan(), paths=desk.paths, environ=desk.environ, on_event=meddler, pace=QUICK)
    with pytest.raises(UploadFailed) as caught:
        job.run(threading.Event())
    assert meddler.done
    assert desk.hub.commits == []
    assert desk.hub.wrong == []
    return caught.value


def test_a_file_that_changes_while_it_is_read(desk: Desk) -> None:
    file = desk.folder / "model.safetensors"
    error = _upload_with(desk, _Meddler(file, _reads))
    assert error.message == (
        "model.safetensors changed while it was uploaded, so nothing was committed."
    )


def test_a_small_file_that_changes_after_it_was_read(desk: Desk) -> None:
    error = _upload_with(desk, _Meddler(desk.folder / "config.json", _has_sent))
    assert error.message.startswith("config.json changed")


def test_a_large_file_that_changes_after_it_was_sent(desk: Desk) -> None:
    error = _upload_with(desk, _Meddler(desk.folder / "model.safetensors", _has_sent))
    assert error.message.startswith("model.safetensors changed")


class _Hider(_Meddler):
    """Changes a content without a trace in size, time or inode."""

    def meddle(self) -> None:
        before = self._file.stat()
        super().meddle()
        os.utime(self._file, ns=(before.st_atime_ns, before.st_mtime_ns))


def test_a_content_that_is_another_one_is_held_back(desk: Desk) -> None:
    """Nobody can see it from outside: what is sent is hashed on its way."""
    error = _upload_with(desk, _Hider(desk.folder / "model.safetensors", _has_read))
    assert error.message.startswith("model.safetensors changed")
    assert desk.hub.objects == {}
    again = desk.upload()
    assert again.sent_bytes == len(WEIGHTS)


class _Remover(_Meddler):
    def meddle(self) -> None:
        self._file.unlink()


class _Grower(_Meddler):
    def meddle(self) -> None:
        with self._file.open("ab") as file:
            file.write(b"more")


@pytest.mark.parametrize("meddler", [_Remover, _Grower])
def test_a_file_that_goes_or_grows(desk: Desk, meddler: type[_Meddler]) -> None:
    error = _upload_with(desk, meddler(desk.folder / "tokenizer.json", _has_read))
    assert error.message.startswith("tokenizer.json changed")


def test_a_large_file_that_goes_just_before_it_is_sent(
    desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    original = hub_side._Addition.watch
    told = [False]

    def watch(addition: hub_side._Addition, file: LocalFile, *more: Any) -> None:
        original(addition, file, *more)
        if file.name == "model.safetensors":
            file.path.unlink()
            if told[0]:
                file.path.mkdir()

    monkeypatch.setattr(hub_side._Addition, "watch", watch)
    assert _failed(desk).message.startswith("model.safetensors changed")
    fill(desk.folder, {"model.safetensors": WEIGHTS})
    told[0] = True
    assert _failed(desk).message == "model.safetensors cannot be read: Is a directory."


def test_a_file_that_cannot_be_opened_any_more(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(**_: object) -> None:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(hub_side, "_Addition", fail)
    assert "cannot be read: Permission denied" in _failed(desk).message


# Ended from outside


def test_it_ends_within_moments_and_goes_on(desk: Desk) -> None:
    files = [f"model-{n}.safetensors" for n in range(4)]
    fill(desk.folder, {name: weights(400_000, seed=n) for n, name in enumerate(files)})
    desk.hub.slow = 0.02
    cancel = threading.Event()
    job = _Job(
        desk.plan(), paths=desk.paths, environ=desk.environ, on_event=desk.events.append,
        pace=replace(QUICK, connections=1),
    )  # fmt: skip
    work = Work(job.run, cancel=cancel)
    wait_until(lambda: len(desk.hub.objects) >= 2)
    cancel.set()
    assert work.wait(5)
    with pytest.raises(UploadFailed, match="was ended") as caught:
        work.result()
    assert "the same command sends the rest" in str(caught.value.hint)
    assert desk.hub.commits == []
    there = sum(map(len, desk.hub.objects.values()))
    desk.hub.received.clear()
    desk.hub.slow = 0
    desk.upload()
    total = sum(len(data) for name, data in desk.hub.files(REPO).items() if "safetensors" in name)
    assert desk.hub.received_bytes == total - there
    assert desk.hub.wrong == []


def test_it_ends_while_it_waits(desk: Desk) -> None:
    desk.hub.refusals = [Refusal(path="/preupload/", status=503, times=999)]
    patience = replace(QUICK.patience, first_wait=60.0, longest_wait=60.0)
    cancel = threading.Event()
    job = _Job(
        desk.plan(), paths=desk.paths, environ=desk.environ, on_event=desk.events.append,
        pace=replace(QUICK, patience=patience),
    )  # fmt: skip
    work = Work(job.run, cancel=cancel)
    wait_until(lambda: desk.told(Retrying))
    cancel.set()
    assert work.wait(2)


def test_a_file_of_many_parts_goes_on_at_its_part(desk: Desk) -> None:
    desk.hub.part_bytes = 50_000
    desk.hub.broken_bodies = [Broken(cut=10_000)]
    desk.upload()
    assert desk.hub.files(REPO)["model.safetensors"] == WEIGHTS
    assert desk.hub.received_bytes == len(WEIGHTS) + 10_000
    assert desk.hub.wrong == []


def test_names_of_files_are_all_that_leaves(desk: Desk) -> None:
    """No path of this machine is sent."""
    desk.upload()
    said = " ".join(request.path for request in desk.hub.requests)
    assert str(desk.folder) not in said
    assert set(desk.hub.files(REPO)) == {*MODEL, "README.md", ".gitattributes"}
