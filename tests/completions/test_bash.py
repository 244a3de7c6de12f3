"""Lines of bash, taken apart and put together."""

from __future__ import annotations

import shlex
import subprocess

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mlxbun_cli.completion.bash import replies, split
from tests.completions.shells import needs

PRINTABLE = st.text(
    st.characters(exclude_categories=["C", "Z"], include_characters=" "), max_size=9
)


@pytest.mark.parametrize(
    ("line", "words", "text", "quote"),
    [
        ("", [], "", ""),
        ("mlxbun", [], "mlxbun", ""),
        ("mlxbun ", ["mlxbun"], "", ""),
        ("mlxbun  a\tb", ["mlxbun", "a"], "b", ""),
        ("mlxbun a\\ b", ["mlxbun"], "a b", ""),
        ("mlxbun a\\", ["mlxbun"], "a", ""),
        ('mlxbun "a b', ["mlxbun"], "a b", '"'),
        ('mlxbun "a b" c', ["mlxbun", "a b"], "c", ""),
        ("mlxbun 'a \\", ["mlxbun"], "a \\", "'"),
        ('mlxbun "a \\" \\$ \\n', ["mlxbun"], 'a " $ \\n', '"'),
        ("mlxbun a'b c'\"d e\"f", ["mlxbun"], "ab cd ef", ""),
        ("mlxbun ''", ["mlxbun"], "", ""),
        ("mlxbun '' x", ["mlxbun", ""], "x", ""),
    ],
)
def test_a_line_is_split_as_bash_does(line: str, words: list[str], text: str, quote: str) -> None:
    found = split(line)
    assert (list(found.words), found.text, found.quote) == (words, text, quote)
    assert line.endswith(found.raw)


@given(st.lists(PRINTABLE.filter(bool), min_size=1))
def test_quoted_words_come_back(words: list[str]) -> None:
    found = split(shlex.join(words))
    assert [*found.words, found.text] == words


@pytest.mark.parametrize("quote", ["", '"', "'"])
@given(word=PRINTABLE.filter(bool))
def test_a_reply_stands_for_the_word(quote: str, word: str) -> None:
    line = split(f"mlxbun serve {quote}")
    for reply in replies([word], line, "", shown_only=False):
        assert split(f"mlxbun serve {quote}{reply}{quote}").text == word


def test_bash_reads_replies_as_the_words_they_are() -> None:
    needs("bash")
    words = ["a b", "$(date)", "`date`", "it's", 'q"q', "a\\b", "*", "~", "#x", "a;b", "é", "{a,b}"]
    found = replies(words, split("mlxbun serve "), "", shown_only=False)
    program = "printf '%s\\0' " + " ".join(found)
    done = subprocess.run(["bash", "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout.split("\0")[:-1] == words


@pytest.mark.parametrize(
    ("line", "replaced", "reply"),
    [
        ("mlxbun serve o/n@ma", "@ma", "@main"),
        ("mlxbun serve o/n@ma", "ma", "main"),
        ("mlxbun serve o/n@ma", "o/n@ma", "o/n@main"),
        ("mlxbun serve 'o/n@ma", "o/n@ma", "o/n@main"),
    ],
)
def test_what_readline_keeps_is_not_offered_again(line: str, replaced: str, reply: str) -> None:
    assert replies(["o/n@main"], split(line), replaced, shown_only=False) == [reply]


def test_words_that_readline_cannot_put_there_are_left_out() -> None:
    line = split("mlxbun serve o/n@ma")
    assert replies(["other/n@main"], line, "@ma", shown_only=False) == []
    assert replies(["it's"], split("mlxbun serve '"), "", shown_only=False) == []
    assert replies(["a!b"], split('mlxbun serve "'), "", shown_only=False) == []


def test_scattered_words_have_nothing_in_common() -> None:
    line = split("mlxbun serve smol")
    assert replies(["a/smol"], line, "smol", shown_only=True) == ["a/smol"]
    assert replies(["a/smol", "a/x-smol"], line, "smol", shown_only=True)[-1] == " "
