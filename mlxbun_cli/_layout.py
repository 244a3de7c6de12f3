"""Refuses to start on a stranger's `commands` or `core`.

Both are top-level packages with common names; another project's folder of that name, on
`sys.path` before ours, would be imported instead and fail in ways nobody understands.
"""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path


def find_stranger() -> str | None:
    """Return a sentence about a `commands` or `core` that is not ours, or None."""
    ours = Path(__file__).resolve().parent.parent
    for name in ("commands", "core"):
        spec = find_spec(name)
        origin = Path(spec.origin).resolve() if spec and spec.origin else None
        if origin is None or origin.parent.parent != ours:
            return (
                f"the package {name!r} is taken from {origin or 'nowhere'}, not from {ours}; "
                "start mlxbun from another folder, or take that one off PYTHONPATH"
            )
    return None
