"""A vault that tests read: two articles in other scripts, links both ways, a document of ours."""

from __future__ import annotations

from pathlib import Path

ADA = """\
# Ada Lovelace
*Part of a series on [[Computing]].*

```info
type: mathematician
kind: person
aliases: Ada, Countess of Lovelace
born: 1815-12-10
home: [[Lyon]]
field: analysis; engines
```

Ada Lovelace is a friend of the user.[^1]
She lives in [[Lyon]].[^2]

A second paragraph.

## Work

She writes about engines.[^1]

### Notes

Deep.

## Work

More of it.

## See also

- [[Lyon]]

## References

[^1]: chatgpt:6f1c#m12 (2026-03-01) [Ada Lovelace · relation]: my friend Ada
[^2]: chatgpt:6f1c#m13 (2026-03-02) [Ada Lovelace · home city]: Ada moved to Lyon
"""
LYON = "# Lyon\n\nA city. [[Ada Lovelace]] lives there.\n"
TOKYO = "# 東京\n\n東京都に行った。\n"
ENGINES = "# Engines\n\nHow engines answer.\n"


def write_vault(root: Path) -> Path:
    """Write the files of a vault without a repository, and return its folder."""
    pages = {
        "articles/Ada Lovelace.md": ADA,
        "articles/Lyon.md": LYON,
        "articles/東京.md": TOKYO,
        "Reference/Engines.md": ENGINES,
    }
    for path, text in pages.items():
        file = root / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text, encoding="utf-8")
    return root
