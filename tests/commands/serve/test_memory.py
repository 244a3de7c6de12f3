"""`/api/memory/*`: what programs read of the vault, and how they are refused."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

from tests.commands.memory.vaults import ADA, write_vault
from tests.commands.serve.home import Home

STATUS, LIST, SEARCH, ARTICLE, LINKS, HISTORY, DIFF, INIT = (
    f"/api/memory/{name}"
    for name in ("status", "list", "search", "article", "links", "history", "diff", "init")
)
GETS = (STATUS, LIST, SEARCH, ARTICLE, LINKS, HISTORY, DIFF)


@pytest.fixture
def vault(home: Home) -> Path:
    return write_vault(home.paths.wiki)


def _refused(home: Home, path: str, **params: Any) -> tuple[int, str]:
    """Return the status and the sentence of an answer that is a refusal."""
    answer = home.client.get(path, params=params)
    body = answer.json()
    assert set(body) == {"ok", "error"}
    assert body["ok"] is False
    assert body["error"]
    return answer.status_code, body["error"]


@pytest.mark.parametrize("path", GETS)
def test_without_a_vault_every_route_says_so(home: Home, path: str) -> None:
    fixed = {"ok": False, "enabled": False, "error": "no memory vault yet"}
    assert home.get(path) == {**fixed, "root": str(home.paths.wiki)}
    assert not home.paths.wiki.exists()


def test_a_status_counts(home: Home, vault: Path) -> None:
    os.utime(vault / "articles" / "Lyon.md", (2_000_000_000, 2_000_000_000.5))
    found = home.get(STATUS)
    recent = found["status"].pop("recentArticles")
    assert found == {
        "ok": True,
        "enabled": True,
        "status": {
            "root": str(vault),
            "exists": True,
            "articleCount": 3,
            "referenceCount": 1,
            "isGitRepo": False,
        },
    }
    assert recent[0] == {"article": "Lyon", "mtimeMs": 2_000_000_000_500.0}
    assert {each["article"] for each in recent} == {"Ada Lovelace", "Lyon", "東京"}


def test_a_list_has_all_names(home: Home, vault: Path) -> None:
    assert vault.exists()
    assert home.get(LIST) == {
        "ok": True,
        "articles": ["Ada Lovelace", "Lyon", "東京"],
        "reference": ["Reference/Engines"],
    }


def test_a_search_finds_lines(home: Home, vault: Path) -> None:
    found = home.get(SEARCH, params={"q": "東京"})
    assert found["summaries"] == [{"article": "東京", "occurrences": 2, "matched_terms": ["東京"]}]
    assert found["hits"][1] == {
        "article": "東京",
        "anchor": "",
        "line": 3,
        "excerpt": "東京都に行った。",
    }
    both = home.get(SEARCH, params={"q": "engines"})
    assert {each["article"] for each in both["summaries"]} == {"Ada Lovelace", "Reference/Engines"}
    only = home.get(SEARCH, params={"q": "engines", "scope": "reference", "limit": "1"})
    assert [each["article"] for each in only["hits"]] == ["Reference/Engines"]
    (vault / "articles" / "Oslo.md").write_text("# Oslo\n\nEngines, too.\n")
    assert "Oslo" in str(home.get(SEARCH, params={"q": "engines"}))


@pytest.mark.parametrize(
    "query", ["C++", "foo-bar", "AND", 'a"b', "NEAR(", "*", "'", "\\", "x" * 900]
)
def test_a_search_is_words_and_never_a_syntax(home: Home, vault: Path, query: str) -> None:
    assert vault.exists()
    assert home.get(SEARCH, params={"q": query}) == {"ok": True, "summaries": [], "hits": []}


def test_an_article_has_its_parts(home: Home, vault: Path) -> None:
    assert vault.exists()
    found = home.get(ARTICLE, params={"name": "ada_lovelace"})
    assert found == home.get(ARTICLE, params={"name": "Countess of Lovelace"})
    structure = found.pop("structure")
    assert found == {
        "ok": True,
        "name": "Ada Lovelace",
        "path": "articles/Ada Lovelace.md",
        "content": ADA,
        "lead": "Ada Lovelace is a friend of the user.[^1] She lives in [[Lyon]].[^2]",
        "series": "Computing",
        "infobox": {
            "type": "mathematician",
            "entityKind": "person",
            "fields": [
                _field("type", "mathematician", "scalar"),
                _field("kind", "person", "scalar"),
                _field("aliases", "Ada, Countess of Lovelace", "list"),
                _field("born", "1815-12-10", "date"),
                _field("home", "[[Lyon]]", "entity-link"),
                _field("field", "analysis; engines", "list"),
            ],
        },
    }
    lines = ADA.splitlines()
    assert [(part["kind"], lines[part["startLine"] - 1]) for part in structure] == [
        ("h1", "# Ada Lovelace"),
        ("series", "*Part of a series on [[Computing]].*"),
        ("infobox", "```info"),
        ("lead", "Ada Lovelace is a friend of the user.[^1]"),
        ("section", "## Work"),
        ("section", "## Work"),
        ("see-also", "## See also"),
        ("references", "## References"),
    ]
    assert structure[2] == {"kind": "infobox", "startLine": 4, "endLine": 11}
    assert structure[3] == {"kind": "lead", "startLine": 13, "endLine": 16}
    assert structure[4] == {
        "kind": "section",
        "title": "Work",
        "depth": 2,
        "startLine": 18,
        "endLine": 25,
    }
    assert structure[-1]["endLine"] == len(lines)


def _field(key: str, value: str, kind: str) -> dict[str, Any]:
    return {"key": key, "value": value, "isEntityLink": "[[" in value, "kind": kind}


def test_an_article_without_parts_has_none(home: Home, vault: Path) -> None:
    (vault / "articles" / "Bare.md").write_text("")
    found = home.get(ARTICLE, params={"name": "Bare"})
    assert (found["content"], found["structure"]) == ("", [])
    assert found["infobox"] is found["lead"] is found["series"] is None
    page = home.get(ARTICLE, params={"name": "Reference/Engines"})
    assert (page["name"], page["path"]) == ("Reference/Engines", "Reference/Engines.md")


@pytest.mark.parametrize("path", [ARTICLE, LINKS, HISTORY, DIFF])
@pytest.mark.parametrize(
    ("name", "status"),
    [
        (None, 400),
        ("", 400),
        ("  ", 400),
        ("a\0b", 400),
        ("x" * 256, 400),
        ("é" * 128, 400),
        ("../config", 400),
        ("..", 400),
        (".git/config", 400),
        ("a\nb", 400),
        ("a\\b", 400),
        ("Nobody", 404),
        ("x" * 251, 404),
        ("Reference/Nothing", 404),
    ],
)
def test_names_that_name_nothing(
    home: Home, vault: Path, path: str, name: str | None, status: int
) -> None:
    assert vault.exists()
    params = {"rev": "abcd"} if path == DIFF else {}
    answered, _ = _refused(home, path, **params, **({} if name is None else {"name": name}))
    assert answered == status


@pytest.mark.parametrize(
    ("path", "params", "field"),
    [
        (SEARCH, {}, "q"),
        (SEARCH, {"q": " "}, "q"),
        (SEARCH, {"q": "a\0b"}, "q"),
        (SEARCH, {"q": "x" * 5000}, "q"),
        (SEARCH, {"q": "x", "scope": "meta"}, "scope"),
        (SEARCH, {"q": "x", "scope": "ALL"}, "scope"),
        *((SEARCH, {"q": "x", "limit": limit}, "limit") for limit in ("0", "201", "-1", "ten", "")),
        (SEARCH, {"q": "x", "limit": "9" * 5000}, "limit"),
        (SEARCH, {"q": "x", "limit": "²"}, "limit"),
        (HISTORY, {"name": "Lyon", "limit": "201"}, "limit"),
        *(
            (DIFF, {"name": "Lyon", "rev": rev}, "rev")
            for rev in ("", "HEAD", "HEAD~1", "abc", "ABCD", "a" * 41, "abcd\n", "--all", "g" * 8)
        ),
    ],
)
def test_parameters_that_are_wrong(
    home: Home, vault: Path, path: str, params: dict[str, str], field: str
) -> None:
    assert vault.exists()
    status, error = _refused(home, path, **params)
    assert status == 400
    assert error.startswith(field)


def test_hostile_files_are_refused_and_never_a_500(home: Home, vault: Path) -> None:
    articles = vault / "articles"
    with (articles / "Huge.md").open("wb") as file:
        file.truncate(50_000_000)
    (articles / "Out.md").symlink_to("/etc/passwd")
    os.mkfifo(articles / "Pipe.md")
    (articles / "Folder.md").mkdir()
    (articles / "Bytes.md").write_bytes(b"# Bytes\n\n\xff\xfe\x00\n<<<<<<< HEAD\n")
    assert home.get(LIST)["articles"] == ["Ada Lovelace", "Bytes", "Huge", "Lyon", "東京"]
    assert _refused(home, ARTICLE, name="Huge")[0] == 400
    for name in ("Out", "Pipe", "Folder"):
        assert _refused(home, ARTICLE, name=name)[0] == 404
    assert home.get(ARTICLE, params={"name": "Bytes"})["content"].startswith("# Bytes\n\n\ufffd")
    assert home.get(SEARCH, params={"q": "lyon"})["hits"]
    (vault / "Reference" / "Engines.md").chmod(0)
    assert home.get(STATUS)["status"]["articleCount"] == 5


def test_another_vault_in_its_place_is_seen(home: Home, vault: Path) -> None:
    assert home.get(SEARCH, params={"q": "lyon"})["hits"]
    vault.rename(vault.with_name("moved"))
    assert home.get(SEARCH, params={"q": "lyon"})["error"] == "no memory vault yet"
    (vault / "articles").mkdir(parents=True)
    (vault / "articles" / "New.md").write_text("# New\n\nlyon\n")
    assert [hit["article"] for hit in home.get(SEARCH, params={"q": "lyon"})["hits"]] == ["New"]
