"""The bytes in a plan are what deletion frees, and what huggingface_hub expects it to free."""

from __future__ import annotations

import os
import tempfile
import time
from pathlib import Path

import pytest
from huggingface_hub import scan_cache_dir
from hypothesis import given, settings
from hypothesis import strategies as st

from core.gc.plan import Kind
from tests.core.gc.box import DAY, MAIN, OLD, Box, age, commits, of_kind

FILES = {"config.json": b"{}"}


def file_bytes(folder: Path) -> int:
    files = [path for path in folder.rglob("*") if path.is_file() and not path.is_symlink()]
    return sum({path.stat().st_ino: path.stat().st_size for path in files}.values())


def test_what_a_snapshot_that_stays_has_too_does_not_count(box: Box) -> None:
    box.add(OLD, {**FILES, "a": b"x" * 100, "b": b"y" * 10})
    box.add(MAIN, {**FILES, "a": b"z", "b": b"y" * 10}, refs=["main"])
    assert box.plan().bytes == 100


def test_what_two_that_go_share_counts_once(box: Box) -> None:
    box.add("a" * 40, {**FILES, "x": b"x" * 100}, days=30)
    box.add("b" * 40, {**FILES, "x": b"x" * 100}, days=20)
    box.add(MAIN, {**FILES, "x": b"z"}, refs=["main"])
    plan = box.plan()
    assert [item.bytes for item in plan.items] == [100, 0]
    # What is still linked by one that stays is not counted, in either.
    assert box.plan(keep=1).bytes == 0


def test_files_in_the_snapshot_itself_count(box: Box) -> None:
    box.add(OLD, {**FILES, "x": b"x" * 100}, links=False)
    box.add(MAIN, {**FILES, "x": b"x" * 100}, refs=["main"])
    assert box.plan().bytes == 102


def test_hard_links_count_when_the_last_goes(box: Box) -> None:
    old = box.add(OLD, {**FILES, "x": b"x" * 100}, links=False)
    box.add(MAIN, {**FILES, "x": b"z"}, refs=["main"])
    orphan = box.blob(b"x" * 100)
    orphan.hardlink_to(old / "x")  # as `core.download.layout` does without links
    plan = box.plan()
    assert plan.bytes == 102
    assert [item.bytes for item in plan.items] == [102]
    results = box.execute(plan)
    assert sum(each.bytes for each in results) == 102
    assert not orphan.exists()


def test_hard_links_from_elsewhere_free_nothing(box: Box, tmp_path: Path) -> None:
    box.pair()
    (tmp_path / "mine").hardlink_to(box.blob(b"old" * 100))
    plan = box.plan()
    assert (commits(plan), plan.bytes) == ([OLD], 0)
    assert sum(each.bytes for each in box.execute(plan)) == 0
    assert (tmp_path / "mine").read_bytes() == b"old" * 100


def test_a_link_from_another_repository_keeps_a_content(box: Box) -> None:
    box.pair()
    other = box.add(MAIN, FILES, repo="models--org--two", refs=["main"])
    (other / "w").symlink_to(os.path.relpath(box.blob(b"old" * 100), other))
    plan = box.plan()
    assert (commits(plan), plan.bytes) == ([OLD], 0)
    box.execute(plan)
    assert (other / "w").read_bytes() == b"old" * 100


def test_orphans_count(box: Box) -> None:
    box.add(MAIN, FILES, refs=["main"])
    box.blob(b"o" * 50).write_bytes(b"o" * 50)
    box.blob(b"p" * 30).write_bytes(b"p" * 30)
    (item,) = box.plan().items
    assert (item.kind, item.what, item.bytes) == (Kind.BLOBS, "2 orphaned blobs", 80)


def test_the_sum_is_what_the_disk_gets_back(box: Box) -> None:
    for name in ("models--a--a", "datasets--b--b"):
        box.pair(name)
        box.add("a" * 40, {**FILES, "w": b"old" * 100, "sub/y": b"y" * 7}, repo=name, days=50)
        (box.repo(name) / "blobs" / "orphan").write_bytes(b"o" * 11)
    before = file_bytes(box.hub)
    plan = box.plan(unique=True)
    results = box.execute(plan)
    assert plan.bytes == sum(each.bytes for each in results) == before - file_bytes(box.hub)
    assert [each.bytes for each in results] == [item.bytes for item in plan.items]


def test_shares_tell_what_is_superseded_by_repository(box: Box) -> None:
    box.pair()
    box.add("a" * 40, {"rare": b"r"})
    (box.repo() / "blobs" / "orphan").write_bytes(b"o" * 11)
    box.add(MAIN, FILES, repo="models--org--tidy", refs=["main"])
    (share,) = box.plan().shares()
    assert share.repository.repo_id == "org/one"
    assert [i.snapshot.commit for i in share.snapshots if i.snapshot] == [OLD]
    assert [k.snapshot.commit for k in share.unique if k.snapshot] == ["a" * 40]
    assert {blob.entry.path.name for blob in share.blobs} == {
        "orphan",
        box.blob(b"old" * 100).name,
    }
    assert share.bytes == 311


contents = st.integers(0, 5).map(lambda number: bytes([65 + number]) * (number * 7 + 1))
snapshots = st.dictionaries(st.sampled_from(["a", "b", "c", "d/e"]), contents, max_size=4)
repositories = st.lists(
    st.tuples(snapshots, st.booleans(), st.booleans()), min_size=1, max_size=5
)  # files, referenced, links


@settings(max_examples=60, deadline=None)
@given(st.lists(repositories, min_size=1, max_size=3))
def test_huggingface_hub_expects_the_same(
    repos: list[list[tuple[dict[str, bytes], bool, bool]]],
) -> None:
    with tempfile.TemporaryDirectory() as folder:
        box = Box.at(Path(folder))
        for number, revisions in enumerate(repos):
            name = f"models--org--{number}"
            for place, (files, referenced, links) in enumerate(revisions):
                commit = f"{number}{place}".ljust(40, "e")
                refs = [f"r{place}"] if referenced else []
                box.add(commit, files, repo=name, refs=refs, links=links, days=9 - place)
        plan = box.plan(unique=True)
        going = commits(plan)
        theirs = scan_cache_dir(box.hub)
        strategy = theirs.delete_revisions(*going)
        orphans = sum(item.bytes for item in of_kind(plan, Kind.BLOBS))
        # They count a content that is written without links once a snapshot, as we do.
        assert plan.bytes - orphans == strategy.expected_freed_size
        assert {s.name for s in strategy.snapshots} == set(going)
        detached = {
            revision.commit_hash
            for repo in theirs.repos
            for revision in repo.revisions
            if not revision.refs
        }
        newest = {  # of a repository without refs: they would delete the whole repository
            max(repo.revisions, key=lambda r: (r.snapshot_path.stat().st_mtime, r.commit_hash))
            for repo in theirs.repos
            if not repo.refs
        }
        assert set(going) == detached - {revision.commit_hash for revision in newest}
        before = file_bytes(box.hub)
        box.execute(plan)
        assert before - file_bytes(box.hub) == plan.bytes
        after = scan_cache_dir(box.hub)
        assert not after.warnings
        left = {revision.commit_hash for repo in after.repos for revision in repo.revisions}
        assert left == {r.commit_hash for repo in theirs.repos for r in repo.revisions} - set(going)


def test_dates_that_no_calendar_has(box: Box) -> None:
    old = box.pair()
    os.utime(box.blob(b"old" * 100), (2**33, 2**33))
    assert commits(box.plan()) == [OLD]
    assert commits(box.plan(older_than=DAY)) == []
    os.utime(box.blob(b"old" * 100), (0, -(2**31)))
    age(old, 50)
    assert commits(box.plan(older_than=DAY, now=time.time())) == [OLD]


@pytest.mark.parametrize("links", [True, False])
def test_nothing_superseded_is_nothing_to_do(box: Box, links: bool) -> None:
    box.add(MAIN, FILES, refs=["main"], links=links)
    assert (box.plan().items, box.plan().kept) == ((), ())
    assert box.gc() == []
