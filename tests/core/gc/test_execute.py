"""Deleting exactly what was planned, and each thing only if it is still what it was."""

from __future__ import annotations

import secrets
from collections.abc import Callable
from pathlib import Path

import pytest
from huggingface_hub import scan_cache_dir, snapshot_download

from core.errors import AlreadyRunning
from core.gc.execute import execute
from core.gc.locks import holding
from core.gc.look import Ground
from core.gc.plan import Kind
from core.gc.remove import move_folder, remove_file
from core.gc.seen import Entry
from tests.core.gc.box import DAY, MAIN, OLD, Box, age, commits, mishaps, of_kind

FILES = {"config.json": b"{}"}


def test_a_plan_changes_nothing(box: Box) -> None:
    box.pair()
    before = box.tree()
    box.plan()
    assert box.tree() == before


def test_what_was_planned_goes_and_nothing_else(box: Box) -> None:
    old = box.pair()
    box.add(MAIN, FILES, repo="models--org--two", refs=["main"])
    (box.repo() / "blobs" / "orphan").write_bytes(b"o")
    gone = {
        "hub/models--org--one/blobs/orphan",
        f"hub/{box.blob(b'old' * 100).relative_to(box.hub)}",
    }
    gone |= {f"hub/{path.relative_to(box.hub)}" for path in (old, *old.iterdir())}
    before = box.tree()
    box.gc()
    after = box.tree()
    left = {"hub/.locks", "hub/.locks/models--org--one"}
    assert {name: what for name, what in before.items() if name not in gone} == {
        name: what for name, what in after.items() if name not in left
    }


def test_the_second_time_there_is_nothing_to_do(box: Box) -> None:
    box.pair()
    box.gc()
    assert box.plan().items == ()


def test_huggingface_hub_finds_what_stayed(box: Box) -> None:
    box.pair()
    box.gc()
    assert not scan_cache_dir(box.hub).warnings
    found = snapshot_download("org/one", cache_dir=box.hub, local_files_only=True)
    assert (Path(found).name, (Path(found) / "w").read_bytes()) == (MAIN, b"new" * 100)


def test_results_tell_what_went(box: Box) -> None:
    old = box.pair()
    (result,) = box.gc()
    assert set(result.deleted) == {old, box.blob(b"old" * 100)}
    assert (result.bytes, result.skipped, result.failed) == (300, (), ())


def _add_a_file(box: Box, old: Path) -> None:
    (old / "notes.txt").write_text("mine")


def _replace_a_link(box: Box, old: Path) -> None:
    (old / "w").unlink()
    (old / "w").symlink_to("../../blobs/another")


def _set_a_ref(box: Box, old: Path) -> None:
    box.ref("v1", OLD)


def _remove_the_others(box: Box, old: Path) -> None:
    (box.repo() / "refs" / "main").unlink()
    for path in (box.repo() / "snapshots" / MAIN).iterdir():
        path.unlink()
    (box.repo() / "snapshots" / MAIN).rmdir()


def _make_it_a_link(box: Box, old: Path) -> None:
    old.rename(box.hub.parent / "elsewhere")
    old.symlink_to(box.hub.parent / "elsewhere")


def _break_a_ref(box: Box, old: Path) -> None:
    (box.repo() / "refs" / "v1").symlink_to("v1")


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        (_add_a_file, "it has changed since"),
        (_replace_a_link, "it has changed since"),
        (_set_a_ref, "its repository's name stands for it now"),
        (_remove_the_others, "its repository's name stands for it now"),
        (_make_it_a_link, "it has changed since"),
        (_break_a_ref, "Too many levels of symbolic links"),
    ],
)
def test_a_snapshot_that_changed_stays_with_its_contents(
    box: Box, change: Callable[[Box, Path], None], reason: str
) -> None:
    old = box.pair()
    plan = box.plan()
    change(box, old)
    before = box.tree()
    results = box.execute(plan)
    assert reason in mishaps(results)
    assert not any(each.deleted for each in results)
    after = {name: what for name, what in box.tree().items() if not name.startswith("hub/.locks")}
    assert after == before


def test_a_ref_that_comes_while_it_is_moved_brings_it_back(
    box: Box, monkeypatch: pytest.MonkeyPatch
) -> None:
    old = box.pair()
    plan = box.plan()

    def late(ground: Ground, source: Path, target: Path) -> None:
        move_folder(ground, source, target)
        box.ref("v1", OLD)

    monkeypatch.setattr("core.gc.sweep.move_folder", late)
    results = box.execute(plan)
    assert mishaps(results) == [
        "a branch or a tag stands for it now",
        "something has changed in its repository since",
    ]
    assert (old / "w").read_bytes() == b"old" * 100


def test_an_orphan_that_got_a_link_stays(box: Box) -> None:
    new = box.add(MAIN, FILES, refs=["main"])
    orphan = box.blob(b"o" * 9)
    orphan.write_bytes(b"o" * 9)
    plan = box.plan()
    (new / "x").symlink_to(f"../../blobs/{orphan.name}")
    assert mishaps(box.execute(plan)) == ["something has changed in its repository since"]
    assert (new / "x").read_bytes() == b"o" * 9


def test_links_that_come_between_two_deletions_are_seen(
    box: Box, monkeypatch: pytest.MonkeyPatch
) -> None:
    new = box.add(MAIN, FILES, refs=["main"])
    (new / "deep" / "er").mkdir(parents=True)
    orphans = [box.repo() / "blobs" / name for name in "abc"]
    for orphan in orphans:
        orphan.write_bytes(b"o")
    plan = box.plan()

    def linking(ground: Ground, entry: Entry) -> int:
        freed = remove_file(ground, entry)
        if not (new / "deep/er/c").is_symlink():
            (new / "deep/er/c").symlink_to(orphans[2])
        return freed

    monkeypatch.setattr("core.gc.sweep.remove_file", linking)
    assert mishaps(box.execute(plan)) == ["something has changed in its repository since"] * 2
    assert [orphan.exists() for orphan in orphans] == [False, True, True]


def test_a_revision_that_somebody_begins_to_fetch_keeps_all_contents(box: Box) -> None:
    """huggingface_hub makes its folder first, and trusts what it finds among the contents."""
    box.add(MAIN, FILES, refs=["main"])
    orphan = box.repo() / "blobs" / "orphan"
    orphan.write_bytes(b"o")
    plan = box.plan()
    (box.repo() / "snapshots" / ("a" * 40)).mkdir()
    assert mishaps(box.execute(plan)) == ["something has changed in its repository since"]
    assert orphan.exists()


def test_an_orphan_that_was_written_anew_stays(box: Box) -> None:
    box.add(MAIN, FILES, refs=["main"])
    orphan = box.repo() / "blobs" / "orphan"
    orphan.write_bytes(b"o")
    plan = box.plan()
    orphan.unlink()
    orphan.write_bytes(b"another")
    assert mishaps(box.execute(plan)) == ["it has changed since"]
    assert orphan.read_bytes() == b"another"


def test_what_went_meanwhile_is_told(box: Box) -> None:
    box.pair()
    plan = box.plan()
    box.gc()
    assert mishaps(box.execute(plan)) == [
        "it is gone already",
        "something has changed in its repository since",
    ]


def test_a_content_whose_lock_is_held_stays(box: Box) -> None:
    box.pair()
    plan = box.plan()
    lock = box.hub / ".locks" / "models--org--one" / f"{box.blob(b'old' * 100).name}.lock"
    with holding(lock):
        assert mishaps(box.execute(plan)) == ["it is being downloaded"] * 2
    assert box.blob(b"old" * 100).exists()


def test_lock_files_of_ours_do_not_stay(box: Box) -> None:
    box.pair()
    box.gc()
    assert [path for path in (box.hub / ".locks").rglob("*") if path.is_file()] == []


def test_two_at_once_do_not_get_in_each_others_way(box: Box) -> None:
    box.pair()
    plan = box.plan()
    with holding(box.hub / ".locks" / "mlxbun.gc.lock"), pytest.raises(AlreadyRunning):
        box.execute(plan)
    assert commits(box.plan()) == [OLD]


def test_a_folder_that_became_a_link_is_not_followed(box: Box, tmp_path: Path) -> None:
    box.pair()
    (box.repo() / "blobs" / "orphan").write_bytes(b"o")
    plan = box.plan()
    outside = tmp_path / "outside"
    (box.repo() / "blobs").rename(outside)
    (box.repo() / "blobs").symlink_to(outside)
    before = {path.name for path in outside.iterdir()}
    assert not any(each.deleted for each in box.execute(plan))
    assert {path.name for path in outside.iterdir()} == before


def test_a_repository_that_became_a_link_is_not_followed(box: Box, tmp_path: Path) -> None:
    old = box.pair()
    plan = box.plan()
    box.repo().rename(tmp_path / "outside")
    box.repo().symlink_to(tmp_path / "outside")
    results = box.execute(plan)
    assert not any(each.deleted for each in results)
    assert (tmp_path / "outside" / "snapshots" / OLD / "w").exists()
    assert old.exists()


def test_remains_of_a_crash_are_garbage(box: Box) -> None:
    old = box.add(OLD, {**FILES, "w": b"w" * 100}, links=False)
    box.add(MAIN, FILES, refs=["main"])
    old.rename(box.repo() / f".mlxbun-gc-{secrets.token_hex(8)}")
    temporary = box.repo() / "refs" / f".main.{secrets.token_hex(8)}.tmp"
    temporary.write_text("")
    age(temporary, 2)
    (item,) = box.plan().items
    assert (item.kind, item.what, item.bytes) == (Kind.LEFTOVERS, "2 remnants", 102)
    box.gc()
    assert sorted(path.name for path in box.repo().iterdir()) == ["blobs", "refs", "snapshots"]
    assert not scan_cache_dir(box.hub).warnings


def test_old_locks_go_and_held_ones_stay(box: Box) -> None:
    box.add(MAIN, FILES, refs=["main"])
    folders = [box.hub / ".locks" / name for name in ("models--org--one", "models--org--gone")]
    for folder in folders:
        folder.mkdir(parents=True)
        for name in ("a.lock", "b.lock", "young.lock"):
            (folder / name).touch()
        for name in ("a.lock", "b.lock"):
            age(folder / name, 2)
        (folder / "no-lock").touch()
        age(folder / "no-lock", 9)
    (item,) = box.plan().items
    assert (item.kind, item.what, item.bytes) == (Kind.LOCKS, "4 unused lock files", 0)
    plan = box.plan()
    with holding(folders[1] / "b.lock"):
        results = box.execute(plan)
    assert mishaps(results) == ["somebody holds it"]
    assert [sorted(p.name for p in folder.iterdir()) for folder in folders] == [
        ["no-lock", "young.lock"],
        ["b.lock", "no-lock", "young.lock"],
    ]


def test_incomplete_downloads_go_after_a_day(box: Box) -> None:
    box.add(MAIN, FILES, refs=["main"])
    names = [f"{'a' * 64}.mlxbun.incomplete", f"{'b' * 64}.12345678.incomplete", "c.incomplete"]
    partials = [box.repo() / "blobs" / name for name in names]
    for partial in partials:
        partial.write_bytes(b"x" * 10)
    plan = box.plan()
    assert plan.items == ()
    assert [kept.reason for kept in plan.kept] == [
        "younger than 1 day",
        "younger than 1 day, and `mlxbun download` goes on with it",
    ]
    for partial in partials:
        age(partial, 0.5)
    assert box.plan().items == ()
    (item,) = box.plan(older_than=0).items
    assert (item.kind, item.what, item.bytes) == (
        Kind.INCOMPLETE,
        "3 incomplete downloads",
        30,
    )
    for partial in partials:
        age(partial, 1.5)
    assert len(box.plan().items) == 1
    assert box.plan(older_than=2 * DAY).items == ()
    box.gc()
    assert not any(partial.exists() for partial in partials)
    assert not scan_cache_dir(box.hub).incomplete_files


def test_a_partial_file_that_grows_stays(box: Box) -> None:
    box.add(MAIN, FILES, refs=["main"])
    partial = box.repo() / "blobs" / "c.incomplete"
    partial.write_bytes(b"x" * 10)
    age(partial, 2)
    plan = box.plan()
    with partial.open("ab") as file:
        file.write(b"more")
    assert mishaps(box.execute(plan)) == ["it has changed since"]
    plan = box.plan(older_than=0)
    assert plan.items == ()  # written to a moment ago


def test_without_symlinks_contents_go_with_their_snapshot(box: Box) -> None:
    box.add(OLD, {**FILES, "deep/er/w": b"w" * 100}, links=False)
    box.add(MAIN, {**FILES, "deep/er/w": b"v" * 100}, refs=["main"], links=False)
    (result,) = box.gc()
    assert (result.bytes, result.failed) == (102, ())
    assert not scan_cache_dir(box.hub).warnings


def test_five_hundred_snapshots(box: Box) -> None:
    """Everything that had to stay is there, to the byte."""
    for repo in range(50):
        name = f"models--org--{repo:02}"
        for number in range(10):
            files = {f"f{i}": f"{repo}.{number if i % 3 else 0}.{i}".encode() * 9 for i in range(6)}
            refs = ["main"] if number == 9 else [f"v{number}"] if number % 4 == 0 else []
            box.add(f"{number}" * 40, files, repo=name, refs=refs, days=20 - number)
        (box.repo(name) / "blobs" / "orphan").write_bytes(b"o" * 20)
    plan = box.plan()
    going = [item.snapshot for item in plan.items if item.snapshot]
    assert len(going) == 50 * 6
    gone = {blob.entry.path for item in plan.items for blob in item.blobs}
    gone |= {each.path for each in going}
    relative = {f"hub/{path.relative_to(box.hub)}" for path in gone}
    before = {
        name: what
        for name, what in box.tree().items()
        if not any(name == path or name.startswith(f"{path}/") for path in relative)
    }
    results = list(execute(plan, paths=box.paths))
    assert not mishaps(results)
    after = {name: what for name, what in box.tree().items() if "/.locks" not in name}
    assert after == before
    assert sum(each.bytes for each in results) == plan.bytes > 0
    assert not scan_cache_dir(box.hub).warnings
    assert of_kind(box.plan(), Kind.SNAPSHOT) == []
