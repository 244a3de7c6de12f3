"""Taking back runs and changes: always a new commit; later edits are kept, or nothing changes."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from core.errors import NotFound, VaultChanged
from core.memory.git import Git
from core.memory.history import history
from core.memory.merging import _merged, _pieces, merge
from core.memory.revert import Reverted, revert_article, revert_run
from core.memory.writer import Change, editing
from tests.core.memory.repositories import messages, new_vault, sha, user_git

ADA, BOB, TALK = "articles/Ada.md", "articles/Bob.md", "Talk/Ada.md"
LEDGER = "Meta/ledger.jsonl"
RUN, OTHER = "20260301-120000-aaaa", "20260302-120000-bbbb"
_TEXT = "# Ada\n\nShe sings. She codes.[^1]\n\n## References\n\n[^1]: a:1#1 (undated): I code\n"
_ADDED = (
    "# Ada\n\nShe sings. She codes.[^1] She lives in Lyon.[^2]\n\n"
    "## References\n\n[^1]: a:1#1 (undated): I code\n[^2]: a:1#2 (undated): in Lyon\n"
)


def _write(root: Path, run: str | None, files: dict[str, str | None]) -> str:
    with editing(root) as edit:
        changes = []
        for path, text in files.items():
            now = edit.git.show("HEAD", path)
            before = None if now is None else sha(now.decode())
            changes.append(Change(path=path, before=before, after=text))
        return edit.commit(changes, "Add what was said", run=run)


def _vault(folder: Path) -> Path:
    root = new_vault(folder, Ada=_TEXT)
    _write(root, RUN, {ADA: _ADDED, BOB: "# Bob\n", TALK: "Refused.\n", LEDGER: "1\n"})
    return root


def _text(root: Path, path: str = ADA) -> str | None:
    return (root / path).read_text() if (root / path).exists() else None


def test_a_run_is_taken_back_by_a_new_commit(tmp_path: Path) -> None:
    root = _vault(tmp_path)
    before = messages(root)
    done = revert_run(root, RUN)
    assert (_text(root), _text(root, BOB), _text(root, TALK)) == (_TEXT, None, None)
    assert _text(root, LEDGER) == "1\n"  # so that it does not come again
    assert done.paths == (TALK, ADA, BOB)
    assert (done.kept, done.already) == ((), False)
    assert messages(root) == [f"mlxbun: Revert run {RUN}", *before]
    assert Git(root).head() == done.commit
    assert user_git(root, "status", "--porcelain") == ""


def test_taking_back_twice_says_so(tmp_path: Path) -> None:
    root = _vault(tmp_path)
    first = revert_run(root, RUN)
    count = len(messages(root))
    second = revert_run(root, RUN)
    assert second.already
    assert second.commit == first.commit
    assert second.paths == ()
    assert len(messages(root)) == count
    assert revert_article(root, ADA).already


def test_an_unknown_run_is_named(tmp_path: Path) -> None:
    root = _vault(tmp_path)
    for run in ("20260301-120000-aaa", "", ".*", "x\ny"):
        with pytest.raises(NotFound):
            revert_run(root, run)


def test_later_edits_are_kept(tmp_path: Path) -> None:
    root = _vault(tmp_path)
    edited = _ADDED.replace("She sings.", "She sings loudly.").replace("Lyon.[^2]", "Lyon.[^2] Ok.")
    (root / ADA).write_text(edited + "[^3]: mine\n")
    done = revert_run(root, RUN)
    expected = _TEXT.replace("She sings.", "She sings loudly.").replace(
        "codes.[^1]", "codes.[^1] Ok."
    )
    assert _text(root) == expected + "[^3]: mine\n"
    assert done.kept == (ADA,)


def test_later_runs_are_kept(tmp_path: Path) -> None:
    root = _vault(tmp_path)
    later = (
        _ADDED.replace("\n\n## R", " She paints.[^3]\n\n## R") + "[^3]: b:1#1 (undated): paint\n"
    )
    _write(root, OTHER, {ADA: later, TALK: "Refused.\nAgain.\n", LEDGER: "1\n2\n"})
    revert_run(root, RUN)
    expected = _TEXT.replace("\n\n## R", " She paints.[^3]\n\n## R")
    assert _text(root) == expected + "[^3]: b:1#1 (undated): paint\n"
    assert _text(root, TALK) == "Refused.\nAgain.\n"  # a record, created by one and kept by both
    revert_run(root, OTHER)
    assert _text(root) == _TEXT


@pytest.mark.parametrize("path", [ADA, BOB])
def test_edits_that_overlap_stop_everything(tmp_path: Path, path: str) -> None:
    root = _vault(tmp_path)
    edits = {ADA: _ADDED.replace("lives in Lyon", "lives near Lyon"), BOB: "# Bob\n\nMine.\n"}
    (root / path).write_text(edits[path])
    with pytest.raises(VaultChanged) as caught:
        revert_run(root, RUN)
    assert caught.value.paths == (path,)
    assert path in caught.value.message
    assert _text(root, path) == edits[path]
    assert _text(root, TALK) == "Refused.\n"
    assert not any("Revert" in each for each in messages(root))


def test_what_the_user_took_back_by_hand_is_taken_back(tmp_path: Path) -> None:
    root = _vault(tmp_path)
    (root / ADA).write_text(_TEXT)
    (root / BOB).unlink()
    (root / TALK).unlink()
    done = revert_run(root, RUN)
    assert (done.already, done.commit, done.paths) == (True, None, ())


def test_a_renamed_article_is_found(tmp_path: Path) -> None:
    root = _vault(tmp_path)
    (root / ADA).rename(root / "articles" / "Ada Lovelace.md")
    done = revert_run(root, RUN)
    assert _text(root, "articles/Ada Lovelace.md") == _TEXT
    assert _text(root, ADA) is None
    assert "articles/Ada Lovelace.md" in done.paths


def test_what_a_run_deleted_comes_back(tmp_path: Path) -> None:
    root = _vault(tmp_path)
    _write(root, OTHER, {ADA: None})
    revert_run(root, OTHER)
    assert _text(root) == _ADDED
    _write(root, "20260303-1-cccc", {ADA: None})
    (root / ADA).write_text("Mine.\n")
    with pytest.raises(VaultChanged):
        revert_run(root, "20260303-1-cccc")
    assert _text(root) == "Mine.\n"


def test_an_article_is_taken_back_alone(tmp_path: Path) -> None:
    root = _vault(tmp_path)
    (root / ADA).write_text(_ADDED + "\nMine.\n")
    done = revert_article(root, ADA)
    assert _text(root) == _TEXT + "\nMine.\n"
    assert _text(root, BOB) == "# Bob\n"
    assert [each.run for each in done.undone] == [RUN]
    assert revert_article(root, ADA).already
    rest = revert_run(root, RUN)
    assert rest.paths == (TALK, BOB)
    assert _text(root) == _TEXT + "\nMine.\n"


def test_an_article_that_only_the_user_wrote(tmp_path: Path) -> None:
    root = new_vault(tmp_path, Ada="One.\n")
    with editing(root):
        pass
    (root / ADA).write_text("Two.\n")
    assert revert_article(root, ADA).commit
    assert _text(root) == "One.\n"
    with pytest.raises(NotFound, match=r"No commit has changed articles/Zoe\.md"):
        revert_article(root, "articles/Zoe.md")


def test_a_dry_run_changes_nothing(tmp_path: Path) -> None:
    root = _vault(tmp_path)
    done = revert_run(root, RUN, dry_run=True)
    assert isinstance(done, Reverted)
    assert (done.commit, done.paths, done.already) == (None, (TALK, ADA, BOB), False)
    assert _text(root) == _ADDED


def test_bytes_that_are_not_utf8_come_back(tmp_path: Path) -> None:
    root = new_vault(tmp_path)
    (root / ADA).write_bytes(b"\xff\xfe One.\r\n")
    with editing(root):
        pass
    (root / ADA).write_bytes(b"\xff Two.\n")
    revert_article(root, ADA)
    assert (root / ADA).read_bytes() == b"\xff\xfe One.\r\n"
    assert len(history(Git(root), ADA)) == 3


# -- merging ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("base", "ours", "theirs", "merged"),
    [
        ("A. B. C.", "A. B! C.", "A. B.", "A. B!"),
        ("A. B.", "A. B. C.", "A.", "A. C."),
        ("A. B.", "A. C. B.", "A.", "A. C."),
        ("A. B.", "A. B1.", "A. B2.", None),
        ("A. B.", "A. B. C.", "A. B. D.", None),
        ("A. B.", "A. B. C.", "A. B. C.", "A. B. C."),
        ("東。京。", "東。京。都。", "京。", "京。都。"),
        ("a\nb\nc\n", "a\nB\nc\n", "a\nb\n", "a\nB\n"),
        ("a\n", "", "a\nb\n", "b\n"),
        ("", "a", "b", None),
        ("x", "x", "", ""),
        ("x\n", "x\r\n", "x\n", "x\r\n"),
    ],
)
def test_changes_may_touch_but_not_overlap(
    tmp_path: Path, base: str, ours: str, theirs: str, merged: str | None
) -> None:
    git = Git(new_vault(tmp_path))
    result = merge(git, base=base.encode(), ours=ours.encode(), theirs=theirs.encode())
    assert (None if result is None else result.decode()) == merged
    swapped = merge(git, base=base.encode(), ours=theirs.encode(), theirs=ours.encode())
    assert swapped == result


def test_large_texts_are_not_merged(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("core.memory.merging._LARGEST", 10)
    git = Git(new_vault(tmp_path))
    assert merge(git, base=b"A. B. C. D.", ours=b"A! B. C. D.", theirs=b"A. B. C.") is None


@given(st.binary(max_size=80) | st.text(".!?。] \n\tab", max_size=40).map(str.encode))
def test_pieces_join_to_the_text(data: bytes) -> None:
    assert "".join(_pieces(data)).encode("utf-8", "surrogateescape") == data


def test_nothing_to_merge_is_the_base() -> None:
    assert _merged(["a", "b"], [], []) == ["a", "b"]
