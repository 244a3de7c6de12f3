"""Setting up a vault: what is made, what is left alone, and what is refused."""

from __future__ import annotations

import errno
import os
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

import core.memory.setup as subject
from core.errors import GitMissing, MlxbunError, UsageProblem
from core.memory.git import Git
from core.memory.setup import SetupResult, setup_vault
from core.memory.vault import open_vault
from core.memory.vault_pages import PAGES

if TYPE_CHECKING:
    from pathlib import Path


def _set_up(root: Path) -> tuple[SetupResult, list[str]]:
    notes: list[str] = []
    return setup_vault(root, on_note=notes.append), notes


def _log(root: Path) -> list[str]:
    printed = Git(root).run("log", "--format=%an: %s", Git(root).head() or "")
    return printed.decode().splitlines()


def test_a_new_vault(tmp_path: Path) -> None:
    root = tmp_path / "deep" / "wiki"
    result, notes = _set_up(root)
    assert result.root == root
    assert result.git_initialized
    assert not result.already_set_up
    assert result.created[:4] == ("articles/", "Reference/", "Meta/", "Talk/")
    assert {"README.md", ".gitignore", "Meta/Format.md", "Reference/cli.md"} <= set(result.created)
    assert notes == []
    vault = open_vault(root)
    assert vault.names().articles == ()
    assert "Reference/server-library" in vault.names().reference
    assert _log(root) == [
        "mlxbun: Update the documentation in Reference",
        "mlxbun: Set up the vault",
    ]
    assert root.stat().st_mode & 0o077 == 0


def test_setting_up_again_changes_nothing(tmp_path: Path) -> None:
    _set_up(tmp_path)
    before = _log(tmp_path)
    result, notes = _set_up(tmp_path)
    assert result == SetupResult(
        root=tmp_path, created=(), git_initialized=False, already_set_up=True
    )
    assert (_log(tmp_path), notes) == (before, [])


def test_what_is_missing_is_added_and_the_rest_stays(tmp_path: Path) -> None:
    _set_up(tmp_path)
    (tmp_path / "README.md").write_text("mine")
    (tmp_path / "Meta" / "Rules.md").unlink()
    (tmp_path / "Talk").rmdir()
    (tmp_path / "articles" / "Ada.md").write_text("# Ada\n")
    (tmp_path / "anything.txt").write_text("of the user")
    result, _ = _set_up(tmp_path)
    assert result.created == ("Talk/", "Meta/Rules.md")
    assert (tmp_path / "README.md").read_text() == "mine"
    assert _log(tmp_path)[0] == "mlxbun: Set up the vault"
    assert _log(tmp_path)[1].endswith(": Record edits of 4 files")


def test_a_copy_without_git_becomes_a_vault_again(tmp_path: Path) -> None:
    (tmp_path / "articles").mkdir()
    (tmp_path / "articles" / "Ada.md").write_text("# Ada\n")
    (tmp_path / "README.md").write_text("mine")
    (tmp_path / ".obsidian").mkdir()
    result, _ = _set_up(tmp_path)
    assert result.git_initialized
    assert "articles/" not in result.created
    assert open_vault(tmp_path).read("Ada").text == "# Ada\n"
    assert (tmp_path / "README.md").read_text() == "mine"


def test_a_folder_with_other_files_is_refused(tmp_path: Path) -> None:
    for name in ("taxes.pdf", "photo.jpg", "a", "b"):
        (tmp_path / name).write_text("")
    with pytest.raises(UsageProblem, match=r"has other files: a, b, photo\.jpg and 1 more"):
        _set_up(tmp_path)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a", "b", "photo.jpg", "taxes.pdf"]


@pytest.mark.parametrize("name", ["articles", "Meta", ".git"])
def test_a_link_or_file_in_the_place_of_a_folder(tmp_path: Path, name: str) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    for number, kind in enumerate(("link", "file")):
        root = tmp_path / f"wiki{number}"
        root.mkdir()
        if kind == "link":
            (root / name).symlink_to(outside)
        else:
            (root / name).write_text("gitdir: ../outside")
        with pytest.raises(UsageProblem):
            _set_up(root)
        assert list(outside.iterdir()) == []


def test_a_file_in_the_place_of_the_vault(tmp_path: Path) -> None:
    (tmp_path / "wiki").write_text("")
    with pytest.raises(MlxbunError, match="cannot be set up"):
        _set_up(tmp_path / "wiki")


def test_inside_of_another_repository(tmp_path: Path) -> None:
    Git(tmp_path).init()
    result, notes = _set_up(tmp_path / "wiki")
    assert result.git_initialized
    assert notes == [
        f"The vault has its own git repository; the one in {tmp_path} does not record it."
    ]
    assert Git(tmp_path).head() is None
    assert Git(tmp_path / "wiki").head() is not None


def test_without_git_nothing_is_left(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(GitMissing):
        _set_up(tmp_path / "wiki")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("number", "hint"),
    [
        (errno.ENOSPC, "Free some disk space."),
        (errno.EROFS, None),
        (errno.EACCES, None),
        (errno.EDQUOT, None),
    ],
)
def test_a_disk_that_cannot_be_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, number: int, hint: str | None
) -> None:
    def refuse(*_args: object, **_named: object) -> None:
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr(subject, "_make_folders", refuse)
    with pytest.raises(MlxbunError, match=f"cannot be set up: {os.strerror(number)}") as caught:
        _set_up(tmp_path / "wiki")
    assert caught.value.hint == hint
    monkeypatch.undo()
    result, _ = _set_up(tmp_path / "wiki")  # what was begun is finished
    assert set(PAGES) <= set(result.created)


def test_twice_at_once(tmp_path: Path) -> None:
    root = tmp_path / "wiki"
    code = (
        "import sys; from pathlib import Path; from core.memory.setup import setup_vault\n"
        "result = setup_vault(Path(sys.argv[1]), on_note=print)\n"
        "print(len(result.created), result.git_initialized)"
    )
    command = [sys.executable, "-c", code, str(root)]
    both = [subprocess.Popen(command, stdout=subprocess.PIPE, text=True) for _ in range(2)]
    printed = sorted(process.communicate(timeout=120)[0] for process in both)
    assert [process.returncode for process in both] == [0, 0]
    assert printed[0] == "0 False\n"
    assert printed[1].endswith(" True\n")
    assert len(_log(root)) == 2


def test_the_vault_may_be_named_by_a_link(tmp_path: Path) -> None:
    (tmp_path / "real").mkdir()
    (tmp_path / "wiki").symlink_to(tmp_path / "real")
    result, _ = _set_up(tmp_path / "wiki")
    assert result.root == tmp_path / "real"
