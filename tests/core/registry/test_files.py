"""Foreign files are read up to a limit, and nothing is waited for."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from core.registry.files import printable, read_bytes, read_json


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "file.json"


def test_a_file_is_read(file: Path) -> None:
    file.write_bytes(b'{"a": 1}')
    assert read_json(file) == {"a": 1}


@pytest.mark.parametrize(
    "content", [b"", b"[]", b"{", b"\xff", b"[" * 100_000, b"1" * 5000, "{}".encode("utf-16")]
)
def test_what_is_no_object_is_none(file: Path, content: bytes) -> None:
    file.write_bytes(content)
    assert read_json(file) is None


def test_a_pipe_that_nobody_writes_to_is_refused_at_once(file: Path) -> None:
    os.mkfifo(file)
    with pytest.raises(OSError, match="no regular file"):
        read_bytes(file)


@pytest.mark.parametrize("place", ["/dev/zero", "/proc/self/fd", "/"])
def test_devices_and_folders_are_refused(place: str) -> None:
    if not Path(place).exists():
        pytest.skip("this system has no such place")
    with pytest.raises(OSError, match=r"no regular file|a folder"):
        read_bytes(Path(place))


def test_a_loop_of_links_is_refused(file: Path) -> None:
    file.symlink_to(file)
    with pytest.raises(OSError, match="symbolic links"):
        read_bytes(file)


def test_no_more_than_the_limit_is_read(file: Path) -> None:
    file.write_bytes(b"abc")
    assert read_bytes(file, limit=3) == b"abc"
    with file.open("wb") as sparse:
        sparse.truncate(10**12)
    with pytest.raises(OSError, match="more than 3 bytes"):
        read_bytes(file, limit=3)


def test_names_are_shown_without_what_moves_the_cursor() -> None:
    assert printable("a\x1b[2J\nb\u009b\udcff") == "a\ufffd[2J\ufffdb\ufffd\ufffd"
    assert printable("x" * 100, 10) == "x" * 7 + "..."
