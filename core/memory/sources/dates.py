"""Points in time as sources write them. Pure."""

from __future__ import annotations

import math
from contextlib import suppress
from datetime import UTC, datetime, timedelta

_EARLIEST = datetime(1971, 1, 1, tzinfo=UTC)  # 0 stands for "unknown" in many exports
_LATEST = datetime(2200, 1, 1, tzinfo=UTC)
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_LONGEST = 64  # characters of an ISO date


def from_seconds(value: object) -> datetime | None:
    """Return the time that a number of seconds since 1970 means; None: none that can be."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    with suppress(OverflowError, ValueError):
        if math.isfinite(value):
            return _plausible(_EPOCH + timedelta(seconds=value))
    return None


def from_iso(value: object) -> datetime | None:
    """Return the time that an ISO 8601 text means, UTC where it names no zone; None: none."""
    if not isinstance(value, str) or len(value) > _LONGEST:
        return None
    with suppress(OverflowError, ValueError):
        when = datetime.fromisoformat(value.strip())
        return _plausible(when if when.tzinfo else when.replace(tzinfo=UTC))
    return None


def from_any(value: object) -> datetime | None:
    """Return the time that a number of seconds or an ISO 8601 text means; None: none."""
    return from_iso(value) if isinstance(value, str) else from_seconds(value)


def _plausible(when: datetime) -> datetime | None:
    return when.astimezone(UTC) if _EARLIEST <= when < _LATEST else None
