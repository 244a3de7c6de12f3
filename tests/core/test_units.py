"""Sizes and durations as people read them."""

from __future__ import annotations

import pytest

from core.units import format_bytes, format_count, format_number, format_seconds, parse_bytes


@pytest.mark.parametrize(
    ("count", "text"),
    [(0, "0 B"), (999, "999 B"), (1000, "1 kB"), (98_362_432, "98.4 MB"), (999_600, "1 MB"),
     (1_240_000_000, "1.24 GB"), (5e15, "5e+03 TB")],
)  # fmt: skip
def test_bytes(count: float, text: str) -> None:
    assert format_bytes(count) == text


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(0.34, "340 ms"), (4.2, "4.2 s"), (59.96, "60 s"), (200, "3 min 20 s"), (7500, "2 h 5 min")],
)
def test_seconds(seconds: float, text: str) -> None:
    assert format_seconds(seconds) == text


@pytest.mark.parametrize(
    ("text", "count"),
    [("1000", 1000), ("500MB", 500_000_000), ("4GB", 4 * 10**9), ("4GiB", 4 * 2**30),
     (" 1.5 g ", 1_500_000_000), ("2kib", 2048), ("7b", 7), ("0", 0), ("3TB", 3 * 10**12)],
)  # fmt: skip
def test_sizes_that_people_write(text: str, count: int) -> None:
    assert parse_bytes(text) == count


@pytest.mark.parametrize(
    "text",
    [
        "",
        "GB",
        "four",
        "-1GB",
        "4XB",
        "4GiiB",
        "1e9",
        "nan",
        "inf",
        "1,5GB",
        "4 G B",
        "٣GB",
        "9" * 19,
    ],
)
def test_sizes_that_are_none(text: str) -> None:
    with pytest.raises(ValueError, match="no size"):
        parse_bytes(text)


@pytest.mark.parametrize(
    ("count", "text"),
    [(7, "7"), (1500, "1.5k"), (134_515_008, "135M"), (3_212_749_824, "3.21B"), (1.04e12, "1.04T")],
)
def test_counts(count: float, text: str) -> None:
    assert format_count(count) == text


@pytest.mark.parametrize(
    ("number", "text"),
    [(0, "0"), (4.2345, "4.23"), (85.12, "85.1"), (99.96, "100"), (1340.4, "1,340")],
)
def test_numbers(number: float, text: str) -> None:
    assert format_number(number) == text
