"""Rewriting history: the text is nowhere in the repository, and all else stays."""

from __future__ import annotations

import os
import shutil
from functools import partial
from pathlib import Path

import pytest

from core.errors import UsageProblem, VaultBusy
from core.memory import purge as purging
from core.memory.forget import forget, plan_forget
from core.memory.git import Git
from core.memory.opening import Memory
from core.memory.purge import Purged, purge, refuse_purge
from core.memory.vault import LARGEST_PAGE
from core.memory.writer import editing
from tests.core.memory.forgetting import ADA, TRAVEL, all_bytes, git, make, write


def _purge(memory: Memory, target: str) -> Purged:
    plan = plan_forget(memory, target, source=True)
    forget(memory, plan)
    return purge(Git(memory.root), plan)


def _log(root: Path) -> list[str]:
    return git(root, "log", "--format=%an <%ae> %at %cn %ct").splitlines()


def test_the_text_is_nowhere_and_all_else_stays(tmp_path: Path) -> None:
    memory = make(tmp_path)
    root = memory.root
    write(
        root, {"articles/Tea.md": "# Tea\n\nTea is hot.\n"}, message="Add tea from Lyon", run="r2"
    )
    (root / "articles/Mine.md").write_text("# Mine\n\nI was in Lyon. I was in Rome.\n")
    before = _log(root)
    result = _purge(memory, "Lyon")
    assert b"lyon" not in all_bytes(root).lower()
    after = _log(root)
    assert len(after) == result.commits == len(before) + 2  # the user's edit, and the forgetting
    assert after[2:] == before
    assert "Mlxbun-Run: r2" in git(root, "log", "--format=%B")
    assert (root / "articles/Mine.md").read_text() == "# Mine\n\nI was in Rome.\n"
    assert git(root, "status", "--porcelain") == ""
    assert git(root, "fsck", "--full", "--strict") == ""
    assert git(root, "show", f"HEAD~2:{'articles/Tea.md'}") == "# Tea\n\nTea is hot.\n"
    assert "She likes tea." in git(root, "show", f"HEAD~3:{ADA}")
    assert result.after == git(root, "rev-parse", "HEAD").strip()


def test_an_article_is_nowhere(tmp_path: Path) -> None:
    memory = make(tmp_path)
    _purge(memory, "Ada Lovelace")
    names = git(memory.root, "log", "--name-only", "--format=")
    assert set(names.split("\n")) - {""} == {TRAVEL}
    assert b"Ada lives in Lyon" not in all_bytes(memory.root)


def test_what_was_forgotten_before_can_be_purged_later(tmp_path: Path) -> None:
    memory = make(tmp_path)
    root = memory.root
    forget(memory, plan_forget(memory, "Lyon"))
    forget(memory, plan_forget(memory, "Travel"))
    for target, article in (("Lyon", None), ("travel", "Travel")):
        plan = plan_forget(memory, target, history=True)
        assert (plan.article, plan.files) == (article, ())
        assert forget(memory, plan) is None
        assert purge(Git(root), plan).commits > 0
    assert b"Lyon" not in all_bytes(root)
    assert "Travel" not in git(root, "log", "--name-only", "--format=")
    result = purge(Git(root), plan_forget(memory, "Zanzibar", history=True))
    assert (result.commits, result.before) == (0, result.after)


def test_merges_stay_merges(tmp_path: Path) -> None:
    memory = make(tmp_path)
    root = memory.root
    who = ("-c", "user.name=Ada", "-c", "user.email=a@example.invalid")
    git(root, "branch", "side")
    write(root, {"articles/B.md": "# B\n\nLyon.\n"})
    git(root, "checkout", "-q", "side")
    write(root, {"articles/C.md": "# C\n\nLyon, too.\n"})
    git(root, "checkout", "-q", "main")
    git(root, *who, "merge", "-q", "--no-ff", "-m", "Merge", "side")
    git(root, "branch", "-q", "-D", "side")
    shape = git(root, "log", "--format=%s|%p").count(" ")
    _purge(memory, "Lyon")
    assert git(root, "log", "--format=%s|%p").count(" ") == shape + 2  # Forget a text
    assert b"Lyon" not in all_bytes(root)


@pytest.mark.parametrize(
    "command",
    [("branch", "other"), ("tag", "v1"), ("update-ref", "refs/remotes/origin/main", "HEAD"),
     ("branch", "mlxbun/r1")],
)  # fmt: skip
def test_other_refs_are_named(tmp_path: Path, command: tuple[str, ...]) -> None:
    memory = make(tmp_path)
    git(memory.root, *command)
    with pytest.raises(UsageProblem, match="other refs hold it"):
        refuse_purge(Git(memory.root))


def test_a_detached_head_is_refused(tmp_path: Path) -> None:
    memory = make(tmp_path)
    git(memory.root, "checkout", "-q", "--detach")
    with pytest.raises(UsageProblem, match="no branch is checked out"):
        refuse_purge(Git(memory.root))


def test_edits_that_nobody_has_seen_are_refused(tmp_path: Path) -> None:
    memory = make(tmp_path)
    plan = plan_forget(memory, "Lyon")
    forget(memory, plan)
    (memory.root / "articles/New.md").write_text("# New\n")
    with pytest.raises(UsageProblem, match="not committed before"):
        purge(Git(memory.root), plan)
    assert (memory.root / "articles/New.md").read_text() == "# New\n"


def test_a_running_git_command_stops_the_purge(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(purging, "editing", partial(editing, wait=0))
    memory = make(tmp_path)
    plan = plan_forget(memory, "Lyon")
    forget(memory, plan)
    (memory.root / ".git" / "index.lock").write_text("")
    os.utime(memory.root / ".git" / "index.lock")
    with pytest.raises(VaultBusy):
        purge(Git(memory.root), plan)


def test_nothing_configured_in_the_repository_runs(tmp_path: Path) -> None:
    memory = make(tmp_path)
    ran = tmp_path / "ran"
    hook = memory.root / ".git" / "hooks" / "reference-transaction"
    hook.parent.mkdir(exist_ok=True)
    hook.write_text(f"#!/bin/sh\ntouch {ran}\n")
    hook.chmod(0o755)
    git(memory.root, "config", "gc.recentObjectsHook", f"touch {ran}; true")
    git(memory.root, "config", "core.fsmonitor", f"touch {ran}")
    _purge(memory, "Lyon")
    assert not ran.exists()


def test_what_remains_elsewhere_is_named(tmp_path: Path) -> None:
    memory = make(tmp_path)
    git(memory.root, "remote", "add", "backup", "https://example.invalid/x.git")
    write(memory.root, {"README.md": "Lyon\n"})
    result = _purge(memory, "Lyon")
    assert len(result.remaining) == 2
    assert "README.md" in result.remaining[0]
    assert "remote backup" in result.remaining[1]


@pytest.mark.parametrize(
    "name",
    ["rr-cache/ab/preimage", "lost-found/other/x", "TAG_EDITMSG", "COMMIT_EDITMSG~",
     "AUTO_MERGE",
     ".COMMIT_EDITMSG.swp", "fast_import_crash_7", "objects/pack/tmp_pack_x",
     "objects/ab/tmp_obj_x"],
)  # fmt: skip
def test_what_git_and_editors_left_goes(tmp_path: Path, name: str) -> None:
    memory = make(tmp_path)
    file = memory.root / ".git" / name
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text("Lyon")
    assert _purge(memory, "Lyon").remaining == ()
    assert b"lyon" not in all_bytes(memory.root).lower()


def test_packs_that_are_to_be_kept_go(tmp_path: Path) -> None:
    """git marks a pack so while it imports; a killed git leaves the mark."""
    memory = make(tmp_path)
    git(memory.root, "repack", "-adq")
    (pack,) = (memory.root / ".git" / "objects" / "pack").glob("*.pack")
    pack.with_suffix(".keep").write_text("")
    git(memory.root, "commit-graph", "write", "--reachable")
    _purge(memory, "Lyon")
    assert b"lyon" not in all_bytes(memory.root).lower()
    assert git(memory.root, "fsck", "--full", "--strict") == ""


def test_a_partial_clone_is_refused(tmp_path: Path) -> None:
    memory = make(tmp_path)
    git(memory.root, "repack", "-adq")
    (pack,) = (memory.root / ".git" / "objects" / "pack").glob("*.pack")
    pack.with_suffix(".promisor").write_text("")
    with pytest.raises(UsageProblem, match="partial clone"):
        refuse_purge(Git(memory.root))


def test_an_article_goes_under_its_earlier_names_too(tmp_path: Path) -> None:
    memory = make(tmp_path)
    root = memory.root
    git(root, "mv", ADA, "articles/Ada.md")
    with editing(root):
        pass
    result = _purge(memory, "Ada")
    assert b"Ada lives in Lyon" not in all_bytes(root)
    assert set(git(root, "log", "--name-only", "--format=").split("\n")) - {""} == {TRAVEL}
    assert "Ada Lovelace" in " ".join(result.remaining)


def test_files_that_are_not_cleaned_are_named(tmp_path: Path) -> None:
    memory = make(tmp_path)
    root = memory.root
    files = {
        "articles/old/Trip.md": "Lyon",
        "articles/Long.md": "Lyon\n" + "x" * LARGEST_PAGE,
        ".git/description": "Lyon",
    }
    for path, text in files.items():
        (root / path).parent.mkdir(exist_ok=True)
        (root / path).write_text(text)
    who = ("-c", "user.name=Lyon", "-c", "user.email=l@example.invalid")
    git(root, *who, "commit", "-q", "--allow-empty", "-m", "Empty")
    (root / "articles/Link.md").symlink_to(tmp_path / "outside.md")
    (tmp_path / "outside.md").write_text("Lyon")
    said = " ".join(_purge(memory, "Lyon").remaining)
    assert all(path in said for path in files)
    assert "Lyon <l@example.invalid>" in said
    assert "Link.md" not in said


def test_a_lock_of_a_purge_that_was_killed_is_taken_over(tmp_path: Path) -> None:
    memory = make(tmp_path)
    plan = plan_forget(memory, "Lyon")
    forget(memory, plan)
    with editing(memory.root) as edit, edit.git_locked():
        shutil.copy(memory.root / ".git" / "index.lock", tmp_path / "lock")
    shutil.copy(tmp_path / "lock", memory.root / ".git" / "index.lock")
    assert purge(Git(memory.root), plan).commits
