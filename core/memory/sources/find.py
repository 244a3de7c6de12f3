"""Where sources lie: the files of every kind, in the order in which they are read.

A file that continues or copies another one comes after it. Links are not followed.
"""

from __future__ import annotations

import os
import stat
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from core.errors import NotFound
from core.memory.sources.claude_code import read_claude_code
from core.memory.sources.codex import read_codex
from core.memory.sources.exports import is_export_name, read_export
from core.memory.sources.notes import read_note
from core.memory.sources.sessions import read_session

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from core.memory.sources.raw import RawConversation, ReadLog
    from core.paths import Paths

_MOST_FILES = 200_000
_MOST_DEPTH = 32
_NOTES = (".md", ".markdown")


@dataclass(frozen=True, kw_only=True)
class SourceOptions:
    """Which sources are read."""

    sessions: Path | None = None
    """Folder of mlxbun's own chats; it need not exist."""
    exports: tuple[Path, ...] = ()
    """Exports of ChatGPT and Claude: ZIPs, `conversations.json`, or folders that hold either."""
    claude_code: Path | None = None
    """Folder of Claude Code's projects; if it is missing, that is counted."""
    codex: Path | None = None
    """Folder of Codex's sessions; if it is missing, that is counted."""
    notes: tuple[Path, ...] = ()
    """Folders of Markdown notes."""


@dataclass(frozen=True, kw_only=True)
class SourceFile:
    """A file that is to be read."""

    path: Path
    """Where it lies."""
    read: Callable[[ReadLog], Iterator[RawConversation]]
    """Its reader; raises OSError."""


def usual_places(
    paths: Paths, environ: Mapping[str, str], *, claude_code: bool, codex: bool
) -> SourceOptions:
    """Return mlxbun's own chats, and the logs of other programs where they usually lie.

    Source: the documentation of both programs (`CLAUDE_CONFIG_DIR`, `CODEX_HOME`).

    Args:
        paths: our folders.
        environ: the environment.
        claude_code: whether Claude Code's logs are wanted.
        codex: whether Codex's are.
    """
    home = Path(environ.get("HOME") or Path.home())
    claude_home = Path(environ.get("CLAUDE_CONFIG_DIR") or home / ".claude")
    codex_home = Path(environ.get("CODEX_HOME") or home / ".codex")
    return SourceOptions(
        sessions=paths.sessions_folder,
        claude_code=claude_home / "projects" if claude_code else None,
        codex=codex_home / "sessions" if codex else None,
    )


def source_files(options: SourceOptions, log: ReadLog, *, vault: Path) -> Iterator[SourceFile]:
    """Yield the files of all sources.

    Args:
        options: which.
        log: counts folders that cannot be read, and what is left out of them.
        vault: the vault's root, which is not a source, wherever notes lie.

    Raises:
        NotFound: an export or a folder of notes that was named is not there.
    """
    if options.sessions is not None:
        for path in _files(options.sessions, log, suffixes=(".jsonl",), depth=0):
            yield SourceFile(path=path, read=partial(read_session, path))
    for export in options.exports:
        for path in _exports(export, log):
            yield SourceFile(path=path, read=partial(read_export, path))
    if options.claude_code is not None:
        found = _logs("Claude Code", options.claude_code, log, depth=1)
        logs = [path for path in found if not path.name.startswith("agent-")]
        for path in sorted(logs, key=_written):
            yield SourceFile(path=path, read=partial(read_claude_code, path))
    if options.codex is not None:
        found = _logs("Codex", options.codex, log, depth=4)
        rollouts = [path for path in found if path.name.startswith("rollout-")]
        for path in sorted(rollouts, key=lambda path: path.name):
            yield SourceFile(path=path, read=partial(read_codex, path))
    for folder in options.notes:
        yield from _notes(folder, log, vault=vault)


def _logs(program: str, folder: Path, log: ReadLog, *, depth: int) -> list[Path]:
    """Return the logs of a program; a missing folder is counted."""
    if not folder.is_dir():
        log.skip(f"the logs of {program}: there is no folder {folder}")
    return _files(folder, log, suffixes=(".jsonl",), depth=depth)


def _exports(given: Path, log: ReadLog) -> list[Path]:
    """Return the files of an export.

    Raises:
        NotFound: there is no such file or folder, or no export in the folder.
    """
    if given.is_dir():
        found = _files(given, log, suffixes=(".json", ".zip"), depth=0)
        exports = [
            path for path in found if path.suffix.lower() == ".zip" or is_export_name(path.name)
        ]
        if not exports:
            raise NotFound(
                f"There is no export in {given}.",
                hint="An export is a ZIP or a conversations.json; for Markdown, use --notes.",
            )
        return exports
    if not given.exists():
        raise NotFound(f"There is no export {given}.", hint="Check the path.")
    return [given]


def _notes(folder: Path, log: ReadLog, *, vault: Path) -> Iterator[SourceFile]:
    if folder.is_file():
        yield SourceFile(path=folder, read=partial(read_note, folder, base=folder.parent))
        return
    if not folder.is_dir():
        raise NotFound(f"There is no folder of notes {folder}.", hint="Check the path.")
    for path in _files(folder, log, suffixes=_NOTES, depth=_MOST_DEPTH, without=vault):
        yield SourceFile(path=path, read=partial(read_note, path, base=folder))


def _files(
    folder: Path,
    log: ReadLog,
    *,
    suffixes: tuple[str, ...],
    depth: int,
    without: Path | None = None,
) -> list[Path]:
    """Return the regular files in a folder, sorted; hidden ones and links are left out."""
    found: list[Path] = []
    left_out = None if without is None else without.resolve()
    folders = [(folder, depth)]
    while folders:
        at, deeper = folders.pop()
        if left_out is not None and at.resolve() == left_out:
            continue
        for entry in _entries(at, log):
            if entry.name.startswith("."):
                continue
            if entry.is_dir(follow_symlinks=False):
                if deeper > 0:
                    folders.append((Path(entry.path), deeper - 1))
            elif entry.is_file(follow_symlinks=False) and entry.name.lower().endswith(suffixes):
                found.append(Path(entry.path))
        if len(found) > _MOST_FILES:
            log.skip(f"the rest of a folder with more than {_MOST_FILES} files")
            break
    return sorted(found)


def _entries(folder: Path, log: ReadLog) -> list[os.DirEntry[str]]:
    log.check()
    try:
        with os.scandir(folder) as entries:
            return list(entries)
    except FileNotFoundError:
        return []
    except OSError as problem:
        log.skip(f"a folder that cannot be read: {problem.strerror}")
        return []


def _written(path: Path) -> tuple[int, str]:
    """Return when a file was last written to, and its name."""
    try:
        status = path.stat()
    except OSError:
        return 0, path.name
    return (status.st_mtime_ns if stat.S_ISREG(status.st_mode) else 0), path.name
