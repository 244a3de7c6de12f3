"""Where sentences end."""

from __future__ import annotations

import pytest
from hypothesis import given

from core.memory.sentences import plain, spans, split, stop_offset
from tests.core.memory.texts import hostile


@pytest.mark.parametrize(
    "sentences",
    [
        ["Ada lives in Lyon.", "She works there."],
        ["It works, e.g. here.", "And there, i.e. with Mr. Smith vs. Dr. Who."],
        ["On 3. Mai 2020 war es kalt.", "Am 12. 5. 2020 auch."],
        ["Version 3.14 is out.", "It costs 1.299,00 €."],
        ["J. R. R. Tolkien wrote it.", "C. S. Lewis too."],
        ["U.S. troops left.", "They went to the U.S.", "Then home."],
        ['"What?" he asked.', "Nobody knew."],
        ["No.", "I do not know no. 5."],
        ["See fig. 3 for details.", "And so on..."],
        ["Well... perhaps.", "Really?!", "Yes!"],
        ["He said so (see above.)", "Next one."],
        ['"It ends here."', "Another one."],
        ["Use `a. B` and [[St. Paul|St. P. X]].", "Then [x. Y](a.md)."],
        ["See https://example.org/a.b for more.", "Node.js is fine."],
        ["mlxbun is a tool.", "mlx is fast."],
        ["東京に行った。", "「はい。」と言った。", "楽しかった！"],
        ["我住在上海。", "你呢？", "好！"],
        ["क्या हाल है।", "ठीक है॥", "अच्छा।"],
        ["هل أنت هنا؟", "نعم."],
        ["Живёт на ул. Ленина.", "Работает там.", "И т.д."],
        ["สวัสดีครับ ผมอยู่กรุงเทพ"],
        ["Το σπίτι.", "Είναι εδώ."],
        ["First.[^1]", "Second.[^2][^3]", "Third, too[^4]."],
        ["She moved in Dec. 2020 to Bonn.", "I met Jan.", "He left."],
        ["No stop at all"],
        ["Das ist der 2. Versuch, z. B. hier.", "Ja."],
        ["J.R.R. Tolkien and J. K. Rowling wrote.", "He died."],
        ["In Washington D.C.", "It rains at 5 p.m. there."],
        ["1. First item."],
        ["I have plan B.", "It works."],
        ["**Bold sentence.**", "Plain one."],
    ],
)
def test_sentences(sentences: list[str]) -> None:
    glue = "" if "。" in sentences[0] else " "
    assert list(split(glue.join(sentences))) == sentences


def test_a_marker_after_the_stop_belongs_to_the_sentence() -> None:
    assert split("One.[^1] [^2] Two.[^3]") == ("One.[^1] [^2]", "Two.[^3]")
    assert split("One.[^1]Two.") == ("One.[^1]", "Two.")
    assert split("一。[^1]二。[^2]") == ("一。[^1]", "二。[^2]")


def test_a_wrapped_line_continues_and_a_blank_one_ends() -> None:
    assert split("One\ntwo. Three\n\nfour") == ("One\ntwo.", "Three", "four")


def test_plain_text_of_a_sentence() -> None:
    assert plain("One[^1]\n> two.[^2] ") == "One two."


@pytest.mark.parametrize(
    ("sentence", "before"),
    [
        ("Ada lives in Lyon.", "Ada lives in Lyon"),
        ("Ada lives in Lyon.[^1] [^2]", "Ada lives in Lyon"),
        ("Really?!", "Really"),
        ('She said "yes."', 'She said "yes'),
        ("東京に住む。[^1]", "東京に住む"),
        ("No stop", "No stop"),
        ("No stop[^1]", "No stop"),
        ("", ""),
    ],
)
def test_the_final_stop(sentence: str, before: str) -> None:
    assert sentence[: stop_offset(sentence)] == before


@given(hostile)
def test_nothing_but_whitespace_is_outside(text: str) -> None:
    at, left = 0, ""
    for start, stop in spans(text):
        assert start < stop
        left += text[at:start]
        assert text[start:stop].strip() == text[start:stop]
        at = stop
    assert not (left + text[at:]).strip(" \t\r\n>").strip()
