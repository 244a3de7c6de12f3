"""`mlxbun chat` at a terminal: the line editor, its history, Ctrl-C, and what is drawn."""

from __future__ import annotations

import fcntl
import json
import os
import pty
import re
import struct
import subprocess
import sys
import termios
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.processes import SCRIPT, wait_until

GREEDY = ("--temperature", "0")
SHORT = (*GREEDY, "--max-tokens", "4")
Environ = dict[str, str]
CTRL_C, CTRL_D, ALT_ENTER, UP = "\x03", "\x04", "\x1b\r", "\x1b[A"
PROMPT = "<a prompt>"
_TAKE_TERMINAL = """
import fcntl, os, sys, termios
fcntl.ioctl(0, termios.TIOCSCTTY, 0)  # so that Ctrl-C is a signal
os.execv(sys.argv[1], sys.argv[1:])
"""
_SEQUENCE = re.compile(r"\x1b(\[[0-9;?]*[A-Za-z]|\][^\x07]*\x07|[=>])")


class Person:
    """Somebody at a terminal of 80 by 24 in which a chat runs."""

    def __init__(self, environ: Environ, *arguments: str) -> None:
        self._ours, theirs = pty.openpty()
        fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 24, 80, 0, 0))
        self.process = subprocess.Popen(
            [sys.executable, "-c", _TAKE_TERMINAL, SCRIPT, "chat", *arguments],
            env={**environ, "TERM": "xterm-256color"},
            stdin=theirs,
            stdout=theirs,
            stderr=theirs,
            start_new_session=True,
        )
        os.close(theirs)
        self._seen = bytearray()
        threading.Thread(target=self._look, daemon=True).start()

    def _look(self) -> None:
        try:
            while data := os.read(self._ours, 4096):
                self._seen += data
        except OSError:  # the terminal is gone with the program
            return

    @property
    def seen(self) -> str:
        """What was written since the last key, without escape sequences."""
        text = self._seen.decode("utf-8", "replace").replace("\r\n", "\n").replace("\r", "")
        # Pasting is switched on (mode 2004) whenever a line is read.
        return _SEQUENCE.sub("", text.replace("\x1b[?2004h", PROMPT))

    def type(self, keys: str) -> None:
        """Press keys."""
        self._seen.clear()
        os.write(self._ours, keys.encode())

    def sees(self, text: str) -> str:
        """Wait until a text is there."""
        wait_until(lambda: text in self.seen or self.process.poll() is not None)
        assert text in self.seen, self.seen
        return self.seen

    def says(self, text: str) -> str:
        """Type a line, wait for the next prompt and return what came before it."""
        self.type(text + "\r")
        return self.sees(PROMPT)

    def leaves(self, keys: str = CTRL_D) -> int:
        """Press keys that end the chat and return its exit code."""
        self.type(keys)
        return self.process.wait(30)


@contextmanager
def _person(environ: Environ, *arguments: str) -> Iterator[Person]:
    person = Person(environ, *arguments)
    try:
        person.sees(PROMPT)
        yield person
    finally:
        person.process.kill()
        person.process.wait()


def _questions(environ: Environ) -> list[str]:
    files = sorted((Path(environ["HOME"]) / ".mlxbun" / "sessions").glob("*.jsonl"))
    entries = [json.loads(line) for file in files for line in file.read_text().splitlines()]
    messages = [entry["message"] for entry in entries if entry["type"] == "message"]
    return [message["content"] for message in messages if message["role"] == "user"]


def test_ctrl_c_stops_the_answer_and_then_leaves(
    fresh_environ: Environ, endless_model: str
) -> None:
    with _person(fresh_environ, endless_model, *GREEDY) as person:
        person.type("hello\r")
        person.sees("hello\n")
        wait_until(lambda: len(person.seen) > 200)
        person.type(CTRL_C)
        seen = person.sees(PROMPT)
        assert "[stopped after " in seen
        assert "^C" not in seen
        assert "Taken back: hello" in person.says("/undo")
        person.type("half a line" + CTRL_C)
        person.sees("Press Ctrl-C again, or Ctrl-D, to leave.")
        person.sees(PROMPT)
        assert person.leaves(CTRL_C) == 0
    assert _questions(fresh_environ) == ["hello"]


def test_lines_are_edited_and_remembered(fresh_environ: Environ, tiny_model: str) -> None:
    with _person(fresh_environ, tiny_model, *SHORT) as person:
        person.says("one" + ALT_ENTER + "two")
        person.says("three\\\rfour")
        person.says('"""five\r\rsix"""')
        person.says("\x1b[200~seven\\\neight\x1b[201~")  # pasted
        person.says("/he\t")  # completed
        assert person.leaves() == 0
    spoken = ["one\ntwo", "three\nfour", "five\n\nsix", "seven\\\neight"]
    assert _questions(fresh_environ) == spoken
    history = Path(fresh_environ["HOME"]) / ".mlxbun" / "chat-history"
    assert history.stat().st_mode & 0o777 == 0o600
    with _person(fresh_environ, tiny_model, "--no-save", *SHORT) as person:
        person.says(UP * 2)
        person.says("not to be kept")
        assert person.leaves() == 0
    assert "not to be kept" not in history.read_text()
    with _person(fresh_environ, tiny_model, "--continue", *SHORT) as person:
        assert "8 messages" in person.seen
        assert "> seven\\\neight" in person.seen
        person.says(UP * 2)
    assert _questions(fresh_environ)[4:] == ["seven\\\neight"]


def test_what_is_typed_during_an_answer_waits_for_the_prompt(
    fresh_environ: Environ, endless_model: str
) -> None:
    with _person(fresh_environ, endless_model, *GREEDY, "--max-tokens", "200") as person:
        person.type("hello\r")
        person.sees("hello\n")
        person.type("/stats\r")
        assert "/stats" not in person.seen
        person.sees("Stats are on.")
        assert person.leaves() == 0


def test_ctrl_d_during_an_answer_leaves_after_it(
    fresh_environ: Environ, endless_model: str
) -> None:
    with _person(fresh_environ, endless_model, *GREEDY, "--max-tokens", "200") as person:
        person.type("hello\r")
        person.sees("hello\n")
        assert person.leaves() == 0


@pytest.mark.parametrize("plain", [True, False])
def test_markdown_is_drawn_unless_plain(
    fresh_environ: Environ, tiny_model: str, plain: bool
) -> None:
    with _person(fresh_environ, tiny_model, *SHORT, *(["--plain"] if plain else [])) as person:
        person.says("hello")
        assert (b"\x1b[?2026h" in person._seen) == (not plain)
