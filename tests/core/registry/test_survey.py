"""Whatever changes in a folder changes its fingerprint."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from core.registry.survey import survey
from tests.caches import add_model, safetensors


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "model" / "deep").mkdir(parents=True)
    (tmp_path / "model" / "config.json").write_text("{}")
    (tmp_path / "model" / "deep" / "more").write_text("abc")
    (tmp_path / "elsewhere").write_text("12345")
    (tmp_path / "model" / "link").symlink_to("../elsewhere")
    return tmp_path / "model"


def _rewrite_behind_the_back(path: Path) -> None:
    """Replace the content by another of the same length, and set the old times again."""
    before = path.stat()
    path.write_bytes(b"[]")
    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))


def _exchange(path: Path) -> None:
    before = path.stat()
    other = path.with_name("other")
    other.write_bytes(b"[]")
    os.utime(other, ns=(before.st_atime_ns, before.st_mtime_ns))
    other.replace(path)


CHANGES: dict[str, Callable[[Path], object]] = {
    "another content": lambda f: (f / "config.json").write_text("{ }"),
    "the same length and times": lambda f: _rewrite_behind_the_back(f / "config.json"),
    "another file in its place": lambda f: _exchange(f / "config.json"),
    "a file more": lambda f: (f / "new").write_text(""),
    "a file less": lambda f: (f / "deep" / "more").unlink(),
    "another name": lambda f: (f / "config.json").rename(f / "config2.json"),
    "behind a link": lambda f: (f.parent / "elsewhere").write_text("54321"),
    "a link to nothing": lambda f: (f.parent / "elsewhere").unlink(),
    "an empty folder": lambda f: (f / "empty").mkdir(),
    "cut short": lambda f: os.truncate(f / "deep" / "more", 1),
}


@pytest.mark.parametrize("change", CHANGES.values(), ids=CHANGES)
def test_a_change_gives_another_fingerprint(folder: Path, change: Callable[[Path], object]) -> None:
    before = survey(folder)
    assert survey(folder).fingerprint == before.fingerprint
    time.sleep(0.02)  # a tick of the file system's clock
    change(folder)
    assert survey(folder).fingerprint != before.fingerprint


def test_reading_changes_nothing(folder: Path) -> None:
    before = survey(folder)
    assert (folder / "config.json").read_text() == "{}"
    assert survey(folder) == before


def test_files_count_once(folder: Path) -> None:
    os.link(folder / "config.json", folder / "hard")
    (folder / "soft").symlink_to("config.json")
    assert survey(folder).size_bytes == len("{}") + len("abc") + len("12345")


def test_what_is_odd_is_no_trouble(folder: Path) -> None:
    os.mkfifo(folder / "pipe")
    (folder / "loop").symlink_to("loop")
    (folder / "up").symlink_to("..")
    (folder / "gone").symlink_to("nowhere")
    (folder / os.fsdecode(b"\xff\n\x1b")).write_text("odd")
    assert survey(folder).size_bytes == len("{}") + len("abc") + len("12345") + len("odd")


def test_a_folder_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        survey(tmp_path / "none")


def test_deep_folders_end_somewhere(tmp_path: Path) -> None:
    deep = tmp_path / "/".join("d" * 40)
    deep.mkdir(parents=True)
    (deep / "file").write_text("unseen")
    assert survey(tmp_path).size_bytes == 0


def test_of_too_many_files_the_deepest_are_left_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("core.registry.survey._MOST_ENTRIES", 10)
    for number in range(50):
        file = tmp_path / ".git" / "objects" / str(number)
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text("x")
    (tmp_path / "config.json").write_text("{}")
    before = survey(tmp_path)
    time.sleep(0.02)
    (tmp_path / "config.json").write_text("[]")
    assert survey(tmp_path).fingerprint != before.fingerprint


def test_what_was_written_a_moment_ago_may_change_unseen(tmp_path: Path) -> None:
    folder = add_model(tmp_path, "org/one", weights={"model.safetensors": safetensors()})
    now = time.time()
    assert not survey(folder).settled(now)
    assert survey(folder).settled(now + 10)
    assert survey(folder).settled(now - 10)  # a server's clock that goes wrong
    os.utime((folder / "config.json").resolve(), (1, 1))  # its change time is now, all the same
    assert not survey(folder).settled(now)
    assert survey(folder).modified > 1
