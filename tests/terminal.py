"""A small terminal: what a person would see, and find above when scrolling back.

Knows the sequences that the chat sends, and fails on any other: an answer must not bring its own.
"""

from __future__ import annotations

import re

_SEQUENCE = re.compile(r"\x1b\[(\??)([0-9;]*)([A-Za-z])")
_MODES = {"25", "2026", "7", "2004"}


class Terminal:
    """Cells of one column each; wide characters are not modelled."""

    def __init__(self, columns: int = 80, lines: int = 24) -> None:
        self.columns = columns
        self.height = lines
        self.rows: list[str] = [""]  # everything since the start; the last `height` are the screen
        self._row = 0
        self._column = 0
        self._wrap = True

    def write(self, text: str) -> None:
        """Obey."""
        at = 0
        while at < len(text):
            if text[at] == "\x1b":
                found = _SEQUENCE.match(text, at)
                assert found, repr(text[at : at + 12])
                self._obey(*found.groups())
                at = found.end()
            else:
                self._put(text[at])
                at += 1

    def transcript(self) -> list[str]:
        """Return all lines from the first to the last, without blanks at their ends."""
        lines = [row.rstrip() for row in self.rows]
        while lines and not lines[-1]:
            lines.pop()
        return lines

    def _obey(self, private: str, parameter: str, letter: str) -> None:
        if private:
            assert parameter in _MODES, parameter
            if parameter == "7":
                self._wrap = letter == "h"
        elif letter == "A":
            top = max(len(self.rows) - self.height, 0)
            self._row = max(self._row - int(parameter or 1), top)
        elif letter == "K":
            self.rows[self._row] = self.rows[self._row][: self._column]
        elif letter == "J":
            top = max(len(self.rows) - self.height, 0)
            if (self._row, self._column) == (top, 0):  # tmux keeps what it clears
                self.rows += [""] * self.height
                self._row = len(self.rows) - self.height
            self.rows[self._row] = self.rows[self._row][: self._column]
            # The rows stay where they are, and are empty.
            self.rows[self._row + 1 :] = [""] * (len(self.rows) - self._row - 1)
        else:
            assert letter == "m", letter

    def _put(self, character: str) -> None:
        if character == "\r":
            self._column = 0
        elif character == "\n":
            self._column = 0
            self._down()
        else:
            assert character.isprintable(), repr(character)
            if self._column == self.columns:
                if not self._wrap:
                    self._column -= 1
                else:
                    self._column = 0
                    self._down()
            row = self.rows[self._row].ljust(self._column)
            self.rows[self._row] = row[: self._column] + character + row[self._column + 1 :]
            self._column += 1

    def _down(self) -> None:
        self._row += 1
        if self._row == len(self.rows):
            self.rows.append("")
