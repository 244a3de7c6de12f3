"""What a terminal shows after some output: lines with their colors, those above the screen too.

Knows the sequences of Rich and prompt_toolkit; others that are well formed are passed over. Every
character takes one column.
"""

from __future__ import annotations

import re

_SEQUENCE = re.compile(
    r"\x1b(?:\[(?P<private>[<=>?]?)(?P<numbers>[0-9;:]*)[ -/]*(?P<letter>[@-~])"
    r"|\][^\x07\x1b]*(?:\x07|\x1b\\)|[ -/][0-~]|[0-Z\\^-~])"
)
_BLANK = (" ", "")


class Screen:
    """Takes output and keeps what would be seen."""

    def __init__(self, columns: int, lines: int) -> None:
        self._columns = columns
        self._height = lines
        self._rows: list[list[tuple[str, str]]] = [[]]
        self._row = 0
        self._column = 0
        self._style = ""

    def feed(self, text: str) -> None:
        """Obey."""
        at = 0
        while at < len(text):
            if found := _SEQUENCE.match(text, at):
                if found["letter"] and not found["private"]:
                    self._obey(found["letter"], found["numbers"])
                at = found.end()
            else:
                self._put(text[at])
                at += 1

    def lines(self) -> list[str]:
        """Return the lines from the first to the last that holds anything, with their styles."""
        shown = [_written(row) for row in self._rows]
        while shown and not shown[-1]:
            shown.pop()
        return shown

    def _put(self, character: str) -> None:
        if character == "\r":
            self._column = 0
        elif character == "\n":
            self._move(1)
        elif character == "\b":
            self._column = max(self._column - 1, 0)
        elif character.isprintable():
            if self._column >= self._columns:
                self._column = 0
                self._move(1)
            row = self._rows[self._row]
            row += [_BLANK] * (self._column + 1 - len(row))
            row[self._column] = (character, self._style)
            self._column += 1

    def _move(self, down: int) -> None:
        top = max(len(self._rows) - self._height, 0)
        self._row = max(self._row + down, top)
        self._rows += [[] for _ in range(self._row + 1 - len(self._rows))]

    def _obey(self, letter: str, numbers: str) -> None:
        count = int(numbers.partition(";")[0] or 0)
        steps = count or 1
        match letter:
            case "m":
                self._style = f"{self._style};{numbers}" if numbers not in ("", "0") else ""
            case "A" | "B":
                self._move(-steps if letter == "A" else steps)
            case "C" | "D":
                self._column += steps if letter == "C" else -steps
                self._column = min(max(self._column, 0), self._columns - 1)
            case "G":
                self._column = steps - 1
            case "K":
                row = self._rows[self._row]
                self._rows[self._row] = row[: self._column] if count == 0 else []
            case "J":
                self._rows[self._row] = self._rows[self._row][: self._column]
                del self._rows[self._row + 1 :]


def _written(row: list[tuple[str, str]]) -> str:
    """Return a row as text with the sequences that color it."""
    text, style = "", ""
    for character, its in row:
        if its != style:
            text += f"\x1b[0{its}m"
            style = its
        text += character
    return (text + "\x1b[0m" if style else text).rstrip()
