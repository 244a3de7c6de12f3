"""The files of a vault: which page a name means, and what is never read."""

from __future__ import annotations

import hashlib
import os
import socket
from typing import TYPE_CHECKING

import pytest

from core.errors import BadRequest, NotFound, StoreCorrupt, UsageProblem, VaultMissing
from core.memory.vault import LARGEST_PAGE, Vault, open_vault
from tests.core.memory.vaults import make_vault

if TYPE_CHECKING:
    from pathlib import Path

ADA = "# Ada Lovelace\n\n```info\naliases: Augusta, Lady L.\n```\n\nText.\n"


def test_names_are_sorted_and_regular_files_only(tmp_path: Path) -> None:
    vault = make_vault(tmp_path, {"b": "", "a": "", "東京": ""}, {"cli": "", "fit": ""})
    articles = tmp_path / "articles"
    (articles / "link.md").symlink_to("/etc/hostname")
    (articles / "folder.md").mkdir()
    for name in (".hidden.md", "a\nb.md", "a\\b.md", ".md"):
        (articles / name).write_text("")
    (articles / "picture.png").write_bytes(b"")
    os.mkfifo(articles / "pipe.md")
    (tmp_path / "articles" / ".git").mkdir()
    with open(os.fsencode(articles) + b"/\xff.md", "wb"):  # noqa: PTH123
        pass
    assert vault.names().articles == ("a", "b", "東京")
    assert vault.names().reference == ("Reference/cli", "Reference/fit")


def test_a_vault_has_to_be_there(tmp_path: Path) -> None:
    for root in (tmp_path / "none", tmp_path):
        assert not Vault(root).exists
        with pytest.raises(VaultMissing):
            open_vault(root)
        with pytest.raises(VaultMissing):
            Vault(root).find("x")
    outside = make_vault(tmp_path / "real").root
    (tmp_path / "articles").symlink_to(outside / "articles")
    assert not Vault(tmp_path).exists  # a link in the vault is not followed
    (tmp_path / "vault").symlink_to(outside)
    assert open_vault(tmp_path / "vault").root == outside  # the vault itself may be one


@pytest.mark.parametrize(
    ("name", "path"),
    [
        ("Ada Lovelace", "articles/Ada Lovelace.md"),
        ("ada_lovelace.md", "articles/Ada Lovelace.md"),
        ("augusta", "articles/Ada Lovelace.md"),
        ("LADY L.", "articles/Ada Lovelace.md"),
        ("Zürich", "articles/Zu\u0308rich.md"),
        ("The title", "articles/Other.md"),
        ("Reference/CLI", "Reference/cli.md"),
        ("cli", None),
        ("Reference/Augusta", None),
        ("Paris", None),
    ],
)
def test_find(tmp_path: Path, name: str, path: str | None) -> None:
    articles = {"Ada Lovelace": ADA, "Zu\u0308rich": "", "Other": "# The title\n"}
    vault = make_vault(tmp_path, articles, {"cli": ""})
    if path is None:
        with pytest.raises(NotFound):
            vault.find(name)
    else:
        assert vault.find(name) == path


def test_a_name_like_it_is_hinted_at(tmp_path: Path) -> None:
    vault = make_vault(tmp_path, {"Ada Lovelace": ""})
    with pytest.raises(NotFound) as caught:
        vault.find("Ada Lovelase")
    assert caught.value.hint == "Similar names: Ada Lovelace."


def test_aliases_follow_the_file(tmp_path: Path) -> None:
    vault = make_vault(tmp_path, {"Ada": ADA})
    assert vault.aliases("Ada") == ("Ada Lovelace", "Augusta", "Lady L.")
    (tmp_path / "articles" / "Ada.md").write_text("---\naliases: [Countess]\n---\n# Ada\n")
    assert vault.aliases("Ada") == ("Ada", "Countess")
    assert vault.aliases("none") == ()


def test_a_page(tmp_path: Path) -> None:
    vault = make_vault(tmp_path, {"Ada": "\ufeff# Ada\r\n"}, {"cli": "x"})
    page = vault.read("ada")
    assert (page.name, page.path, page.text) == ("Ada", "articles/Ada.md", "\ufeff# Ada\r\n")
    assert page.digest == hashlib.sha256(page.text.encode()).hexdigest()
    assert page.warning is None
    assert vault.read("Reference/cli").name == "Reference/cli"
    (tmp_path / "Talk" / "Ada.md").write_text("talk")
    assert vault.read("Talk/Ada.md").text == "talk"


def test_bytes_that_are_not_text_are_said(tmp_path: Path) -> None:
    vault = make_vault(tmp_path, {"bad": b"# a\xff\n"})
    page = vault.read("bad")
    assert page.text == "# a\ufffd\n"
    assert not page.valid
    assert page.warning is not None
    assert "not valid UTF-8" in page.warning
    assert vault.raw(page) == b"# a\xff\n"


def test_fifty_megabytes_are_refused(tmp_path: Path) -> None:
    vault = make_vault(tmp_path)
    path = tmp_path / "articles" / "big.md"
    path.write_bytes(b"# big\n")
    os.truncate(path, 50 * 1024 * 1024)
    with pytest.raises(UsageProblem, match=r"articles/big\.md has 52\.4 MB"):
        vault.read("big")
    page = vault.read("big", whole=False)
    assert page.truncated
    assert page.size == 50 * 1024 * 1024
    assert len(page.text) == LARGEST_PAGE


def test_a_cut_falls_between_characters(tmp_path: Path) -> None:
    vault = make_vault(tmp_path, {"big": "x" + "東" * (LARGEST_PAGE // 3 + 2)})
    page = vault.read("big", whole=False)
    assert page.valid
    assert page.text.endswith("東")


def test_nothing_outside_of_the_vault_is_read(tmp_path: Path) -> None:
    root = tmp_path / "vault"
    vault = make_vault(root)
    (tmp_path / "secret.md").write_text("secret")
    articles = root / "articles"
    (articles / "link.md").symlink_to(tmp_path / "secret.md")
    (root / "Talk").rmdir()
    (root / "Talk").symlink_to(tmp_path)
    os.mkfifo(articles / "pipe.md")
    (articles / "folder.md").mkdir()
    for path in ("articles/link.md", "Talk/secret.md", "articles/pipe.md", "articles/folder.md"):
        with pytest.raises(NotFound):
            vault.read(path)
    for path in (
        "../secret",
        "articles/../../secret.md",
        "/etc/passwd",
        "articles/x\x00.md",
        "a\nb",
    ):
        with pytest.raises(BadRequest):
            vault.read(path)


def test_a_socket_is_not_a_page(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    vault = make_vault(tmp_path)
    monkeypatch.chdir(tmp_path / "articles")  # the path of a socket is short
    with socket.socket(socket.AF_UNIX) as server:
        server.bind("s.md")
        with pytest.raises(NotFound, match="not a regular file"):
            vault.read("articles/s.md")


def test_a_file_that_goes_while_it_is_read(tmp_path: Path) -> None:
    vault = make_vault(tmp_path, {"a": ""})
    (tmp_path / "articles" / "a.md").unlink()
    with pytest.raises(NotFound, match=r"no articles/a\.md"):
        vault.read("articles/a.md")


def test_what_may_not_be_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    vault = make_vault(tmp_path, {"a": ""})

    def refuse(*_args: object, **_named: object) -> None:
        raise PermissionError(13, "Permission denied")

    with monkeypatch.context() as patch:
        patch.setattr(Vault, "_open", refuse)  # root may read everything
        with pytest.raises(StoreCorrupt, match=r"Cannot read articles/a\.md: Permission denied\."):
            vault.read("a")
        assert vault.aliases("a") == ()
    monkeypatch.setattr(os, "scandir", refuse)
    with pytest.raises(StoreCorrupt, match="Cannot read articles/: Permission denied"):
        vault.names()
