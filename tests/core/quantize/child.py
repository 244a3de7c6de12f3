"""A quantization in a process of its own, which tests kill: `python -m ... ROOT MODEL`."""

from __future__ import annotations

import sys
from pathlib import Path

from tests.core.quantize.box import Box


def main() -> None:
    """Say that everything is imported, then quantize."""
    box = Box(Path(sys.argv[1]))
    import core.quantize.write  # noqa: F401

    sys.stdout.write("ready\n")
    sys.stdout.flush()
    box.quantize(sys.argv[2])


if __name__ == "__main__":
    main()
