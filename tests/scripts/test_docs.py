"""The terminal that pictures are taken of, and the pictures."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path
from xml.etree import ElementTree

import pytest
from rich.text import Text

from scripts.docs.picture import draw, text_of
from scripts.docs.screen import Screen
from scripts.docs.terminal import Press, run_in_terminal


def _shown(written: str, columns: int = 10, lines: int = 4) -> list[str]:
    screen = Screen(columns, lines)
    screen.feed(written)
    return [Text.from_ansi(line).plain for line in screen.lines()]


@pytest.mark.parametrize(
    ("written", "lines"),
    [
        ("one\r\ntwo\r\n", ["one", "two"]),
        ("one\rO", ["One"]),
        ("0123456789ab", ["0123456789", "ab"]),
        ("0123456789\r\nab", ["0123456789", "ab"]),
        ("abc\b\bX", ["aXc"]),
        ("one\r\x1b[2Ktwo", ["two"]),
        ("abcdef\x1b[3D\x1b[K", ["abc"]),
        ("a\r\nb\r\nc\x1b[2A\rX\x1b[1B\rY", ["X", "Y", "c"]),
        ("a\r\nb\r\nc\x1b[1A\r\x1b[J", ["a"]),
        ("1\r\n2\r\n3\r\n4\r\n5\x1b[9A\rX", ["1", "X", "3", "4", "5"]),
        ("\x1b[?25l\x1b[?2004h\x1b]0;title\x07\x1b(B\x1b=text\x1b[?25h", ["text"]),
        ("a\x1b[3Cb", ["a   b"]),
        ("\x1b[2Gb", [" b"]),
    ],
)
def test_the_screen_obeys(written: str, lines: list[str]) -> None:
    assert _shown(written) == lines


def test_colors_stay_until_they_are_taken_back() -> None:
    screen = Screen(20, 4)
    screen.feed("\x1b[1mbold\x1b[31m red\x1b[0m plain")
    assert screen.lines() == ["\x1b[0;1mbold\x1b[0;1;31m red\x1b[0m plain"]


def test_a_picture_holds_its_text() -> None:
    lines = ["\x1b[1mNAME\x1b[0m  SIZE", "", "  a & b <c>   \x1b[2m5 GB\x1b[0m", "é…  x"]
    picture = draw(lines, columns=40, name="x")
    assert text_of(picture) == ["NAME  SIZE", "", "  a & b <c>   5 GB", "é…  x"]
    assert "http" not in picture.replace("http://www.w3.org/2000/svg", "")
    ElementTree.fromstring(picture)


def test_keys_are_pressed_when_their_time_has_come(tmp_path: Path) -> None:
    command = ["sh", "-c", 'printf "name? "; read name; echo "hello $name"; sleep 30']
    presses = [Press(after="name? ", keys="ada\r"), Press(after="hello ada", keys="\x03")]
    environ = {"PATH": os.environ["PATH"], "TERM": "xterm"}
    shown = run_in_terminal(command, environ=environ, cwd=tmp_path, presses=presses)
    assert _shown(shown, 40) == ["name? ada", "hello ada", "^C"]


def test_the_terminal_has_its_size(tmp_path: Path) -> None:
    if not shutil.which("stty"):
        pytest.skip("no stty here")
    command = ["sh", "-c", "stty size; pwd"]
    environ = {"PATH": os.environ["PATH"]}
    shown = run_in_terminal(command, environ=environ, cwd=tmp_path)
    assert shown.split() == ["50", "96", str(tmp_path)]


def test_make_lists_both_targets() -> None:
    root = Path(__file__).resolve().parents[2]
    told = subprocess.run(
        ["make", "help"], cwd=root, capture_output=True, text=True, check=True
    ).stdout
    assert "make docs " in told
    assert "make pictures " in told
