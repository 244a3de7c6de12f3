"""Which commit brought a sentence into an article, and by which words two sentences are the same.

A paragraph is one line, so the commit that last changed the line says little. Here the versions of
the article are read from the latest back: the oldest one of those without a gap that all have the
sentence is where it comes from. Links, footnotes, case and "(until DATE)" do not count.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

from core.memory.history import history
from core.memory.names import name_key
from core.memory.plain import unlinked
from core.memory.sentences import plain

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from core.memory.git import Git
    from core.memory.history import Commit, Version

MOST_BYTES = 256 * 2**20
"""Bytes of earlier versions that are read."""
_BATCH = 16
_UNTIL = re.compile(r" ?\(until [^()\n]{1,40}\)")
_EMPHASIS = re.compile(r"[*_`~]")


@dataclass(frozen=True, kw_only=True)
class Origin:
    """Where a sentence comes from."""

    commit: Commit | None
    """The commit that brought it; None: it is not committed yet."""
    certain: bool
    """Whether all earlier versions were read; False: it may be older."""


def sentence_key(text: str) -> str:
    """Return the key under which two spellings of a sentence are one."""
    bare = _UNTIL.sub("", unlinked(plain(text)))
    return name_key(_EMPHASIS.sub("", bare))


def origins(git: Git, path: str, sentences: Sequence[str]) -> tuple[Origin, ...]:
    """Return where sentences of a file come from, in the same order.

    Args:
        git: the vault's repository.
        path: the file, relative to the vault.
        sentences: as they stand in it; markup does not matter.
    """
    keys = [sentence_key(sentence) for sentence in sentences]
    found: dict[str, Commit] = {}
    wanted = set(keys)
    certain = True
    read = 0
    for version, data in _versions(git, history(git, path)):
        read += len(data)
        if read > MOST_BYTES:
            certain = False
            break
        text = sentence_key(data.decode("utf-8", "replace"))
        wanted = {key for key in wanted if key in text}
        if not wanted:
            break
        found |= dict.fromkeys(wanted, version.commit)
    return tuple(
        Origin(commit=found.get(key), certain=certain or key not in wanted) for key in keys
    )


def _versions(git: Git, versions: Sequence[Version]) -> Iterator[tuple[Version, bytes]]:
    for at in range(0, len(versions), _BATCH):
        batch = versions[at : at + _BATCH]
        specs = [f"{version.commit.hash}:{version.path}" for version in batch]
        for version, data in zip(batch, git.blobs(specs), strict=True):
            yield version, data or b""
