"""Repositories, snapshots and refs are found as huggingface_hub finds them; damage stays put."""

from __future__ import annotations

import os
import time
from pathlib import Path
from typing import Any

import pytest
from huggingface_hub import scan_cache_dir

from core.errors import StoreCorrupt
from core.registry.places import (
    Place,
    canonical,
    find_places,
    plain_folders,
    repositories,
    snapshots,
    stray_link,
)
from core.registry.survey import survey
from tests.caches import add_model, safetensors

OLD, NEW, LOST = "a" * 40, "b" * 40, "c" * 40


def _repository(hub: Path, name: str = "org/one") -> Path:
    return hub / f"models--{name.replace('/', '--')}"


def _weights(size: int) -> dict[str, bytes]:
    return {"model.safetensors": safetensors(padding=size), "deep/er/file.txt": b"x" * (size // 7)}


@pytest.fixture
def hub(tmp_path: Path) -> Path:
    """Return a cache with several revisions, shared blobs, many refs and detached snapshots."""
    hub = tmp_path / "hub"
    for commit, size, ref in ((OLD, 1000, "v1.0"), (LOST, 500, None), (NEW, 1000, "main")):
        extra = {"README.md": commit.encode()}
        add_model(hub, "org/one", commit=commit, weights=_weights(size) | extra, ref=ref)
    place = _repository(hub) / "refs" / "refs" / "pr"
    place.mkdir(parents=True)
    (place / "1").write_text(OLD)
    add_model(hub, "org/two-b", weights=_weights(2000))
    add_model(hub, "bare", weights=_weights(300), ref=None)
    (hub / "datasets--org--data" / "snapshots").mkdir(parents=True)
    (hub / ".locks" / "models--org--one").mkdir(parents=True)
    return hub


def test_it_agrees_with_huggingface_hub(hub: Path) -> None:
    cached = scan_cache_dir(hub)
    assert not cached.warnings
    theirs = {
        (repo.repo_id, rev.commit_hash, rev.snapshot_path, frozenset(rev.refs), rev.size_on_disk)
        for repo in cached.repos
        if repo.repo_type == "model"
        for rev in repo.revisions
    }
    places = find_places(hub, all_revisions=True)
    ours = {
        (p.name, p.commit, p.folder, frozenset(p.refs), survey(p.folder).size_bytes) for p in places
    }
    assert ours == theirs
    assert len(places) == 5
    assert not [place for place in places if place.problem]


def test_what_revisions_share_counts_once_as_huggingface_hub_counts(hub: Path) -> None:
    theirs = {repo.repo_id: repo.size_on_disk for repo in scan_cache_dir(hub).repos}
    for repository in repositories(hub):
        blobs: dict[Any, int] = {}
        for place in snapshots(repository):
            blobs |= survey(place.folder).blobs
        assert sum(blobs.values()) == theirs[place.name]
    assert theirs["org/one"] < 3 * 1000


def test_the_canonical_snapshot_is_that_of_main(hub: Path) -> None:
    late = time.time() + 100
    os.utime(_repository(hub) / "snapshots" / OLD, (late, late))
    place = canonical(_repository(hub))
    assert (place.name, place.commit, place.refs) == ("org/one", NEW, ("main",))
    assert [p.commit for p in snapshots(_repository(hub))] == [NEW, OLD, LOST]


def test_without_main_it_is_the_newest(hub: Path) -> None:
    (_repository(hub) / "refs" / "main").unlink()
    late = time.time() + 100
    os.utime(_repository(hub) / "snapshots" / LOST, (late, late))
    assert canonical(_repository(hub)).commit == LOST


def test_refs_by_commit(hub: Path) -> None:
    found = {place.commit: place.refs for place in snapshots(_repository(hub))}
    assert found == {NEW: ("main",), OLD: ("refs/pr/1", "v1.0"), LOST: ()}


@pytest.mark.parametrize("ref", ["../../elsewhere", "/etc", "..", "", "\x1b[2J", "x" * 2000])
def test_a_ref_that_is_no_commit_counts_as_none(hub: Path, ref: str) -> None:
    (_repository(hub) / "refs" / "main").write_text(ref)
    assert canonical(_repository(hub)).commit in (OLD, NEW, LOST)


def test_a_ref_to_a_snapshot_that_is_not_here(hub: Path) -> None:
    (_repository(hub) / "refs" / "main").write_text("d" * 40)
    main, *others = snapshots(_repository(hub))
    assert main.problem == f"its snapshot {'d' * 12}... is not there"
    assert {place.commit for place in others} == {OLD, NEW, LOST}


def test_no_cache_is_an_empty_one(tmp_path: Path) -> None:
    assert find_places(tmp_path / "none") == []


def test_a_cache_that_is_a_file(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(StoreCorrupt, match=r"file cannot be read: Not a directory\."):
        find_places(tmp_path / "file")


# Hostile caches


def test_damage_in_one_repository_stays_there(hub: Path, tmp_path: Path) -> None:
    (hub / "models--org--file").write_text("")
    (hub / "models--org--empty").mkdir()
    (hub / "models--org--halved" / "refs").mkdir(parents=True)
    (hub / "models--org--halved" / "snapshots").write_text("")
    (hub / "models--org--loop").symlink_to("models--org--loop")
    (hub / "models--..--..--etc").mkdir()
    (hub / os.fsdecode(b"models--org--\xff\x1b[2J")).mkdir()
    os.mkfifo(hub / "models--org--pipe")
    pipe = add_model(hub, "org/piped-ref")
    (pipe.parents[1] / "refs" / "main").unlink()
    os.mkfifo(pipe.parents[1] / "refs" / "main")
    problems = {place.name: place.problem for place in find_places(hub)}
    assert len(problems) == 11
    assert {name for name, problem in problems.items() if problem is None} == {
        "org/one",
        "org/two-b",
        "bare",
        "org/piped-ref",
    }
    assert problems["org/empty"] == "it has no snapshot"


@pytest.mark.parametrize("name", ["..--..--etc", "a--b--c", "a b", "org--"])
def test_a_folder_whose_name_is_no_repo_id(hub: Path, name: str) -> None:
    add_model(hub, "a/b").parents[1].rename(hub / f"models--{name}")
    (place,) = [place for place in find_places(hub) if place.problem]
    assert place.problem == "the name of its folder is no repo id"
    assert place.folder.is_relative_to(hub)


def test_a_snapshot_that_leads_out_of_the_cache(hub: Path, tmp_path: Path) -> None:
    (tmp_path / "secret").mkdir()
    snapshot = canonical(_repository(hub, "org/two-b")).folder
    for path in sorted(snapshot.rglob("*"), reverse=True):
        path.rmdir() if path.is_dir() and not path.is_symlink() else path.unlink()
    snapshot.rmdir()
    snapshot.symlink_to(tmp_path / "secret")
    place = canonical(_repository(hub, "org/two-b"))
    assert place.problem is not None
    assert place.problem.endswith("leads out of the cache")


@pytest.mark.parametrize("target", ["/etc/passwd", "../../../models--org--one/blobs/x", "../../.."])
def test_a_file_that_leads_out_of_its_repository(hub: Path, target: str) -> None:
    place = canonical(_repository(hub, "org/two-b"))
    assert stray_link(place) is None
    (place.folder / "deep" / "odd\x1b").symlink_to(target if target[0] == "/" else "../" + target)
    assert stray_link(place) == "odd\ufffd"


def test_links_by_the_whole_path_are_at_home(hub: Path, tmp_path: Path) -> None:
    (tmp_path / "alias").symlink_to(hub)
    place = canonical(_repository(tmp_path / "alias", "org/two-b"))
    blob = (place.folder / "config.json").resolve()
    (place.folder / "config.json").unlink()
    (place.folder / "config.json").symlink_to(blob)
    assert stray_link(place) is None


# Plain folders


def _model(folder: Path, name: str = "config.json") -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    (folder / name).write_text("{}")
    return folder


def _names(*roots: Path) -> dict[str, Path]:
    return {place.name: place.folder for place in plain_folders(roots)}


def test_a_root_is_a_model_or_holds_models(tmp_path: Path) -> None:
    alone = _model(tmp_path / "alone")
    one = _model(tmp_path / "many" / "one")
    two = _model(tmp_path / "many" / "org" / "two", "model.safetensors")
    gguf = _model(tmp_path / "many" / "org" / "three", "x.gguf")
    _model(tmp_path / "many" / "org" / "deep" / "four")  # three levels down
    _model(tmp_path / "many" / ".hidden")
    _model(tmp_path / "many" / "notes", "todo.txt")
    assert _names(alone, tmp_path / "many") == {
        "alone": alone,
        "one": one,
        "org/two": two,
        "org/three": gguf,
    }


def test_a_root_that_cannot_be_read_is_told(tmp_path: Path) -> None:
    one = _model(tmp_path / "many" / "one")
    (tmp_path / "file").write_text("")
    loop = tmp_path / "loop"
    loop.symlink_to(loop)
    missing = tmp_path / "missing"
    roots = (missing, tmp_path / "file", loop, tmp_path / "many")
    places = {place.folder: place.problem for place in plain_folders(roots)}
    assert places.pop(one) is None
    assert places[missing] == "it cannot be read (No such file or directory)"
    assert places[tmp_path / "file"] == "it cannot be read (Not a directory)"
    assert "symbolic links" in str(places[loop])


def test_a_folder_is_found_once_whatever_leads_there(tmp_path: Path) -> None:
    one = _model(tmp_path / "many" / "one")
    (tmp_path / "many" / "again").symlink_to(one)
    (tmp_path / "many" / "up").symlink_to(tmp_path / "many")
    os.mkfifo(tmp_path / "many" / "pipe")
    assert len(_names(tmp_path / "many", one, tmp_path)) == 1


def test_names_that_are_taken_become_paths(hub: Path, tmp_path: Path) -> None:
    taken = _model(tmp_path / "many" / "org" / "one")
    free = _model(tmp_path / "many" / "mine")
    again = _model(tmp_path / "more" / "mine")
    places = find_places(hub, [str(tmp_path / "many"), str(tmp_path / "more")])
    plain = {place.name: place.folder for place in places if place.repository is None}
    assert plain == {str(taken): taken, "mine": free, str(again): again}


def test_a_tilde_is_a_home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    _model(tmp_path / "models" / "one")
    assert [place.name for place in find_places(tmp_path / "hub", ["~/models"])] == ["one"]
    (place,) = find_places(tmp_path / "hub", ["~nobody-of-that-name/models"])
    assert isinstance(place, Place)
    assert place.problem
