"""Whatever stands in the way is told in one sentence with what to do next, and the token stays."""

from __future__ import annotations

import os
import subprocess
import traceback
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from core.download.events import Retrying, Unlisted
from core.download.job import plan_download, start_download
from core.errors import (
    BadModelFiles,
    DoesNotFit,
    DownloadFailed,
    MlxbunError,
    NotFound,
    UsageProblem,
)
from core.hf_token import save_token
from core.paths import Paths
from tests.core.download.conftest import FILES, REPO, WANTED_BYTES, WEIGHTS, Desk
from tests.fakehub import Fault
from tests.processes import NOWHERE

SECRET = "hf_secretsecretsecret"


def _refused(desk: Desk, kind: type[MlxbunError], name: str = REPO, **environ: str) -> MlxbunError:
    """Return the error of a download that must fail."""
    with pytest.raises(kind) as caught:
        desk.fetch(name, environ=environ)
    error = caught.value
    assert "\n" not in error.message
    assert error.hint
    assert SECRET not in "".join(traceback.format_exception(error))
    assert SECRET not in f"{error.message} {error.hint} {desk.events} {desk.records()}"
    return error


# The Hub says no


def test_a_repository_that_is_not_there(desk: Desk) -> None:
    error = _refused(desk, NotFound, "org/nothing")
    assert error.message == "The Hub has no model org/nothing, or it is private."
    assert not desk.paths.hub_cache.exists()


def test_a_private_one_without_a_token(desk: Desk) -> None:
    desk.hub.tokens = {SECRET}
    desk.hub.repos[REPO].private = True
    assert "HF_TOKEN" in str(_refused(desk, NotFound).hint)
    desk.fetch(environ={"HF_TOKEN": SECRET})


def test_a_revision_that_is_not_there(desk: Desk) -> None:
    error = _refused(desk, NotFound, f"{REPO}@v9")
    assert error.message == "org/name has no revision 'v9'."
    _refused(desk, NotFound, f"{REPO}@{'0' * 40}")


def test_a_file_that_goes_away_in_between(desk: Desk) -> None:
    desk.hub.raw[f"/api/models/{REPO}/tree/{desk.hub.repos[REPO].commit}"] = (
        b'[{"type": "file", "path": "gone.safetensors", "size": 3, "oid": "' + b"0" * 40 + b'"}]'
    )
    assert "has no file 'gone.safetensors'" in _refused(desk, NotFound).message


def test_a_gated_one(desk: Desk) -> None:
    desk.hub.repos[REPO].gated = True
    error = _refused(desk, DownloadFailed)
    assert error.message == "org/name is gated, and there is no token to show."
    assert f"{desk.hub.url}/{REPO}" in str(error.hint)
    desk.hub.tokens = {SECRET}
    desk.hub.faults = [Fault(status=403, headers={"X-Error-Code": "GatedRepo"}, times=10)]
    error = _refused(desk, DownloadFailed, HF_TOKEN=SECRET)
    assert error.message == "org/name is gated, and the token in HF_TOKEN has no access."
    desk.hub.faults = []
    desk.fetch(environ={"HF_TOKEN": SECRET})


def test_a_token_that_the_hub_does_not_know(desk: Desk) -> None:
    error = _refused(desk, DownloadFailed, HF_TOKEN=SECRET)
    assert error.message == "The Hub does not accept the token in HF_TOKEN."
    save_token(desk.paths, SECRET)
    assert str(desk.paths.token_file) in _refused(desk, DownloadFailed).message


def test_what_cannot_be_a_token_is_told_before_any_network(desk: Desk) -> None:
    _refused(desk, UsageProblem, HF_TOKEN=f"{SECRET}\r\nX-Evil: 1")
    assert desk.hub.log == []


@pytest.mark.parametrize("status", [400, 402, 403, 418, 451])
def test_other_refusals(desk: Desk, status: int) -> None:
    desk.hub.faults = [Fault(name="config.json", status=status)]
    _refused(desk, DownloadFailed)


def test_a_hub_that_is_out_of_order(desk: Desk) -> None:
    desk.hub.broken = True
    error = _refused(desk, DownloadFailed)
    assert "answers with status 500" in error.message
    assert desk.hub.log.count(f"GET /api/models/{REPO}/revision/main") == 2
    (waited,) = desk.told(Retrying)
    assert isinstance(waited, Retrying)
    assert (waited.name, waited.failures) == (REPO, 1)
    assert "status 500" in waited.reason


# The token


def test_the_token_goes_to_the_hub_and_to_nobody_else(desk: Desk) -> None:
    desk.hub.tokens = {SECRET}
    desk.fetch(environ={"HF_TOKEN": SECRET})
    to_hub = [r.headers.get("authorization") for r in desk.hub.requests if r.on_hub]
    elsewhere = [r for r in desk.hub.requests if not r.on_hub]
    assert set(to_hub) == {f"Bearer {SECRET}"}
    assert len(elsewhere) == 1
    assert not any(SECRET in str(request.headers) for request in elsewhere)


def test_our_own_token_is_the_last_resort(desk: Desk, tmp_path: Path) -> None:
    desk.hub.tokens = {"hf_first", "hf_second", "hf_third"}
    save_token(desk.paths, "hf_third")

    def sent(**environ: str) -> str | None:
        desk.hub.forget()
        plan_download(desk.request(), paths=desk.paths, environ={**desk.environ, **environ})
        return desk.hub.requests[0].headers.get("authorization")

    assert sent() == "Bearer hf_third"
    (tmp_path / "token").write_text("hf_second\n")
    assert sent(HF_TOKEN_PATH=str(tmp_path / "token")) == "Bearer hf_second"
    assert sent(HF_TOKEN="hf_first") == "Bearer hf_first"
    assert sent(HF_HUB_DISABLE_IMPLICIT_TOKEN="1") is None


# No network


@pytest.mark.parametrize("name", ["HF_HUB_OFFLINE", "TRANSFORMERS_OFFLINE"])
def test_offline_by_wish(desk: Desk, name: str) -> None:
    error = _refused(desk, DownloadFailed, **{name: "1"})
    assert error.message == f"{name} is set, so nothing is fetched."
    assert desk.hub.log == []
    assert desk.records() == []


def test_offline_a_complete_model_is_a_finished_download(desk: Desk) -> None:
    fetched = desk.fetch()
    asked = len(desk.hub.log)
    again = desk.fetch(environ={"HF_HUB_OFFLINE": "1"})
    assert again.received_bytes == 0
    assert again.plan.folder == fetched.plan.folder
    assert again.plan.total_bytes == fetched.plan.total_bytes
    planned = plan_download(
        desk.request(), paths=desk.paths, environ={**desk.environ, "HF_HUB_OFFLINE": "1"}
    )
    assert planned.missing_bytes == 0
    assert len(desk.hub.log) == asked


def test_offline_an_incomplete_model_is_refused(desk: Desk) -> None:
    folder = desk.fetch().plan.folder
    (folder / WEIGHTS).unlink()
    _refused(desk, DownloadFailed, HF_HUB_OFFLINE="1")


@pytest.mark.parametrize("name", [f"{REPO}@v9", "org/other"])
def test_offline_another_revision_is_refused(desk: Desk, name: str) -> None:
    desk.fetch()
    with pytest.raises(DownloadFailed, match="HF_HUB_OFFLINE"):
        desk.fetch(name, environ={"HF_HUB_OFFLINE": "1"})


def test_no_network(desk: Desk) -> None:
    error = _refused(desk, DownloadFailed, HF_ENDPOINT=NOWHERE)
    assert "cannot be reached" in error.message
    assert NOWHERE in str(error.hint)
    assert (
        "cannot be reached"
        in _refused(desk, DownloadFailed, HF_ENDPOINT="http://hub.invalid").message
    )


@pytest.mark.parametrize("address", ["not an address", "ftp://x", "http://", "file:///etc/passwd"])
def test_an_endpoint_that_is_no_address(desk: Desk, address: str) -> None:
    assert "HF_ENDPOINT" in str(_refused(desk, UsageProblem, HF_ENDPOINT=address).hint)
    assert desk.records() == []


def test_a_login_page_in_place_of_the_hub(desk: Desk) -> None:
    desk.hub.raw[f"/api/models/{REPO}/revision/main"] = b"<html>Welcome to our hotel</html>"
    assert "does not answer like a Hugging Face Hub" in _refused(desk, DownloadFailed).message


# What there is


def test_no_weights_for_mlx(desk: Desk) -> None:
    desk.hub.add(REPO, {"config.json": b"{}", "pytorch_model.bin": b"xxx"})
    assert "only .bin (3 B)" in _refused(desk, BadModelFiles).message
    assert not desk.paths.hub_cache.exists()
    done = desk.fetch(include=("*.bin", "*.json"))
    assert len(list(done.plan.folder.iterdir())) == 2


# The disk


def test_a_cache_that_is_a_file(desk: Desk) -> None:
    desk.paths.hub_cache.write_text("")
    error = _refused(desk, DownloadFailed)
    assert str(desk.paths.hub_cache) in error.message
    assert "HF_HOME" in str(error.hint)


def test_a_cache_that_cannot_be_written(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_path: object, **_more: object) -> None:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(Path, "mkdir", refuse)
    error = _refused(desk, DownloadFailed)
    assert error.message.endswith("cannot be written: Permission denied.")


def test_a_list_of_downloads_that_cannot_be_written_stops_nothing(desk: Desk) -> None:
    desk.paths.cache.write_text("a file")
    desk.fetch()
    (event,) = desk.told(Unlisted)
    assert isinstance(event, Unlisted)
    assert str(desk.paths.downloads_file) in event.reason


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A disk of 200 kB; where none can be mounted, the test is left out."""
    place = tmp_path / "disk"
    place.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=200k", "tmpfs", str(place)]
    done = subprocess.run(mount, capture_output=True, check=False) if os.geteuid() == 0 else None
    if done is None or done.returncode != 0:
        pytest.skip("no disk can be mounted here")
    yield place
    subprocess.run(["umount", str(place)], check=True)


def test_a_real_disk_that_is_full(
    desk: Desk, small_disk: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    full = replace(desk, paths=replace(desk.paths, hub_cache=small_disk / "hub"))
    assert _refused(full, DoesNotFit).message.startswith("org/name needs 300 kB of disk")
    assert not full.hub.served
    # Somebody else fills it while we fetch.
    import shutil

    usage = shutil.disk_usage("/")._replace(free=10**9)
    monkeypatch.setattr(shutil, "disk_usage", lambda _path: usage)
    assert "is full" in _refused(full, DoesNotFit).message
    have = full.partial().stat().st_size
    assert 0 < have < len(FILES[WEIGHTS])
    subprocess.run(["mount", "-o", "remount,size=2m", str(small_disk)], check=True)
    full.hub.forget()
    done = full.fetch()
    assert full.hub.served[WEIGHTS] == len(FILES[WEIGHTS]) - have
    assert (done.plan.folder / WEIGHTS).read_bytes() == FILES[WEIGHTS]


def test_a_server_hears_of_refusals_at_once(desk: Desk, paths: Paths) -> None:
    with pytest.raises(DownloadFailed, match="HF_HUB_OFFLINE"):
        start_download(desk.request(), paths=paths, environ={**desk.environ, "HF_HUB_OFFLINE": "1"})


def test_what_fails_is_listed_with_its_sentence(desk: Desk) -> None:
    error = _refused(desk, NotFound, "org/nothing")
    desk.fetch()
    newest, oldest = desk.records()
    assert (newest.state, newest.done_bytes, newest.total_bytes) == (
        "done", WANTED_BYTES, WANTED_BYTES,
    )  # fmt: skip
    assert (oldest.state, oldest.error) == ("failed", error.message)
