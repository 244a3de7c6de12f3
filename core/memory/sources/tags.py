"""Blocks that programs put into the messages of users: `<system-reminder>…</system-reminder>`.

Linear: a closing tag that is missing is searched once.
"""

from __future__ import annotations

import re
from functools import lru_cache
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable


def split_blocks(text: str, tags: Iterable[str]) -> tuple[str, str]:
    """Return a text without the blocks of some tags, and what stands in them.

    A tag that is opened and never closed is text.
    """
    own: list[str] = []
    blocks: list[str] = []
    unclosed: set[str] = set()
    at = done = 0
    while found := _opening(tuple(tags)).search(text, at):
        tag, at = found[1], found.end()
        end = -1 if tag in unclosed else text.find(f"</{tag}>", at)
        if end < 0:
            unclosed.add(tag)
            continue
        own.append(text[done : found.start()])
        blocks.append(text[at:end].strip())
        at = done = end + len(tag) + 3
    own.append(text[done:])
    return "\n".join(filter(str.strip, own)), "\n".join(filter(None, blocks))


@lru_cache(maxsize=16)
def _opening(tags: tuple[str, ...]) -> re.Pattern[str]:
    return re.compile(rf"<({'|'.join(map(re.escape, tags))})(?:\s[^<>]{{0,200}})?>")
