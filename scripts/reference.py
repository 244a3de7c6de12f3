"""Make the pages of `core/memory/reference` of `docs/*.md`; `make docs` runs this.

They are read in a vault, without the repository around them: pictures become their descriptions,
and links to files outside of `docs` their texts.
"""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
DOCS = ROOT / "docs"
PAGES = ROOT / "core" / "memory" / "reference"
_NOT_FOR_USERS = ("architecture.md",)
_PICTURE = re.compile(r"!\[([^\[\]]*)\]\([^()]*\)")
_LINK = re.compile(r"\[([^\[\]]*)\]\(([^()\s]*)\)")


def reference_pages() -> dict[str, str]:
    """Return the pages as they should be: their text by file name."""
    sources = [file for file in sorted(DOCS.glob("*.md")) if file.name not in _NOT_FOR_USERS]
    names = {file.name for file in sources}
    return {file.name: _page(file.read_text(encoding="utf-8"), names) for file in sources}


def write_reference() -> None:
    """Write the pages, and delete those that have no source any more."""
    PAGES.mkdir(exist_ok=True)
    wanted = reference_pages()
    for file in PAGES.glob("*.md"):
        if file.name not in wanted:
            file.unlink()
    for name, text in wanted.items():
        (PAGES / name).write_text(text, encoding="utf-8")


def _page(text: str, names: set[str]) -> str:
    text = _PICTURE.sub(lambda match: f"({match[1]})" if match[1] else "", text)
    return _LINK.sub(lambda match: _link(match, names), text)


def _link(match: re.Match[str], names: set[str]) -> str:
    address = match[2].partition("#")[0]
    keeps = not address or address in names or "://" in address
    return match[0] if keeps else match[1]


if __name__ == "__main__":
    write_reference()
