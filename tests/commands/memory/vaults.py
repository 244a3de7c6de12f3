"""A vault that tests read: two articles in other scripts, links both ways, a document of ours."""

from __future__ import annotations

import shutil
from datetime import UTC, datetime
from pathlib import Path

from core.paths import Paths
from core.sessions.conversation import said
from core.sessions.store import SessionStore

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


CHAT = (
    "I moved to Lyon in May. My sister Ana works at Bluebird.",
    "Lyon is a fine city!",
    "The project Heron uses SQLite for storage. Ana lives in Porto.",
)
_CRONTAB = """#!/bin/sh
case "$1" in
  -l) /bin/cat "$HOME/crontab" 2>/dev/null || { echo "no crontab for you" >&2; exit 1; } ;;
  -r) exec /bin/rm "$HOME/crontab" ;;
  *) exec /bin/cat > "$HOME/crontab" ;;
esac
"""


def add_chat(paths: Paths, *texts: str) -> None:
    """Keep a conversation as `mlxbun chat` does: questions and answers in turn."""
    store = SessionStore(paths.sessions_folder)
    writer = store.create({"cwd": "/"}, first=texts[0], now=datetime(2026, 7, 6, tzinfo=UTC))
    for number, text in enumerate(texts):
        writer.append(said("assistant" if number % 2 else "user", text))
    writer.close()


def programs(folder: Path) -> str:
    """Return a PATH with git and a crontab of its own in it, and no other service."""
    folder.mkdir(parents=True, exist_ok=True)
    git = shutil.which("git")
    assert git is not None
    (folder / "git").symlink_to(git)
    for name, text in (("crontab", _CRONTAB), ("launchctl", "#!/bin/sh\n")):
        (folder / name).write_text(text)
        (folder / name).chmod(0o755)
    return str(folder)
