"""The cache is read as huggingface_hub reads it, and damage in it stays where it is."""

from __future__ import annotations

import json
import os
import time
from pathlib import Path

import pytest
from huggingface_hub import scan_cache_dir, snapshot_download

from core.errors import StoreCorrupt
from core.registry.cache import (
    list_models,
    own_snapshots,
    publish_files,
    repo_folder,
    snapshot_size,
    staging_folder,
)
from core.registry.snapshot import find_problem
from tests.caches import add_model, safetensors


def test_it_agrees_with_huggingface_hub(tmp_path: Path) -> None:
    add_model(tmp_path, "org/one", weights={"model.safetensors": safetensors(padding=1000)})
    add_model(tmp_path, "org/two-b", weights={"model.safetensors": safetensors(padding=2000)})
    add_model(tmp_path, "bare", weights={"model.safetensors": safetensors(padding=300)})
    ours = {
        (model.repo_id, model.commit, model.folder, snapshot_size(model.folder))
        for model in list_models(tmp_path)
    }
    cached = scan_cache_dir(tmp_path)
    assert not cached.warnings
    theirs = {
        (repo.repo_id, revision.commit_hash, revision.snapshot_path, revision.size_on_disk)
        for repo in cached.repos
        for revision in repo.revisions
    }
    assert ours == theirs


def test_main_is_taken_of_several_revisions(tmp_path: Path) -> None:
    old = add_model(tmp_path, "org/one", commit="a" * 40)
    new = add_model(tmp_path, "org/one", commit="b" * 40)
    os.utime(old, (time.time() + 9, time.time() + 9))
    assert [model.folder for model in list_models(tmp_path)] == [new]


def test_the_newest_is_taken_where_there_is_no_main(tmp_path: Path) -> None:
    old = add_model(tmp_path, "org/one", commit="a" * 40)
    add_model(tmp_path, "org/one", commit="b" * 40)
    os.utime(old, (time.time() + 9, time.time() + 9))
    (repo_folder(tmp_path, "org/one") / "refs" / "main").unlink()
    assert [model.commit for model in list_models(tmp_path)] == ["a" * 40]


@pytest.mark.parametrize("ref", ["../../elsewhere", "/etc", "..", ""])
def test_a_ref_that_leads_elsewhere_counts_as_none(ref: str, tmp_path: Path) -> None:
    folder = add_model(tmp_path, "org/one")
    (repo_folder(tmp_path, "org/one") / "refs" / "main").write_text(ref)
    assert [model.folder for model in list_models(tmp_path)] == [folder]


def test_no_cache_is_an_empty_one(tmp_path: Path) -> None:
    assert list_models(tmp_path / "none") == []


def test_a_cache_that_cannot_be_read_is_one_sentence(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(StoreCorrupt) as caught:
        list_models(tmp_path / "file")
    assert str(tmp_path) in caught.value.message
    assert caught.value.hint


def test_damage_in_one_repository_stays_there(tmp_path: Path) -> None:
    add_model(tmp_path, "org/good")
    add_model(tmp_path, "org/garbage", config=b"\xff{")
    (tmp_path / "models--org--file").write_text("")
    (tmp_path / "models--org--empty").mkdir()
    (tmp_path / "models--org--halved" / "refs").mkdir(parents=True)
    (tmp_path / "models--org--halved" / "snapshots").write_text("")
    (tmp_path / "datasets--org--data").mkdir()
    problems = {model.repo_id: model.problem for model in list_models(tmp_path)}
    assert problems.keys() == {"org/good", "org/garbage", "org/file", "org/empty", "org/halved"}
    assert [name for name, problem in problems.items() if problem is None] == ["org/good"]


WHOLE = {"config.json": b"{}", "model.safetensors": safetensors()}
SHARDED = {
    "config.json": b"{}",
    "model-00001-of-00002.safetensors": b"",
    "model-00002-of-00002.safetensors": b"",
}
INDEX = json.dumps(
    {"weight_map": {"a": "model-00001-of-00002.safetensors", "b": "model-b.safetensors"}}
)


@pytest.mark.parametrize(
    ("files", "problem"),
    [
        (WHOLE, None),
        (SHARDED, None),
        (
            {**SHARDED, "model.safetensors.index.json": INDEX.encode()},
            "model-b.safetensors is missing",
        ),
        ({**WHOLE, "model.safetensors.index.json": b"[]"}, "names no weight files"),
        ({**WHOLE, "model.safetensors.index.json": b'{"weight_map": {"a": "../x"}}'}, "names no"),
        ({**WHOLE, "model.safetensors.index.json": b'{"weight_map": {"a": 3}}'}, "names no"),
        ({**WHOLE, "config.json": b"[]"}, "config.json is not a JSON object"),
        ({**WHOLE, "config.json": b"\xff\xfe"}, "config.json is not a JSON object"),
        ({**WHOLE, "config.json": b"[" * 100_000}, "config.json is not a JSON object"),
        ({"model.safetensors": b""}, "config.json is missing"),
        ({"config.json": b"{}"}, "no safetensors weights"),
        ({"config.json": b"{}", "pytorch_model.bin": b""}, "weights are PyTorch files"),
        (
            {name: data for name, data in SHARDED.items() if "00002-of" not in name},
            "model-00002-of-00002.safetensors is missing",
        ),
    ],
)
def test_what_is_wrong_with_a_folder(
    files: dict[str, bytes], problem: str | None, tmp_path: Path
) -> None:
    for name, data in files.items():
        (tmp_path / name).write_bytes(data)
    found = find_problem(tmp_path)
    assert found is None if problem is None else problem in str(found)


@pytest.mark.parametrize(
    "name", ["config.json", "model.safetensors", "model.safetensors.index.json"]
)
def test_a_link_to_nothing_is_named(name: str, tmp_path: Path) -> None:
    for whole, data in WHOLE.items():
        (tmp_path / whole).write_bytes(data)
    (tmp_path / name).unlink(missing_ok=True)
    (tmp_path / name).symlink_to("gone")
    assert find_problem(tmp_path) == f"{name} points to a file that is gone"


def _publish(hub_cache: Path, files: dict[str, bytes]) -> Path:
    with staging_folder(hub_cache) as stage:
        folder = stage / "files"
        folder.mkdir()
        for name, data in files.items():
            (folder / name).write_bytes(data)
        return publish_files(folder, repo_id="org/made", stage=stage, hub_cache=hub_cache)


def test_what_is_published_reads_as_from_the_hub(tmp_path: Path) -> None:
    folder = _publish(tmp_path, WHOLE)
    offline = snapshot_download("org/made", cache_dir=tmp_path, local_files_only=True)
    assert offline == str(folder)
    assert len(folder.name) == 40
    assert int(folder.name, 16)
    assert not scan_cache_dir(tmp_path).warnings
    assert list((tmp_path / ".locks").iterdir()) == []


def test_publishing_mends_and_keeps(tmp_path: Path) -> None:
    first = _publish(tmp_path, WHOLE)
    other = _publish(tmp_path, {**WHOLE, "config.json": b'{"a": 1}'})
    assert first.name != other.name
    (first / "config.json").resolve().unlink()
    assert find_problem(first)
    assert _publish(tmp_path, WHOLE) == first
    assert find_problem(first) is None
    assert find_problem(other) is None
    assert [model.folder for model in list_models(tmp_path)] == [first]


def test_a_stage_that_a_killed_process_left_goes_after_a_day(tmp_path: Path) -> None:
    young, old = tmp_path / ".locks" / "mlxbun-young", tmp_path / ".locks" / "mlxbun-old"
    for folder in (young, old):
        folder.mkdir(parents=True)
        (folder / "half").write_text("")
    os.utime(old, (1, 1))
    assert not scan_cache_dir(tmp_path).warnings
    with staging_folder(tmp_path):
        assert young.exists()
        assert not old.exists()


def test_a_ref_of_ours_that_a_crash_has_torn_counts_as_none(tmp_path: Path) -> None:
    refs = tmp_path / "models--a--b" / "refs" / "mlxbun"
    refs.mkdir(parents=True)
    (refs / "one").write_bytes(b"\xff\xfe\x00")
    (refs / "two").write_text("a" * 40)
    assert own_snapshots(tmp_path / "models--a--b") == {"a" * 40}


def test_a_snapshot_of_ours_never_lies_there_without_its_ref(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    rename, seen = Path.rename, []

    def looking(path: Path, target: Path) -> Path:
        moved = rename(path, target)
        if target.parent.name == "snapshots":
            seen.append(target.name in own_snapshots(target.parent.parent))
        return moved

    monkeypatch.setattr(Path, "rename", looking)
    for text in ("a", "b"):  # the second is merged into the repository of the first
        with staging_folder(tmp_path) as stage:
            (stage / "files").mkdir()
            (stage / "files" / "x.json").write_text(text)
            publish_files(
                stage / "files", repo_id="me/x", stage=stage, hub_cache=tmp_path, own=True
            )
    assert seen == [True]
