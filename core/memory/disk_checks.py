"""What `memory doctor` checks of a vault's files without reading what they say."""

from __future__ import annotations

import os
import re
import stat
import unicodedata
from contextlib import suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from core.errors import BadRequest, MlxbunError, NotFound, StoreCorrupt
from core.memory.finding import Finding
from core.memory.git_index import read_index
from core.memory.names import SUFFIX, file_name
from core.memory.vault import ARTICLES
from core.memory.worktree import scan

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from core.memory.finding import Kind, Severity
    from core.memory.git import Git
    from core.memory.vault import Vault

MOST_ENTRIES = 500_000
_DEEPEST = 64
_LARGEST_ATTRIBUTES = 1024 * 1024
# `diff` alone, `-diff` and `diff=false` name no driver.
_DRIVER = re.compile(rb"(?:^|\s)(?:filter|diff|merge)=(\S+)")
_UNCOMMITTED = {
    "new": "The file is not committed.",
    "modified": "The file has changes that are not committed.",
    "deleted": "The file was deleted, which is not committed.",
}
_BUILT_IN = frozenset((b"text", b"union", b"binary", b"astextplain", b"markdown"))


@dataclass
class Files:
    """What lies in a vault."""

    paths: set[str] = field(default_factory=set)
    """Regular files, relative to the vault; those of `.git` are left out."""
    names: set[str] = field(default_factory=set)
    """Their names, case folded, in NFC."""
    findings: list[Finding] = field(default_factory=list)
    """What is wrong with them."""

    def note(self, kind: Kind, severity: Severity, path: str, message: str) -> None:
        """Add a finding."""
        shown = path.encode(errors="replace").decode()
        finding = Finding(kind=kind, severity=severity, path=shown, message=message)
        self.findings.append(finding)


def look_over(vault: Vault) -> Files:
    """Return the files of a vault, and what is wrong with their kind and names."""
    files = Files()
    waiting = [""]
    seen = 0
    while waiting:
        folder = waiting.pop()
        try:
            found = sorted(os.scandir(vault.root / folder), key=lambda entry: entry.name)
        except OSError as problem:
            reason = problem.strerror or "cannot be read"
            files.note("unreadable", "error", folder, f"The folder cannot be read: {reason}.")
            continue
        seen += len(found)
        if seen > MOST_ENTRIES:
            files.note("too-many", "error", "", f"The vault has more than {MOST_ENTRIES} files.")
            break
        for entry in found:
            path = f"{folder}/{entry.name}" if folder else entry.name
            if path != ".git" and _take(vault.root, path, entry, files):
                waiting.append(path)
    return files


def check_attributes(vault: Vault, files: Files) -> Iterator[Finding]:
    """Find attributes that have git run programs of the user's settings for files of the vault."""
    paths = sorted(path for path in files.paths if path.rpartition("/")[2] == ".gitattributes")
    for path in [*paths, ".git/info/attributes"]:
        with suppress(NotFound, StoreCorrupt):
            data = vault.data(path, limit=_LARGEST_ATTRIBUTES)
            drivers = {match[1] for match in _DRIVER.finditer(data)} - _BUILT_IN
            if drivers:
                names = b", ".join(sorted(drivers)[:5]).decode(errors="replace")
                message = f"git may run programs for files here ({names}); mlxbun never does."
                yield Finding(kind="git-attributes", severity="warning", path=path, message=message)


def check_repository(git: Git, *, is_git: bool) -> Iterator[Finding]:
    """Find what is not committed, and what keeps mlxbun from committing."""

    def finding(kind: Kind, severity: Severity, path: str, message: str) -> Finding:
        shown = path.encode(errors="replace").decode()
        return Finding(kind=kind, severity=severity, path=shown, message=message)

    if not is_git:
        yield finding("git", "error", "", "The vault is not a git repository: mlxbun memory init.")
        return
    try:
        git.require_top_level()
        index = read_index(git)
        found = scan(git, git.tree(git.head()), absent=index.absent)
    except MlxbunError as problem:
        yield finding("git", "error", "", problem.message)
        return
    if index.unmerged:
        yield finding("conflict", "error", "", "The git index has unresolved conflicts.")
    for each in found.dirty:
        yield finding("uncommitted", "warning", each.path, _UNCOMMITTED[each.state])
    for left in found.left_out:
        yield finding("uncommitted", "error", left.path, f"It cannot be committed: {left.reason}.")


def _take(root: Path, path: str, entry: os.DirEntry[str], files: Files) -> bool:
    """Take a file or folder; return whether to look into it."""
    try:
        mode = entry.stat(follow_symlinks=False).st_mode
    except OSError:
        return False  # gone since
    if stat.S_ISLNK(mode):
        _link(root, path, files)
    elif entry.name == ".git":
        message = "git records no files of the folder that this repository is in."
        files.note("nested-git", "error", path, message)
    elif stat.S_ISDIR(mode):
        return _folder(path, entry, files)
    elif not stat.S_ISREG(mode):
        files.note("special-file", "error", path, "It is not a regular file; it is never read.")
    else:
        files.paths.add(path)
        files.names.add(unicodedata.normalize("NFC", entry.name).casefold())
        _check_name(path, entry.name, files)
    return False


def _folder(path: str, entry: os.DirEntry[str], files: Files) -> bool:
    if entry.name in (".obsidian", ".trash", ".mlxbun") or path.count("/") > _DEEPEST:
        return False
    if path.startswith(f"{ARTICLES}/"):
        message = "Articles in folders inside of articles/ are not read."
        files.note("subfolder", "warning", path, message)
    return True


def _link(root: Path, path: str, files: Files) -> None:
    target = os.path.realpath(root / path)
    if os.path.commonpath([target, root]) == str(root):
        files.note("special-file", "warning", path, "It is a symbolic link; it is not followed.")
    else:
        message = "It is a symbolic link that leads out of the vault; it is not followed."
        files.note("outside-link", "error", path, message)


def _check_name(path: str, name: str, files: Files) -> None:
    """Check the name of an article's file: other systems have to be able to check it out."""
    if not (path.startswith(f"{ARTICLES}/") and name.endswith(SUFFIX)):
        return
    try:
        name.encode()
        portable = file_name(name.removesuffix(SUFFIX))
    except (UnicodeEncodeError, BadRequest):
        files.note("file-name", "error", path, "The name of the file is not valid text.")
        return
    if portable != unicodedata.normalize("NFC", name.removesuffix(SUFFIX)):
        message = f"Not every system or link can use the name of the file; rename it to {portable}."
        files.note("file-name", "warning", path, message)
