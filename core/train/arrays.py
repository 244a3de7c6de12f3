"""MLX arrays as Python numbers."""

from __future__ import annotations

from typing import Any


def number(scalar: Any) -> float:
    """Return what an array with one element holds."""
    return float(scalar.item())
