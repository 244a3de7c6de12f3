"""`GET /v1/adapters` and `GET /v1/adapters/available`."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from core.engine.adapters import adapter_folders
from core.engine.info import MountedAdapter
from core.registry.adapters import CONFIG, WEIGHTS, bare_name
from scripts.docs.library import add_adapter
from tests.commands.serve.home import Home

MOUNTED, AVAILABLE = "/v1/adapters", "/v1/adapters/available"


def _keep(home: Home, name: str, *, place: int = 0, base: Any = "acme/tiny-1") -> Path:
    folder = adapter_folders(home.paths.cache)[place] / name
    folder.parent.mkdir(parents=True, exist_ok=True)
    add_adapter(folder)
    config = json.loads((folder / CONFIG).read_text())
    (folder / CONFIG).write_text(json.dumps(config | {"model": base}))
    return folder


def test_none_is_mounted_and_none_is_there(home: Home) -> None:
    assert home.get(MOUNTED) == {"adapters": []}
    assert home.get(AVAILABLE) == {"adapters": []}


def test_the_mounted_one(home: Home) -> None:
    folder = _keep(home, "poems")
    home.engine.mounted = MountedAdapter(folder=folder, layers=16, nbytes=4242)
    size = 16 * 2 * 4096 * 8 * 4
    row = {"id": "poems", "path": str(folder), "rank": 8, "scale": 20.0, "size_bytes": size}
    assert home.get(MOUNTED) == {"adapters": [row | {"mounted_layers": 16, "ram_bytes": 4242}]}


def test_a_mounted_one_whose_files_are_gone(home: Home, tmp_path: Path) -> None:
    home.engine.mounted = MountedAdapter(folder=tmp_path / "gone", layers=2, nbytes=1)
    (row,) = home.get(MOUNTED)["adapters"]
    assert (row["rank"], row["size_bytes"], row["ram_bytes"]) == (None, 0, 1)


def test_those_on_the_disk(home: Home) -> None:
    poems = _keep(home, "poems")
    _keep(home, "other", base="acme/large-7")
    _keep(home, "nobody", place=1, base=None)
    broken = _keep(home, "broken")
    (broken / WEIGHTS).write_bytes(b"\xff")
    home.engine.mounted = MountedAdapter(folder=poems, layers=16, nbytes=1)
    rows = {row["id"]: row for row in home.get(AVAILABLE)["adapters"]}
    assert rows["poems"] == {
        "id": "poems",
        "path": str(poems),
        "rank": 8,
        "scale": 20.0,
        "base_model": "acme/tiny-1",
        "mounted": True,
        "compatible": True,
    }
    assert {name: row["compatible"] for name, row in rows.items()} == {
        "poems": True,
        "other": False,
        "nobody": True,
    }
    assert [name for name, row in rows.items() if row["mounted"]] == ["poems"]
    assert rows["nobody"]["base_model"] is None


@pytest.mark.parametrize(
    ("model", "name"),
    [
        ("acme/tiny-1", "tiny-1"),
        ("tiny-1", "tiny-1"),
        ("/models/tiny-1/", "tiny-1"),
        ("acme/Tiny-1@main", "tiny-1"),
        ("/home/me@work/tiny-1", "tiny-1"),
        ("/c/models--acme--tiny-1/snapshots/0123abcd", "tiny-1"),
        ("/c/models--acme--tiny-1/snapshots/0123abcd/", "tiny-1"),
        ("", ""),
    ],
)
def test_the_bare_name_of_a_model(model: str, name: str) -> None:
    assert bare_name(model) == name
