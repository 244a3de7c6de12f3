"""Links around words that stand there, to articles that exist."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from core.memory.asking import Question
from tests.core.memory.stages.making import Wiki, fact, model

HERON = fact("Heron uses SQLite.", subject="Heron", kind="project", about="database")


@pytest.fixture
def wiki(tmp_path: Path) -> Wiki:
    articles = {
        "Heron": "# Heron\n\nHeron is a tool.\n",
        "New York": "# New York\n\nA city.\n",
        "東京": "# 東京\n\n都市。\n",
        "C++": "# C++\n\nA language.\n",
        "Ina Berg": "# Ina Berg\n\n```info\nkind: person\naliases: Ina\n```\n\nA person.\n",
        "tea": "# tea\n\nA drink.\n",
    }
    return Wiki(tmp_path, articles)


@pytest.mark.parametrize(
    ("sentence", "linked"),
    [
        ("Ada Lind works at Heron.", "Ada Lind works at [[Heron]]."),
        ("Ada Lind visits Heron's office.", "Ada Lind visits [[Heron]]'s office."),
        ("Ada Lind knows Heron and Heron.", "Ada Lind knows [[Heron]] and Heron."),
        ("Ada Lind likes new york.", "Ada Lind likes [[New York|new york]]."),
        ("Ada Lind meets Ina.", "Ada Lind meets [[Ina Berg|Ina]]."),
        ("Ada Lind writes C++ daily.", "Ada Lind writes [[C++]] daily."),
        ("Ada Lind drinks tea.", "Ada Lind drinks [[tea]]."),
        ("Ada Lindは東京都に住んでいる。", "Ada Lindは[[東京]]都に住んでいる。"),
        ("Ada Lind saw a heron.", "Ada Lind saw a heron."),
        ("Ada Lind read Heronlike things.", "Ada Lind read Heronlike things."),
        ("Ada Lind is fine.", "Ada Lind is fine."),
    ],
)
def test_names_that_stand_there_are_linked(wiki: Wiki, sentence: str, linked: str) -> None:
    wiki.add(fact(sentence, about="note", value=sentence[:8]))
    assert f"{linked}[^1]" in wiki.read("Ada Lind")


@pytest.mark.parametrize(
    "answer",
    [
        {"links": [{"target": "Mars", "anchor": "", "words": "Heron"}]},
        {"links": [{"target": "Heron", "anchor": "", "words": "works"}]},
        {"links": [{"target": "Heron", "anchor": "x", "words": "Heron"}]},
        {"links": [{"target": "Heron|x]] [[Mars", "anchor": "", "words": "Heron"}]},
    ],
)
def test_invented_links_are_refused(wiki: Wiki, answer: dict[str, Any]) -> None:
    wiki.add(fact("Ada Lind works at Heron.", about="employer"), by=model(link=answer))
    assert "[[" not in wiki.read("Ada Lind")
    assert "Refused (link)" in wiki.talk("Ada Lind")


@pytest.mark.parametrize("answer", [{}, {"links": 4}, {"links": [4, None]}, {"links": []}])
def test_without_a_proposal_there_is_no_link(wiki: Wiki, answer: dict[str, Any]) -> None:
    wiki.add(fact("Ada Lind works at Heron.", about="employer"), by=model(link=answer))
    assert "[[" not in wiki.read("Ada Lind")


def test_an_article_that_this_run_makes_can_be_linked(wiki: Wiki) -> None:
    owl = fact("Owl uses Django.", subject="Owl", kind="project", about="framework")
    wiki.add(fact("Ada Lind works at Owl.", about="employer"), owl)
    assert "works at [[Owl]]." in wiki.read("Ada Lind")


def test_an_article_that_is_not_made_after_all_is_not_linked(wiki: Wiki) -> None:
    owl = fact("Owl <b>x</b>.", subject="Owl", kind="project", about="framework")
    wiki.add(fact("Ada Lind works at Owl.", about="employer"), owl)
    assert "works at Owl." in wiki.read("Ada Lind")
    assert "Owl" not in wiki.names()


def test_one_link_per_target_and_section(wiki: Wiki) -> None:
    wiki.add(fact("Ada Lind works at Heron.", about="employer"))
    wiki.add(fact("Ada Lind leads Heron.", about="employer", message="m2"))
    assert wiki.read("Ada Lind").count("[[Heron]]") == 1


def test_old_sentences_are_not_linked(wiki: Wiki) -> None:
    wiki.write("Ada Lind", "# Ada Lind\n\nAda Lind knows Heron and the user's Heron code.\n")
    wiki.add(fact("Ada Lind plays chess.", about="hobby"))
    assert "[[" not in wiki.read("Ada Lind")


def test_an_article_does_not_link_to_itself(wiki: Wiki) -> None:
    wiki.add(HERON)
    assert "[[" not in wiki.read("Heron")


def test_a_name_of_several_articles_is_linked_by_its_conversation(wiki: Wiki) -> None:
    wiki.write("Heron (bird)", "# Heron (bird)\n\nA bird.\n")
    wiki.add(fact("Ada Lind likes Heron.", about="likes"))
    assert "[[" not in wiki.read("Ada Lind")
    uses = fact(
        "Heron uses C.", subject="Heron (bird)", kind="thing", about="x", source="session:b"
    )
    wiki.add(uses, fact("Ada Lind feeds Heron.", about="feeds", source="session:b"))
    assert "feeds [[Heron (bird)|Heron]]." in wiki.read("Ada Lind")


def test_candidates_come_with_their_sentences(wiki: Wiki) -> None:
    by = model()
    wiki.add(fact("Ada Lind works at Heron.", about="employer"), by=by)
    question: Question = next(asked for asked in by.asked if asked.stage == "link")
    assert question.data == {
        "article": "Ada Lind",
        "candidates": [
            {
                "target": "Heron",
                "anchor": "",
                "words": "Heron",
                "sentence": "Ada Lind works at Heron.",
            }
        ],
    }
