"""Where the documentation lies."""

from __future__ import annotations

from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
DOCS = ROOT / "docs"
CLI_PAGE = DOCS / "cli.md"
JSON_PAGE = DOCS / "json.md"
PICTURES = DOCS / "pictures"


def picture_of(verb: str) -> Path:
    """Return the file of a verb's picture: `config show` has config-show.svg."""
    return PICTURES / f"{verb.replace(' ', '-')}.svg"
