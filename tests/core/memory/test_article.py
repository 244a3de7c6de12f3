"""The format: what a text is read as, and that nothing of it is lost."""

from __future__ import annotations

import pytest
from hypothesis import given

from core.memory.anchors import Anchors, slug
from core.memory.article import parse, render, sentences
from core.memory.citation import parse_citation
from core.memory.links import file_links
from tests.core.memory.texts import ADA, hostile


def test_the_parts_of_an_article() -> None:
    article = parse(ADA)
    assert article.title == "Ada Lovelace"
    assert article.series == "Computing"
    assert article.infobox is not None
    assert (article.infobox.type, article.infobox.kind) == ("mathematician", "person")
    assert article.aliases == ("Foo", "Bar Baz", "Augusta", "Lady L.")
    assert article.lead.startswith("Ada lives in Lyon.[^1]")
    assert article.lead.endswith("![[embed#Sec]].")
    assert [(s.heading, s.level, s.anchor) for s in article.sections] == [
        ("Early life", 2, "early-life"),
        ("東京", 3, "東京"),
        ("Early life", 2, "early-life-1"),
        ("See also", 2, "see-also"),
        ("References", 2, "references"),
    ]
    assert [(s.start, s.end) for s in article.sections[:3]] == [(19, 25), (23, 25), (26, 33)]
    assert article.sections[0].own == "- one item. two\n- second item.[^2]\n\n"
    assert "東京に行った" in article.sections[0].body
    assert [(link.target, link.anchor, link.embed, link.line) for link in article.links] == [
        ("Computing", "", False, 7),
        ("St. Paul", "", False, 15),
        ("embed", "Sec", True, 17),
        ("Foo", "", False, 35),
    ]
    assert [(m.label, m.line) for m in article.markers] == [
        ("1", 15), ("2", 15), ("2", 21), ("3", 24),
    ]  # fmt: skip


def test_a_footnote_has_continuation_lines() -> None:
    notes = parse(ADA).footnotes
    assert [(note.label, note.line) for note in notes] == [("1", 38), ("2", 40), ("3", 41)]
    assert notes[2].text == "b more b"
    citation = parse_citation(notes[0].text)
    assert citation is not None
    assert citation.quote == "I moved to Lyon last week."


def test_the_sentences_of_an_article() -> None:
    found = [(s.text, s.labels, s.anchor) for s in sentences(parse(ADA))]
    assert found == [
        ("Ada lives in Lyon.", ("1",), ""),
        ("She met Dr. Smith at 3.14 p.m. in [[St. Paul|St. P. x]].", ("2",), ""),
        ("A second paragraph, with `[[code]]` and ![[embed#Sec]].", (), ""),
        ("one item.", (), "early-life"),
        ("two", (), "early-life"),
        ("second item.", ("2",), "early-life"),
        ("東京に行った。", (), "東京"),
        ("「はい。」と言った。", (), "東京"),
        ("次。", ("3",), "東京"),
        ("quoted.", (), "early-life-1"),
        ("Text continues.", (), "early-life-1"),
        ("| a | b |", (), "early-life-1"),
        ("| x. y | z |", (), "early-life-1"),
    ]


def test_sentences_stand_where_they_say() -> None:
    found = sentences(parse(ADA))
    assert ADA[found[0].start : found[0].end] == "Ada lives in Lyon.[^1]"
    lines = ADA.split("\n")
    assert all(lines[s.line - 1].find(s.text.split()[0]) >= 0 for s in found)


@given(hostile)
def test_every_text_is_an_article(text: str) -> None:
    article = parse(text)
    assert render(article) == text
    offset = 0
    for sentence in sentences(article):
        assert offset <= sentence.start < sentence.end <= len(text)
        offset = sentence.end
    for section in article.sections:
        assert section.offset < section.content <= section.own_stop <= section.stop <= len(text)
        assert section.start <= section.end
        assert article.section(section.anchor) is section
    for link in article.links:
        assert text[link.start : link.stop].lstrip("!").startswith("[[")
    for marker in article.markers:
        assert text[marker.start : marker.stop] == f"[^{marker.label}]"
    for note in article.footnotes:
        assert text[note.start : note.stop].lstrip(" \ufeff").startswith(f"[^{note.label}]:")


@given(hostile)
def test_line_numbers_are_those_of_the_text(text: str) -> None:
    article = parse(text)
    for start, line in [(link.start, link.line) for link in article.links] + [
        (s.start, s.line) for s in sentences(article)
    ]:
        assert text.count("\n", 0, start) + 1 == line


def test_a_text_with_windows_line_endings_has_the_same_parts() -> None:
    unix, windows = parse(ADA), parse(ADA.replace("\n", "\r\n"))
    assert [s.text for s in sentences(windows)] == [s.text for s in sentences(unix)]
    assert [s.anchor for s in windows.sections] == [s.anchor for s in unix.sections]
    assert windows.aliases == unix.aliases
    assert windows.infobox is not None
    assert windows.infobox.fields == parse(ADA).infobox.fields  # type: ignore[union-attr]
    assert [n.text for n in windows.footnotes] == [n.text for n in unix.footnotes]


def test_a_byte_order_mark_is_not_text() -> None:
    assert parse("\ufeff# Ada\n\nText.").title == "Ada"
    assert parse("\ufeff---\nalias: Augusta\n---\n# Ada").aliases == ("Augusta",)


@pytest.mark.parametrize(
    "front",
    [
        "aliases: [One, 'Two, too']",
        'aliases:\n  - One\n  - "Two"\ntags:\n  - x',
        "Aliases: One",
        "alias: One",
    ],
)
def test_obsidian_front_matter(front: str) -> None:
    article = parse(f"---\ntags: [a]\n{front}\n---\nText here.\n")
    assert article.aliases[0] == "One"
    assert "x" not in article.aliases
    assert [s.text for s in sentences(article)] == ["Text here."]


def test_three_dashes_without_an_end_are_a_rule() -> None:
    assert [s.text for s in sentences(parse("---\nText here.\n"))] == ["Text here."]


@pytest.mark.parametrize(
    "code",
    [
        "```\n{}\n```",
        "~~~~ python\n{}\n~~~\n~~~~",
        "- item\n  ```\n  {}\n  ```",
        "> ```\n> {}\n> ```",
        "Text.\n\n    {}\n",
        "`{}`",
        "``a ` {} b``",
        "<!-- {} -->",
        "<!--\n{}\n-->",
        "```\n{}",
    ],
)
def test_code_and_comments_have_no_links(code: str) -> None:
    article = parse(code.format(["[[Secret]] x[^9] # no", "## Heading"][0]))
    assert article.links == ()
    assert article.markers == ()
    assert article.sections == ()


def test_a_quoted_fence_ends_with_the_quotation() -> None:
    article = parse("> ```\n> code\n\nText. [[Link]]\n")
    assert [link.target for link in article.links] == ["Link"]
    assert article.closed


def test_nested_lists_are_not_code() -> None:
    article = parse("- one\n    - two [[A]]\n\n    more [[B]]\n")
    assert [link.target for link in article.links] == ["A", "B"]


def test_a_heading_in_a_fence_is_not_a_section() -> None:
    article = parse("# T\n```\n## no\n```\n## yes\n")
    assert [section.heading for section in article.sections] == ["yes"]
    assert not parse("# T\n```\n## no\n").closed


@pytest.mark.parametrize(
    ("heading", "anchor"),
    [
        ("Early life", "early-life"),
        ("What's new? (2026)", "whats-new-2026"),
        ("Über München", "über-münchen"),
        ("U\u0308ber", "über"),
        ("東京 の 歴史", "東京-の-歴史"),
        ("العربية", "العربية"),
        ("हिन्दी भाषा", "हिन्दी-भाषा"),
        ("C++ & C#", "c--c"),
        ("snake_case", "snake_case"),
        ("[[Ada Lovelace|Ada]] and [site](http://x)", "ada-and-site"),
        ("Claim[^1]", "claim"),
        ("!!!", "section"),
    ],
)
def test_anchors_of_any_script(heading: str, anchor: str) -> None:
    assert slug(heading) == anchor


def test_twins_get_anchors_of_their_own() -> None:
    anchors = Anchors()
    headings = ["A", "A-1", "A", "a", "A-1", "!", "?"]
    assert [anchors.of(heading) for heading in headings] == [
        "a", "a-1", "a-2", "a-3", "a-1-1", "section", "section-1",
    ]  # fmt: skip


def test_a_section_is_found_by_anchor_and_by_heading() -> None:
    article = parse(ADA)
    for wanted in ("early-life", "Early life", "Ada#Early life"):
        section = article.section(wanted)
        assert section is not None
        assert section.start == 19
    assert article.section("early-life-1") is article.sections[2]
    assert article.section("nowhere") is None


def test_links_in_every_form() -> None:
    text = "[[A]] [[B.md#H|t]] [[#Here]] ![[C]] [[D\\|in row]] [[ ]] [[E\nF]] [[[G]]] \\[[H]]"
    links = parse(text).links
    assert [(link.target, link.anchor, link.text) for link in links][:6] == [
        ("A", "", "A"), ("B", "H", "t"), ("", "Here", "#Here"), ("C", "", "C"),
        ("D", "", "in row"), ("G", "", "G"),
    ]  # fmt: skip


def test_links_to_files() -> None:
    text = "[a](x.md#y) ![b](<a b.png>) [c](https://x) `[d](y.md)` [e](#f) [g](mailto:x)"
    found = [(link.path, link.anchor, link.embed) for link in file_links(text, 0, len(text))]
    assert found == [("x.md", "y", False), ("a b.png", "", True)]


@pytest.mark.parametrize(
    "unit",
    [
        *("a", "\n", "#", "# \n", "[[", "[[a]]", "`", "`` ", "[^1]", "[^", "[^1]: x\n", "."),
        *(". ", "a. ", "> ", "```\n", "- ", "  ", "|", "*", "a\r", "\r\n", "![[", "](", "[a]("),
        *("<!--", "a.[^1] ", "\\`", "* ", "。", "- a\n", "    a\n", "\t", "<a:", "A.\n\n"),
        *("## a\n", "```info\na: b\n"),
    ],
)
def test_hostile_text_takes_linear_time(unit: str) -> None:
    # Anything superlinear would take long here and run into the time limit of the test.
    text = unit * (200_000 // len(unit))
    article = parse(text)
    sentences(article)
    assert render(article) == text


@pytest.mark.slow  # half a minute
def test_fifty_megabytes_on_one_line() -> None:
    text = "# T\n" + "[[word" * (50 * 1024 * 1024 // 6)
    article = parse(text)
    assert (article.links, len(sentences(article))) == ((), 1)
