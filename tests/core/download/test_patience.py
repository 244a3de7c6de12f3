"""Waits grow, are bounded, and do what a server asks within reason."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from core.download.patience import Patience, retry_after
from core.progress import Rate

NOW = datetime(2026, 11, 29, 12, 0, 0, tzinfo=UTC)


def test_waits_double_up_to_the_longest() -> None:
    most = Patience(first_wait=1, longest_wait=8, chance=lambda: 1.0)
    assert [most.wait(n) for n in (1, 2, 3, 4, 5, 1000)] == [1, 2, 4, 8, 8, 8]
    least = Patience(first_wait=1, longest_wait=8, chance=lambda: 0.0)
    assert [least.wait(n) for n in (1, 2, 3, 4)] == [0.5, 1, 2, 4]
    assert 0.5 <= Patience().wait(1) <= 1


def test_a_servers_wish_is_met_within_reason() -> None:
    patience = Patience(longest_wish=300, chance=lambda: 0.5)
    assert patience.wait(1, wish=7) == 7.5
    assert patience.wait(1, wish=10**9) == 300.5


@pytest.mark.parametrize(
    ("header", "seconds"),
    [
        (None, None),
        ("", None),
        ("12", 12),
        (" 0 ", 0),
        ("Sun, 29 Nov 2026 12:00:30 GMT", 30),
        ("Sun, 29 Nov 2026 11:00:00 GMT", 0),
        ("soon", None),
        ("-5", None),
        ("1e9", None),
        ("9" * 400, None),
        ("Sun, 99 Nov 99999 12:00:30 GMT", None),
    ],
)
def test_retry_after_is_a_number_or_a_date(header: str | None, seconds: float | None) -> None:
    assert retry_after(header, now=NOW) == seconds


def test_a_rate_looks_five_seconds_back() -> None:
    now = [0.0]
    rate = Rate(clock=lambda: now[0])
    assert rate.value() == 0
    for second in range(10):
        now[0] = second + 0.5
        rate.add(100)
    now[0] = 10.0
    assert rate.value() == 100
    now[0] = 12.0
    assert rate.value() == 60
    now[0] = 60.0
    assert rate.value() == 0


def test_a_young_rate_is_over_its_own_age() -> None:
    now = [0.0]
    rate = Rate(clock=lambda: now[0])
    for _ in range(1000):
        now[0] += 0.002
        rate.add(2)
    assert rate.value() == pytest.approx(1000)
