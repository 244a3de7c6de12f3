"""Markdown on a terminal while it comes: nothing lost, nothing doubled, nothing obeyed."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Sequence
from itertools import count

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from commands.chat.markdown import Renderer, split
from commands.chat.screen import MarkdownScreen, PlainScreen
from core.sessions.text import clean
from tests.terminal import Terminal

ENVIRON = {"TERM": "xterm-256color"}
LONG_CODE = "```python\n" + "".join(f"line_{i} = {i}\n" for i in range(60)) + "```\n"
LONG_LIST = "".join(f"{i}. item number {i}\n" for i in range(1, 41))


def _shown(
    parts: Iterable[str], *, columns: int = 80, lines: int = 24, terminal: Terminal | None = None
) -> list[str]:
    """Return the lines of an answer that came in parts, each of them drawn."""
    terminal = terminal or Terminal(columns, lines)
    ticks = count()
    screen = MarkdownScreen(
        terminal.write,
        environ=ENVIRON,
        size=lambda: os.terminal_size((terminal.columns, terminal.height)),
        # Asked twice a push: drawing takes no time, and the pause since the last push was long.
        clock=lambda: float(next(ticks) // 2),
    )
    for part in parts:
        screen.push(part)
    screen.finish()
    return terminal.transcript()


def _at_once(text: str, columns: int = 80) -> list[str]:
    return _shown([text], columns=columns, lines=10_000)


@pytest.mark.parametrize(
    "text", [LONG_CODE, LONG_LIST, f"# Title\n\n{LONG_LIST}\n{LONG_CODE}\nEnd."]
)
@pytest.mark.parametrize("lines", [8, 24])
def test_what_is_longer_than_the_screen_stands_there_once(text: str, lines: int) -> None:
    by_character = _shown(text, lines=lines)
    assert by_character == _at_once(text)
    for i in range(1, 40):
        found = [line for line in by_character if re.search(rf"\b(line_|number ){i}\b", line)]
        assert len(found) == ("line_" in text) + ("number" in text)


def test_code_can_be_read_from_its_beginning_while_it_comes() -> None:
    terminal = Terminal(80, 10)
    ticks = count(0, 1000)
    screen = MarkdownScreen(
        terminal.write,
        environ=ENVIRON,
        size=lambda: os.terminal_size((80, 10)),
        clock=lambda: float(next(ticks)),
    )
    for character in LONG_CODE[: LONG_CODE.index("line_50")]:
        screen.push(character)
    seen = " ".join(terminal.transcript()).split()
    assert [word for word in seen if word.startswith("line_")] == [f"line_{i}" for i in range(50)]


def test_what_markdown_would_drop_is_shown() -> None:
    text = (
        "<think>hm</think>\n\n[name]: http://a.example\n\n![picture](http://b.example)\n\n"
        "[text](http://c.example) &copy; <kbd>x</kbd>\none\ntwo\n\n<div>block</div>\n"
    )
    shown = "\n".join(_at_once(text))
    for part in (
        "<think>hm</think>",
        "[name]: http://a.example",
        "picture",
        "http://b.example",
        "text (http://c.example)",
        "&copy;",
        "<kbd>x</kbd>",
        "one\ntwo",
        "<div>block",
    ):
        assert part in shown


def test_numbers_of_a_list_go_on_and_align() -> None:
    shown = _at_once("".join(f"{i}. item\n" for i in range(8, 13)))
    assert shown == ["  8 item", "  9 item", " 10 item", " 11 item", " 12 item"]
    assert _shown("1. a\n1. b\n1. c\n") == ["  1 a", "  2 b", "  3 c"]
    assert _shown("0. a\n1. b\n") == ["  0 a", "  1 b"]


def test_an_answer_sends_no_sequences() -> None:
    evil = "a\x1b[2J\x1b]0;title\x07b\x9b31m &#27;[2J &#x9b;1m [x](http://\x1b[0m) \x1bc\n"
    assert "\x1b" not in clean(evil)
    _shown(clean(evil))  # the terminal of these tests fails on a sequence it does not know
    seen: list[str] = []
    screen = PlainScreen(seen.append)
    screen.push(clean(evil))
    screen.finish()
    assert "\x1b" not in "".join(seen)


PIECES = st.sampled_from(
    [
        "- ",
        "1. ",
        "2. ",
        "> ",
        "# ",
        "```",
        "```py\n",
        "~~~\n",
        "**",
        "*",
        "`",
        "_",
        "|",
        "| a | b |\n",
        "|---|---|\n",
        "---\n",
        "===\n",
        "\n",
        "\n\n",
        "    ",
        "  ",
        "[",
        "](http://x)",
        "![",
        "<b>",
        "&amp;",
        "~~",
        "\\",
        "word ",
        "another ",
        "long" * 12 + " ",
        "end.\n",
        "ü",
        "日本",
        "\t",
        "1) ",
        "+ ",
    ]
)


def test_a_fence_after_nested_lists_stands_apart_when_both_are_shown_at_once() -> None:
    parts = ["- - - - - ```py\n```py\n```py\n\n\n- "]
    assert _shown(parts, columns=24, lines=4) == _at_once(parts[0], 24)


@settings(max_examples=150, deadline=None)
@given(parts=st.lists(PIECES, max_size=40), lines=st.integers(4, 12), columns=st.integers(24, 60))
def test_any_markdown_comes_out_as_if_at_once(
    parts: Sequence[str], lines: int, columns: int
) -> None:
    text = clean("".join(parts))
    assert _shown(parts, columns=columns, lines=lines) == _at_once(text, columns)


@settings(max_examples=100, deadline=None)
@given(st.lists(PIECES, max_size=40))
def test_any_markdown_keeps_its_words(parts: list[str]) -> None:
    text = "".join(parts)
    assume(not re.search(r"(```|~~~).*(word|another|end|日本)", text))  # a language's name
    shown = "".join("".join(_at_once(text, 200)).split())
    for word in ("word", "another", "end.", "日本"):
        assert shown.count(word) >= text.count(word)


@settings(max_examples=100, deadline=None)
@given(st.text(max_size=200), st.integers(1, 100))
def test_any_text_can_be_rendered(text: str, width: int) -> None:
    for piece in split(clean(text)):
        Renderer(ENVIRON).lines(piece, width)


def test_a_table_with_more_cells_than_headings_is_shown_as_it_is() -> None:
    table = "| a | b |\n|---|---|\n| one | two | three |\n"
    assert [line.strip() for line in _at_once(table)] == table.splitlines()
    assert "───" in "".join(_at_once(table.replace("| three ", "")))


def test_deeply_nested_text_is_shown() -> None:
    for nested in (
        "> " * 300 + "deep",
        "- " * 300 + "deep",
        "*" * 3000 + "deep",
        "[" * 3000 + "deep",
    ):
        assert "deep" in "".join(_at_once(nested))


def test_a_narrower_window_in_the_middle_loses_nothing() -> None:
    terminal = Terminal(80, 24)
    text = "".join(f"word{i} " for i in range(60)) + "\n\n" + LONG_CODE

    def parts() -> Iterable[str]:
        for i, character in enumerate(text):
            if i == 200:
                terminal.columns, terminal.height = 40, 12
            yield character

    shown = " ".join(_shown(parts(), terminal=terminal)).split()
    for i in range(60):
        assert f"word{i}" in shown
        assert f"line_{i}" in shown
