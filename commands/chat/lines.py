"""Where messages come from: a line editor on a terminal, plain lines from a pipe.

Several lines make one message: between triple quotes, after a backslash at the end of a line, and
at a terminal with Alt-Enter or pasted. Knows nothing of what a message means.
"""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING, Protocol

from commands.chat.interrupts import end_program

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from pathlib import Path
    from typing import BinaryIO

    from prompt_toolkit import PromptSession
    from prompt_toolkit.history import History
    from prompt_toolkit.key_binding import KeyBindings, KeyPressEvent

    from commands.chat.interrupts import Interrupts

_QUOTES = '"""'


class Lines(Protocol):
    """A source of messages."""

    def read(self) -> str | None:
        """Return the next message, or None when there will be no other."""


class PipedLines:
    """Messages from a stream, one a line."""

    def __init__(self, stream: BinaryIO | None, interrupts: Interrupts) -> None:
        self._stream = stream
        self._interrupts = interrupts

    def read(self) -> str | None:
        """Return the next message; a Ctrl-C while it is waited for ends the program."""
        text: str | None = None
        with self._interrupts.calling(end_program):
            while (line := self._line()) is not None:
                text = line if text is None else f"{text}\n{line}"
                if text.endswith("\\") and not _in_quotes(text):
                    text = text[:-1]
                elif not _in_quotes(text):
                    break
        return text if text is None else unquoted(text)

    def _line(self) -> str | None:
        data = self._stream.readline() if self._stream else b""
        return data.decode("utf-8", "replace").removesuffix("\n") if data else None


class EditedLines:
    """Messages from a person at a terminal, with the history of earlier chats."""

    def __init__(
        self,
        *,
        history: Path,
        remember: bool,
        words: Sequence[str],
        terminal: str | None,
        note: Callable[[str], object],
    ) -> None:
        """Prepare the editor.

        Args:
            history: the file of earlier lines.
            remember: add the new ones to it.
            words: what Tab completes.
            terminal: its kind, as TERM tells it.
            note: tells a line to the person.
        """
        self._note = note
        self._pressed = False
        self._editor = _editor(_history(history, remember=remember), words, terminal)

    def read(self) -> str | None:
        """Return the next message; Ctrl-C drops what was typed, twice or Ctrl-D leaves."""
        while True:
            try:
                text = self._editor.prompt("\n> ", prompt_continuation="  ")
            except EOFError:
                return None
            except KeyboardInterrupt:
                if self._pressed:
                    return None
                self._pressed = True
                self._note("Press Ctrl-C again, or Ctrl-D, to leave.")
            else:
                self._pressed = False
                return unquoted(text)


def unquoted(text: str) -> str:
    """Return a message without the triple quotes around it."""
    inner = text.strip()
    if not inner.startswith(_QUOTES):
        return text
    return inner.removeprefix(_QUOTES).removesuffix(_QUOTES).strip("\n")


def _in_quotes(text: str) -> bool:
    """Tell whether triple quotes were opened at the beginning and not closed at the end."""
    text = text.strip()
    closed = len(text) >= 2 * len(_QUOTES) and text.endswith(_QUOTES)
    return text.startswith(_QUOTES) and not closed


def _editor(history: History, words: Sequence[str], terminal: str | None) -> PromptSession[str]:
    from prompt_toolkit import PromptSession
    from prompt_toolkit.completion import WordCompleter
    from prompt_toolkit.output.vt100 import Vt100_Output

    screen = sys.stdout if sys.stdout.isatty() else sys.stderr
    output = Vt100_Output.from_pty(screen, term=terminal)
    # What the terminal answers about its cursor would come between what is typed ahead.
    output.enable_cpr = False
    return PromptSession(
        history=history,
        multiline=True,
        key_bindings=_keys(),
        completer=WordCompleter(list(words), sentence=True),
        complete_while_typing=False,
        output=output,
    )


def _keys() -> KeyBindings:
    from prompt_toolkit.key_binding import KeyBindings

    keys = KeyBindings()

    @keys.add("enter")
    def enter(event: KeyPressEvent) -> None:
        buffer = event.current_buffer
        if buffer.document.is_cursor_at_the_end and buffer.text.endswith("\\"):
            buffer.delete_before_cursor()
            buffer.insert_text("\n")
        elif _in_quotes(buffer.text):
            buffer.insert_text("\n")
        else:
            buffer.validate_and_handle()

    @keys.add("escape", "enter")
    def alt_enter(event: KeyPressEvent) -> None:
        event.current_buffer.insert_text("\n")

    return keys


def _history(path: Path, *, remember: bool) -> History:
    from prompt_toolkit.history import FileHistory

    class Remembered(FileHistory):
        """Lines of earlier chats; where the file cannot be used, those of this chat."""

        def load_history_strings(self) -> Iterator[str]:
            try:
                yield from super().load_history_strings()
            except OSError:
                return

        def store_string(self, string: str) -> None:
            if not remember:
                return
            try:
                path.parent.mkdir(parents=True, exist_ok=True)
                os.close(os.open(path, os.O_WRONLY | os.O_CREAT, 0o600))
                super().store_string(string)
            except OSError:
                return  # the conversation's own file says so if the disk is full

    return Remembered(str(path))
