"""A repository arrives in the cache as huggingface_hub would have put it there, and only once."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest
from huggingface_hub import scan_cache_dir, snapshot_download

from core.download.events import FileDone, Moved, Planned
from core.download.job import download_repository, plan_download
from core.download.layout import has_symlinks
from core.errors import DoesNotFit, NotFound
from core.registry.cache import list_models
from tests.core.download.conftest import FILES, REPO, WANTED, WANTED_BYTES, WEIGHTS, Desk
from tests.fakehub import etag


def _hub_fetches(desk: Desk, revision: str | None = None, **options: object) -> str:
    return snapshot_download(  # type: ignore[call-overload, no-any-return]
        REPO,
        revision=revision,
        cache_dir=desk.paths.hub_cache,
        endpoint=desk.hub.url,
        token=False,
        **options,
    )


def _picture(folder: Path) -> dict[str, str]:
    """Return every file below a folder with its content or where it leads."""
    pictured = {}
    for path in folder.rglob("*"):
        name = str(path.relative_to(folder))
        if path.is_symlink():
            pictured[name] = str(path.readlink())
        elif path.is_file() and not name.startswith(("blobs", "trees")):
            pictured[name] = path.read_text()
    return pictured


def test_the_wanted_files_arrive_whole(desk: Desk) -> None:
    done = desk.fetch()
    assert done.plan.folder.name == desk.hub.repos[REPO].commit
    found = {path.name: path.read_bytes() for path in done.plan.folder.iterdir()}
    assert found == {name: FILES[name] for name in WANTED}
    assert done.received_bytes == WANTED_BYTES
    assert {name: desk.hub.served[name] for name in FILES} == {
        name: len(FILES[name]) if name in WANTED else 0 for name in FILES
    }


def test_the_cache_looks_as_if_the_hubs_own_library_had_filled_it(
    desk: Desk, tmp_path: Path
) -> None:
    desk.fetch()
    snapshot_download(
        REPO,
        cache_dir=tmp_path / "other",
        endpoint=desk.hub.url,
        allow_patterns=WANTED,
        token=False,
    )
    repo = "models--org--name"
    ours, theirs = desk.paths.hub_cache / repo, tmp_path / "other" / repo
    assert _picture(ours) == _picture(theirs)
    assert sorted(p.name for p in (ours / "blobs").iterdir()) == sorted(
        p.name for p in (theirs / "blobs").iterdir()
    )
    blob = Path("blobs", etag(WEIGHTS, FILES[WEIGHTS]))
    assert (ours / blob).stat().st_mode == (theirs / blob).stat().st_mode


def test_the_hubs_library_reads_what_we_have_fetched(desk: Desk) -> None:
    done = desk.fetch()
    cached = scan_cache_dir(desk.paths.hub_cache)
    assert (cached.warnings, cached.incomplete_files) == ([], frozenset())
    (repo,) = cached.repos
    (revision,) = repo.revisions
    assert (repo.repo_id, set(revision.refs), revision.nb_files) == (REPO, {"main"}, len(WANTED))
    assert _hub_fetches(desk, local_files_only=True) == str(done.plan.folder)


def test_the_hubs_library_fetches_nothing_again(desk: Desk) -> None:
    desk.fetch()
    desk.hub.forget()
    _hub_fetches(desk, allow_patterns=WANTED)
    assert not desk.hub.served
    _hub_fetches(desk)
    assert set(desk.hub.served) == {"pytorch_model.bin"}


def test_we_fetch_nothing_again_of_what_the_hubs_library_has(desk: Desk) -> None:
    folder = _hub_fetches(desk)
    desk.hub.forget()
    done = desk.fetch()
    assert str(done.plan.folder) == folder
    assert done.received_bytes == 0
    assert not desk.hub.served


def test_each_goes_on_where_the_other_was_stopped(desk: Desk) -> None:
    _hub_fetches(desk, allow_patterns=[WEIGHTS])
    desk.hub.forget()
    done = desk.fetch()
    assert set(desk.hub.served) == {"README.md", "config.json", "tokenizer.json"}
    assert (done.plan.folder / WEIGHTS).read_bytes() == FILES[WEIGHTS]
    # Blobs that are there, and not yet in any snapshot: a download that was stopped.
    shutil.rmtree(desk.layout.folder / "snapshots")
    shutil.rmtree(desk.layout.folder / "refs")
    desk.hub.forget()
    _hub_fetches(desk, allow_patterns=WANTED)
    assert not desk.hub.served
    assert not scan_cache_dir(desk.paths.hub_cache).warnings


def test_a_second_call_only_asks(desk: Desk) -> None:
    first = desk.fetch()
    desk.hub.forget()
    desk.events.clear()
    again = desk.fetch()
    assert (again.plan.folder, again.received_bytes) == (first.plan.folder, 0)
    assert all("/api/" in line for line in desk.hub.log)
    assert desk.told(FileDone) == []


def test_events_tell_the_plan_the_bytes_and_each_file(desk: Desk) -> None:
    done = desk.fetch()
    first, *rest = desk.events
    assert first == Planned(plan=done.plan)
    assert sorted(event.name for event in rest if isinstance(event, FileDone)) == sorted(WANTED)
    last = rest[-1]
    assert isinstance(last, Moved)
    now = last.transfer
    assert (now.done, now.total, now.files_done, now.files_total) == (
        WANTED_BYTES, WANTED_BYTES, len(WANTED), len(WANTED),
    )  # fmt: skip
    assert now.moving == ()


def test_a_plan_tells_what_and_how_much_and_writes_nothing(desk: Desk) -> None:
    plan = plan_download(desk.request(), paths=desk.paths, environ=desk.environ)
    assert [file.name for file in plan.files] == [
        "README.md", "config.json", "tokenizer.json", WEIGHTS,
    ]  # fmt: skip
    assert (plan.total_bytes, plan.present_bytes, plan.missing_bytes) == (
        WANTED_BYTES, 0, WANTED_BYTES,
    )  # fmt: skip
    assert not desk.paths.hub_cache.exists()
    assert not desk.paths.cache.exists()
    assert not desk.hub.served
    desk.fetch(include=("*.json",))
    plan = plan_download(desk.request(), paths=desk.paths, environ=desk.environ)
    assert {file.name for file in plan.files if file.is_here} == {"config.json", "tokenizer.json"}
    assert plan.missing_bytes == len(FILES["README.md"]) + len(FILES[WEIGHTS])


def test_named_files_join_those_that_are_here(desk: Desk) -> None:
    desk.fetch(include=("config.json",))
    done = desk.fetch(include=("*.bin",))
    assert {path.name for path in done.plan.folder.iterdir()} == {
        "config.json",
        "pytorch_model.bin",
    }


def test_a_new_main_shares_what_has_not_changed(desk: Desk) -> None:
    old = desk.fetch()
    desk.hub.repos[REPO].files["config.json"] = b'{"model_type": "llama", "new": true}'
    desk.hub.forget()
    new = desk.fetch()
    assert set(desk.hub.served) == {"config.json"}
    assert new.plan.folder != old.plan.folder
    assert (old.plan.folder / "config.json").read_bytes() == FILES["config.json"]
    assert (new.plan.folder / WEIGHTS).samefile(old.plan.folder / WEIGHTS)
    (model,) = list_models(desk.paths.hub_cache)
    assert model.commit == new.plan.commit


@pytest.mark.parametrize("revision", ["v1.0", "refs/pr/1"])
def test_a_revision_has_its_own_ref(desk: Desk, revision: str) -> None:
    desk.hub.repos[REPO].revisions[revision] = {**FILES, "config.json": b"{}"}
    done = desk.fetch(f"{REPO}@{revision}")
    assert (done.plan.folder / "config.json").read_bytes() == b"{}"
    assert (desk.layout.folder / "refs" / revision).read_text() == done.plan.commit
    assert not (desk.layout.folder / "refs" / "main").exists()
    offline = _hub_fetches(desk, revision=revision, local_files_only=True)
    assert offline == str(done.plan.folder)
    assert not scan_cache_dir(desk.paths.hub_cache).warnings


def test_a_commit_needs_no_ref_and_one_question_less(desk: Desk) -> None:
    commit = desk.hub.repos[REPO].commit
    done = desk.fetch(f"{REPO}@{commit}")
    assert done.plan.commit == commit
    assert list((desk.layout.folder / "refs").iterdir()) == []
    assert len([line for line in desk.hub.log if "/api/" in line]) == 1
    assert not scan_cache_dir(desk.paths.hub_cache).warnings


def test_the_list_of_files_may_come_in_pages(desk: Desk) -> None:
    desk.hub.page = 2
    assert {path.name for path in desk.fetch().plan.folder.iterdir()} == set(WANTED)
    assert len([line for line in desk.hub.log if "/tree/" in line]) == 3


def test_equal_empty_and_nested_files(desk: Desk) -> None:
    files = {"a.json": b"{}", "b/c/d.json": b"{}", "empty.txt": b"", WEIGHTS: b"", "e.json": b"{}"}
    desk.hub.add(REPO, files)
    done = desk.fetch()
    assert {name: (done.plan.folder / name).read_bytes() for name in files} == files
    assert sum(desk.hub.served.values()) == 2
    assert done.plan.total_bytes == 2
    assert not scan_cache_dir(desk.paths.hub_cache).warnings


def test_a_damaged_blob_is_fetched_again(desk: Desk) -> None:
    done = desk.fetch()
    (done.plan.folder / WEIGHTS).resolve().write_bytes(b"cut short")
    desk.hub.forget()
    desk.fetch()
    assert set(desk.hub.served) == {WEIGHTS}
    assert (done.plan.folder / WEIGHTS).read_bytes() == FILES[WEIGHTS]


def test_no_reader_sees_a_model_before_it_is_whole(desk: Desk) -> None:
    seen: list[str | None] = []

    def look(event: object, /) -> None:
        if isinstance(event, FileDone):
            (model,) = list_models(desk.paths.hub_cache)
            seen.append(model.problem)
            assert not scan_cache_dir(desk.paths.hub_cache).warnings

    download_repository(desk.request(), paths=desk.paths, environ=desk.environ, on_event=look)
    assert len(seen) == len(WANTED)
    assert all(seen)
    assert [model.problem for model in list_models(desk.paths.hub_cache)] == [None]


# Room


def test_room_is_asked_for_before_the_first_byte(
    desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    usage = shutil.disk_usage("/")._replace(free=WANTED_BYTES - 1)
    monkeypatch.setattr(shutil, "disk_usage", lambda _path: usage)
    with pytest.raises(DoesNotFit) as caught:
        desk.fetch()
    assert (caught.value.need, caught.value.have) == (WANTED_BYTES, WANTED_BYTES - 1)
    assert not desk.hub.served
    assert desk.written() == []
    assert desk.records()[0].state == "failed"


def test_only_what_is_missing_needs_room(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    desk.fetch(include=(WEIGHTS,))
    usage = shutil.disk_usage("/")._replace(free=1000)
    monkeypatch.setattr(shutil, "disk_usage", lambda _path: usage)
    desk.fetch()


# Without symlinks


def test_without_symlinks_the_files_lie_in_the_snapshot(desk: Desk) -> None:
    files = {**FILES, "same.json": FILES["config.json"]}
    desk.hub.add(REPO, files)
    done = desk.fetch(environ={"HF_HUB_DISABLE_SYMLINKS": "1"})
    assert not any(path.is_symlink() for path in done.plan.folder.rglob("*"))
    assert (done.plan.folder / "same.json").read_bytes() == files["config.json"]
    assert list(desk.layout.blobs.iterdir()) == []
    assert not scan_cache_dir(desk.paths.hub_cache).warnings
    desk.hub.forget()
    assert desk.fetch(environ={"HF_HUB_DISABLE_SYMLINKS": "1"}).received_bytes == 0
    assert _hub_fetches(desk, local_files_only=True) == str(done.plan.folder)


def test_without_symlinks_older_snapshots_keep_their_blobs(desk: Desk) -> None:
    old = desk.fetch()
    desk.hub.repos[REPO].files["config.json"] = b"{}"
    new = desk.fetch(environ={"HF_HUB_DISABLE_SYMLINKS": "1"})
    assert (old.plan.folder / WEIGHTS).read_bytes() == FILES[WEIGHTS]
    assert (new.plan.folder / WEIGHTS).read_bytes() == FILES[WEIGHTS]
    assert not (new.plan.folder / WEIGHTS).is_symlink()


def test_symlinks_are_tried_and_nothing_is_left(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert has_symlinks(tmp_path / "hub", {})
    assert list((tmp_path / "hub" / ".locks").iterdir()) == []

    def refuse(*_names: object, **_more: object) -> None:
        raise OSError(1, "Operation not permitted")

    monkeypatch.setattr(os, "symlink", refuse)
    assert not has_symlinks(tmp_path / "hub", {})


def test_a_file_that_is_asked_for_and_missing(desk: Desk) -> None:
    with pytest.raises(NotFound, match=r"No file of org/name is called 'nothing\.json'"):
        desk.fetch(include=("nothing.json",))
    assert not desk.paths.hub_cache.exists()
