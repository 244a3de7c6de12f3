"""Notes of a folder as articles."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import pytest

from core.errors import NotFound, UsageProblem
from core.memory import note_import
from core.memory.setup import setup_vault
from core.memory.vault import Vault, open_vault

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path


def _write(folder: Path, notes: Mapping[str, str | bytes]) -> Path:
    for name, text in notes.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return folder


def _import(tmp_path: Path, notes: Mapping[str, str | bytes]) -> tuple[Vault, list[str]]:
    said: list[str] = []
    folder = _write(tmp_path / "notes", notes)
    setup_vault(tmp_path / "wiki", import_from=folder, on_note=said.append)
    return open_vault(tmp_path / "wiki"), said


def _text(vault: Vault, name: str) -> str:
    return vault.read(name).text


def test_notes_become_articles_as_they_are(tmp_path: Path) -> None:
    text = "\ufeff---\naliases: [x]\n---\r\n# One\r\n\r\nText [[Two]].\r\n"
    vault, said = _import(tmp_path, {"One.md": text, "sub/Two.markdown": "two", "x.png": b"\x89"})
    assert vault.names().articles == ("One", "Two")
    assert _text(vault, "One") == text
    assert said == []
    assert (tmp_path / "notes" / "One.md").exists()


def test_links_keep_working(tmp_path: Path) -> None:
    vault, _ = _import(
        tmp_path,
        {
            "Index.md": "[[Plan]] [[a/Plan]] [[a/Plan#Goals|goals]] [x](b/Plan.md#Goals) "
            "[y](a/My%20Note.md) ![[b/Plan]] [[Nowhere]] [z](https://x/y.md) ![p](a/p.png) "
            "`[[a/Plan]]`\n\n| [[a/Plan\\|p]] |\n\n```\n[[a/Plan]]\n```\n",
            "Plan.md": "top",
            "a/Plan.md": "[[Plan]] [[../Plan]] [up](../Index.md) [[My Note]]",
            "a/My Note.md": "[[#Here]] [[Index]] [out](../../secret.md)",
            "b/Plan.md": "x",
        },
    )
    assert vault.names().articles == ("Index", "My Note", "Plan", "Plan (a)", "Plan (b)")
    assert _text(vault, "Index") == (
        "[[Plan]] [[Plan (a)|a/Plan]] [[Plan (a)#Goals|goals]] [[Plan (b)#Goals|x]] "
        "[[My Note|y]] ![[Plan (b)|b/Plan]] [[Nowhere]] [z](https://x/y.md) ![p](a/p.png) "
        "`[[a/Plan]]`\n\n| [[Plan (a)\\|p]] |\n\n```\n[[a/Plan]]\n```\n"
    )
    assert _text(vault, "Plan (a)") == (
        "[[Plan (a)|Plan]] [[Plan|../Plan]] [[Index|up]] [[My Note]]"
    )
    assert _text(vault, "My Note") == "[[#Here]] [[Index]] [out](../../secret.md)"


def test_nothing_is_overwritten(tmp_path: Path) -> None:
    vault, _ = _import(tmp_path, {"One.md": "mine", "Two.md": "same"})
    _write(tmp_path / "notes", {"One.md": "theirs", "ONE (2).md": "new"})
    vault, said = _import(tmp_path, {})
    assert _text(vault, "One") == "mine"
    assert said == ["One.md was not imported: there is an article 'One' already."]
    assert vault.names().articles == ("ONE (2)", "One", "Two")


def test_what_is_not_imported(tmp_path: Path) -> None:
    folder = tmp_path / "notes"
    _write(tmp_path, {"secret.md": "secret", "elsewhere/x.md": "x"})
    _write(
        folder,
        {
            ".obsidian/x.md": "", ".git/y.md": "", "node_modules/z.md": "", ".hidden.md": "",
            "bad.md": b"\xff", "big.md": b"x" * (2 * 1024 * 1024 + 1), "???.md": "",
        },
    )  # fmt: skip
    (folder / "link.md").symlink_to(tmp_path / "secret.md")
    (folder / "sub").symlink_to(tmp_path / "elsewhere")
    os.mkfifo(folder / "pipe.md")
    (folder / "folder.md").mkdir()
    vault, said = _import(tmp_path, {"good.md": "good"})
    assert vault.names().articles == ("good",)
    assert sorted(said) == [
        "???.md was not imported: no file name can be made of its name.",
        "bad.md was not imported: it is not valid UTF-8.",
        "big.md was not imported: it is larger than 2.1 MB.",
        "link.md was not imported: it is a link.",
        "pipe.md was not imported: it is not a regular file.",
    ]


def test_secrets_are_replaced(tmp_path: Path) -> None:
    key = "AKIA" + "IOSFODNN7EXAMPLE"
    vault, said = _import(tmp_path, {"Keys.md": f"The key is {key}.\n"})
    assert key not in _text(vault, "Keys")
    assert said == ["Secrets were replaced by placeholders in 1 note."]


def test_bounds(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(note_import, "MOST_NOTES", 2)
    with pytest.raises(UsageProblem, match="more than 2 notes"):
        _import(tmp_path, {"1.md": "", "2.md": "", "3.md": ""})
    assert not (tmp_path / "wiki").exists()
    monkeypatch.setattr(note_import, "MOST_NOTES", 10)
    monkeypatch.setattr(note_import, "MOST_BYTES", 2)
    with pytest.raises(UsageProblem, match="more than"):
        _import(tmp_path, {"1.md": "abc"})


def test_folders_that_cannot_be_imported(tmp_path: Path) -> None:
    with pytest.raises(NotFound):
        setup_vault(tmp_path / "wiki", import_from=tmp_path / "none", on_note=print)
    setup_vault(tmp_path / "wiki", on_note=print)
    with pytest.raises(UsageProblem, match="in the vault itself"):
        setup_vault(tmp_path / "wiki", import_from=tmp_path / "wiki" / "articles", on_note=print)


def test_the_vault_in_the_folder_is_left_out(tmp_path: Path) -> None:
    _write(tmp_path, {"One.md": "one"})
    said: list[str] = []
    result = setup_vault(tmp_path / "wiki", import_from=tmp_path, on_note=said.append)
    assert (result.imported, said) == (("One",), [])


def test_deep_folders_end(tmp_path: Path) -> None:
    deep = "/".join("d" * 40)
    vault, said = _import(tmp_path, {f"{deep}/x.md": "", "y.md": ""})
    assert vault.names().articles == ("y",)
    assert len(said) == 1
    assert "more than 32 folders deep" in said[0]


def test_secrets_in_names_of_files_are_replaced(tmp_path: Path) -> None:
    notes = {
        "vera.m@example.org.md": "One.\n",
        "Two.md": "See [[vera.m@example.org]].\n",
        "vera.m@example.org/Two.md": "Twin.\n",
    }
    vault, _ = _import(tmp_path, notes)
    names = vault.names().articles
    assert len(names) == 3
    (name,) = (name for name in names if name.startswith("e-mail "))
    assert f"See [[{name}|[e-mail " in _text(vault, "Two")
    assert not any("vera" in name for name in names)
