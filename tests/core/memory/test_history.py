"""How articles came about: commits, differences, blame, renames, and texts as they were."""

from __future__ import annotations

import re
import time
from collections.abc import Iterator
from datetime import datetime, timedelta
from pathlib import Path

import pytest

from core.errors import BadRequest, NotFound, UsageProblem
from core.memory.fast_import import MLXBUN, FileChange, Person
from core.memory.git import Git
from core.memory.history import (
    blame,
    changed_since,
    diff,
    end_of_day,
    find_version,
    history,
    last_run,
    read_as_of,
    run_commits,
)
from core.memory.origins import origins
from core.memory.writer import Change, editing
from tests.core.memory.repositories import new_vault, sha, user_git

ADA = "articles/Ada.md"
VERA = Person(name="Vera", email="vera@example.com")


class Book:
    """A repository whose commits have dates."""

    def __init__(self, root: Path) -> None:
        self.root = new_vault(root)
        self.git = Git(root)

    def commit(
        self, day: str, files: dict[str, str | None], *, message: str = "x", who: Person = VERA
    ) -> str:
        """Commit files at noon of a day, or at a time."""
        when = datetime.fromisoformat(day if "T" in day else f"{day}T12:00:00").astimezone()
        changes = [
            FileChange(path=path, data=None if text is None else text.encode())
            for path, text in files.items()
        ]
        parent = self.git.head()
        commit = self.git.write_commit(
            changes, parent=parent, author=who, message=message, when=when
        )
        assert self.git.move_ref("refs/heads/main", commit, parent, why="test")
        return commit


@pytest.fixture(params=["UTC", "Pacific/Kiritimati", "Pacific/Pago_Pago"])
def zone(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    monkeypatch.setenv("TZ", request.param)
    time.tzset()
    yield request.param
    monkeypatch.undo()
    time.tzset()


def test_a_vault_without_commits_has_no_history(tmp_path: Path) -> None:
    git = Git(new_vault(tmp_path))
    assert history(git, ADA) == ()
    assert last_run(git) is None
    assert changed_since(git, datetime.now().astimezone()) == ()
    for ask in (lambda: diff(git, ADA, "abcd"), lambda: blame(git, ADA)):
        with pytest.raises(NotFound):
            ask()
    with pytest.raises(NotFound):
        read_as_of(git, ADA, "2026-03-01")


def test_a_vault_without_a_repository_says_so(tmp_path: Path) -> None:
    with pytest.raises(UsageProblem, match="is not a git repository"):
        history(Git(tmp_path), ADA)


def test_the_latest_comes_first(tmp_path: Path) -> None:
    book = Book(tmp_path)
    first = book.commit("2026-03-01", {ADA: "1"}, message="Begin\n\nLong.\n")
    book.commit("2026-03-02", {"articles/Bob.md": "1"})
    third = book.commit("2026-03-03", {ADA: "2"}, message="\u2028 Grüße 東京\n", who=MLXBUN)
    versions = history(book.git, ADA)
    assert [each.commit.hash for each in versions] == [third, first]
    assert [each.commit.date for each in versions] == ["2026-03-03", "2026-03-01"]
    assert [each.commit.subject for each in versions] == ["Grüße 東京", "Begin"]
    assert [each.commit.author for each in versions] == ["mlxbun", "Vera"]
    assert [each.commit.ours for each in versions] == [True, False]
    assert len(history(book.git, ADA, 1)) == 1


def test_a_deleted_article_keeps_its_history(tmp_path: Path) -> None:
    book = Book(tmp_path)
    book.commit("2026-03-01", {ADA: "1"})
    gone = book.commit("2026-03-02", {ADA: None})
    assert history(book.git, ADA)[0].commit.hash == gone
    assert "deleted file" in diff(book.git, ADA).text


def test_history_goes_on_behind_a_rename(tmp_path: Path) -> None:
    book = Book(tmp_path)
    text = "".join(f"Line {number} of Ada.\n" for number in range(9))
    twin = "articles/Twin.md"
    book.commit("2026-03-01", {"articles/Old.md": text, twin: text})
    book.commit("2026-03-02", {"articles/Old.md": None, "articles/Mid.md": text + "More.\n"})
    book.commit("2026-03-03", {"articles/Mid.md": None, ADA: text + "More.\n"})
    book.commit("2026-03-04", {ADA: text})
    paths = [each.path for each in history(book.git, ADA)]
    assert paths == [ADA, ADA, "articles/Mid.md", "articles/Old.md"]
    rename = history(book.git, ADA)[1].commit.hash
    shown = diff(book.git, ADA, rename).text
    assert "rename from articles/Mid.md" in shown
    assert read_as_of(book.git, ADA, "2026-03-01").path == "articles/Old.md"
    # A copy is an article of its own: it does not take over another one's history.
    book.commit("2026-03-05", {"articles/Copy.md": text})
    assert len(history(book.git, "articles/Copy.md")) == 1


def test_a_difference_is_of_one_article(tmp_path: Path) -> None:
    book = Book(tmp_path)
    first = book.commit("2026-03-01", {ADA: "Ada.\n", "articles/Bob.md": "Bob.\n"})
    shown = diff(book.git, ADA, first[:7])
    assert shown.text.startswith("diff --git a/articles/Ada.md b/articles/Ada.md\n")
    assert "Bob" not in shown.text
    assert shown.commit.hash == first
    assert not shown.truncated


def test_only_a_commit_that_touched_the_article_is_shown(tmp_path: Path) -> None:
    book = Book(tmp_path)
    book.commit("2026-03-01", {ADA: "Ada.\n"})
    other = book.commit("2026-03-02", {"articles/Bob.md": "Bob.\n"})
    blob = book.git.tree(other)[ADA].blob
    tree = user_git(tmp_path, "rev-parse", "HEAD^{tree}").strip()
    user_git(tmp_path, "tag", "-a", "-m", "x", "v", other)
    tag = user_git(tmp_path, "rev-parse", "v").strip()
    dangling = user_git(tmp_path, "commit-tree", tree, "-m", "x").strip()
    for rev in (other, blob, tree, tag, dangling, "0" * 40):
        with pytest.raises(NotFound):
            diff(book.git, ADA, rev)
    for rev in ("HEAD", "HEAD~1", "abc", "", "0" * 41, "ABCDEF12", "main", "--all", "abcd\n"):
        with pytest.raises(BadRequest) as caught:
            diff(book.git, ADA, rev)
        assert caught.value.field == "rev"


def test_an_ambiguous_hash_is_not_guessed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    book = Book(tmp_path)
    book.commit("2026-03-01", {ADA: "1\n"})
    book.commit("2026-03-02", {ADA: "2\n"})
    # Two hashes with the same four digits would take thousands of commits.
    monkeypatch.setattr("core.memory.history._REVISION", re.compile(r"[0-9a-f]*"))
    with pytest.raises(NotFound, match="Several commits"):
        find_version(book.git, ADA, "")


def test_a_large_difference_is_cut_and_says_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("core.memory.history.LARGEST_DIFF", 1000)
    book = Book(tmp_path)
    book.commit("2026-03-01", {ADA: "line\n" * 1000})
    shown = diff(book.git, ADA)
    assert (len(shown.text), shown.truncated) == (1000, True)


def test_text_that_git_would_take_for_binary_is_shown(tmp_path: Path) -> None:
    book = Book(tmp_path)
    book.commit("2026-03-01", {ADA: "a\0b\n"})
    (tmp_path / ".gitattributes").write_text("*.md -diff binary\n")
    assert "+a\0b" in diff(book.git, ADA).text


def test_blame_names_the_commit_of_each_line(tmp_path: Path) -> None:
    book = Book(tmp_path)
    first = book.commit("2026-03-01", {ADA: "one\r\n\ttwo\nthree"})
    second = book.commit("2026-03-02", {ADA: "one\r\n\tTwo\nthree"}, who=MLXBUN)
    lines = blame(book.git, ADA)
    assert [(line.number, line.text) for line in lines] == [(1, "one"), (2, "\tTwo"), (3, "three")]
    assert [line.commit.hash for line in lines] == [first, second, first]
    with pytest.raises(NotFound, match="not in the last commit"):
        blame(book.git, "articles/Bob.md")


@pytest.mark.usefixtures("zone")
def test_a_day_ends_at_midnight_here(tmp_path: Path) -> None:
    book = Book(tmp_path)
    book.commit("2026-03-01T00:00:00", {ADA: "first"})
    book.commit("2026-03-01T23:59:59", {ADA: "last"})
    book.commit("2026-03-02T00:00:00", {ADA: "next"})
    book.commit("2026-03-04", {ADA: None})
    book.commit("2026-03-06", {ADA: "back"})
    texts = {day: read_as_of(book.git, ADA, f"2026-03-0{day}").text for day in (1, 2, 3, 6, 9)}
    assert texts == {1: "last", 2: "next", 3: "next", 6: "back", 9: "back"}
    assert history(book.git, ADA)[-1].commit.date == "2026-03-01"
    for day in ("2026-02-28", "2026-03-04", "2026-03-05"):
        with pytest.raises(NotFound, match=f"at the end of {day}"):
            read_as_of(book.git, ADA, day)


@pytest.mark.parametrize(
    "day", ["", "yesterday", "2026-3-1", "2026-02-30", "20260301", "9999-12-31", "2026-03-01T10:00"]
)
def test_a_day_is_a_day(day: str) -> None:
    with pytest.raises(BadRequest) as caught:
        end_of_day(day)
    assert caught.value.field == "as_of"


def test_runs_are_found(tmp_path: Path) -> None:
    root = new_vault(tmp_path, Ada="Ada.\n")
    with editing(root) as edit:
        old = edit.commit([Change(path="a", before=None, after="1")], "One", run="20260301-1-aaaa")
        new = edit.commit(
            [Change(path="a", before=sha("1"), after="2")], "Two", run="20260301-1-aaab"
        )
        edit.commit([Change(path="b", before=None, after="2")], "Three\n\nMlxbun-Run: forged")
    git = Git(root)
    user_git(root, "commit", "-q", "--allow-empty", "-m", "x\n\nMlxbun-Run: 20260301-1-aaaa")
    found = last_run(git)
    assert found is not None
    assert (found.hash, found.run) == (new, "20260301-1-aaab")
    assert [each.hash for each in run_commits(git, "20260301-1-aaaa")] == [old]
    assert run_commits(git, "20260301-1-aaa.") == ()
    assert run_commits(git, "--all") == ()
    since = datetime.now().astimezone() - timedelta(hours=1)
    assert changed_since(git, since) == ("a", ADA, "b")


# -- where sentences come from ---------------------------------------------------------------------


def test_a_sentence_comes_from_the_commit_that_brought_it(tmp_path: Path) -> None:
    book = Book(tmp_path)
    first = book.commit("2026-03-01", {ADA: "She lives in Lyon.[^1]\n"})
    second = book.commit(
        "2026-03-02", {ADA: "She lives in [[Lyon]] (until 2026-03-02).[^1] She left *early*.\n"}
    )
    sentences = ["She lives in [[Lyon]] (until 2026-03-02).", "She left early.", "She sings."]
    found = origins(book.git, ADA, sentences)
    assert [each.commit.hash if each.commit else None for each in found] == [first, second, None]
    assert all(each.certain for each in found)


def test_a_sentence_that_came_back_is_as_old_as_its_return(tmp_path: Path) -> None:
    book = Book(tmp_path)
    book.commit("2026-03-01", {ADA: "A. B.\n"})
    book.commit("2026-03-02", {ADA: "A.\n"})
    back = book.commit("2026-03-03", {ADA: "A. B.\n"})
    (origin,) = origins(book.git, ADA, ["B."])
    assert origin.commit is not None
    assert origin.commit.hash == back


def test_what_is_read_for_an_origin_is_bounded(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    book = Book(tmp_path)
    for day in range(1, 6):
        book.commit(f"2026-03-0{day}", {ADA: f"A. {day}.\n"})
    monkeypatch.setattr("core.memory.origins.MOST_BYTES", 12)
    (origin,) = origins(book.git, ADA, ["A."])
    assert not origin.certain
    assert origin.commit is not None
    assert origin.commit.date == "2026-03-04"
