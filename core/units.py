"""Bytes and seconds as people read them. Pure text, no state."""

from __future__ import annotations

GB = 10**9
GIB = 2**30


def format_bytes(count: float) -> str:
    """Return `count` bytes in decimal units with three digits: `98.4 MB`, `1.24 GB`."""
    for unit in ("B", "kB", "MB", "GB", "TB"):
        if abs(count) < 999.5 or unit == "TB":
            return f"{count:.0f} {unit}" if unit == "B" else f"{count:.3g} {unit}"
        count /= 1000
    raise AssertionError("unreachable: TB is the last unit")


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
