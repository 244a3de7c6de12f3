"""Sets of characters as ranges of code points. Pure."""

from __future__ import annotations

from functools import cache, lru_cache
from typing import TYPE_CHECKING, TypeAlias

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

Ranges: TypeAlias = tuple[tuple[int, int], ...]
"""First and last code point of each range, ascending, with gaps between them."""

ANY: Ranges = ((0, 0xD7FF), (0xE000, 0x10FFFF))
"""Every character. Surrogates are not characters: UTF-8 cannot write them."""
DIGITS: Ranges = ((0x30, 0x39),)
WORD: Ranges = ((0x30, 0x39), (0x41, 0x5A), (0x5F, 0x5F), (0x61, 0x7A))
SPACE: Ranges = ((0x09, 0x0D), (0x20, 0x20))
LINE_ENDS: Ranges = ((0x0A, 0x0A), (0x0D, 0x0D), (0x2028, 0x2029))


@lru_cache(maxsize=4096)
def one_of(text: str) -> Ranges:
    """Return the characters of a string."""
    return union([((ord(each), ord(each)),) for each in text])


def union(sets: Iterable[Ranges]) -> Ranges:
    """Return the characters that are in any of some sets."""
    merged: list[tuple[int, int]] = []
    for first, last in sorted(pair for ranges in sets for pair in ranges):
        if merged and first <= merged[-1][1] + 1:
            merged[-1] = (merged[-1][0], max(last, merged[-1][1]))
        else:
            merged.append((first, last))
    return tuple(merged)


def intersection(one: Ranges, other: Ranges) -> Ranges:
    """Return the characters that are in both sets. Linear in their ranges."""
    both: list[tuple[int, int]] = []
    i = j = 0
    while i < len(one) and j < len(other):
        first, last = max(one[i][0], other[j][0]), min(one[i][1], other[j][1])
        if first <= last:
            both.append((first, last))
        if one[i][1] < other[j][1]:
            i += 1
        else:
            j += 1
    return tuple(both)


def complement(ranges: Ranges) -> Ranges:
    """Return all other characters."""
    gaps: list[tuple[int, int]] = []
    start = 0
    for first, last in ranges:
        if first > start:
            gaps.append((start, first - 1))
        start = last + 1
    if start <= 0x10FFFF:
        gaps.append((start, 0x10FFFF))
    return intersection(tuple(gaps), ANY)


def minus(one: Ranges, other: Ranges) -> Ranges:
    """Return the characters of the first set that are not in the second."""
    return intersection(one, complement(other))


@cache
def unicode_digits() -> Ranges:
    r"""Return what `\d` matches in Python; in JavaScript it matches ASCII digits only."""
    return _where(str.isdecimal)


@cache
def unicode_word() -> Ranges:
    r"""Return what `\w` matches in Python."""
    return union([_where(str.isalnum), WORD])


@cache
def unicode_space() -> Ranges:
    r"""Return what `\s` matches in Python or in JavaScript."""
    return union([_where(str.isspace), one_of("\ufeff\u2028\u2029")])


def _where(test: Callable[[str], bool]) -> Ranges:
    found: list[tuple[int, int]] = []
    for first, last in ANY:
        start = None
        for code in range(first, last + 1):
            if test(chr(code)):
                start = code if start is None else start
            elif start is not None:
                found.append((start, code - 1))
                start = None
        if start is not None:
            found.append((start, last))
    return tuple(found)
