"""Our documentation in a vault: brought up to date, and the user's versions kept."""

from __future__ import annotations

import json
from datetime import date
from typing import TYPE_CHECKING

import pytest

import core.memory.reference_pages as subject
from core.memory.reference_pages import (
    RECORD,
    is_current,
    keep_current,
    refresh_reference,
    shipped,
)
from core.memory.setup import setup_vault
from core.memory.vault import Vault, open_vault
from tests.core.memory.vaults import make_vault

if TYPE_CHECKING:
    from pathlib import Path

TODAY = date(2026, 12, 1)


@pytest.fixture
def pages(monkeypatch: pytest.MonkeyPatch) -> dict[str, str]:
    """Pages of an mlxbun that tests can update."""
    found = {"Reference/a.md": "# A\n", "Reference/b.md": "# B\n"}
    monkeypatch.setattr(subject, "shipped", lambda: found)
    monkeypatch.setattr(subject, "edition", lambda: json.dumps(found))
    return found


@pytest.fixture
def vault(tmp_path: Path, pages: dict[str, str]) -> Vault:
    setup_vault(tmp_path, on_note=print)
    return open_vault(tmp_path)


def _refresh(vault: Vault) -> tuple[str | None, list[str]]:
    notes: list[str] = []
    return refresh_reference(vault, today=TODAY, on_note=notes.append), notes


def test_the_pages_are_those_of_the_package(tmp_path: Path) -> None:
    setup_vault(tmp_path, on_note=print)
    vault = open_vault(tmp_path)
    assert {f"{name}.md" for name in vault.names().reference} == set(shipped())
    assert vault.read("Reference/cli").text == shipped()["Reference/cli.md"]
    assert is_current(vault)
    assert _refresh(vault) == (None, [])


def test_another_edition_replaces_them_in_one_commit(vault: Vault, pages: dict[str, str]) -> None:
    del pages["Reference/b.md"]
    pages |= {"Reference/a.md": "# A2\n", "Reference/c.md": "# C\n"}
    assert not is_current(vault)
    commit, notes = _refresh(vault)
    assert commit is not None
    assert notes == []
    assert vault.names().reference == ("Reference/a", "Reference/c")
    assert vault.read("Reference/a").text == "# A2\n"
    assert _refresh(vault) == (None, [])


def test_pages_of_the_user_are_kept(vault: Vault, pages: dict[str, str]) -> None:
    folder = vault.root / "Reference"
    (folder / "a.md").write_text("mine")
    (folder / "b.md").write_text("mine, too")
    (folder / "own.md").write_text("added by the user")
    assert _refresh(vault) == (None, [])  # the same edition: nothing to do
    pages["Reference/a.md"] = "# A2\n"
    del pages["Reference/b.md"]
    (folder / "a (edited, 2026-12-01).md").write_bytes(b"there already \xff")
    _, notes = _refresh(vault)
    assert notes == [
        "Your version of Reference/a.md is now Reference/a (edited, 2026-12-01, 2).md; "
        "Reference/a.md was updated."
    ]
    assert (folder / "a.md").read_text() == "# A2\n"
    assert (folder / "a (edited, 2026-12-01, 2).md").read_text() == "mine"
    assert (folder / "a (edited, 2026-12-01).md").read_bytes() == b"there already \xff"
    assert (folder / "b.md").read_text() == "mine, too"
    assert (folder / "own.md").read_text() == "added by the user"


def test_bytes_that_are_not_text_are_kept(vault: Vault, pages: dict[str, str]) -> None:
    (vault.root / "Reference" / "a.md").write_bytes(b"mine \xff")
    pages["Reference/a.md"] = "# A2\n"
    _refresh(vault)
    kept = vault.root / "Reference" / "a (edited, 2026-12-01).md"
    assert kept.read_bytes() == b"mine \xff"


@pytest.mark.parametrize(
    "record", ["", "[]", "{}", '{"edition": 1, "pages": []}', "[" * 100_000, "\x00"]
)
def test_a_record_that_makes_no_sense(vault: Vault, pages: dict[str, str], record: str) -> None:
    (vault.root / RECORD).write_text(record)
    pages["Reference/a.md"] = "# A2\n"
    _, notes = _refresh(vault)
    assert len(notes) == 1  # what cannot be told from an edit counts as one
    assert is_current(vault)
    assert vault.read("Reference/a").text == "# A2\n"


def test_deleted_pages_come_back_with_the_next_edition(vault: Vault, pages: dict[str, str]) -> None:
    (vault.root / "Reference" / "b.md").unlink()
    assert _refresh(vault) == (None, [])
    pages["Reference/a.md"] = "# A2\n"
    _refresh(vault)
    assert vault.names().reference == ("Reference/a", "Reference/b")


def test_a_newer_mlxbun_has_been_here(vault: Vault, pages: dict[str, str]) -> None:
    record = json.loads((vault.root / RECORD).read_text())
    (vault.root / RECORD).write_text(json.dumps(record | {"version": "999.1"}))
    pages["Reference/a.md"] = "# older\n"
    assert is_current(vault)
    assert _refresh(vault) == (None, [])
    assert vault.read("Reference/a").text == "# A\n"


def test_opening_a_vault_keeps_it_current(vault: Vault, pages: dict[str, str]) -> None:
    notes: list[str] = []
    pages["Reference/a.md"] = "# A2\n"
    keep_current(vault, on_note=notes.append)
    assert vault.read("Reference/a").text == "# A2\n"
    pages["Reference/a.md"] = "# A3\n"
    (vault.root / ".git" / "MERGE_HEAD").write_text("0" * 40)
    keep_current(vault, on_note=notes.append)  # not now, and no failure
    assert vault.read("Reference/a").text == "# A2\n"
    assert len(notes) == 1
    assert notes[0].startswith("The documentation in Reference could not be updated: A merge")


def test_opening_what_mlxbun_did_not_set_up(tmp_path: Path, pages: dict[str, str]) -> None:
    vault = make_vault(tmp_path, {"A": "x"})
    (tmp_path / ".git").mkdir()
    keep_current(vault, on_note=print)
    assert vault.names().reference == ()
