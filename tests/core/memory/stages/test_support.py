"""What a quote has to have so that a sentence may stand on it."""

from __future__ import annotations

import pytest

from core.memory.stages.normal import is_exclusive, normal_property, normal_subject
from core.memory.stages.support import (
    evidence_of,
    has_names,
    shares_word,
    states_value,
    unsupported_name,
)


@pytest.mark.parametrize(
    ("sentence", "evidence", "strange"),
    [
        ("Ana lives in Porto.", "my sister Ana lives in porto", None),
        ("Ana's sister lives in Porto.", "Ana and her sister moved to Porto", None),
        ("The user lives in Lisbon.", "I live in Porto", "Lisbon"),
        ("The fee is 45 euros.", "the fee is 54 euros", "45"),
        ("The fee is 1,200 euros.", "the fee is 1,200 euros", None),
        ("It is on Friday.", "it is on Fridays", None),
        ("The user lives in MÜNCHEN.", "Ich wohne in München", None),
        ("Orchard uses MySQL5.", "OrchardはMySQL5を使う", None),
        ("ユーザーはロンドンに住む。", "パリに住む", "ロンドン"),
        ("Der Nutzer wohnt in Köln.", "Ich wohne in Köln", None),
    ],
)
def test_names_and_numbers_must_have_been_written(
    sentence: str, evidence: str, strange: str | None
) -> None:
    assert unsupported_name(sentence, evidence_of(evidence)) == strange


@pytest.mark.parametrize(
    ("quote", "value", "stands"),
    [
        ("I moved to Porto", "Porto", True),
        ("I moved to Porto", "Porto Alegre", False),
        ("the fee is 45 euros", "45 euros", True),
        ("the fee is 45 euros", "54", False),
        ("I like green tea", "green tea", True),
        ("I like green tea", "coffee", False),
        ("我住在上海", "上海", True),
        ("我住在上海", "北京", False),
    ],
)
def test_the_value_must_stand_in_the_quote(quote: str, value: str, stands: bool) -> None:
    assert states_value(quote, value) is stands


def test_words_are_shared_by_their_beginning() -> None:
    assert shares_word("we worked", "they are working")
    assert not shares_word("the and for", "the and for")
    assert has_names("on Friday")
    assert not has_names("green tea")


@pytest.mark.parametrize(
    ("said", "normal"),
    [
        ("I", "User"),
        ("the user", "User"),
        ("我", "User"),
        ("my [[sister]]", "sister"),
        ("“Orchard”", "Orchard"),
        ("C++", "C++"),
        (" ", ""),
        ("x" * 81, ""),
        ("x\ny#z", "x y z"),
    ],
)
def test_subjects_have_one_form(said: str, normal: str) -> None:
    assert normal_subject(said) == normal


def test_properties_have_one_form_and_some_have_one_value_at_a_time() -> None:
    assert normal_property("Place of_Residence") == "home city"
    assert normal_property("the Deploy-Day") == "deploy-day"
    assert normal_property("x" * 41) == ""
    assert is_exclusive("home city", proposed=False)
    assert not is_exclusive("likes", proposed=False)
    assert is_exclusive("likes", proposed=True)
