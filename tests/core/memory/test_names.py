"""Names: which are one article, which are allowed, and their files."""

from __future__ import annotations

import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from core.errors import BadRequest
from core.memory.names import LONGEST_NAME, checked_name, file_name, name_key


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("Ada Lovelace", "ada_lovelace"),
        ("Ada  Lovelace ", "ADA LOVELACE"),
        ("Zürich", unicodedata.normalize("NFD", "zürich")),
        ("Straße", "STRASSE"),
        ("ΣΊΣΥΦΟΣ", "σίσυφος"),
        ("İstanbul", unicodedata.normalize("NFD", "İstanbul")),
    ],
)
def test_twins(one: str, other: str) -> None:
    assert name_key(one) == name_key(other)


@pytest.mark.parametrize(
    ("title", "stem"),
    [
        ("Ada Lovelace", "Ada Lovelace"),
        ("  Ada\n Lovelace ", "Ada Lovelace"),
        ("東京", "東京"),
        ("C++", "C++"),
        ("C#", "C sharp"),
        ("F# and C#", "F sharp and C sharp"),
        ("👩\u200d👧 🎉", "👩\u200d👧 🎉"),
        ("a\uffffb\ufdd0", "ab"),
        ("AC/DC", "AC DC"),
        ('What: "is" <it>?', "What is it"),
        ("../../etc/passwd", "etc passwd"),
        (".hidden", "hidden"),
        ("[[Link|text]]", "Link text"),
        ("end. ", "end"),
        ("con", "The con"),
        ("COM1.txt", "The COM1.txt"),
        ("Constance", "Constance"),
        ("U\u0308ber", "Über"),
        ("a\u202eb\x00c", "ab c"),
        ("می\u200cخواهم", "می\u200cخواهم"),
    ],
)
def test_file_names(title: str, stem: str) -> None:
    assert file_name(title) == stem


@pytest.mark.parametrize("title", ["", "...", "???", "\x00", "/", "\ud800", "[[]]", "\u200b\ufffe"])
def test_titles_without_a_file_name(title: str) -> None:
    with pytest.raises(BadRequest) as caught:
        file_name(title)
    assert caught.value.field == "name"


@given(st.text())
def test_a_file_name_is_a_valid_name(title: str) -> None:
    try:
        stem = file_name(title)
    except BadRequest:
        return
    assert checked_name(stem) == stem
    assert file_name(stem) == stem
    assert len(f"{stem}.md".encode()) <= 255
    assert not set(stem) & set('<>:"/\\|?*#^[]\x00\n')


def test_long_titles_are_cut_between_characters() -> None:
    stem = file_name("東" * 300)
    assert stem == "東" * 66


@pytest.mark.parametrize(
    ("name", "checked"),
    [
        ("Ada", "Ada"),
        (" Ada.md ", "Ada"),
        ("Reference/cli", "Reference/cli"),
        ("Z\u0075\u0308rich", "Zürich"),
        ("a..b", "a..b"),
        ("x" * LONGEST_NAME, "x" * LONGEST_NAME),
    ],
)
def test_names_of_callers(name: str, checked: str) -> None:
    assert checked_name(name) == checked


@pytest.mark.parametrize(
    "name",
    [
        "", " ", ".md", "a\x00b", "a\nb", "a\rb", "a/b", "../a", "..", ".", ".hidden", "a\\b",
        "/etc/passwd", "Reference/", "Reference/../x", "Reference/a/b", "x" * 252, "東" * 84,
        "a\u2028b", "\ud800", "articles/x",
    ],
)  # fmt: skip
def test_names_that_are_refused(name: str) -> None:
    with pytest.raises(BadRequest) as caught:
        checked_name(name)
    assert caught.value.field == "name"
    assert "\n" not in caught.value.message
