"""A commit as `git fast-import` reads it: who made it, and what it does to files."""

from __future__ import annotations

import os
import pwd
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from datetime import datetime


@dataclass(frozen=True, kw_only=True)
class Person:
    """Who made a commit."""

    name: str
    """Any name; what git cannot hold is left out when it is written."""
    email: str
    """An address, or something that looks like one."""

    def line(self) -> bytes:
        """Return the form that git writes: `Name <address>`."""
        name, email = (" ".join(re.sub(r"[<>\x00-\x1f\x7f]", " ", each).split())
                       for each in (self.name, self.email))  # fmt: skip
        return f"{name or 'unknown'} <{email}>".encode("utf-8", "replace")


MLXBUN = Person(name="mlxbun", email="memory@mlxbun.invalid")
"""Author of what mlxbun writes."""


def login_person() -> Person:
    """Return the user, as the system knows the one who is logged in."""
    try:
        entry = pwd.getpwuid(os.getuid())
        login, full = entry.pw_name, entry.pw_gecos.split(",")[0].strip()
    except KeyError:  # a container that knows no users
        login, full = f"user{os.getuid()}", ""
    return Person(name=full or login, email=f"{login}@localhost")


@dataclass(frozen=True, kw_only=True)
class FileChange:
    """What a commit does to a file."""

    path: str
    """Relative to the vault."""
    data: bytes | None
    """The new bytes; None: the file is deleted."""
    mode: str = "100644"
    """As in `TreeEntry`."""


def fast_import(
    changes: Iterable[FileChange],
    *,
    ref: str,
    parent: str | None,
    author: Person,
    message: str,
    when: datetime,
) -> Iterator[bytes]:
    """Yield what `git fast-import` reads to make one commit."""
    text = message.encode("utf-8", "replace")
    date = f"{int(when.timestamp())} {when:%z}".encode()
    yield b"commit %s\nmark :1\n" % ref.encode()
    yield b"author %s %s\ncommitter %s %s\n" % (author.line(), date, MLXBUN.line(), date)
    yield b"data %d\n%s\n" % (len(text), text)
    if parent is not None:
        yield b"from %s\n" % parent.encode()
    for change in changes:
        path = quoted_path(change.path)
        if change.data is None:
            yield b"D %s\n" % path
        else:
            yield b"M %s inline %s\ndata %d\n" % (change.mode.encode(), path, len(change.data))
            yield change.data
            yield b"\n"
    yield b"\nget-mark :1\ndone\n"


def quoted_path(path: str) -> bytes:
    """Return a path in the quotes of `git fast-import`."""
    raw = os.fsencode(path)
    for plain, escaped in ((b"\\", b"\\\\"), (b'"', b'\\"'), (b"\n", b"\\n")):
        raw = raw.replace(plain, escaped)
    return b'"%s"' % raw
