"""The store that repositories share, made by huggingface_hub's own functions."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from huggingface_hub import scan_cache_dir, snapshot_download
from huggingface_hub.utils import _shared_blobs

from core.gc.locks import holding
from core.gc.plan import Kind
from core.gc.shared import lock_of
from tests.core.gc.box import MAIN, OLD, Box, age, commits, mishaps, of_kind

DATA = b"old" * 100  # the weights of the old snapshot of `Box.pair`


def share(box: Box, repo: str = "models--org--one", data: bytes = DATA) -> Path:
    """Move a content into the store, and return where it lies there."""
    blob = box.blob(data, repo=repo)
    hashed = f"{len(data):x}".rjust(64, "a")
    assert _shared_blobs.publish_blob_to_shared_store(
        blob_path=str(blob), xet_hash=hashed, cache_dir=box.hub, expected_size=len(data)
    )
    assert blob.is_symlink()
    return _shared_blobs.shared_blob_path(box.hub, hashed)


def expected(box: Box, *going: str) -> int:
    return scan_cache_dir(box.hub).delete_revisions(*going).expected_freed_size


def test_a_content_goes_with_the_last_link_to_it(box: Box) -> None:
    box.pair()
    payload = share(box)
    age(payload, 40)
    plan = box.plan()
    assert commits(plan) == [OLD]
    assert plan.bytes == expected(box, OLD) == 300
    (result,) = box.execute(plan)
    assert (result.bytes, result.skipped) == (300, ())
    assert not payload.exists()
    assert not payload.with_name(f"{payload.name}.refs").exists()
    assert not box.blob(DATA).is_symlink()
    assert not scan_cache_dir(box.hub).warnings
    snapshot_download("org/one", cache_dir=box.hub, local_files_only=True)


def test_a_content_that_another_repository_has_stays(box: Box) -> None:
    box.pair()
    box.add(MAIN, {"w": DATA}, repo="models--org--two", refs=["main"])
    payload = share(box)
    assert share(box, "models--org--two") == payload
    plan = box.plan()
    assert (commits(plan), plan.bytes) == ([OLD], 0)
    assert expected(box, OLD) == 0
    box.execute(plan)
    assert not box.blob(DATA).is_symlink()
    assert payload.read_bytes() == DATA
    assert (box.repo("models--org--two") / "snapshots" / MAIN / "w").read_bytes() == DATA


def test_a_content_goes_when_both_its_repositories_are_done_with_it(box: Box) -> None:
    for repo in ("models--org--one", "models--org--two"):
        box.pair(repo)
        payload = share(box, repo)
    plan = box.plan()
    assert plan.bytes == 300
    assert sum(each.bytes for each in box.execute(plan)) == 300
    assert box.plan().items == ()
    assert not payload.exists()
    assert not scan_cache_dir(box.hub).warnings


def test_a_link_past_the_list_keeps_a_content(box: Box) -> None:
    box.pair()
    payload = share(box)
    other = box.add(MAIN, {"config.json": b"{}"}, repo="models--org--two", refs=["main"])
    (other / "w").symlink_to(os.path.relpath(payload, other))
    plan = box.plan()
    assert (commits(plan), plan.bytes) == ([OLD], 0)
    box.execute(plan)
    assert (other / "w").read_bytes() == DATA


def test_contents_without_any_link_are_garbage(box: Box) -> None:
    box.pair()
    payload = share(box)
    blob = box.blob(DATA)
    blob.unlink()
    (box.repo() / "snapshots" / OLD / "w").unlink()
    assert _shared_blobs.unreferenced_shared_blobs(box.hub) == {payload: 300}
    (item,) = of_kind(box.plan(unique=True), Kind.SHARED)
    assert (item.what, item.bytes) == ("1 shared blob", 300)
    assert of_kind(box.plan("org/one"), Kind.SHARED) == []
    box.gc()
    assert not payload.exists()


def test_contents_whose_links_cannot_be_told_stay(box: Box) -> None:
    box.pair()
    payload = share(box)
    box.blob(DATA).unlink()
    manifest = payload.with_name(f"{payload.name}.refs")
    told = manifest.read_bytes()
    manifest.write_bytes(b"\xff\n")
    assert of_kind(box.plan(), Kind.SHARED) == []
    manifest.unlink()
    assert of_kind(box.plan(), Kind.SHARED) == []
    manifest.write_bytes(told + b"../../etc/passwd\nmodels--a/../b\n\n")
    assert len(of_kind(box.plan(), Kind.SHARED)) == 1


def test_a_content_that_a_snapshot_leads_to_stays_whatever_its_list_says(box: Box) -> None:
    box.pair()
    payload = share(box)
    box.blob(DATA).unlink()
    link = box.repo() / "snapshots" / MAIN / "direct"
    link.symlink_to(os.path.relpath(payload, link.parent))
    assert of_kind(box.plan(), Kind.SHARED) == []


def test_a_content_whose_lock_is_held_stays(box: Box) -> None:
    box.pair()
    payload = share(box)
    plan = box.plan()
    with holding(lock_of(payload)):
        (result,) = box.execute(plan)
    assert result.bytes == 0
    assert payload.exists()
    # Its last link is gone: the next time it goes by itself.
    (item,) = box.plan().items
    assert (item.kind, item.bytes) == (Kind.SHARED, 300)


def test_a_link_that_comes_meanwhile_keeps_a_content(box: Box) -> None:
    box.pair()
    payload = share(box)
    blob = box.blob(DATA)
    target = blob.readlink()
    blob.unlink()
    plan = box.plan()
    assert len(of_kind(plan, Kind.SHARED)) == 1
    blob.symlink_to(target)
    assert "it is in use" in mishaps(box.execute(plan))
    assert payload.exists()


@pytest.mark.parametrize("mark", [b"2\n", b"", None])
def test_a_folder_that_is_no_store_is_not_looked_into(box: Box, mark: bytes | None) -> None:
    box.pair()
    payload = share(box)
    marker = payload.parent.parent / _shared_blobs.SHARED_BLOBS_MARKER_NAME
    if mark is None:
        marker.unlink()
    else:
        marker.chmod(0o600)
        marker.write_bytes(mark)
    plan = box.plan()
    assert (commits(plan), plan.bytes) == ([OLD], 0)
    box.execute(plan)
    assert payload.exists()
    assert box.blob(DATA).is_symlink()
