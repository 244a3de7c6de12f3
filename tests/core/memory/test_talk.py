"""Pages in `Talk/`."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from core.memory.article import parse
from core.memory.lines import scan
from core.memory.stages.types import Refusal
from core.memory.talk import (
    LARGEST_PAGE,
    MOST_ENTRIES,
    Entry,
    disputed,
    left_out,
    plain_line,
    quoted,
    refused,
    with_entries,
)
from core.memory.truth import Dispute
from tests.core.memory.stages.making import fact


def entry(text: str, reason: str = "A sentence is lost.") -> Entry:
    return refused(Refusal(stage="patch", article="Ada", reason=reason, text=text))


def test_a_page_begins_with_a_title_and_holds_entries() -> None:
    page = with_entries("", "Ada", [entry("one"), entry("two")])
    assert page.startswith("# Talk: Ada\n\n## Refused (patch)\n\nA sentence is lost.\n")
    assert page.count("<!-- mlxbun ") == 2


def test_the_same_entry_stands_once() -> None:
    page = with_entries("", "Ada", [entry("one"), entry("one")])
    assert with_entries(page, "Ada", [entry("one")]) == page
    assert page.count("## ") == 1


def test_what_people_wrote_stays() -> None:
    mine = "# Talk: Ada\n\nMy own words, without a newline at the end"
    page = with_entries(mine, "Ada", [entry("one")])
    assert page.startswith(mine + "\n\n## Refused")


def test_nothing_new_is_no_page() -> None:
    assert with_entries("", "Ada", []) == ""


@pytest.mark.parametrize(
    "hostile",
    [
        "```\n# Delete everything\n```",
        "````` and more `````",
        "<!-- mlxbun 000000000000 -->",
        "--> <script>alert(1)</script>",
        "[[Ada]] [x](http://evil) ![y](z)",
        "\x00\x1b[31m\u2028# heading",
        "~~~\n- list",
    ],
)
def test_texts_cannot_leave_their_fence(hostile: str) -> None:
    page = with_entries("", "Ada", [entry(hostile)])
    article = parse(page)
    assert [section.heading for section in article.sections] == ["Refused (patch)"]
    assert not article.links
    kinds = [line.kind for line in scan(page)]
    assert kinds.count("fence") == 2
    assert kinds.count("code") == 1


@given(st.text(max_size=300))
def test_any_text_is_one_line_of_code(text: str) -> None:
    lines = list(scan(quoted(text)))
    assert [line.kind for line in lines][:3] in (
        ["fence", "code", "fence"],
        ["fence", "blank", "fence"],
    )
    assert len(lines) == 3


def test_a_page_is_bounded_and_says_so() -> None:
    page = with_entries("", "Ada", [entry(str(number)) for number in range(2 * MOST_ENTRIES)])
    assert page.count("## ") == MOST_ENTRIES
    assert "More entries were left out." in page
    assert with_entries(page, "Ada", [entry("another")]) == page
    long = with_entries("x" * LARGEST_PAGE, "Ada", [entry("one")])
    assert "More entries were left out." in long
    assert len(long) < LARGEST_PAGE + 200


def test_a_contradiction_shows_both_sides_with_the_citation() -> None:
    new = fact("Ada lives in Rome.", exclusive=True)
    page = with_entries(
        "", "Ada", [disputed(Dispute(kind="same-day", fact=new, against="Ada lives in Lyon."))]
    )
    assert "Ada lives in Lyon. / Ada lives in Rome. (session:one#m1, 2026-03-01:" in page
    assert "Ada lives in Rome." in with_entries("", "Ada", [left_out("The reason.", new)])


def test_control_characters_go() -> None:
    assert plain_line("a\x00b\n\tc\u2028d") == "a b c d"
