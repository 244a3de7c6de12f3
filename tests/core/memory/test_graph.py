"""Links between articles."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from core.errors import BadRequest, NotFound
from core.memory.graph import Resolver, links_of
from core.memory.vault import Vault
from tests.core.memory.vaults import make_vault

if TYPE_CHECKING:
    from pathlib import Path

ARTICLES = {
    "Ada Lovelace": "# Ada Lovelace\n```info\naliases: Augusta\n```\nIn [[Lyon]], "
    "[[lyon#History]], [[Nowhere]], [[Reference/fit|x]], [[Ada_Lovelace]], `[[Code]]`.\n",
    "Lyon": "# Lyon\n\nHome of [[augusta|her]].\n\n## History\n",
    "Code": "# Code\n\n```\n[[Ada Lovelace]]\n```\n",
    "Paris": "# Paris\n\n[[articles/ADA LOVELACE.md]]\n",
}


@pytest.fixture
def vault(tmp_path: Path) -> Vault:
    return make_vault(tmp_path, ARTICLES, {"fit": "# Fit\n"})


def test_links_from_and_to_an_article(vault: Vault) -> None:
    found = links_of(vault, "ada lovelace")
    assert found.name == "Ada Lovelace"
    assert found.outbound == ("Lyon",)
    assert found.inbound == ("Lyon", "Paris")
    assert found.reference == ("Reference/fit",)
    assert found.unresolved == ("Nowhere",)
    assert links_of(vault, "Augusta") == found


def test_documentation_has_no_links(vault: Vault) -> None:
    with pytest.raises(BadRequest):
        links_of(vault, "Reference/fit")
    with pytest.raises(NotFound):
        links_of(vault, "Nowhere")


def test_a_name_wins_over_an_alias(tmp_path: Path) -> None:
    vault = make_vault(tmp_path, {"A": "```info\naliases: B, C\n```\n", "B": "# B\n"})
    resolver = Resolver(vault)
    assert [resolver.page(each) for each in ("b", "c", "d")] == ["B", "A", None]
    assert vault.find("B") == "articles/B.md"


def test_an_unreadable_article_has_no_links(tmp_path: Path) -> None:
    vault = make_vault(tmp_path, {"A": "[[B]]", "B": "x"})
    (tmp_path / "articles" / "A.md").chmod(0)
    assert links_of(vault, "B").inbound in ((), ("A",))  # root reads everything
