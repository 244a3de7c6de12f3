"""Which snapshots go, and why others stay."""

from __future__ import annotations

import os

import pytest

from core.errors import NotFound
from core.gc.choose import age_of
from core.gc.plan import Kind
from tests.core.gc.box import DAY, MAIN, OLD, Box, age, commits, of_kind, reasons

FILES = {"config.json": b"{}"}


def test_what_no_ref_stands_for_is_superseded(box: Box) -> None:
    box.pair()
    plan = box.plan()
    assert commits(plan) == [OLD]
    assert plan.bytes == 300  # of the weights; the config is the new one's, too
    assert plan.kept == ()


@pytest.mark.parametrize("ref", ["main", "v1.0", "refs/pr/3", "feature/x"])
def test_what_any_ref_stands_for_stays(box: Box, ref: str) -> None:
    box.pair()
    box.ref(ref, OLD)
    assert commits(box.plan()) == ([] if ref != "main" else [MAIN])


def test_a_ref_with_a_newline_counts(box: Box) -> None:
    box.pair()
    box.ref("v1", OLD + "\n")
    assert box.plan().items == ()


def test_without_refs_the_newest_is_what_the_name_stands_for(box: Box) -> None:
    for days, commit in ((30, "a"), (10, "b"), (20, "c")):
        box.add(commit * 40, FILES, days=days)
    assert commits(box.plan()) == ["c" * 40, "a" * 40]


def test_a_ref_to_a_snapshot_that_is_not_there_protects_nothing_else(box: Box) -> None:
    box.add("a" * 40, FILES, days=30)
    box.add("b" * 40, FILES, days=10)
    box.ref("main", "c" * 40)
    assert commits(box.plan()) == ["a" * 40]


def test_the_only_snapshot_stays(box: Box) -> None:
    box.add(OLD, FILES)
    assert box.plan().items == ()


def test_keep_counts_the_newest(box: Box) -> None:
    box.add(MAIN, FILES, refs=["main"], days=1)
    for day in range(2, 7):
        box.add(str(day) * 40, FILES, days=day)
    plan = box.plan(keep=2)
    assert commits(plan) == ["4" * 40, "5" * 40, "6" * 40]
    assert reasons(plan) == ["--keep 2 asks for it"] * 2
    assert commits(box.plan(keep=9)) == []


def test_older_than_looks_at_the_last_use_of_what_is_not_shared(box: Box) -> None:
    old = box.pair()
    os.utime(box.repo() / "blobs" / (old / "config.json").readlink().name)  # the new one's, too
    assert commits(box.plan(older_than=30 * DAY)) == [OLD]
    assert commits(box.plan(older_than=50 * DAY)) == []
    assert reasons(box.plan(older_than=50 * DAY)) == ["it was used 40 days ago"]
    os.utime(box.blob(b"old" * 100))
    assert commits(box.plan(older_than=30 * DAY)) == []


def test_reading_counts_as_use(box: Box) -> None:
    box.pair()
    blob = box.blob(b"old" * 100)
    os.utime(blob, (blob.stat().st_mtime + 35 * DAY, blob.stat().st_mtime))
    assert commits(box.plan(older_than=30 * DAY)) == []
    assert commits(box.plan(older_than=4 * DAY)) == [OLD]


def test_a_snapshot_with_a_file_that_no_other_has_stays(box: Box) -> None:
    box.add(OLD, {**FILES, "only.gguf": b"1", "sub/x": b"2"})
    box.add(MAIN, FILES, refs=["main"])
    plan = box.plan()
    assert commits(plan) == []
    assert plan.kept[0].unique == ("only.gguf", "sub/x")
    assert reasons(plan) == ["no other snapshot has only.gguf and 1 more"]
    assert commits(box.plan(unique=True)) == [OLD]


def test_the_newest_version_of_a_file_is_enough(box: Box) -> None:
    box.add("a" * 40, {**FILES, "x": b"1"}, days=30)
    box.add("b" * 40, {**FILES, "x": b"2"}, days=20)
    box.add(MAIN, FILES, refs=["main"])
    assert commits(box.plan()) == ["a" * 40]


def test_a_half_fetched_revision_supersedes_nothing(box: Box) -> None:
    """huggingface_hub sets the ref before the first file is there."""
    box.add(OLD, {**FILES, "w": b"whole"})
    new = box.add(MAIN, FILES, refs=["main"])
    (new / "w").symlink_to("../../blobs/nothing")
    assert commits(box.plan()) == []


def test_a_file_that_leads_nowhere_is_not_worth_keeping(box: Box) -> None:
    old = box.add(OLD, FILES)
    (old / "lost").symlink_to("../../blobs/nothing")
    box.add(MAIN, FILES, refs=["main"])
    assert commits(box.plan()) == [OLD]


def test_what_others_link_into_stays(box: Box) -> None:
    box.add("a" * 40, FILES, days=30)
    middle = box.add("b" * 40, FILES, days=20)
    new = box.add(MAIN, FILES, refs=["main"])
    (middle / "config.json").unlink()
    (middle / "config.json").symlink_to(f"../{'a' * 40}/config.json")
    age(middle, 20)
    assert commits(box.plan()) == ["b" * 40, "a" * 40]
    (new / "config.json").unlink()
    (new / "config.json").symlink_to(f"../{'b' * 40}/config.json")
    plan = box.plan()
    assert commits(plan) == []
    assert reasons(plan) == ["snapshot ffffffff links into it", "snapshot bbbbbbbb links into it"]


def test_a_folder_of_models_that_leads_to_a_snapshot_protects_it(box: Box) -> None:
    old = box.pair()
    models = box.hub.parent / "models"
    models.mkdir()
    (models / "mine").symlink_to(old)
    plan = box.plan(folders=(str(models),))
    assert commits(plan) == []
    assert reasons(plan) == [f"{models}/mine leads to it"]


def test_a_folder_of_models_with_links_into_a_snapshot_protects_it(box: Box) -> None:
    old = box.pair()
    mine = box.hub.parent / "models" / "mine"
    mine.mkdir(parents=True)
    for file in old.iterdir():
        (mine / file.name).symlink_to(file)
    assert commits(box.plan(folders=(str(mine.parent),))) == []


def test_a_folder_of_models_with_links_to_contents_protects_those(box: Box) -> None:
    box.pair()
    mine = box.hub.parent / "models" / "mine"
    mine.mkdir(parents=True)
    (mine / "config.json").write_text("{}")
    (mine / "w").symlink_to(box.blob(b"old" * 100))
    plan = box.plan(folders=(str(mine.parent),))
    assert (commits(plan), plan.bytes) == ([OLD], 0)
    box.execute(plan, folders=(str(mine.parent),))
    assert (mine / "w").read_bytes() == b"old" * 100


def test_one_repository_can_be_named(box: Box) -> None:
    for name in ("models--org--one", "models--org--one-more", "datasets--org--data"):
        box.pair(name)
    assert len(commits(box.plan())) == 3
    assert len(commits(box.plan("org/one"))) == 1
    assert len(commits(box.plan("ONE"))) == 2
    assert len(commits(box.plan("datasets/org/data"))) == 1
    with pytest.raises(NotFound, match="has 'two' in its name"):
        box.plan("two")


def test_data_sets_and_spaces_are_tidied_as_models_are(box: Box) -> None:
    kinds = ("datasets--o--d", "spaces--o--s", "kernels--o--k", "models--bare")
    for name in kinds:
        box.pair(name)
    box.pair("strangers--o--x")
    labels = [i.repository.label for i in of_kind(box.plan(), Kind.SNAPSHOT) if i.repository]
    assert labels == ["datasets/o/d", "kernels/o/k", "bare", "spaces/o/s"]


def test_ages_in_words() -> None:
    assert age_of(5) == "a moment"
    assert age_of(3700) == "1 h 1 min"
    assert age_of(DAY) == "1 day"
    assert age_of(41.9 * DAY) == "41 days"
