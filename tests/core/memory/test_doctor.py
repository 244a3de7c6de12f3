"""What is wrong with a vault, and that nothing is found in a sound one."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import pytest

from core.memory import doctor
from core.memory.doctor import Finding, examine, is_sound
from core.memory.finding import MOST_ALIKE
from core.memory.git import Git
from core.memory.origins import Origin
from core.memory.setup import setup_vault
from core.memory.turns import SourceConversation, Turn
from core.memory.vault import Vault, open_vault
from core.memory.writer import Change, editing

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

LYON = (
    "# Lyon\n\nAda lives in Lyon.[^1]\n\n## History\n\nIt is old.\n\n## References\n\n"
    "[^1]: chatgpt:1#m1 (2026-03-01) [Ada · home city]: I moved to Lyon\n"
)
ADA = "# Ada\n\n```info\naliases: Augusta\n```\n\nIn [[Lyon]], [[lyon#history]], ![[pic.png]].\n"


class Store:
    """Conversations in memory."""

    def __init__(self, *texts: str) -> None:
        self.texts = texts

    def get(self, source_id: str) -> SourceConversation | None:
        if source_id != "chatgpt:1" or not self.texts:
            return None
        turns = tuple(
            Turn(id=f"m{number}", role="user", text=text)
            for number, text in enumerate(self.texts, 1)
        )
        return SourceConversation(id="chatgpt:1", kind="chatgpt", title="", turns=turns, digest="0")

    def is_forgotten(self, source_id: str, message: str) -> bool:
        return False

    def conversations(self) -> Sequence[object]:
        return self.texts


STORE = Store("Yesterday I moved\n to Lyon, at last.")


@pytest.fixture
def vault(tmp_path: Path) -> Vault:
    """A vault with two articles, committed by the user."""
    setup_vault(tmp_path, on_note=print)
    vault = open_vault(tmp_path)
    _write(vault, {"articles/Lyon.md": LYON, "articles/Ada.md": ADA, "articles/pic.png": "x"})
    _record(vault)
    return vault


def _write(vault: Vault, files: dict[str, str | bytes]) -> None:
    for path, text in files.items():
        (vault.root / path).parent.mkdir(parents=True, exist_ok=True)
        (vault.root / path).write_bytes(text if isinstance(text, bytes) else text.encode())


def _record(vault: Vault) -> None:
    with editing(vault):
        pass


def _run(vault: Vault, path: str, text: str) -> None:
    """Write an article as a run does."""
    before = vault.read(path).digest if (vault.root / path).exists() else None
    with editing(vault) as edit:
        edit.commit([Change(path=path, before=before, after=text)], "Add facts", run="20260301-1")


def _examine(vault: Vault, store: Store | None = STORE) -> tuple[Finding, ...]:
    return examine(vault, git=Git(vault.root), store=store)


def _found(vault: Vault, store: Store | None = STORE) -> list[tuple[str, str, int | None]]:
    return [(each.kind, each.path, each.line) for each in _examine(vault, store)]


def test_a_sound_vault(vault: Vault) -> None:
    assert _examine(vault) == ()
    assert is_sound(())


def test_links(vault: Vault) -> None:
    _write(
        vault,
        {
            "articles/Ada.md": "# Ada\n\n[[Nowhere]]\n[[Lyon#Nothing]] [[#Own]] [[Augusta]]\n"
            "[[../secret]] [x](../../etc/passwd) [y](/etc/passwd) [z](file:///etc/passwd)\n"
            "[a](Lyon.md) [b](none.md) [c](https://x) [[Lyon#^block]] [[Ada#Ada]] `[[Code]]`\n"
            "![[none.png]] [[Reference/cli]] [[Reference/cli#anything]]\n"
        },
    )
    _record(vault)
    path = "articles/Ada.md"
    assert _found(vault) == [
        ("broken-link", path, 3),
        ("broken-anchor", path, 4),
        ("broken-anchor", path, 4),
        ("broken-link", path, 4),
        ("outside-link", path, 5),
        ("outside-link", path, 5),
        ("outside-link", path, 5),
        ("outside-link", path, 5),
        ("broken-link", path, 6),
        ("broken-link", path, 7),
    ]


def test_names(vault: Vault) -> None:
    _write(
        vault,
        {
            "articles/LYON.md": "# Lyon\n\n## History\n",
            "articles/Zu\u0308rich.md": "x\n",
            "articles/Other.md": "```info\naliases: Ada, Augusta, Own\n```\n",
            "articles/C#.md": "x\n",
        },
    )
    _record(vault)
    found = [(each.kind, each.path) for each in _examine(vault)]
    assert ("duplicate-name", "articles/Lyon.md") in found
    assert found.count(("ambiguous-alias", "articles/Other.md")) == 2
    assert ("file-name", "articles/C#.md") in found
    assert len(found) == 4


def test_twins_by_unicode_form(vault: Vault) -> None:
    _write(vault, {"articles/Z\u00fcrich.md": "a\n", "articles/Zu\u0308rich.md": "b\n"})
    _record(vault)
    assert [kind for kind, _, _ in _found(vault)] == ["duplicate-name"]


def test_footnotes(vault: Vault) -> None:
    _write(vault, {"articles/Ada.md": "A.[^1] B.[^2]\n\n[^2]: x\n[^2]: y\n[^3]: z\n"})
    _record(vault)
    assert _found(vault) == [
        ("undefined-footnote", "articles/Ada.md", 1),
        ("duplicate-footnote", "articles/Ada.md", 4),
        ("unused-footnote", "articles/Ada.md", 5),
    ]


def test_a_claim_is_a_sentence_of_a_run(vault: Vault) -> None:
    path = "articles/Lyon.md"
    _run(vault, path, LYON.replace("It is old.", "It is old. It is large.[^1] It has rivers.[^1]"))
    assert _found(vault) == []  # "It is old." is the user's
    text = (vault.root / path).read_text()
    changed = text.replace("large.[^1]", "large.").replace("rivers.[^1]", "bridges.")
    _write(vault, {path: changed})
    _record(vault)
    assert _found(vault) == [("uncited-claim", path, 7)]
    assert "It is large." in _examine(vault)[0].message


def test_a_claim_without_any_citation_left(vault: Vault) -> None:
    path = "articles/Lyon.md"
    _run(vault, path, LYON)
    _run(vault, path, LYON.replace("It is old.", "It is old. It is large.[^1]"))
    _write(vault, {path: "# Lyon\n\nIt is large.\n\n## History\n"})
    _record(vault)
    assert _found(vault) == [("uncited-claim", path, 3)]


def test_imported_notes_are_not_claims(tmp_path: Path) -> None:
    (tmp_path / "notes").mkdir()
    (tmp_path / "notes" / "One.md").write_text("# One\n\nA sentence.\n")
    setup_vault(tmp_path / "wiki", import_from=tmp_path / "notes", on_note=print)
    assert _found(open_vault(tmp_path / "wiki")) == []


@pytest.mark.parametrize(
    ("store", "kind", "sound"),
    [
        (Store("I moved to Paris"), "missing-quote", False),
        (None, "unchecked-quotes", True),
        (Store(), "unchecked-quotes", True),
    ],
)
def test_quotes(vault: Vault, store: Store | None, kind: str, sound: bool) -> None:
    found = _examine(vault, store)
    assert [each.kind for each in found] == [kind]
    assert is_sound(found) is sound


@pytest.mark.parametrize("source", ["chatgpt:2#m1", "chatgpt:1#m9"])
def test_a_source_that_is_no_longer_known(vault: Vault, source: str) -> None:
    _write(vault, {"articles/Lyon.md": LYON.replace("chatgpt:1#m1", source)})
    _record(vault)
    assert _found(vault) == [("unknown-source", "articles/Lyon.md", 11)]


def test_what_is_not_committed(vault: Vault) -> None:
    _write(vault, {"articles/Ada.md": ADA + "More.\n", "articles/New.md": "x\n"})
    (vault.root / "README.md").unlink()
    assert _found(vault) == [
        ("uncommitted", "README.md", None),
        ("uncommitted", "articles/Ada.md", None),
        ("uncommitted", "articles/New.md", None),
    ]


def test_a_vault_without_a_repository(vault: Vault) -> None:
    (vault.root / ".git").rename(vault.root.parent / "moved")
    assert _found(vault) == [("git", "", None)]


def test_a_machine_without_git(
    vault: Vault, monkeypatch: pytest.MonkeyPatch, tmp_path_factory: pytest.TempPathFactory
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path_factory.mktemp("empty")))
    assert ("git", "", None) in _found(vault)


def test_conflict_markers(vault: Vault) -> None:
    text = "# A\n\n<<<<<<< HEAD\none\n=======\ntwo\n>>>>>>> branch\n"
    _write(vault, {"articles/Ada.md": text, "Talk/Ada.md": text.replace("\n", "\r\n")})
    _record(vault)
    assert _found(vault) == [("conflict", "Talk/Ada.md", 3), ("conflict", "articles/Ada.md", 3)]


def test_files_that_cannot_be_read_or_changed(vault: Vault) -> None:
    _write(vault, {"articles/bad.md": b"a\xff\n", "articles/code.md": "```\n"})
    _record(vault)
    (vault.root / "articles" / "big.md").write_bytes(b"")
    os.truncate(vault.root / "articles" / "big.md", 50 * 1024 * 1024)
    _record(vault)
    os.mkfifo(vault.root / "articles" / "pipe.md")
    assert _found(vault) == [
        ("not-utf8", "articles/bad.md", None),
        ("oversize", "articles/big.md", None),
        ("unclosed-code", "articles/code.md", None),
        ("special-file", "articles/pipe.md", None),
    ]


def test_links_of_the_file_system(vault: Vault, tmp_path_factory: pytest.TempPathFactory) -> None:
    outside = tmp_path_factory.mktemp("outside")
    (vault.root / "articles" / "out.md").symlink_to("/etc/passwd")
    (vault.root / "articles" / "in.md").symlink_to("Ada.md")
    (vault.root / "folder").symlink_to(outside)
    (vault.root / "loop").symlink_to("loop")
    _record(vault)
    found = [(kind, path) for kind, path, _ in _found(vault)]
    assert found == [
        ("special-file", "articles/in.md"),
        ("outside-link", "articles/out.md"),
        ("outside-link", "folder"),
        ("special-file", "loop"),
    ]


def test_repositories_and_folders_in_articles(vault: Vault) -> None:
    (vault.root / "articles" / ".git").mkdir()
    _write(vault, {"articles/sub/Deep.md": "x\n", "Talk/.git": "gitdir: /elsewhere\n"})
    found = _found(vault)
    assert ("nested-git", "articles/.git", None) in found
    assert ("nested-git", "Talk/.git", None) in found
    assert ("subfolder", "articles/sub", None) in found


@pytest.mark.parametrize("place", [".gitattributes", "articles/.gitattributes"])
def test_attributes_that_run_programs(vault: Vault, place: str) -> None:
    _write(vault, {place: "*.md diff=evil text\n*.md filter=lfs\n*.txt merge=union -diff\n"})
    _record(vault)
    assert _found(vault) == [("git-attributes", place, None)]
    assert "evil, lfs" in _examine(vault)[0].message


def test_attributes_outside_of_the_tree(vault: Vault) -> None:
    _write(vault, {".git/info/attributes": "* filter=evil\n"})
    assert _found(vault) == [("git-attributes", ".git/info/attributes", None)]


def test_a_name_that_is_not_text(vault: Vault) -> None:
    with open(os.fsencode(vault.root / "articles") + b"/\xff.md", "wb"):  # noqa: PTH123
        pass
    _record(vault)
    assert [kind for kind, _, _ in _found(vault)] == ["file-name"]


def test_many_findings_are_counted(vault: Vault) -> None:
    _write(vault, {"articles/Ada.md": "[[Nowhere]]\n" * 500})
    _record(vault)
    found = _examine(vault)
    assert len(found) == MOST_ALIKE + 1
    assert f"{500 - MOST_ALIKE} more findings" in " ".join(each.message for each in found)


def test_nothing_is_changed(vault: Vault) -> None:
    _write(vault, {"articles/Ada.md": "[[Nowhere]]\n"})
    head = Git(vault.root).head()
    _examine(vault)
    assert Git(vault.root).head() == head
    assert (vault.root / "articles" / "Ada.md").read_text() == "[[Nowhere]]\n"


def test_a_claim_in_an_article_that_was_renamed(vault: Vault) -> None:
    _run(vault, "articles/Port.md", "# Port\n\nIt is big.[^1]\n\nIt is wet.[^1]\n")
    text = (vault.root / "articles" / "Port.md").read_text()
    (vault.root / "articles" / "Port.md").unlink()
    _write(vault, {"articles/Harbour.md": text})
    _record(vault)
    _write(vault, {"articles/Harbour.md": text.replace("wet.[^1]", "wet.")})
    assert ("uncited-claim", "articles/Harbour.md", 5) in _found(vault)


def test_histories_are_read_only_where_a_run_has_written(
    vault: Vault, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Otherwise a large vault costs several git commands for each article."""
    asked: list[str] = []

    def look(_git: Git, path: str, sentences: Sequence[str]) -> tuple[Origin, ...]:
        asked.append(path)
        return tuple(Origin(commit=None, certain=True) for _ in sentences)

    monkeypatch.setattr(doctor, "origins", look)
    _examine(vault)
    assert asked == []
    _run(vault, "articles/Ada.md", ADA + "\nNew.\n")
    _examine(vault)
    assert asked == ["articles/Ada.md"]
