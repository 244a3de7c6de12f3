"""How values are read, from flags, files and JSON alike.

A reader takes a raw value and returns it in its type, or raises `ValueError` with what it wants as
a noun: "a whole number from 1 to 4096".
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import Any, Protocol

_BEYOND = 2**63  # no number of so many digits stands for a name


class Reader(Protocol):
    """Reads one value."""

    def __call__(self, raw: Any, /) -> Any:
        """Return the value; raise ValueError with what is wanted."""
        ...


@dataclass(frozen=True)
class WholeNumber:
    """Reads a whole number within a range, both ends included."""

    low: int
    high: int

    def __call__(self, raw: Any, /) -> int:
        """Return the number."""
        wanted = f"a whole number from {self.low} to {self.high}"
        number = _parsed(int, raw, wanted)
        if isinstance(number, bool) or not isinstance(number, int):
            raise ValueError(wanted)
        if not self.low <= number <= self.high:
            raise ValueError(wanted)
        return number


@dataclass(frozen=True)
class Number:
    """Reads a finite number within a range, both ends included."""

    low: float
    high: float

    def __call__(self, raw: Any, /) -> float:
        """Return the number."""
        wanted = f"a number from {self.low:g} to {self.high:g}"
        number = _parsed(float, raw, wanted)
        if isinstance(number, bool) or not isinstance(number, int | float):
            raise ValueError(wanted)
        if not self.low <= number <= self.high:  # also refuses NaN
            raise ValueError(wanted)
        return float(number)


@dataclass(frozen=True)
class Choice:
    """Reads one of a few words."""

    words: tuple[str, ...]

    def __call__(self, raw: Any, /) -> str:
        """Return the word."""
        if raw not in self.words:
            raise ValueError(f"one of {', '.join(self.words)}")
        return str(raw)


@dataclass(frozen=True)
class Switch:
    """Reads yes or no."""

    def __call__(self, raw: Any, /) -> bool:
        """Return whether it is on."""
        words = {"true": True, "on": True, "yes": True, "false": False, "off": False, "no": False}
        if isinstance(raw, bool):
            return raw
        if isinstance(raw, str) and raw.lower() in words:
            return words[raw.lower()]
        raise ValueError("true or false")


@dataclass(frozen=True)
class Text:
    """Reads a text that is not empty: a name, a path."""

    numbers: bool = False
    """Whether a whole number stands for its digits: JSON and TOML have numbers where a shell has
    words."""

    def __call__(self, raw: Any, /) -> str:
        """Return the text."""
        raw = _digits(raw) if self.numbers else raw
        if not isinstance(raw, str) or not raw.strip() or "\0" in raw:
            raise ValueError("a text that is not empty")
        try:
            os.fsencode(raw)
        except UnicodeEncodeError:
            raise ValueError("a text") from None
        return raw


@dataclass(frozen=True)
class Names:
    """Reads names: a list of them, or one text with commas between."""

    numbers: bool = False
    """Whether whole numbers stand for their digits, as in `Text`."""

    def __call__(self, raw: Any, /) -> tuple[str, ...]:
        """Return the names, each once."""
        wanted = "a list of names"
        given = raw.split(",") if isinstance(raw, str) else raw
        if self.numbers and isinstance(given, list | tuple):
            given = [_digits(each) for each in given]
        if not isinstance(given, list | tuple) or not all(isinstance(name, str) for name in given):
            raise ValueError(wanted)
        names = tuple(dict.fromkeys(name.strip() for name in given if name.strip()))
        if not names:
            raise ValueError(wanted)
        return names


def _digits(raw: Any) -> Any:
    """Return a whole number as a text, and anything else as it is."""
    if not isinstance(raw, int) or isinstance(raw, bool) or abs(raw) >= _BEYOND:
        return raw
    return str(raw)


def _parsed(kind: type[int] | type[float], raw: Any, wanted: str) -> Any:
    """Return a text as a number, and anything else as it is."""
    if not isinstance(raw, str):
        return raw
    try:
        return kind(raw)
    except (ValueError, OverflowError):
        raise ValueError(wanted) from None
