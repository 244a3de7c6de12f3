"""git as the library of record: nothing foreign runs, only the vault's own repository is used."""

from __future__ import annotations

import os
import shutil
import time
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

import pytest

from core.errors import GitMissing, MlxbunError, StoreCorrupt, UsageProblem
from core.memory import git_process
from core.memory.fast_import import MLXBUN, FileChange, Person
from core.memory.git import Git
from core.memory.history import blame, diff, history, read_as_of
from core.memory.revert import revert_article
from core.memory.worktree import scan
from core.memory.writer import Change, editing
from tests.core.memory.repositories import Trap, new_vault, sha, user_git

_NOW = datetime(2026, 3, 1, 12, tzinfo=UTC)


def _commit(git: Git, files: dict[str, bytes | None], parent: str | None = None) -> str:
    changes = [FileChange(path=path, data=data) for path, data in files.items()]
    person = Person(name="Vera", email="v@example.com")
    commit = git.write_commit(changes, parent=parent, author=person, message="Hi\n", when=_NOW)
    assert git.move_ref("refs/heads/main", commit, parent, why="test")
    return commit


def test_the_trap_works(tmp_path: Path) -> None:
    """Otherwise the next test would prove nothing."""
    root, trap = new_vault(tmp_path / "v", Ada="Ada.\n"), Trap(tmp_path / "trap")
    trap.install(root)
    user_git(root, "-c", "commit.gpgSign=false", "status", check=False)
    assert trap.sprung()
    user_git(root, "-c", "core.fsmonitor=false", "add", "articles", check=False)
    assert trap.sprung()


def test_nothing_of_a_hostile_repository_runs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    root, trap = new_vault(tmp_path / "v", Ada="Ada.\r\n$Id$\n"), Trap(tmp_path / "trap")
    with editing(root) as edit:
        edit.commit([Change(path="articles/B.md", before=None, after="B.\n")], "Add B", run="r-1")
    trap.install(root)
    trap.surround(monkeypatch, root)
    (root / "articles" / "Ada.md").write_text("Ada.\r\n$Id$\nMore.\n")
    with editing(root) as edit:
        assert set(edit.recorded) >= {"articles/Ada.md", ".gitattributes"}
        edit.commit([Change(path="articles/B.md", before=sha("B.\n"), after="B!\n")], "Change B")
        edit.commit_on_branch("mlxbun/x", [Change(path="n", before=None, after="")], "Review")
    git = Git(root)
    assert git.show("HEAD", "articles/Ada.md") == b"Ada.\r\n$Id$\nMore.\n"
    assert [each.commit.author for each in history(git, "articles/B.md")] == ["mlxbun", "mlxbun"]
    assert "+B!" in diff(git, "articles/B.md").text
    assert [line.text for line in blame(git, "articles/Ada.md")] == ["Ada.", "$Id$", "More."]
    assert read_as_of(git, "articles/B.md", "2999-01-01").text == "B!\n"
    assert git.show("HEAD", "articles/Missing.md") is None
    assert git.resolve("0123456789") is None
    revert_article(root, "articles/B.md")
    assert git.tree(git.head())["articles/Ada.md"].mode == "100644"
    assert trap.sprung() == []


def test_missing_objects_are_not_fetched(tmp_path: Path) -> None:
    """A partial clone names a program that would fetch them."""
    root, trap = new_vault(tmp_path / "v", Ada="Ada.\n"), Trap(tmp_path / "trap")
    with editing(root):
        pass
    trap.install(root)
    git = Git(root)
    blob = git.tree(git.head())["articles/Ada.md"].blob
    (root / ".git" / "objects" / blob[:2] / blob[2:]).unlink()
    assert git.show("HEAD", "articles/Ada.md") is None
    assert list(git.blobs([blob])) == [None]
    assert trap.sprung() == []


def test_any_name_and_any_bytes_come_back(tmp_path: Path) -> None:
    git = Git(new_vault(tmp_path))
    names = ['a"\nb', "東京", "-rf", ":(glob)*", "*", "a\\b", " x ", "\udcff", "HEAD", "tab\there"]
    files: dict[str, bytes | None] = {f"articles/{name}.md": os.urandom(999) for name in names}
    commit = _commit(git, files)
    assert set(git.tree(commit)) == set(files)
    for path, data in files.items():
        assert git.show(commit, path) == data
        assert [each.commit.hash for each in history(git, path)] == [commit]
    assert list(git.blobs(f"{commit}:{path}" for path in files)) == list(files.values())


@pytest.mark.parametrize("rev", ["HEAD", "main", "HEAD~1", "--all", "", "abc", "0" * 41, "ABCDEF"])
def test_only_hashes_resolve(tmp_path: Path, rev: str) -> None:
    git = Git(new_vault(tmp_path))
    _commit(git, {"a": b"1"})
    assert git.resolve(rev) is None


def test_only_commits_resolve(tmp_path: Path) -> None:
    git = Git(new_vault(tmp_path))
    commit = _commit(git, {"a": b"1"})
    user_git(tmp_path, "tag", "-a", "-m", "x", "v1")
    user_git(tmp_path, "branch", "abcdef")
    others = user_git(tmp_path, "rev-parse", "HEAD^{tree}", "HEAD:a", "v1").split()
    assert [git.resolve(each) for each in [*others, "abcdef"]] == [None] * 4
    assert git.resolve(commit[:7]) == commit


def test_a_ref_moves_only_from_where_it_is_believed_to_be(tmp_path: Path) -> None:
    git = Git(new_vault(tmp_path))
    first = _commit(git, {"a": b"1"})
    second = _commit(git, {"a": b"2"}, first)
    assert not git.move_ref("refs/heads/main", first, None, why="x")
    assert not git.move_ref("refs/heads/main", first, first, why="x")
    assert git.head() == second


def test_a_scan_names_what_is_not_committed(tmp_path: Path) -> None:
    git = Git(new_vault(tmp_path, Ada="Ada.\n"))
    _commit(git, {"articles/Bob.md": b"Bob.\n", "articles/Cleo.md": b"Cleo.\n"})
    (tmp_path / "articles" / "Bob.md").write_text("Bob!\n")
    assert [(each.path, each.state) for each in scan(git, git.tree(git.head())).dirty] == [
        ("articles/Ada.md", "new"),
        ("articles/Bob.md", "modified"),
        ("articles/Cleo.md", "deleted"),
    ]


def test_a_person_cannot_write_more_than_a_name(tmp_path: Path) -> None:
    git = Git(new_vault(tmp_path))
    person = Person(name="V\n> <x>\0", email="a\n>b")
    commit = git.write_commit([], parent=None, author=person, message="x", when=_NOW)
    shown = git.run("cat-file", "commit", commit)
    assert b"author V x <a b> 1772366400 +0000\n" in shown
    assert b"committer mlxbun <memory@mlxbun.invalid>" in shown
    assert Person(name="<>", email="").line() == b"unknown <>"


# -- which repository ------------------------------------------------------------------------------


def test_a_vault_inside_another_repository_gets_its_own(tmp_path: Path) -> None:
    user_git(tmp_path, "init", "-q")
    vault = tmp_path / "notes" / "vault"
    vault.mkdir(parents=True)
    git = Git(vault)
    assert not git.is_top_level()
    with pytest.raises(UsageProblem, match="is not a git repository"):
        git.head()
    assert git.init()
    assert not git.init()
    assert git.is_top_level()
    assert git.head() is None
    assert user_git(vault, "rev-parse", "--show-toplevel").strip() == str(vault)


def test_a_linked_work_tree_is_refused(tmp_path: Path) -> None:
    main = new_vault(tmp_path / "main", Ada="Ada.\n")
    with editing(main):
        pass
    user_git(main, "worktree", "add", "-q", str(tmp_path / "linked"))
    git = Git(tmp_path / "linked")
    assert not git.is_top_level()
    with pytest.raises(UsageProblem, match="not a repository of the vault's own"):
        git.init()
    with (
        pytest.raises(UsageProblem, match="not a repository of the vault's own"),
        editing(tmp_path / "linked"),
    ):
        pass


def test_a_link_to_a_repository_is_refused(tmp_path: Path) -> None:
    main = new_vault(tmp_path / "main")
    (tmp_path / "v").mkdir()
    (tmp_path / "v" / ".git").symlink_to(main / ".git")
    with pytest.raises(UsageProblem, match="not a repository of the vault's own"):
        Git(tmp_path / "v").init()


def test_another_hash_is_named(tmp_path: Path) -> None:
    user_git(tmp_path, "init", "-q", "--object-format=sha256", "-b", "main")
    user_git(tmp_path, "commit", "-q", "--allow-empty", "-m", "x")
    with pytest.raises(UsageProblem, match="SHA-1"):
        Git(tmp_path).head()


# -- git itself ------------------------------------------------------------------------------------


def _fake_git(folder: Path, script: str) -> str:
    folder.mkdir()
    (folder / "git").write_text(f"#!/bin/sh\n{script}\n")
    (folder / "git").chmod(0o755)
    return str(folder)


def test_a_missing_git_is_one_sentence(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    root = new_vault(tmp_path / "v")
    monkeypatch.setenv("PATH", str(tmp_path / "nothing"))
    with pytest.raises(GitMissing, match=r"^git is not installed\.$"):
        Git(root).head()


@pytest.mark.parametrize(
    ("script", "message"),
    [
        ("echo git version 2.20.1", "git 2.20 is too old"),
        ("echo xcode-select: no developer tools were found >&2; exit 1", "no developer tools"),
        ("exit 0", "no version"),
    ],
)
def test_an_unusable_git_is_one_sentence(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, script: str, message: str
) -> None:
    root = new_vault(tmp_path / "v")
    monkeypatch.setenv("PATH", _fake_git(tmp_path / "bin", script))
    with pytest.raises(GitMissing, match=message) as caught:
        Git(root).head()
    assert caught.value.hint is not None
    assert "2.32" in caught.value.hint


def test_no_git_is_taken_from_the_vault(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    root = new_vault(tmp_path / "v")
    bad = _fake_git(root / "bin", f"touch {tmp_path}/ran; echo git version 2.40")
    monkeypatch.chdir(root)
    monkeypatch.setenv("PATH", f"bin:.:{bad}:{os.environ['PATH']}")
    assert Git(root).head() is None
    assert not (tmp_path / "ran").exists()


def test_output_is_bounded(tmp_path: Path) -> None:
    git = Git(new_vault(tmp_path))
    commit = _commit(git, {"a": b"x" * 5000})
    assert git.show(commit, "a", limit=5000) == b"x" * 5000
    with pytest.raises(MlxbunError, match="printed more than mlxbun reads"):
        git.show(commit, "a", limit=4999)
    done = git.call("cat-file", "blob", f"{commit}:a", limit=10, cut=True)
    assert (done.out, done.cut) == (b"x" * 10, True)


def test_time_is_bounded(tmp_path: Path) -> None:
    script = _fake_git(tmp_path / "bin", "exec sleep 60") + "/git"
    began = time.monotonic()
    with pytest.raises(MlxbunError, match="took longer than"):
        git_process._executed(
            [script], {"PATH": os.environ["PATH"]}, cwd=tmp_path, limit=9, timeout=0.2
        )
    assert time.monotonic() - began < 50


def test_what_git_reads_may_fail_on_our_side(tmp_path: Path) -> None:
    git = Git(new_vault(tmp_path))

    def changes() -> Iterator[FileChange]:
        yield FileChange(path="a", data=b"1")
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        git.write_commit(changes(), parent=None, author=MLXBUN, message="x", when=_NOW)


def test_a_damaged_repository_is_one_sentence(tmp_path: Path) -> None:
    git = Git(new_vault(tmp_path))
    commit = _commit(git, {"a": b"1"})
    (tmp_path / ".git" / "objects" / commit[:2] / commit[2:]).unlink()
    with pytest.raises(StoreCorrupt, match=r"^git ls-tree failed in .*\.$"):
        git.tree(commit)


def test_the_view_comes_back_after_tidying(tmp_path: Path) -> None:
    git = Git(new_vault(tmp_path))
    commit = _commit(git, {"a": b"1"})
    shutil.rmtree(git._view_folder())
    assert git.show(commit, "a") == b"1"


def _commit_with_tree(root: Path, tree: str) -> None:
    parent = user_git(root, "rev-parse", "HEAD").strip()
    commit = user_git(root, "commit-tree", tree, "-p", parent, "-m", "Hostile").strip()
    user_git(root, "update-ref", "refs/heads/main", commit)


def _object(root: Path, kind: str, data: bytes) -> str:
    file = root.parent / "object"
    file.write_bytes(data)
    args = ("hash-object", "-t", kind, "-w", "--literally", str(file))
    return user_git(root, *args).strip()


@pytest.mark.parametrize("path", ["../secret", "/etc/passwd", ".git/config", "articles/../../x"])
def test_a_commit_with_paths_out_of_the_vault_is_refused(tmp_path: Path, path: str) -> None:
    """git makes no such trees; the file would be read and committed as an edit of the user."""
    root = new_vault(tmp_path / "v", Ada="Ada.\n")
    (tmp_path / "secret").write_text("secret")
    with editing(root):
        pass
    blob = _object(root, "blob", b"x")
    _commit_with_tree(
        root, _object(root, "tree", b"100644 %b\0" % path.encode() + bytes.fromhex(blob))
    )
    with pytest.raises(StoreCorrupt, match="has a file with the path"), editing(root):
        pass


@pytest.mark.parametrize(
    "date", [b"99999999999999", b"99999999999999999999999", b"-5", b"", b"x", b"253402300800"]
)
def test_commits_with_dates_that_cannot_be_are_shown(tmp_path: Path, date: bytes) -> None:
    root = new_vault(tmp_path / "v", Ada="Ada.\n")
    with editing(root):
        pass
    tree = user_git(root, "rev-parse", "HEAD^{tree}").strip().encode()
    who = b"Mallory <m@example.com> " + date + b" +0000\n"
    commit = _object(
        root, "commit", b"tree " + tree + b"\nauthor " + who + b"committer " + who + b"\nHi\n"
    )
    user_git(root, "update-ref", "refs/heads/main", commit)
    (version,) = history(Git(root), "articles/Ada.md")
    assert version.commit.date.startswith("1970-01-01")


@pytest.mark.parametrize("log", ["HEAD", "refs/heads/main"])
def test_reflogs_that_are_links_are_refused(tmp_path: Path, log: str) -> None:
    """git would append the names of files to whatever they lead to."""
    root = new_vault(tmp_path / "v", Ada="Ada.\n")
    victim = tmp_path / "bashrc"
    victim.write_text("export A=1\n")
    link = root / ".git" / "logs" / log
    link.parent.mkdir(parents=True)
    link.symlink_to(victim)
    with pytest.raises(UsageProblem, match="is a symbolic link"), editing(root):
        pass
    assert victim.read_text() == "export A=1\n"


def test_an_index_that_is_a_pipe_is_not_waited_for(tmp_path: Path) -> None:
    root = new_vault(tmp_path / "v", Ada="Ada.\n")
    os.mkfifo(root / ".git" / "index")
    with editing(root) as edit:
        assert edit.recorded == ("articles/Ada.md",)
    assert (root / ".git" / "index").is_file()
