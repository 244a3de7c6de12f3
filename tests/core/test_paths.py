"""Folders by each owner's rules, and writes that are whole or not at all."""

from __future__ import annotations

import threading
from pathlib import Path

import pytest

from core.paths import Paths, atomic_write


@pytest.mark.parametrize(
    ("environ", "hub"),
    [
        ({"HOME": "/u"}, "/u/.cache/huggingface/hub"),
        ({"HOME": "/u", "XDG_CACHE_HOME": "/x"}, "/x/huggingface/hub"),
        ({"HOME": "/u", "HF_HOME": "/h", "XDG_CACHE_HOME": "/x"}, "/h/hub"),
        ({"HOME": "/u", "HUGGINGFACE_HUB_CACHE": "/old", "HF_HOME": "/h"}, "/old"),
        ({"HOME": "/u", "HF_HUB_CACHE": "/c", "HUGGINGFACE_HUB_CACHE": "/old"}, "/c"),
    ],
)
def test_the_hub_cache_is_where_huggingface_hub_looks(environ: dict[str, str], hub: str) -> None:
    assert Paths.from_environ(environ).hub_cache == Path(hub)


def test_our_folders() -> None:
    paths = Paths.from_environ({"HOME": "/u"})
    assert (paths.config_file, paths.cache) == (
        Path("/u/.mlxbun/config.toml"),
        Path("/u/.cache/mlxbun"),
    )
    moved = Paths.from_environ({"HOME": "/u", "MLXBUN_HOME": "/a", "MLXBUN_CACHE": "/b"})
    assert (moved.home, moved.cache) == (Path("/a"), Path("/b"))


def test_a_write_that_fails_leaves_the_old_file_and_nothing_else(tmp_path: Path) -> None:
    target = tmp_path / "file"
    target.write_text("old")

    def run_out_of_space() -> None:
        with atomic_write(target) as file:
            file.write(b"half")
            raise OSError(28, "No space left on device")

    with pytest.raises(OSError, match="No space left"):
        run_out_of_space()
    assert target.read_text() == "old"
    assert list(tmp_path.iterdir()) == [target]


def test_writers_of_one_file_do_not_meet(tmp_path: Path) -> None:
    target = tmp_path / "file"
    failures: list[Exception] = []

    def write(text: bytes) -> None:
        try:
            for _ in range(50):
                with atomic_write(target) as file:
                    file.write(text)
        except OSError as failure:
            failures.append(failure)

    threads = [threading.Thread(target=write, args=(bytes([65 + n]) * 999,)) for n in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failures == []
    assert len(set(target.read_bytes())) == 1
    assert list(tmp_path.iterdir()) == [target]


def test_a_write_that_succeeds_replaces(tmp_path: Path) -> None:
    target = tmp_path / "new" / "file"
    with atomic_write(target) as file:
        file.write(b"whole")
    assert target.read_bytes() == b"whole"
    assert list(target.parent.iterdir()) == [target]
