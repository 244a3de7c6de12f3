"""Writing to a vault: nobody's bytes are lost, all or nothing happens, and crashes heal."""

from __future__ import annotations

import errno
import fcntl
import os
import pwd
import subprocess
import threading
from pathlib import Path

import pytest

from core.errors import BadRequest, MlxbunError, UsageProblem, VaultBusy, VaultChanged
from core.memory import placing, swap, worktree
from core.memory.fast_import import login_person
from core.memory.git import Git
from core.memory.history import history
from core.memory.placing import Placing
from core.memory.writer import Change, editing
from tests.core.memory.repositories import messages, new_vault, sha, user_git

ADA = "articles/Ada.md"


def _add(path: str, text: str) -> Change:
    return Change(path=path, before=None, after=text)


def _edit(path: str, before: str, after: str | None) -> Change:
    return Change(path=path, before=sha(before), after=after)


def _is_clean(root: Path) -> bool:
    return user_git(root, "status", "--porcelain") == ""


# -- the user's edits ------------------------------------------------------------------------------


def test_edits_are_committed_first_as_the_users_own(tmp_path: Path) -> None:
    root = new_vault(tmp_path, Ada="Ada.\n", Bob="Bob.\n", Cleo="Cleo.\n")
    with editing(root) as edit:
        assert edit.recorded == (ADA, "articles/Bob.md", "articles/Cleo.md")
    (root / ADA).write_text("<<<<<<< HEAD\nAda.\n=======\nShe.\n>>>>>>> x\n")
    (root / "articles" / "Bob.md").unlink()
    (root / "articles" / '東京\n"x.md').write_text("東京\n")
    (root / "articles" / "link.md").symlink_to("/etc/passwd")
    with editing(root) as edit:
        commit = edit.commit([_edit("articles/Cleo.md", "Cleo.\n", "Cleo!\n")], "Change Cleo")
    assert _is_clean(root)
    git = Git(root)
    assert git.show(commit, ADA) == (root / ADA).read_bytes()
    assert git.show(commit, "articles/link.md") == b"/etc/passwd"
    assert "articles/Bob.md" not in git.tree(commit)
    me = login_person().name
    assert messages(root) == [
        "mlxbun: Change Cleo", f"{me}: Record edits of 4 files", f"{me}: Record edits of 3 files"
    ]  # fmt: skip


def test_the_user_is_who_is_logged_in(monkeypatch: pytest.MonkeyPatch) -> None:
    entry = pwd.getpwuid(os.getuid())
    full = pwd.struct_passwd((*entry[:4], "Vera Rubin,,,", *entry[5:]))
    monkeypatch.setattr(pwd, "getpwuid", lambda _uid: full)
    assert (login_person().name, login_person().email) == ("Vera Rubin", f"{entry[0]}@localhost")
    monkeypatch.setattr(pwd, "getpwuid", {}.__getitem__)
    assert login_person().name == f"user{os.getuid()}"


def test_a_journal_that_a_kill_left_half_written_is_deleted(tmp_path: Path) -> None:
    root = new_vault(tmp_path, Ada="Ada.\n")
    with editing(root):
        pass
    left = root / ".git" / "mlxbun" / ".journal.json.15c588f85e2b7dbd.tmp"
    left.write_text("{")
    with editing(root):
        assert not left.exists()


def test_ignored_files_stay_out(tmp_path: Path) -> None:
    root = new_vault(tmp_path, Ada="Ada.\n")
    (root / ".gitignore").write_text("*.log\n/private/\n")
    (root / ".git" / "info").mkdir(exist_ok=True)
    (root / ".git" / "info" / "exclude").write_text("mine.md\n")
    (root / "private").mkdir()
    for name in ("a.log", "private/b.md", "mine.md"):
        (root / name).write_text("secret\n")
    with editing(root) as edit:
        assert edit.recorded == (".gitignore", ADA)
        change = _edit("mine.md", "secret\n", "x")
        with pytest.raises(UsageProblem, match=r"mine\.md is not under version control"):
            edit.commit([change], "Change")
    assert (root / "mine.md").read_text() == "secret\n"


def test_what_cannot_be_recorded_is_named_and_stays(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(worktree, "LARGEST_FILE", 2 * 2**20)
    root = new_vault(tmp_path, Ada="Ada.\n")
    (root / "big.md").write_bytes(b"x" * (2 * 2**20 + 1))
    os.mkfifo(root / "pipe.md")
    with editing(root) as edit:
        assert edit.recorded == (ADA,)
        assert [(each.path, each.reason) for each in edit.left_out] == [
            ("big.md", "larger than 2 MiB")
        ]
        with pytest.raises(UsageProblem, match="larger than 2 MiB"):
            edit.commit([_edit("big.md", "?", "")], "x")


def test_a_repository_inside_of_the_vault_is_left_alone(tmp_path: Path) -> None:
    root = new_vault(tmp_path, Ada="Ada.\n")
    (root / "inner").mkdir()
    user_git(root / "inner", "init", "-q")
    (root / "inner" / "x.md").write_text("x\n")
    with editing(root) as edit:
        assert edit.recorded == (ADA,)


def test_a_folder_that_became_a_link_does_not_lead_out(tmp_path: Path) -> None:
    root = new_vault(tmp_path / "v", Ada="Ada.\n")
    with editing(root):
        pass
    outside = tmp_path / "outside"
    (root / "articles").rename(outside)
    (root / "articles").symlink_to(outside)
    with editing(root) as edit:
        assert edit.recorded == ("articles", ADA)  # a link came, the file went
        with pytest.raises(UsageProblem, match="through a symbolic link"):
            edit.commit([_add("articles/B.md", "B.\n")], "Add B")
    assert [each.name for each in outside.iterdir()] == ["Ada.md"]


def test_a_mode_is_no_edit_and_stays(tmp_path: Path) -> None:
    root = new_vault(tmp_path, Ada="Ada.\n")
    with editing(root):
        pass
    (root / ADA).chmod(0o755)
    with editing(root) as edit:
        assert edit.recorded == ()
        edit.commit([_edit(ADA, "Ada.\n", "Ada!\n")], "Change Ada")
    assert (root / ADA).stat().st_mode & 0o777 == 0o755


def test_what_is_staged_and_changed_again_is_recorded_twice(tmp_path: Path) -> None:
    root = new_vault(tmp_path, Ada="Ada.\n")
    with editing(root):
        pass
    (root / ADA).write_text("staged\n")
    user_git(root, "add", ADA)
    (root / "new.md").write_text("intended\n")
    user_git(root, "add", "-N", "new.md")
    (root / ADA).write_text("on disk\n")
    with editing(root):
        pass
    assert _is_clean(root)
    git = Git(root)
    texts = [git.show(each.commit.hash, ADA) for each in history(git, ADA)]
    assert texts == [b"on disk\n", b"staged\n", b"Ada.\n"]


def test_a_sparse_checkout_loses_nothing(tmp_path: Path) -> None:
    root = new_vault(tmp_path, Ada="Ada.\n", Bob="Bob.\n")
    with editing(root):
        pass
    user_git(root, "update-index", "--skip-worktree", "articles/Bob.md")
    (root / "articles" / "Bob.md").unlink()
    with editing(root) as edit:
        assert edit.recorded == ()
        commit = edit.commit([_edit(ADA, "Ada.\n", "Ada!\n")], "Change Ada")
    assert "articles/Bob.md" in Git(root).tree(commit)


# -- changes ---------------------------------------------------------------------------------------


def test_one_commit_for_all(tmp_path: Path) -> None:
    root = new_vault(tmp_path, Ada="Ada.\n", Bob="Bob.\n")
    with editing(root) as edit:
        commit = edit.commit(
            [
                _edit(ADA, "Ada.\n", "Ada!\n"),
                _edit("articles/Bob.md", "Bob.\n", None),
                _add("Talk/A/B.md", "Hi.\r\n"),
            ],
            "Say hello\n\nmlxbun-run: forged",
            run="20260301-120000-abcd",
            sources=("chatgpt:1", "note:2\nMlxbun-Run: forged"),
        )
        assert edit.commit([_edit(ADA, "Ada!\n", "Ada!\n")], "Nothing") == commit
    assert _is_clean(root)
    assert (root / ADA).read_text() == "Ada!\n"
    assert not (root / "articles" / "Bob.md").exists()
    assert (root / "Talk" / "A" / "B.md").read_bytes() == b"Hi.\r\n"
    (version,) = history(Git(root), "Talk/A/B.md")
    assert version.commit.hash == commit
    assert version.commit.run == "20260301-120000-abcd"
    assert version.commit.sources == ("chatgpt:1", "note:2 Mlxbun-Run: forged")
    user_git(root, "fsck", "--strict")


@pytest.mark.parametrize("last", ["mlxbun-run: forged", "Mlxbun-Run: forged"])
def test_a_message_cannot_forge_a_run(tmp_path: Path, last: str) -> None:
    root = new_vault(tmp_path)
    with editing(root) as edit:
        edit.commit([_add(ADA, "")], f"Add\n\n{last}")
    assert history(Git(root), ADA)[0].commit.run is None


def test_what_changed_meanwhile_is_not_overwritten(tmp_path: Path) -> None:
    root = new_vault(tmp_path, Ada="Ada.\n", Bob="Bob.\n")
    with editing(root) as edit:
        (root / ADA).write_text("Mine.\n")
        changes = [
            _edit("articles/Bob.md", "Bob.\n", "Bob!\n"),
            _edit(ADA, "Ada.\n", "x"),
            _add(ADA.replace("Ada", "Bob2"), "x"),
            _edit("articles/Zoe.md", "gone", "x"),
        ]
        with pytest.raises(VaultChanged) as caught:
            edit.commit(changes, "No")
    assert caught.value.paths == (ADA, "articles/Zoe.md")
    assert (root / "articles" / "Bob.md").read_text() == "Bob.\n"
    assert (root / ADA).read_text() == "Mine.\n"
    assert not (root / "articles" / "Bob2.md").exists()
    assert Git(root).show("HEAD", ADA) == b"Mine.\n"


@pytest.mark.parametrize("path", [
    "../x", "/etc/x", "a/../x", "a//b", "", ".", "a\0b", ".git/config", "a/.GIT/x", ".g\u200dit/x",
    "git~1/x", ".git /x", ".gitattributes", "a/.gitattributes", ".gitmodules", "a/",
])  # fmt: skip
def test_no_path_leads_out(tmp_path: Path, path: str) -> None:
    root = new_vault(tmp_path / "v")
    with editing(root) as edit:
        with pytest.raises(BadRequest) as caught:
            edit.commit([_add(path, "x")], "No")
        with pytest.raises(BadRequest):
            edit.commit_on_branch("mlxbun/x", [_add(path, "x")], "No")
    assert caught.value.field == "path"


def test_two_changes_to_one_file_are_refused(tmp_path: Path) -> None:
    with editing(new_vault(tmp_path)) as edit, pytest.raises(UsageProblem, match="same file"):
        edit.commit([_add(ADA, "x"), _add(ADA, "y")], "No")


def test_a_review_leaves_files_and_branch(tmp_path: Path) -> None:
    root = new_vault(tmp_path, Ada="Ada.\n")
    branch = "mlxbun/20260301-120000-abcd"
    with editing(root) as edit:
        head = edit.git.head()
        first = edit.commit_on_branch(branch, [_edit(ADA, "Ada.\n", "Ada!\n")], "One", run="r")
        second = edit.commit_on_branch(branch, [_edit(ADA, "Ada!\n", None)], "Two")
        with pytest.raises(VaultChanged):
            edit.commit_on_branch(branch, [_edit(ADA, "Ada.\n", "x")], "Three")
        for name in ("main", "mlxbun/a..b", "mlxbun/x.lock", "-x", "mlxbun/", "mlxbun/a/b"):
            with pytest.raises(BadRequest):
                edit.commit_on_branch(name, [], "x")
        assert edit.git.branch_tip(branch) == second
        assert edit.git.show(first, ADA) == b"Ada!\n"
        assert edit.git.show(branch, ADA) is None
        assert edit.git.head() == head
        edit.delete_branch(branch)
        edit.delete_branch(branch)
        assert edit.git.branch_tip(branch) is None
    assert _is_clean(root)


def test_what_the_index_knows_stays_right(tmp_path: Path) -> None:
    """A user who commits with git right after us takes nothing back."""
    root = new_vault(tmp_path, Ada="Ada.\n", Bob="Bob.\n")
    with editing(root) as edit:
        edit.commit([_edit(ADA, "Ada.\n", "Ada!\n")], "Change Ada")
    (root / "articles" / "Bob.md").write_text("Bob!\n")
    user_git(root, "add", "articles/Bob.md")
    user_git(root, "commit", "-q", "-m", "mine")
    assert Git(root).show("HEAD", ADA) == b"Ada!\n"


# -- others at the same time -----------------------------------------------------------------------


def test_one_writer_at_a_time(tmp_path: Path) -> None:
    root = new_vault(tmp_path)
    with editing(root) as edit:
        with pytest.raises(VaultBusy, match="Another mlxbun"), editing(root, wait=0.1):
            pass
        edit.commit([_add(ADA, "x")], "Add")
    with editing(root, wait=0):
        pass


def test_the_lock_outlives_us_in_git(tmp_path: Path) -> None:
    """A git that we started may still move the branch after we were killed."""
    root = new_vault(tmp_path)
    with editing(root) as edit:
        (descriptor,) = edit.git.kept_open
        child = subprocess.Popen(["sleep", "60"], pass_fds=(descriptor,))
    try:
        with pytest.raises(VaultBusy), editing(root, wait=0.1):
            pass
    finally:
        child.kill()
        child.wait()
    with editing(root, wait=0):
        pass


def test_the_users_git_is_waited_for(tmp_path: Path) -> None:
    root = new_vault(tmp_path, Ada="Ada.\n")
    lock = root / ".git" / "index.lock"
    lock.write_bytes(b"")
    with pytest.raises(VaultBusy, match="Another git command") as caught, editing(root, wait=0.1):
        pass
    assert caught.value.hint is not None
    assert str(lock) in caught.value.hint
    timer = threading.Timer(0.3, lock.unlink)
    timer.start()
    with editing(root, wait=30) as edit:
        assert edit.recorded == (ADA,)
    timer.join()


def test_the_users_git_can_be_kept_out(tmp_path: Path) -> None:
    root = new_vault(tmp_path, Ada="Ada.\n")
    with editing(root) as edit:
        with edit.git_locked():
            (root / ADA).write_text("Ada!\n")
            user_git(root, "add", ADA, check=False)
        assert user_git(root, "diff", "--cached", "--name-only") == ""
        user_git(root, "add", ADA)


def test_our_stale_lock_is_removed(tmp_path: Path) -> None:
    root = new_vault(tmp_path)
    (root / ".git" / "index.lock").write_bytes(placing._OURS)
    with editing(root, wait=0):
        pass
    assert not (root / ".git" / "index.lock").exists()


@pytest.mark.parametrize("what", ["merge", "rebase", "cherry-pick", "revert"])
def test_a_merge_under_way_is_not_disturbed(tmp_path: Path, what: str) -> None:
    root = new_vault(tmp_path, Ada="Ada.\n")
    with editing(root):
        pass
    user_git(root, "switch", "-q", "-c", "other")
    for text in ("one\n", "two\n"):
        (root / ADA).write_text(text)
        user_git(root, "commit", "-q", "-a", "-m", text)
    user_git(root, "switch", "-q", "main")
    (root / ADA).write_text("three\n")
    user_git(root, "commit", "-q", "-a", "-m", "three")
    user_git(root, what, "other", check=False)
    before = (root / ADA).read_bytes()
    assert b"<<<<<<<" in before
    with pytest.raises(VaultBusy, match=f"A {what} is under way"), editing(root):
        pass
    assert (root / ADA).read_bytes() == before
    user_git(root, what, "--abort")


def test_unresolved_conflicts_without_a_merge_are_not_disturbed(tmp_path: Path) -> None:
    root = new_vault(tmp_path, Ada="Ada.\n")
    with editing(root):
        pass
    (root / ADA).write_text("stashed\n")
    user_git(root, "stash")
    (root / ADA).write_text("mine\n")
    with editing(root):
        pass
    user_git(root, "stash", "pop", check=False)
    with pytest.raises(VaultBusy, match="unresolved conflicts"), editing(root):
        pass


def test_a_detached_head_is_refused(tmp_path: Path) -> None:
    root = new_vault(tmp_path, Ada="Ada.\n")
    with editing(root):
        pass
    user_git(root, "switch", "-q", "--detach")
    with pytest.raises(VaultBusy, match="No branch is checked out"), editing(root):
        pass


def test_an_edit_at_the_last_moment_wins(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    root = new_vault(tmp_path, Ada="Ada.\n", Bob="Bob.\n")
    with editing(root) as edit:
        exchange = swap.exchange

        def late(one: Path, other: Path) -> None:
            if other.name == "Bob.md" and other.read_text() == "Bob.\n":
                other.write_text("typed\n")
            exchange(one, other)

        monkeypatch.setattr(placing, "exchange", late)
        changes = [_edit(ADA, "Ada.\n", "Ada!\n"), _edit("articles/Bob.md", "Bob.\n", "Bob!\n")]
        with pytest.raises(VaultChanged) as caught:
            edit.commit(changes, "No")
    assert caught.value.paths == ("articles/Bob.md",)
    assert (root / "articles" / "Bob.md").read_text() == "typed\n"
    assert (root / ADA).read_text() == "Ada.\n"
    with editing(root) as edit:
        assert edit.recorded == ("articles/Bob.md",)
    assert _is_clean(root)


def test_an_editor_that_holds_the_old_file_open_loses_nothing(tmp_path: Path) -> None:
    root = new_vault(tmp_path, Ada="Ada.\n")
    with (root / ADA).open("r+") as editor, editing(root) as edit:
        edit.commit([_edit(ADA, "Ada.\n", "Ada!\n")], "Change Ada")
        editor.write("typed")
        editor.flush()
    texts = [Git(root).show(each.commit.hash, ADA) for each in history(Git(root), ADA)]
    assert texts == [b"Ada!\n", b"typed", b"Ada!\n", b"Ada.\n"]
    with (root / ADA).open("r+") as editor:
        with editing(root) as edit:
            edit.commit([_edit(ADA, "Ada!\n", "Ada?\n")], "Change Ada")
        editor.write("later")
    with editing(root) as edit:
        assert edit.recorded == (ADA,)
    texts = [Git(root).show(each.commit.hash, ADA) for each in history(Git(root), ADA)]
    assert texts[:3] == [b"Ada?\n", b"later", b"Ada?\n"]


def test_replaced_files_are_deleted_at_the_next_open(tmp_path: Path) -> None:
    """Otherwise a text that was purged would stay there."""
    root = new_vault(tmp_path, Ada="secret\n")
    with editing(root) as edit:
        edit.commit([_edit(ADA, "secret\n", "Ada.\n")], "Forget")
    with editing(root):
        left = [each for each in (root / ".git" / "mlxbun").rglob("*") if each.is_file()]
        assert not any(b"secret" in each.read_bytes() for each in left)


def test_a_branch_that_moves_meanwhile_stops_the_change(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    root = new_vault(tmp_path, Ada="Ada.\n")
    with editing(root) as edit:
        put = Placing._put

        def other_git(*args: object) -> None:
            user_git(root, "commit-tree", "HEAD^{tree}", "-m", "x")
            tree = user_git(root, "rev-parse", "HEAD^{tree}").strip()
            new = user_git(root, "commit-tree", tree, "-p", "HEAD", "-m", "theirs").strip()
            user_git(root, "update-ref", "refs/heads/main", new)
            put(*args)  # type: ignore[arg-type]

        monkeypatch.setattr(Placing, "_put", other_git)
        with pytest.raises(VaultBusy, match="moved the branch"):
            edit.commit([_edit(ADA, "Ada.\n", "Ada!\n")], "Change Ada")
    assert (root / ADA).read_text() == "Ada.\n"
    assert messages(root)[0] == "Vera: theirs"
    assert _is_clean(root)


# -- what goes wrong -------------------------------------------------------------------------------


@pytest.mark.parametrize("place", ["_stage", "_put", "_finish"])
@pytest.mark.parametrize("problem", [KeyboardInterrupt, OSError])
def test_all_or_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, place: str, problem: type[BaseException]
) -> None:
    root = new_vault(tmp_path, Ada="Ada.\n", Bob="Bob.\n")
    with editing(root):
        pass
    real = getattr(Placing, place)
    calls = []

    def failing(*args: object) -> object:
        calls.append(args)
        if len(calls) == (1 if place == "_finish" else 3):
            raise problem(errno.ENOSPC, "No space left on device")
        return real(*args)

    changes = [
        _edit(ADA, "Ada.\n", "Ada!\n"),
        _edit("articles/Bob.md", "Bob.\n", "Bob!\n"),
        _add("articles/Cleo.md", "Cleo.\n"),
    ]
    with editing(root) as edit:
        monkeypatch.setattr(Placing, place, failing)
        wanted = KeyboardInterrupt if problem is KeyboardInterrupt else MlxbunError
        with pytest.raises(wanted):
            edit.commit(changes, "Change")
        monkeypatch.setattr(Placing, place, real)
    new = place == "_finish"  # the branch had moved
    assert (root / ADA).read_text() == ("Ada!\n" if new else "Ada.\n")
    assert (root / "articles" / "Bob.md").read_text() == ("Bob!\n" if new else "Bob.\n")
    assert (root / "articles" / "Cleo.md").exists() == new
    with editing(root) as edit:
        assert edit.recorded == ()
    assert _is_clean(root)
    user_git(root, "fsck", "--strict")


def test_a_full_disk_is_one_sentence(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    root = new_vault(tmp_path, Ada="Ada.\n")
    with editing(root) as edit:

        def full(*_args: object) -> None:
            raise OSError(errno.ENOSPC, "No space left on device", "work/0")

        monkeypatch.setattr(Placing, "_stage", full)
        with pytest.raises(MlxbunError, match=r"cannot be written: No space left") as caught:
            edit.commit([_edit(ADA, "Ada.\n", "Ada!\n")], "Change")
    assert caught.value.hint == "Free some disk space."


def test_a_private_folder_that_is_a_link_is_refused(tmp_path: Path) -> None:
    root = new_vault(tmp_path / "v")
    (root / ".git" / "mlxbun").symlink_to(tmp_path)
    with pytest.raises(UsageProblem, match="is not a folder"), editing(root):
        pass


def test_a_disk_without_locks_and_links_works(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def cannot(*_args: object, **_names: object) -> None:
        raise OSError(errno.ENOTSUP, "Operation not supported")

    monkeypatch.setattr(fcntl, "flock", cannot)
    monkeypatch.setattr(os, "link", cannot)
    monkeypatch.setattr(swap, "_system_exchange", lambda: None)
    root = new_vault(tmp_path, Ada="Ada.\n", Bob="Bob.\n")
    with editing(root) as edit:
        edit.commit([_edit(ADA, "Ada.\n", "Ada!\n"), _add("x.md", "x")], "Change")
        put_new = swap.put_new

        def late(ours: Path, place: Path) -> None:
            if place.suffix == ".md":
                place.write_text("typed\n")
            put_new(ours, place)

        monkeypatch.setattr(swap, "put_new", late)
        with pytest.raises(VaultChanged):
            edit.commit([_edit(ADA, "Ada!\n", "Ada?\n")], "Change")
    assert (root / ADA).read_text() == "typed\n"


@pytest.mark.parametrize(
    "journal",
    ['{"branch": "refs/heads/main", "old": null, "new": "%s", '
     '"moves": [["../victim", null, "%s"]]}',
     '{"branch": "--help", "old": null, "new": "%s", "moves": [["%s", 2, 3]]}',
     '{"branch": "refs/heads/main", "old": null, "new": ["%s", "%s"], "moves": []}',
     "[" * 100_000 + "%s%s"],
)  # fmt: skip
def test_a_journal_of_a_stranger_does_nothing(tmp_path: Path, journal: str) -> None:
    """A vault that was copied from somewhere brings its `.git/mlxbun` along."""
    root = new_vault(tmp_path / "v", Ada="Ada.\n")
    with editing(root):
        pass
    victim = tmp_path / "victim"
    victim.write_text("mine")
    (root / ".git" / "mlxbun" / "journal.json").write_text(journal % ("1" * 40, sha("mine")))
    with editing(root):
        pass
    assert victim.read_text() == "mine"


def test_a_lock_that_is_not_a_file_is_one_sentence(tmp_path: Path) -> None:
    root = new_vault(tmp_path / "v", Ada="Ada.\n")
    with editing(root):
        pass
    lock = root / ".git" / "mlxbun" / "lock"
    lock.unlink()
    lock.symlink_to(tmp_path / "elsewhere")
    with pytest.raises(MlxbunError, match="cannot be written"), editing(root):
        pass
