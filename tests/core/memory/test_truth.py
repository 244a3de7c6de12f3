"""Which fact holds."""

from __future__ import annotations

import itertools
from pathlib import Path

import pytest

from core.memory.stages.types import Fact
from core.memory.truth import retired_text, states, until, without_until
from tests.core.memory.stages.making import Wiki, fact

LYON = fact("Ada Lind lives in Lyon.", exclusive=True, date="2025-01-10", source="session:a")
ROME = fact("Ada Lind lives in Rome.", exclusive=True, date="2025-06-10", source="session:b")
OSLO = fact("Ada Lind lives in Oslo.", exclusive=True, date="2026-02-10", source="session:c")


@pytest.fixture
def wiki(tmp_path: Path) -> Wiki:
    return Wiki(tmp_path)


def states_of(text: str) -> set[str]:
    """Return the sentences of an article's lead without markers."""
    body = text.split("```\n", 2)[-1].split("## References", maxsplit=1)[0]
    pieces = body.replace("]", "]\n").split("\n")
    return {piece.partition("[^")[0].strip() for piece in pieces if "[^" in piece} - {""}


@pytest.mark.parametrize(
    ("plain", "retired"),
    [
        ("Ada Lind lives in Lyon.", "Ada Lind lives in Lyon (until 2026-03-01)."),
        ("Ada Lind lives in Lyon", "Ada Lind lives in Lyon (until 2026-03-01)"),
        ("アダは東京に住む。", "アダは東京に住む (until 2026-03-01)。"),
        ("Ada Lind lives in Lyon.[^1][^2]", "Ada Lind lives in Lyon (until 2026-03-01).[^1][^2]"),
        (
            "Ada Lind lives in Lyon (until 2027-01-01).",
            "Ada Lind lives in Lyon (until 2026-03-01).",
        ),
        ("Ada Lind lives in Lyon (France).", "Ada Lind lives in Lyon (France) (until 2026-03-01)."),
        ("", " (until 2026-03-01)"),
    ],
)
def test_until_stands_before_the_full_stop(plain: str, retired: str) -> None:
    assert retired_text(plain, "2026-03-01") == retired
    assert until(retired) == "2026-03-01"
    assert without_until(retired) == without_until(plain)


@pytest.mark.parametrize("order", list(itertools.permutations((LYON, ROME, OSLO))))
@pytest.mark.parametrize("runs", [1, 3])
def test_any_order_of_arrival_comes_to_the_same(
    tmp_path: Path, order: tuple[Fact, ...], runs: int
) -> None:
    wiki = Wiki(tmp_path)
    for group in [order] if runs == 1 else [(one,) for one in order]:
        wiki.add(*group)
    assert states_of(wiki.read("Ada Lind")) == {
        "Ada Lind lives in Lyon (until 2025-06-10).",
        "Ada Lind lives in Rome (until 2026-02-10).",
        "Ada Lind lives in Oslo.",
    }
    assert "home city: Oslo" in wiki.read("Ada Lind")
    assert wiki.read("Ada Lind").count("[^") == 6


def test_the_same_facts_again_change_nothing(wiki: Wiki) -> None:
    wiki.add(LYON, ROME)
    plan = wiki.plan([LYON, ROME])
    assert not plan.patched
    assert not plan.talk
    assert set(plan.known) == {LYON.id, ROME.id}


def test_an_equal_value_is_a_second_citation_and_no_sentence(wiki: Wiki) -> None:
    wiki.add(LYON)
    wiki.add(
        fact("Ada Lind still lives in Lyon.", exclusive=True, date="2025-03-01", source="session:d")
    )
    assert states_of(wiki.read("Ada Lind")) == {"Ada Lind lives in Lyon."}
    assert "Ada Lind lives in Lyon.[^1][^2]" in wiki.read("Ada Lind")


def test_at_most_three_citations(wiki: Wiki) -> None:
    for number in range(6):
        wiki.add(fact("Ada Lind lives in Lyon.", exclusive=True, source=f"session:{number}"))
    assert "Lyon.[^1][^2][^3]\n" in wiki.read("Ada Lind")
    assert "[^4]" not in wiki.read("Ada Lind")
    assert len(wiki.ledger.entries) == 6


def test_a_value_that_comes_back_is_a_sentence_of_its_own(wiki: Wiki) -> None:
    wiki.add(LYON)
    wiki.add(ROME)
    wiki.add(fact("Ada Lind lives in Lyon.", exclusive=True, date="2026-01-01", source="session:d"))
    assert states_of(wiki.read("Ada Lind")) == {
        "Ada Lind lives in Lyon (until 2025-06-10).",
        "Ada Lind lives in Rome (until 2026-01-01).",
        "Ada Lind lives in Lyon.",
    }
    assert "home city: Lyon" in wiki.read("Ada Lind")


def test_evidence_from_within_a_period_cites_its_sentence(wiki: Wiki) -> None:
    wiki.add(LYON, ROME)
    wiki.add(fact("Ada Lind lives in Lyon.", exclusive=True, date="2025-04-01", source="session:d"))
    assert "Lyon (until 2025-06-10).[^1][^3]" in wiki.read("Ada Lind")


def test_facts_of_another_property_or_subject_retire_nothing(wiki: Wiki) -> None:
    wiki.add(LYON)
    wiki.add(fact("Ada Lind works in Rome.", about="office", exclusive=True, date="2026-01-01"))
    wiki.add(fact("Bo lives in Rome.", subject="Bo", exclusive=True, date="2026-01-01"))
    assert states_of(wiki.read("Ada Lind")) == {
        "Ada Lind lives in Lyon.",
        "Ada Lind works in Rome.",
    }


def test_facts_that_are_not_exclusive_retire_nothing(wiki: Wiki) -> None:
    wiki.add(fact("Ada Lind likes tea.", about="drink"))
    wiki.add(fact("Ada Lind likes mate.", about="drink", date="2026-05-01", message="m2"))
    wiki.add(
        fact("Ada Lind likes cola.", about="drink", date="2026-06-01", message="m3", exclusive=True)
    )
    assert states_of(wiki.read("Ada Lind")) == {
        "Ada Lind likes tea.",
        "Ada Lind likes mate.",
        "Ada Lind likes cola.",
    }


def test_without_a_date_nothing_is_retired(wiki: Wiki) -> None:
    wiki.add(LYON)
    wiki.add(fact("Ada Lind lives in Rome.", exclusive=True, date=None, source="session:b"))
    wiki.add(OSLO)
    assert states_of(wiki.read("Ada Lind")) == {
        "Ada Lind lives in Lyon (until 2026-02-10).",
        "Ada Lind lives in Rome.",
        "Ada Lind lives in Oslo.",
    }
    assert "cannot be ordered" in wiki.talk("Ada Lind")
    assert "(undated) [Ada Lind · home city]" in wiki.read("Ada Lind")


def test_two_values_on_one_day_go_to_talk(wiki: Wiki) -> None:
    wiki.add(LYON)
    other = fact("Ada Lind lives in Rome.", exclusive=True, date="2025-01-10", source="session:b")
    plan = wiki.add(other)
    assert states_of(wiki.read("Ada Lind")) == {"Ada Lind lives in Lyon."}
    assert "have the same date" in wiki.talk("Ada Lind")
    assert "Ada Lind lives in Rome." in wiki.talk("Ada Lind")
    assert [settled.state for settled in plan.settled] == ["talk"]
    assert not wiki.plan([other]).talk


def test_what_the_user_deletes_does_not_come_back(wiki: Wiki) -> None:
    wiki.add(LYON, fact("Ada Lind plays chess.", about="hobby", message="m2"))
    text = wiki.read("Ada Lind")
    line = next(line for line in text.split("\n") if line.startswith("[^1]"))
    wiki.write("Ada Lind", text.replace("Ada Lind lives in Lyon.[^1]", "").replace(line + "\n", ""))
    before = wiki.read("Ada Lind")
    assert "Lyon" not in before.split("```")[-1]
    wiki.add(LYON)
    wiki.add(fact("Ada Lind lives in Lyon.", exclusive=True, date="2026-01-01", source="session:d"))
    assert wiki.read("Ada Lind") == before
    assert "removed from the article" in wiki.talk("Ada Lind")


def test_what_the_user_edits_stays_so(wiki: Wiki) -> None:
    wiki.add(LYON)
    wiki.write(
        "Ada Lind", wiki.read("Ada Lind").replace("lives in Lyon", "lives near Lyon, in Bron")
    )
    assert not wiki.plan([LYON]).patched
    wiki.add(fact("Ada Lind lives in Bron.", exclusive=True, date="2025-03-01", source="session:d"))
    assert "Ada Lind lives near Lyon, in Bron.[^1][^2]" in wiki.read("Ada Lind")
    wiki.add(OSLO)
    assert "Ada Lind lives near Lyon, in Bron (until 2026-02-10).[^1][^2]" in wiki.read("Ada Lind")
    assert wiki.read("Ada Lind").count("lives near Lyon, in Bron (until") == 1


def test_a_sentence_on_several_properties_is_not_retired(wiki: Wiki) -> None:
    wiki.add(LYON, fact("Ada Lind works at Heron.", about="employer", exclusive=True, message="m2"))
    text = wiki.read("Ada Lind")
    joined = text.replace(
        "Ada Lind lives in Lyon.[^1]", "Ada Lind lives in Lyon and works at Heron.[^1][^2]"
    )
    wiki.write("Ada Lind", joined.replace("Ada Lind works at Heron.[^2]", ""))
    wiki.add(OSLO)
    assert "Ada Lind lives in Lyon and works at Heron.[^1][^2]" in wiki.read("Ada Lind")
    assert "says other things too" in wiki.talk("Ada Lind")


def test_an_end_date_of_the_user_stays(wiki: Wiki) -> None:
    wiki.add(LYON, OSLO)
    wiki.write("Ada Lind", wiki.read("Ada Lind").replace("until 2026-02-10", "until 2026-01-15"))
    wiki.add(ROME)
    assert "Ada Lind lives in Lyon (until 2026-01-15)." in wiki.read("Ada Lind")


@pytest.mark.parametrize(
    ("text", "value", "found"),
    [
        ("Ada Lind lives in Lyon.", "lyon", True),
        ("The version is 2.1.", "2", False),
        ("The version is 2.1.", "2.1", True),
        ("彼女は東京都に住んでいる。", "東京", True),
        ("Ada Lind lives in New York City.", "new york", True),
        ("Ada Lind.", "", False),
    ],
)
def test_values_are_whole_words(text: str, value: str, found: bool) -> None:
    assert states(text, value) is found


def test_one_of_two_values_in_the_same_words_stays_deleted(wiki: Wiki) -> None:
    def speaks(value: str, source: str = "session:a") -> Fact:
        return fact(
            f"Ada Lind speaks {value}.", about="languages", source=source, quote=f"spoke: {value}"
        )

    wiki.add(speaks("German"), speaks("French"))
    text = wiki.read("Ada Lind")
    wiki.write("Ada Lind", text.replace("Ada Lind speaks German.[^1]", "").replace("\n[^1]:", "\n"))
    wiki.add(speaks("German", "session:b"))
    assert "speaks German." not in states_of(wiki.read("Ada Lind"))
    assert "Ada Lind speaks French." in states_of(wiki.read("Ada Lind"))
    assert "removed from the article before" in wiki.all_talk()


# All orders of arrival


def ends(said: list[tuple[str, str]]) -> list[tuple[str, str, str | None]]:
    """Return value, first day and end of every period, from what was said on which day."""
    periods: list[tuple[str, str, str | None]] = []
    for value, day in sorted(said, key=lambda pair: pair[1]):
        if periods and periods[-1][0] == value:
            continue
        if periods:
            periods[-1] = (*periods[-1][:2], day)
        periods.append((value, day, None))
    return periods


@pytest.mark.parametrize("values", ["ABA", "ABAB", "AABB", "ABBA", "ABCA", "ABC"])
def test_whatever_the_order_the_last_value_holds(tmp_path: Path, values: str) -> None:
    names = {"A": "Lyon", "B": "Rome", "C": "Oslo"}
    said = [(names[value], f"2025-0{day}-10") for day, value in enumerate(values, 1)]
    facts = [
        fact(f"Ada Lind lives in {value}.", exclusive=True, date=day, source=f"session:{day}")
        for value, day in said
    ]
    periods = ends(said)
    for number, order in enumerate(itertools.permutations(facts)):
        wiki = Wiki(tmp_path / str(number))
        for one in order:
            wiki.add(one)
        stated = states_of(wiki.read("Ada Lind"))
        holds = {text for text in stated if until(text) is None}
        assert holds == {f"Ada Lind lives in {said[-1][0]}."}, [f.date for f in order]
        for value, _, end in periods:
            texts = [text for text in stated if f"in {value}" in text]
            assert texts, "nothing is lost"
            days = {other for v, _, other in periods if v == value}
            assert {until(text) for text in texts} <= days, [f.date for f in order]
            assert end in {until(text) for text in texts} or len(texts) == 1
        cited = {line.split("#")[0] for line in wiki.read("Ada Lind").splitlines() if "#m1" in line}
        assert len(cited) == len(facts)
