"""From the name of a picked folder to the model on this disk."""

from __future__ import annotations

from pathlib import Path

import pytest

from core.errors import BadRequest, StoreCorrupt
from core.paths import Paths
from core.registry.locate import LocatedFolder, locate_folder
from core.settings import Settings
from tests.caches import add_model
from tests.tiny import make_model

OLD, MAIN = "a" * 40, "b" * 40


@pytest.fixture
def paths(tmp_path: Path) -> Paths:
    paths = Paths(home=tmp_path / "home", cache=tmp_path / "cache", hub_cache=tmp_path / "hub")
    add_model(paths.hub_cache, "org/name", commit=OLD, ref=None)
    add_model(paths.hub_cache, "org/name", commit=MAIN)
    return paths


def _locate(
    paths: Paths, name: str, inside: str = "", *, folders: tuple[str, ...] = ()
) -> LocatedFolder | None:
    return locate_folder(name, inside, paths=paths, settings=Settings(model_folders=folders))


@pytest.mark.parametrize(
    ("name", "inside", "commit"),
    [
        ("models--org--name", "", MAIN),
        ("models--org--name/", "", MAIN),
        ("/Users/me/hub/models--org--name", "", MAIN),
        ("C:\\hub\\models--org--name", "", MAIN),
        (MAIN, "", MAIN),
        (OLD, "", OLD),
        ("", f"snapshots/{OLD}/config.json", OLD),
        ("snapshots", f"snapshots/{OLD}/config.json", OLD),
        ("name", "", MAIN),
        ("models--org--name", f"models--org--name/snapshots/{OLD}/config.json", MAIN),
    ],
)
def test_a_folder_of_the_cache(paths: Paths, name: str, inside: str, commit: str) -> None:
    found = _locate(paths, name, inside)
    assert found is not None
    assert found.folder == paths.hub_cache / "models--org--name" / "snapshots" / commit
    assert (found.repo_id, found.model_type) == ("org/name", "llama")


def test_a_plain_folder_in_our_places(paths: Paths) -> None:
    for root in (paths.hub_cache, paths.cache):
        plain = make_model(root / f"plain-{root.name}")
        assert _locate(paths, plain.name) == LocatedFolder(folder=plain)


def test_a_model_in_a_folder_of_models(paths: Paths, tmp_path: Path) -> None:
    mine = make_model(tmp_path / "models" / "org2" / "mine")
    found = _locate(paths, "mine", folders=(str(tmp_path / "models"),))
    assert found is not None
    assert (found.folder, found.repo_id) == (mine, "org2/mine")
    assert _locate(paths, "mine") is None


@pytest.mark.parametrize(
    ("name", "inside"),
    [
        ("", ""),
        ("/", "/"),
        (".", "./."),
        ("nothing", ""),
        ("models--org--other", ""),
        ("models--", ""),
        ("snapshots", ""),
        ("blobs", "blobs/x"),
        ("etc", ""),
        ("\udcff", ""),
        ("", "config.json"),
    ],
)
def test_what_is_not_there(paths: Paths, name: str, inside: str) -> None:
    assert _locate(paths, name, inside) is None


@pytest.mark.parametrize(
    ("name", "inside"),
    [
        ("..", ""),
        ("../../etc", ""),
        ("a/../b", ""),
        ("..\\..\\etc", ""),
        ("", "../config.json"),
        ("a\0b", ""),
        ("x" * 256, ""),
    ],
)
def test_names_that_no_picker_tells(paths: Paths, name: str, inside: str) -> None:
    with pytest.raises(BadRequest) as refused:
        _locate(paths, name, inside)
    assert refused.value.field == ("folder_name" if name else "rel_path")


def test_a_snapshot_without_a_config_is_none(paths: Paths) -> None:
    repository = paths.hub_cache / "models--org--name"
    (repository / "snapshots" / MAIN / "config.json").unlink()
    found = _locate(paths, "models--org--name")
    assert found is not None
    assert found.folder.name == OLD


def test_no_cache_and_one_that_cannot_be_read(tmp_path: Path) -> None:
    paths = Paths(home=tmp_path, cache=tmp_path / "cache", hub_cache=tmp_path / "hub")
    assert _locate(paths, "name") is None
    paths.hub_cache.write_text("")
    with pytest.raises(StoreCorrupt):
        _locate(paths, "name")
