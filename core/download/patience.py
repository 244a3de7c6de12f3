"""How long a transfer is waited for and how often it is tried again. Numbers and one formula."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime


@dataclass(frozen=True, kw_only=True)
class Patience:
    """The bounds of one download."""

    stall_seconds: float = 30.0
    """Without a byte on an open connection until it is given up and opened again."""
    connect_seconds: float = 15.0
    """For a connection to come about."""
    tries: int = 10
    """In a row that bring no byte, until a file is given up; about four minutes of waits."""
    question_tries: int = 4
    """The same for what is asked of the Hub before the first byte: a person is waiting."""
    first_wait: float = 1.0
    """Seconds before the second try; each further wait is twice as long."""
    longest_wait: float = 60.0
    """Seconds; no wait of ours is longer."""
    longest_wish: float = 300.0
    """Seconds; a server that asks for a longer wait (Retry-After) gets this much."""

    chance: Callable[[], float] = random.random
    """Gives numbers from 0 to 1 that scatter the waits."""

    def wait(self, failures: int, *, wish: float | None = None) -> float:
        """Return the seconds to wait after some failures in a row.

        Exponential backoff of which half is random ("equal jitter"), so that many clients of one
        server do not come back together.

        Args:
            failures: without a byte in between, from 1.
            wish: what the server asked for, in seconds.
        """
        if wish is not None:
            return min(wish, self.longest_wish) + self.chance()
        whole = min(self.first_wait * 2.0 ** min(failures - 1, 30), self.longest_wait)
        return whole * (0.5 + self.chance() / 2)


def retry_after(header: str | None, *, now: datetime | None = None) -> float | None:
    """Return the seconds that a Retry-After header asks for; None: it asks for nothing readable.

    Source: RFC 9110, 10.2.3: a whole number of seconds, or a date.
    """
    if not header:
        return None
    text = header.strip()
    if text.isascii() and text.isdigit() and len(text) < 10:
        return float(text)
    try:
        date = parsedate_to_datetime(text)
    except (ValueError, TypeError, OverflowError):
        return None
    if date.tzinfo is None:
        date = date.replace(tzinfo=UTC)
    return max((date - (now or datetime.now(UTC))).total_seconds(), 0.0)
