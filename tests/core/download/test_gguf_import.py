"""A GGUF file becomes a repository of this machine, whole or not at all."""

from __future__ import annotations

import errno
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from core.download.gguf_import import import_into_cache, import_into_folder, import_name
from core.errors import DoesNotFit, UsageProblem
from core.progress import Progress, ignore_progress
from core.provenance import read_provenance
from core.registry.cache import list_models
from core.registry.gguf import Wishes, prepare
from core.registry.resolve import resolve_model
from core.registry.safetensors import SafetensorsWriter
from tests.caches import add_model
from tests.ggufs import tiny_llama


def _import(path: Path, cache: Path, wishes: Wishes | None = None, **more: Any) -> Path:
    settings: dict[str, Any] = {"repo_id": "local/tiny", "on_progress": ignore_progress} | more
    wishes = wishes or Wishes()
    done = import_into_cache(prepare(path, wishes), wishes, hub_cache=cache, **settings)
    return done.folder


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tiny_llama().write(tmp_path / "tiny.gguf")


def test_it_is_a_model_as_any_other(file: Path, tmp_path: Path) -> None:
    folder = _import(file, tmp_path / "hub")
    (found,) = list_models(tmp_path / "hub")
    assert (found.repo_id, found.folder, found.problem) == ("local/tiny", folder, None)
    assert resolve_model("tiny", hub_cache=tmp_path / "hub").folder == folder


def test_where_it_comes_from_travels_with_it(file: Path, tmp_path: Path) -> None:
    model = tiny_llama()
    url = "https://huggingface.co/acme/Base-1B"
    model.metadata |= {"general.license": "mit", "general.base_model.0.repo_url": url}
    told = read_provenance(_import(model.write(file), tmp_path / "hub"))
    assert told is not None
    assert told.base is not None
    assert (told.base.repo_id, told.relation, told.license) == ("acme/Base-1B", "quantized", "mit")
    assert told.recipe["imported from"] == "tiny.gguf"
    assert "Q4_0: 14 as 4-bit g32 (kept)" in told.recipe["tensors"]  # type: ignore[operator]


@pytest.mark.parametrize("url", ["https://elsewhere.example/a/b", "https://huggingface.co/x", 7])
def test_a_base_that_is_none_is_left_out(url: Any, file: Path, tmp_path: Path) -> None:
    model = tiny_llama()
    model.metadata["general.base_model.0.repo_url"] = url
    told = read_provenance(_import(model.write(file), tmp_path / "hub"))
    assert told is not None
    assert told.base is None


def test_the_same_import_again_is_the_same_snapshot(file: Path, tmp_path: Path) -> None:
    first = _import(file, tmp_path / "hub")
    assert _import(file, tmp_path / "hub") == first
    other = _import(file, tmp_path / "hub", Wishes(dequantize=True))
    assert other != first
    assert first.is_dir()
    (found,) = list_models(tmp_path / "hub")
    assert found.folder == other


def test_what_came_from_the_hub_is_not_touched(file: Path, tmp_path: Path) -> None:
    there = add_model(tmp_path / "hub", "local/tiny")
    before = sorted((tmp_path / "hub").rglob("*"))
    with pytest.raises(UsageProblem, match="was not made on this machine"):
        _import(file, tmp_path / "hub")
    assert sorted((tmp_path / "hub").rglob("*")) == before
    assert resolve_model("tiny", hub_cache=tmp_path / "hub").folder == there


def _full(*_: Any) -> None:
    raise OSError(errno.ENOSPC, "No space left on device")


def _stop(progress: Progress) -> None:
    if progress.done * 2 > (progress.total or 0):
        raise KeyboardInterrupt


@pytest.mark.parametrize("into_cache", [True, False])
@pytest.mark.parametrize("ending", ["full", "stopped"])
def test_an_import_that_ends_early_leaves_nothing(
    ending: str, into_cache: bool, file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    cache, target = tmp_path / "hub", tmp_path / "out" / "model"
    earlier = _import(file, cache)
    before = {path for path in cache.rglob("*") if path.is_file()}
    prepared = prepare(file, Wishes(dequantize=True))
    on_progress: Callable[[Progress], None] = ignore_progress
    if ending == "full":
        monkeypatch.setattr(SafetensorsWriter, "put", _full)
    else:
        on_progress = _stop
    more: dict[str, Any] = {"on_progress": on_progress}
    more |= {"repo_id": "local/tiny", "hub_cache": cache} if into_cache else {"target": target}
    begin: Callable[..., object] = import_into_cache if into_cache else import_into_folder
    with pytest.raises((OSError, KeyboardInterrupt)):
        begin(prepared, Wishes(), **more)
    assert {path for path in cache.rglob("*") if path.is_file()} == before
    assert resolve_model("tiny", hub_cache=cache).folder == earlier
    assert list((cache / ".locks").iterdir()) == []
    assert not target.parent.exists() or list(target.parent.iterdir()) == []


def test_room_is_asked_about_first(
    file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    usage = type("Usage", (), {"free": 1000})
    monkeypatch.setattr("core.download.space.shutil.disk_usage", lambda _: usage)
    with pytest.raises(DoesNotFit, match="disk"):
        _import(file, tmp_path / "hub")
    assert not (tmp_path / "hub").exists()


def test_the_size_is_that_of_the_folder(file: Path, tmp_path: Path) -> None:
    prepared = prepare(file)
    folder = _import(file, tmp_path / "hub")
    written = sum(path.stat().st_size for path in folder.iterdir())
    assert prepared.size <= written < prepared.size + 2**20


def test_a_folder_appears_under_its_name(file: Path, tmp_path: Path) -> None:
    target = tmp_path / "models" / "mine"
    done = import_into_folder(prepare(file), Wishes(), target=target, on_progress=ignore_progress)
    assert done.folder == target
    assert [path.name for path in target.parent.iterdir()] == ["mine"]
    assert resolve_model(str(target), hub_cache=tmp_path / "hub").folder == target
    with pytest.raises(UsageProblem, match="exists already"):
        import_into_folder(prepare(file), Wishes(), target=target, on_progress=ignore_progress)


@pytest.mark.parametrize(
    ("file_name", "name", "repo_id"),
    [
        ("Tiny.Q4_K_M.gguf", None, "local/Tiny.Q4_K_M"),
        ("Tiny-Q8_0-00002-of-00003.gguf", None, "local/Tiny-Q8_0"),
        ("a model -- of mine (1).gguf", None, "local/a-model-of-mine-1"),
        ("..gguf", None, "local/model"),
        ("ü.gguf", None, "local/model"),
        ("x" * 120 + ".gguf", None, "local/" + "x" * 96),
        ("x.gguf", "mine", "local/mine"),
        ("x.gguf", "acme/mine", "acme/mine"),
    ],
)
def test_a_file_has_a_name_in_the_cache(file_name: str, name: str | None, repo_id: str) -> None:
    assert import_name(Path(file_name), name) == repo_id


@pytest.mark.parametrize("name", ["a/b/c", "../x", "a/b@v2", "a--b", "a b", "a/.."])
def test_names_that_no_repository_can_have(name: str) -> None:
    with pytest.raises(UsageProblem):
        import_name(Path("x.gguf"), name)
