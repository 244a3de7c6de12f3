"""Bytes, counts and seconds as people read and write them. Pure text, no state."""

from __future__ import annotations

import re

GB = 10**9
GIB = 2**30

_FACTORS = {
    "": 1,
    **{letter: 1000**power for power, letter in enumerate("kmgt", 1)},
    **{f"{letter}i": 1024**power for power, letter in enumerate("kmgt", 1)},
}


def format_bytes(count: float) -> str:
    """Return `count` bytes in decimal units with three digits: `98.4 MB`, `1.24 GB`."""
    for unit in ("B", "kB", "MB", "GB", "TB"):
        if abs(count) < 999.5 or unit == "TB":
            return f"{count:.0f} {unit}" if unit == "B" else f"{count:.3g} {unit}"
        count /= 1000
    raise AssertionError("unreachable: TB is the last unit")


def parse_bytes(text: str) -> int:
    """Return the bytes that a person means by `500MB`, `4 GiB`, `1.5g` or `1000`.

    Raises:
        ValueError: the text is no size.
    """
    found = re.fullmatch(r"\s*([0-9]{1,18}(?:\.[0-9]{1,18})?)\s*([a-z]*)\s*", text, re.IGNORECASE)
    unit = found[2].lower().removesuffix("b") if found else None
    if found is None or unit not in _FACTORS:
        raise ValueError(f"{text!r} is no size")
    return int(float(found[1]) * _FACTORS[unit])


def format_count(count: float) -> str:
    """Return a large count with three digits: `135M`, `3.21B`, `1.04T`."""
    for unit in ("", "k", "M", "B", "T"):
        if abs(count) < 999.5 or unit == "T":
            return f"{count:.3g}{unit}"
        count /= 1000
    raise AssertionError("unreachable: T is the last unit")


def counted(number: int, one: str, many: str | None = None) -> str:
    """Return a number with its noun: `1 note`, `2,000 notes`.

    Args:
        number: how many.
        one: the noun in the singular.
        many: in the plural; None: with an `s`.
    """
    return f"{number:,} {one if number == 1 else many or one + 's'}"


def format_seconds(seconds: float) -> str:
    """Return a duration: `340 ms`, `4.2 s`, `3 min 20 s`, `2 h 5 min`."""
    if seconds < 1:
        return f"{seconds * 1000:.0f} ms"
    if seconds < 60:
        return f"{seconds:.3g} s"
    minutes, rest = divmod(round(seconds), 60)
    if minutes < 60:
        return f"{minutes} min {rest} s"
    hours, minutes = divmod(minutes, 60)
    return f"{hours} h {minutes} min"


def format_number(number: float) -> str:
    """Return a number with three digits, all of those before the point: `4.23`, `85.1`, `1,340`."""
    return f"{number:,.0f}" if abs(number) >= 99.95 else f"{number:.3g}"
