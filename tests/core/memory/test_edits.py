"""Changes to an article: what they add, and that they leave every other byte alone."""

from __future__ import annotations

import contextlib
import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from core.errors import UsageProblem
from core.memory import edits
from core.memory.article import Sentence, parse, sentences
from tests.core.memory.texts import ADA, SENTENCES, hostile, is_insertion


def _sentence(text: str, beginning: str) -> Sentence:
    return next(s for s in sentences(parse(text)) if s.text.startswith(beginning))


def test_a_new_article() -> None:
    text = edits.new_article(
        "Ada", kind="person", type="mathematician", aliases=["Augusta", "A, B"], series="Computing"
    )
    text = edits.insert_sentence(text, "Ada lives in Lyon.", note="a#1 (undated): In Lyon.")
    assert text == (
        "# Ada\n\n*Part of a series on [[Computing]].*\n\n"
        "```info\ntype: mathematician\nkind: person\naliases: Augusta, A B\n```\n\n"
        "Ada lives in Lyon.[^1]\n\n## References\n\n[^1]: a#1 (undated): In Lyon.\n"
    )


@pytest.mark.parametrize(
    ("before", "anchor", "after"),
    [
        ("# A\n\nOne.\n", "", "# A\n\nOne. New one.\n"),
        ("# A\n\nOne.[^1]  \n\n## B\n", "", "# A\n\nOne.[^1] New one.  \n\n## B\n"),
        ("# A\n\nOne.\n\n## B\n", "b", "# A\n\nOne.\n\n## B\n\nNew one.\n"),
        ("# A\n## B\n## C\n", "b", "# A\n## B\n\nNew one.\n\n## C\n"),
        ("# A\n## B", "b", "# A\n## B\n\nNew one.\n"),
        ("# A", "", "# A\n\nNew one.\n"),
        ("", "", "New one.\n"),
        ("\ufeff## B\nx\n", "", "\ufeffNew one.\n\n## B\nx\n"),
        ("# A\n\n- item\n", "", "# A\n\n- item\n\nNew one.\n"),
        ("# A\n\n- item\n  more\n", "", "# A\n\n- item\n  more\n\nNew one.\n"),
        ("# A\n\n```\nx\n```\n## B\n", "", "# A\n\n```\nx\n```\n\nNew one.\n## B\n"),
        ("# A\n\n## B\nx.\n### C\n", "b", "# A\n\n## B\nx. New one.\n### C\n"),
        ("# A\r\n\r\n- i\r\n", "", "# A\r\n\r\n- i\r\n\r\nNew one.\r\n"),
    ],
)
def test_where_a_sentence_goes(before: str, anchor: str, after: str) -> None:
    assert edits.insert_sentence(before, "New one.", anchor=anchor) == after


def test_no_space_between_chinese_sentences() -> None:
    text = edits.insert_sentence("# 東京\n\n東京に行った。[^1]\n", "次。")
    assert text == "# 東京\n\n東京に行った。[^1]次。\n"
    assert edits.insert_sentence("# A\n\nIn Lyon.\n", "次。") == "# A\n\nIn Lyon. 次。\n"


@pytest.mark.parametrize(
    "sentence", ["# Heading", "", "- ", "[^1]: note", "```", "<!-- x", "> ", "* * *"]
)
def test_what_is_not_a_sentence_is_refused(sentence: str) -> None:
    with pytest.raises(UsageProblem):
        edits.insert_sentence("# A\n", sentence)


def test_nothing_is_added_to_code_that_does_not_end() -> None:
    with pytest.raises(UsageProblem, match="does not end"):
        edits.insert_sentence("# A\n\n```\ncode\n", "New one.")
    with pytest.raises(UsageProblem, match="no section"):
        edits.insert_sentence("# A\n", "New one.", anchor="b")


def test_the_same_footnote_is_used_again() -> None:
    text = edits.insert_sentence(ADA, "New one.", note="a")
    assert _sentence(text, "New one.").labels == ("2",)
    text, label = edits.add_footnote(ADA, "another\nnote")
    assert label == "4"
    assert text == f"{ADA}[^4]: another note\n"


@given(hostile, st.sampled_from(SENTENCES), st.integers(0, 5))
def test_inserting_a_sentence_changes_nothing_else(text: str, sentence: str, number: int) -> None:
    sections = parse(text).sections
    anchor = sections[number % len(sections)].anchor if number and sections else ""
    with contextlib.suppress(UsageProblem):
        changed = edits.insert_sentence(text, sentence, anchor=anchor)
        assert is_insertion(text, changed)
        before = [s.text for s in sentences(parse(text)) if s.anchor == anchor]
        after = [s.text for s in sentences(parse(changed)) if s.anchor == anchor]
        assert len(after) > len(before) or after[-1].endswith(sentence)


@given(hostile)
def test_adding_changes_nothing_else(text: str) -> None:
    with contextlib.suppress(UsageProblem):
        assert is_insertion(text, edits.add_section(text, "New section")[0])
    with contextlib.suppress(UsageProblem):
        changed = edits.add_see_also(text, "Other")
        assert "Other" in [link.target for link in parse(changed).links]


@given(hostile)
def test_a_footnote_is_added_and_removed(text: str) -> None:
    with contextlib.suppress(UsageProblem):
        changed, label = edits.add_footnote(text, "note of ours")
        note = parse(changed).footnote(label)
        assert note is not None
        assert note.text == "note of ours"
        assert len(parse(changed).footnotes) == len(parse(text).footnotes) + 1
        if parse(text).footnotes:
            assert edits.remove_footnote(changed, label).strip() == text.strip()


@given(hostile, st.integers(0, 9))
def test_removing_a_sentence_leaves_the_others(text: str, number: int) -> None:
    found = sentences(parse(text))
    if found:
        sentence = found[number % len(found)]
        changed = edits.remove_sentence(text, sentence)
        assert len(changed) < len(text)
        assert len(changed) <= len(text) - (sentence.end - sentence.start)


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("# A\n\nOne. Gone. Two.\n", "# A\n\nOne. Two.\n"),
        ("# A\n\nOne. Gone.\n", "# A\n\nOne.\n"),
        ("# A\n\nGone. Two.\n", "# A\n\nTwo.\n"),
        ("# A\n\nGone.\n\n## B\n", "# A\n\n## B\n"),
        ("# A\n- one\n- Gone.\n- two\n", "# A\n- one\n- two\n"),
        ("# A\n\nGone.", "# A\n\n"),
        ("# A\r\n\r\nGone.\r\n\r\nTwo.\r\n", "# A\r\n\r\nTwo.\r\n"),
        ("# A\n\n一。Gone.[^1]二。\n\n[^1]: x\n", "# A\n\n一。二。\n\n"),
        ("# A\n\nGone.[^1] Two.[^1]\n\n[^1]: x\n", "# A\n\nTwo.[^1]\n\n[^1]: x\n"),
    ],
)
def test_removing_a_sentence(before: str, after: str) -> None:
    assert edits.remove_sentence(before, _sentence(before, "Gone")) == after


def test_a_section_comes_before_the_apparatus() -> None:
    text, anchor = edits.add_section(ADA, "Early life")
    assert anchor == "early-life-2"
    assert "| x. y | z |\n\n## Early life\n\n## See also\n" in text
    assert edits.add_section("# A\n\nText.", "B") == ("# A\n\nText.\n\n## B\n", "b")
    text, _ = edits.add_section("# A\n\n## References\n\n[^1]: x\n", "See also")
    assert text == "# A\n\n## See also\n\n## References\n\n[^1]: x\n"
    for heading in ("", "###", "```"):
        with pytest.raises(UsageProblem):
            edits.add_section(ADA, heading)


def test_see_also() -> None:
    text = edits.add_see_also(ADA, "Bar")
    assert "- [[Foo]]\n- [[Bar]]\n\n## References" in text
    assert edits.add_see_also(text, "bar") == text
    assert edits.add_see_also("# A\n", "Bar") == "# A\n\n## See also\n\n- [[Bar]]\n"
    with pytest.raises(UsageProblem):
        edits.add_see_also(ADA, "B]] [[C")


def test_links() -> None:
    text = "# Lyon\n\n昨日東京都に行った。She lives in lyon.\n"
    for words, target in (("lyon", "Lyon"), ("東京", "東京")):
        start = text.index(words)
        text = edits.add_link(text, start, start + len(words), target)
    assert text == "# Lyon\n\n昨日[[東京]]都に行った。She lives in [[Lyon|lyon]].\n"
    assert edits.add_link("| a | b |\n", 2, 3, "X") == "| [[X\\|a]] | b |\n"
    for start, stop in ((0, 0), (0, 3)):
        with pytest.raises(UsageProblem):
            edits.add_link("[a]\n", start, stop, "X")


@pytest.mark.parametrize(
    "text",
    ["`Lyon`", "[[Lyon]]", "x [Lyon](http://x)", "a[^Lyon]", "<!-- Lyon -->", "```\nLyon\n```"],
)
def test_no_links_in_code(text: str) -> None:
    start = text.index("Lyon")
    with pytest.raises(UsageProblem):
        edits.add_link(text, start, start + 4, "X")
    with pytest.raises(UsageProblem):
        edits.add_link("Lyon", 0, 4, "X|Y")


def test_removing_several_sentences_is_removing_one_after_the_other() -> None:
    text = (
        "# A\n\nOne.[^1] Two.[^2] Three.[^1]\n\n- Four.[^3]\n- Five.[^2]\n\nSix.[^3]\n\n"
        "## References\n\n[^1]: a\n[^2]: b\n[^3]: c\n"
    )
    found = sentences(parse(text))
    for size in range(len(found) + 1):
        for chosen in itertools.combinations(found, size):
            step = text
            for sentence in reversed(chosen):
                step = edits.remove_sentence(step, sentence)
            assert edits.remove_sentences(text, chosen) == step
