"""Sizes and durations as people read them."""

from __future__ import annotations

import pytest

from core.units import format_bytes, format_seconds


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
