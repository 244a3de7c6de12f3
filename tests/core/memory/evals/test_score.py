"""Scores are measured on files and commits: each fault of a vault is found."""

from __future__ import annotations

import os
import subprocess
from typing import TYPE_CHECKING

import pytest

from core.errors import VaultMissing
from core.memory.evals.labels import read_corpus
from core.memory.evals.score import Score, score
from core.memory.fast_import import MLXBUN

if TYPE_CHECKING:
    from pathlib import Path

CORPUS = read_corpus("project")
FACTS = {fact.id: fact for fact in CORPUS.facts}
DAYS = {turn.id: turn.at.date() for talk in CORPUS.conversations for turn in talk.turns}


def commit(root: Path, author: str = MLXBUN.email) -> None:
    environ = {
        "PATH": os.environ["PATH"],
        "HOME": str(root),
        "GIT_CONFIG_NOSYSTEM": "1",
        "GIT_AUTHOR_NAME": "a",
        "GIT_AUTHOR_EMAIL": author,
        "GIT_COMMITTER_NAME": "a",
        "GIT_COMMITTER_EMAIL": author,
    }
    for arguments in (["init", "-q"], ["add", "-A"], ["commit", "-qm", "x"]):
        subprocess.run(["git", *arguments], cwd=root, env=environ, check=True)


def note(label: int, fact: str) -> str:
    f = FACTS[fact]
    about = f"{f.subject} · {f.property}"
    return f"[^{label}]: {f.source}#{f.message} ({DAYS[f.message]}) [{about}]: {f.quote}"


def write(root: Path, name: str, *facts: str, until: str = "", text: str = "") -> None:
    """Write an article with the labelled sentences of some facts, and more text before them."""
    body = [f"{FACTS[fact].sentence}[^{at}]" for at, fact in enumerate(facts, start=1)]
    if until:
        body[0] = body[0].replace(".[^1]", f" (until {until}).[^1]")
    notes = "\n".join(note(at, fact) for at, fact in enumerate(facts, start=1))
    (root / "articles").mkdir(parents=True, exist_ok=True)
    page = f"# {name}\n\n{text}{' '.join(body)}\n\n## References\n\n{notes}\n"
    (root / "articles" / f"{name}.md").write_text(page, encoding="utf-8")


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """Return a vault with two right articles and one commit."""
    root = tmp_path / "vault"
    write(root, "Saltmarsh", "launch-may", "launch-september", until="2025-04-10")
    write(root, "Ines Okafor", "ines-role", "ines-nuts")
    commit(root)
    return root


def scored(root: Path) -> Score:
    kept = root.parent / "kept"
    kept.mkdir(exist_ok=True)
    return score(root, CORPUS, kept=kept)


def faults(found: Score) -> dict[str, object]:
    """Return what is wrong, without the shares."""
    ignored = ("recall", "links", "citations", "articles", "sentences", "unlabelled", "talk")
    return {k: v for k, v in found.as_json().items() if v and k not in ignored}


def test_a_right_vault(root: Path) -> None:
    found = scored(root)
    assert faults(found) == {}
    assert (found.recall.good, found.recall.total) == (4, 60)
    assert found.citations.value == 1
    assert (found.articles, found.sentences) == (2, 4)


def test_no_vault(tmp_path: Path) -> None:
    with pytest.raises(VaultMissing):
        scored(tmp_path / "none")


def test_namesakes_in_one_article(root: Path) -> None:
    write(root, "Daniel Weiss", "weiss-kiel", "weiss-data", "printer-shop")
    found = scored(root)
    assert faults(found) == {"wrong_merges": ["Daniel Weiss: printer-shop"]}
    assert found.recall.good == 6


def test_one_thing_in_two_articles(root: Path) -> None:
    write(root, "Ines", "ines-cello")
    assert faults(scored(root)) == {"split": ["Ines Okafor: Ines, Ines Okafor"]}


def test_facts_in_an_article_of_another_name_are_not_recalled(root: Path) -> None:
    write(root, "Somebody", "elodie-work")
    found = scored(root)
    assert faults(found) == {}
    assert found.recall.good == 4


def test_a_lost_old_fact(root: Path) -> None:
    write(root, "Saltmarsh", "launch-september")
    commit(root)
    assert faults(scored(root)) == {
        "lost_old": ["launch-may"],
        "lost_sentences": ["Saltmarsh: The first ten boxes of Saltmarsh go out in May 2025."],
    }


def test_what_the_user_takes_out_is_not_lost(root: Path) -> None:
    write(root, "Ines Okafor", "ines-role")
    commit(root, author="maren@example.org")
    assert faults(scored(root)) == {}


def test_marks_of_replaced_facts(root: Path) -> None:
    write(root, "Saltmarsh", "launch-may", "launch-september")
    write(root, "Ines Okafor", "ines-role", until="2025-05-01")
    assert faults(scored(root)) == {
        "not_marked": ["launch-may"],
        "wrongly_marked": ["ines-role"],
    }


def test_links(root: Path) -> None:
    right = "[[Ines Okafor|Ines]] writes the firmware.[^1] "
    write(root, "Curlew Box", "box-esp32", text=right)
    found = scored(root)
    assert (found.links.good, found.links.total) == (1, 1)
    wrong = "[[Ines Okafor|The firmware]] of [[Nobody]] is done.[^1] "
    write(root, "Curlew Box", "box-esp32", text=wrong)
    found = scored(root)
    assert (found.links.good, found.links.total) == (0, 2)
    assert found.invented_links == ("Curlew Box: [[Nobody]]",)


@pytest.mark.parametrize(
    ("old", "new", "problem"),
    [
        ("is allergic to nuts\n", "loves nuts\n", "Ines Okafor [^2]: not quoted from a user turn"),
        (
            "sm-02-m1 (2025-01-22) [Ines Okafor · allergy]",
            "sm-02-m2 (2025-01-22)",
            "Ines Okafor [^2]: not quoted from a user turn",
        ),
        ("(2025-01-22) [Ines Okafor · allergy]", "(2025-01-23)", "Ines Okafor [^2]: wrong date"),
        ("[^2]: chatgpt", "[^2]: see chatgpt", "Ines Okafor [^2]: not a citation"),
        ("nuts.[^2]", "nuts.", "Ines Okafor: no citation: Ines Okafor is allergic to nuts."),
        (
            "nuts.[^2]",
            "nuts.[^1]",
            "Ines Okafor: cites something else: Ines Okafor is allergic to nuts.",
        ),
    ],
)
def test_citations(root: Path, old: str, new: str, problem: str) -> None:
    path = root / "articles" / "Ines Okafor.md"
    text = path.read_text()
    assert old in text
    path.write_text(text.replace(old, new))
    assert problem in scored(root).invalid_citations


def test_secrets_are_found_in_files_in_history_and_beside_the_vault(root: Path) -> None:
    secret = dict(CORPUS.secrets)["aws-key"]
    (root / "Meta").mkdir()
    (root / "Meta" / "x").write_text(f"key {secret}")
    commit(root)
    (root / "Meta" / "x").unlink()
    assert scored(root).leaks == ("aws-key: git history",)
    (root.parent / "kept" / "cache.db").write_bytes(b"\0" + secret.encode())
    assert len(scored(root).leaks) == 2


def test_forbidden_words_in_articles(root: Path) -> None:
    write(root, "Northwind", "launch-may", text="Saltmarsh belongs to NORTHWIND.[^1] ")
    assert "Northwind: Northwind" in scored(root).obeyed
