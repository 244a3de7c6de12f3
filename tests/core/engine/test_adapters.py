"""An adapter is meant by its folder, or by its name where adapters are kept."""

from __future__ import annotations

from pathlib import Path

import pytest

from core.engine.adapters import adapter_folders, find_adapter
from core.errors import BadModelFiles, NotFound
from scripts.docs.library import add_adapter


@pytest.fixture
def cache(tmp_path: Path) -> Path:
    for folder in adapter_folders(tmp_path / "cache"):
        folder.mkdir(parents=True)
    return tmp_path / "cache"


@pytest.mark.parametrize("place", [0, 1])
def test_a_name_means_the_one_that_is_kept(cache: Path, place: int) -> None:
    kept = adapter_folders(cache)[place] / "poems"
    add_adapter(kept)
    assert find_adapter("poems", cache=cache) == kept
    assert find_adapter(str(kept)) == kept


def test_a_folder_goes_before_a_name(
    cache: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    add_adapter(adapter_folders(cache)[0] / "poems")
    monkeypatch.chdir(tmp_path)
    add_adapter(tmp_path / "poems")
    assert find_adapter("poems", cache=cache) == Path("poems")


def test_what_is_none_is_told(cache: Path, tmp_path: Path) -> None:
    with pytest.raises(NotFound, match="There is no adapter poems"):
        find_adapter("poems", cache=cache)
    with pytest.raises(BadModelFiles, match=r"adapters\.safetensors"):
        find_adapter(str(tmp_path))
