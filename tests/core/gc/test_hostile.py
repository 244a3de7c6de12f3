"""Caches that are a mess: nothing outside is touched, and every refusal is told."""

from __future__ import annotations

import json
import os
import shutil
import socket
import subprocess
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from core.errors import MlxbunError, StoreCorrupt
from core.gc import look
from core.gc.look import Obstacle, ground_at, look_at
from core.gc.remove import remove_file
from tests.core.gc.box import MAIN, OLD, Box, age, commits, mishaps, reasons

FILES = {"config.json": b"{}"}
ROOT = os.geteuid() == 0


@pytest.fixture
def outside(tmp_path: Path) -> Path:
    """Return a folder that is not the cache's and must stay as it is."""
    folder = tmp_path / "outside"
    folder.mkdir()
    (folder / "precious").write_text("precious")
    return folder


def is_whole(outside: Path) -> bool:
    return [path.name for path in outside.iterdir()] == ["precious"]


def in_child(work: Callable[[], object], *, nobody: bool) -> object:
    """Return what a piece of work returns in another process, as nobody if that is asked for."""
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            if nobody and ROOT:
                os.setgid(65534)
                os.setuid(65534)
            answer = work()
        except BaseException as problem:
            answer = f"{type(problem).__name__}: {problem}"
        os.write(writing, json.dumps(answer).encode())
        os._exit(0)
    os.close(writing)
    with os.fdopen(reading) as pipe:
        answer = pipe.read()
    os.waitpid(child, 0)
    return json.loads(answer)


@pytest.fixture
def shared_box() -> Iterator[Box]:
    """Yield a cache that another user may read and write."""
    folder = Path(tempfile.mkdtemp(dir="/tmp"))
    box = Box.at(folder)
    box.pair()
    for path in (folder, *folder.rglob("*")):
        if not path.is_symlink():
            path.chmod(0o777)
    yield box
    for path in folder.rglob("*"):
        if path.is_dir() and not path.is_symlink():
            path.chmod(0o777)
    shutil.rmtree(folder)


def test_no_cache_is_an_empty_one(box: Box) -> None:
    plan = box.plan()
    assert (plan.items, plan.cache.exists) == ((), False)
    assert not box.hub.parent.joinpath("hub").exists()


def test_a_cache_that_is_a_file(box: Box) -> None:
    box.hub.write_text("")
    with pytest.raises(StoreCorrupt, match="cannot be read: Not a directory"):
        box.plan()


def test_a_cache_that_cannot_be_read(shared_box: Box) -> None:
    shared_box.hub.chmod(0o300)
    answer = in_child(lambda: len(shared_box.plan().items), nobody=True)
    assert "StoreCorrupt: The Hugging Face cache" in str(answer)
    assert "Permission denied" in str(answer)


@pytest.mark.parametrize("part", ["", "snapshots", "refs", "blobs", f"snapshots/{MAIN}"])
def test_a_part_that_cannot_be_read_closes_the_repository(shared_box: Box, part: str) -> None:
    shared_box.pair("models--org--two")
    (shared_box.repo() / part).chmod(0o300)
    answer = in_child(lambda: [commits(p := shared_box.plan()), reasons(p)], nobody=True)
    assert answer == [[OLD], ["it cannot be read (Permission denied)"]]


def test_a_ref_that_cannot_be_read_closes_the_repository(shared_box: Box) -> None:
    (shared_box.repo() / "refs" / "main").chmod(0)
    assert in_child(lambda: reasons(shared_box.plan()), nobody=True) == [
        "it cannot be read (Permission denied)"
    ]


def test_what_cannot_be_deleted_fails_and_is_whole(shared_box: Box) -> None:
    """One folder in the old snapshot belongs to somebody else: all of it stays."""
    inner = shared_box.repo() / "snapshots" / OLD / "sub"
    inner.mkdir()
    (inner / "config.json").write_text("{}")
    inner.chmod(0o555)
    (shared_box.repo() / "snapshots" / MAIN / "sub").mkdir()
    (shared_box.repo() / "snapshots" / MAIN / "sub" / "config.json").write_text("{}")
    before = shared_box.tree()

    def work() -> object:
        results = shared_box.gc()
        failed = [mishap.reason for each in results for mishap in each.failed]
        return [failed, [mishap.reason for each in results for mishap in each.skipped]]

    assert in_child(work, nobody=True) == [["Permission denied"], ["a snapshot links to it"]]
    after = {name: what for name, what in shared_box.tree().items() if ".locks" not in name}
    assert after == before


def test_contents_that_cannot_be_deleted_fail_one_by_one(shared_box: Box) -> None:
    (shared_box.repo() / "blobs" / "orphan").write_bytes(b"o")
    (shared_box.repo() / "blobs").chmod(0o555)
    reasons_ = in_child(lambda: mishaps(shared_box.gc()), nobody=True)
    assert reasons_ == ["Permission denied"] * 2
    assert shared_box.blob(b"old" * 100).exists()


def test_locks_of_others_that_cannot_be_opened_close_the_repository(shared_box: Box) -> None:
    lock = shared_box.hub / ".locks" / "models--org--one" / "abc.lock"
    lock.parent.mkdir(parents=True)
    lock.touch(0o600)
    lock.chmod(0)
    assert in_child(lambda: reasons(shared_box.plan()), nobody=True) == ["it is being downloaded"]


@pytest.mark.parametrize("part", ["", "blobs", "snapshots", "refs"])
def test_folders_that_are_links_are_left_alone(box: Box, tmp_path: Path, part: str) -> None:
    box.pair()
    (box.repo() / "blobs" / "orphan").write_bytes(b"o")
    place = box.repo() / part
    place.rename(tmp_path / "moved")
    place.symlink_to(tmp_path / "moved")
    before = box.tree()
    plan = box.plan()
    name = part or "models--org--one"
    assert reasons(plan) == [f"{name} is a link, and what it leads to is left alone"]
    assert (plan.items, box.gc(), box.tree()) == ((), [], before)


@pytest.mark.parametrize("part", ["", "blobs", "snapshots", "refs"])
def test_files_where_folders_should_be(box: Box, part: str) -> None:
    box.pair()
    place = box.repo() / part
    shutil.rmtree(place)
    place.write_text("")
    assert reasons(box.plan()) == [f"{part or 'models--org--one'} is no folder"]
    assert box.gc() == []


def test_a_repository_without_snapshots(box: Box) -> None:
    box.pair()
    shutil.rmtree(box.repo() / "snapshots")
    assert (box.plan().items, reasons(box.plan())) == ((), ["it has no folder of snapshots"])


def test_a_file_among_the_snapshots(box: Box) -> None:
    box.pair()
    (box.repo() / "snapshots" / "readme").write_text("")
    assert reasons(box.plan()) == ["there is a file among its snapshots, readme"]


def test_what_systems_leave_in_folders_is_no_matter(box: Box) -> None:
    old = box.pair()
    for folder in ("snapshots", "refs", "blobs", f"snapshots/{OLD}"):
        (box.repo() / folder / ".DS_Store").write_text("")
    plan = box.plan()
    assert (commits(plan), plan.kept) == ([OLD], ())
    box.execute(plan)
    assert not old.exists()
    assert (box.repo() / "blobs" / ".DS_Store").exists()


def test_a_snapshot_that_is_a_link_stays_with_what_it_shows(box: Box, outside: Path) -> None:
    old = box.pair()
    moved = box.repo() / "snapshots" / ("a" * 40)
    old.rename(outside / "snapshot")
    moved.symlink_to(outside / "snapshot")
    plan = box.plan()
    assert (plan.items, reasons(plan)) == ((), ["it is a link to another folder"])


def test_links_out_of_the_cache_are_deleted_and_not_followed(box: Box, outside: Path) -> None:
    old = box.pair()
    for name, target in (
        ("file", outside / "precious"),
        ("folder", outside),
        ("up", Path("../../../../outside/precious")),
        ("root", Path("/")),
        ("nothing", Path("../../nothing")),
        ("loop", Path("loop")),
    ):
        (old / name).symlink_to(target)
    age(old, 40)
    plan = box.plan(unique=True)
    assert commits(plan) == [OLD]
    assert plan.bytes == 300
    assert mishaps(box.execute(plan)) == []
    assert is_whole(outside)
    assert not old.exists()


def test_blobs_that_are_links_out_of_the_cache_are_left_alone(box: Box, outside: Path) -> None:
    box.pair()
    blob = box.blob(b"old" * 100)
    blob.unlink()
    blob.symlink_to(outside / "precious")
    (box.repo() / "blobs" / "orphan").symlink_to(outside / "precious")
    plan = box.plan()
    assert (commits(plan), plan.bytes) == ([OLD], 0)
    box.execute(plan)
    assert is_whole(outside)
    assert blob.is_symlink()
    assert box.plan().items == ()


def test_folders_among_the_blobs_are_left_alone(box: Box) -> None:
    box.add(MAIN, FILES, refs=["main"])
    folder = box.repo() / "blobs" / "folder.incomplete"
    folder.mkdir()
    (folder / "x").write_text("")
    age(folder, 9)
    assert box.plan().items == ()


def test_names_that_are_no_text(box: Box) -> None:
    name = os.fsdecode(b"models--org--\xff\xfe")
    old = box.add(OLD, {os.fsdecode(b"\xff"): b"x" * 10, "line\nbreak": b"y"}, repo=name)
    box.add(MAIN, {os.fsdecode(b"\xff"): b"z", "line\nbreak": b"y"}, repo=name, refs=["main"])
    (box.repo(name) / "blobs" / os.fsdecode(b"\xfe.incomplete")).write_bytes(b"i")
    plan = box.plan()
    assert (commits(plan), plan.bytes) == ([OLD], 10)
    assert mishaps(box.execute(plan)) == []
    assert not old.exists()


@pytest.mark.parametrize("name", ["models--..--..--etc", "models--", "models--a--..", "modelsx--a"])
def test_names_that_are_no_repositories(box: Box, outside: Path, name: str) -> None:
    box.pair(name)
    for path in box.hub.rglob("*"):
        assert path.is_relative_to(box.hub)
    box.gc(unique=True)
    assert is_whole(outside)


def test_special_files_keep_a_snapshot(box: Box) -> None:
    old = box.pair()
    with socket.socket(socket.AF_UNIX) as listener:
        here = Path.cwd()
        os.chdir(old)  # the path of a socket may have 108 bytes
        try:
            listener.bind("socket")
        finally:
            os.chdir(here)
        age(old, 40)
        assert reasons(box.plan()) == ["socket in it is no file"]


def test_a_ref_that_is_a_pipe_closes_the_repository(box: Box) -> None:
    box.pair()
    os.mkfifo(box.repo() / "refs" / "v1")
    assert reasons(box.plan()) == ["it cannot be read (it is no regular file)"]


def test_a_ref_that_is_huge_closes_the_repository(box: Box) -> None:
    box.pair()
    box.ref("v1", "0" * 5000)
    assert reasons(box.plan()) == ["it cannot be read (it holds more than 1024 bytes)"]


def test_a_snapshot_that_is_too_deep_closes_the_repository(box: Box) -> None:
    old = box.pair()
    (old / "/".join("d" * 70)).mkdir(parents=True)
    assert reasons(box.plan()) == ["d lies too deep"]


@pytest.mark.parametrize("what", ["link", "file"])
def test_a_folder_of_locks_that_is_none(box: Box, outside: Path, what: str) -> None:
    box.pair()
    if what == "link":
        (box.hub / ".locks").symlink_to(outside)
    else:
        (box.hub / ".locks").write_text("")
    results = box.gc()
    assert [each.bytes for each in results] == [0]
    word = "is a link, and what it leads to is left alone" if what == "link" else "is no folder"
    assert mishaps(results) == [f".locks {word}"]
    assert is_whole(outside)


def test_paths_outside_are_refused(box: Box, outside: Path) -> None:
    box.pair()
    ground = ground_at(box.hub)
    with pytest.raises(Obstacle, match="it lies elsewhere"):
        remove_file(ground, look_at(outside / "precious"))
    sneaky = box.repo() / ".." / ".." / "outside" / "precious"
    with pytest.raises(Obstacle, match="it lies elsewhere"):
        remove_file(ground, look_at(sneaky))
    (box.repo() / "door").symlink_to(outside)
    with pytest.raises(Obstacle, match="door is no folder any more"):
        remove_file(ground, look_at(box.repo() / "door" / "precious"))
    assert is_whole(outside)


def test_mount_points_are_read_as_linux_writes_them(monkeypatch: pytest.MonkeyPatch) -> None:
    lines = (
        "22 27 0:21 / /proc rw - proc proc rw\n"
        "40 27 254:0 / /hub/models--a--b\\040c/blobs rw - ext4 /dev/vda rw\n"
        "garbage\n"
    )
    with tempfile.NamedTemporaryFile("w") as file:
        file.write(lines)
        file.flush()
        monkeypatch.setattr(look, "_MOUNTS", Path(file.name))
        assert look._mounts() == ["/proc", "/hub/models--a--b c/blobs"]


@contextmanager
def mounted(*arguments: str) -> Iterator[None]:
    done = subprocess.run(["mount", *arguments], capture_output=True, text=True, check=False)
    if done.returncode:
        pytest.skip(done.stderr)
    try:
        yield
    finally:
        subprocess.run(["umount", arguments[-1]], check=True)


needs_root = pytest.mark.skipif(not ROOT, reason="only root can mount")


@needs_root
@pytest.mark.parametrize("part", ["", "blobs", "snapshots", f"snapshots/{OLD}", "refs"])
@pytest.mark.parametrize("bind", [True, False])
def test_nothing_is_deleted_on_another_disk(box: Box, outside: Path, part: str, bind: bool) -> None:
    """Also where the same disk is mounted a second time, which its number does not tell."""
    box.pair()
    plan = box.plan()
    place = box.repo() / part
    arguments = ["--bind", str(outside)] if bind else ["-t", "tmpfs", "none"]
    with mounted(*arguments, str(place)):
        if not bind:
            (place / "precious").write_text("precious")
        before = sorted(path.name for path in place.iterdir())
        now = box.plan()
        assert now.items == ()
        assert reasons(now) == [f"another disk is mounted at {place.name}"]
        box.execute(plan)
        assert sorted(path.name for path in place.iterdir()) == before
    assert is_whole(outside)


@needs_root
def test_a_cache_on_a_disk_that_cannot_be_written(box: Box, tmp_path: Path) -> None:
    box.pair()
    disk = tmp_path / "disk"
    disk.mkdir()
    with mounted("--bind", str(box.hub), str(disk)):
        subprocess.run(["mount", "-o", "remount,ro,bind", str(disk)], check=True)
        paths = box.paths.__class__(home=box.paths.home, cache=box.paths.cache, hub_cache=disk)
        frozen = Box(paths=paths)
        plan = frozen.plan()
        assert commits(plan) == [OLD]
        with pytest.raises(MlxbunError, match="is read-only: nothing can be deleted there"):
            frozen.execute(plan)
    assert commits(box.plan()) == [OLD]


@needs_root
def test_a_disk_without_times_of_reading_is_told(box: Box) -> None:
    box.hub.mkdir()
    with mounted("-t", "tmpfs", "-o", "noatime", "none", str(box.hub)):
        assert not box.plan().cache.by_access
    assert box.plan().cache.by_access
