"""Messages of commits in a vault. Pure."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from core.memory.history import RUN, SOURCE

if TYPE_CHECKING:
    from collections.abc import Sequence

    from core.memory.worktree import DirtyFile

_LISTED_PATHS = 20


def with_trailers(
    message: str,
    run: str | None,
    sources: Sequence[str],
    trailers: Sequence[tuple[str, str]],
) -> str:
    """Return a message with what machines read at its end; the message cannot imitate that."""
    text = re.sub(r"(?m)^(?=mlxbun-)", " ", message.replace("\0", ""), flags=re.IGNORECASE).strip()
    pairs = [(RUN, run)] if run else []
    pairs += [*((SOURCE, source) for source in sources), *trailers]
    lines = "".join(f"{name}: {' '.join(value.split())}\n" for name, value in pairs)
    return f"{text or 'Change the vault'}\n" + (f"\n{lines}" if lines else "")


def edit_message(dirty: Sequence[DirtyFile]) -> str:
    """Return the message of a commit that records the user's edits."""
    names = [" ".join(each.path.split()) for each in dirty]
    if len(names) == 1:
        return f"Record an edit of {names[0]}\n"
    listed = "".join(f"- {each.state}: {name}\n" for each, name in zip(dirty, names, strict=True))
    shown = "".join(listed.splitlines(keepends=True)[:_LISTED_PATHS])
    more = f"- and {len(names) - _LISTED_PATHS} more\n" if len(names) > _LISTED_PATHS else ""
    return f"Record edits of {len(names)} files\n\n{shown}{more}"
