"""Reverts a run, or mlxbun's last change to an article, always by a new commit.

What was edited later is kept where it does not overlap with what is reverted; otherwise nothing
changes, and the error names the files. The ledger stays: what was reverted does not come back with
the next run.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import TYPE_CHECKING

from core.errors import NotFound, VaultChanged
from core.memory.history import REVERTS, history, reverting, run_commits
from core.memory.ledger import LEDGER
from core.memory.merging import merge
from core.memory.placing import digest
from core.memory.vault import TALK
from core.memory.writer import Change, editing

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

    from core.memory.git import Git
    from core.memory.history import Commit
    from core.memory.vault import HasRoot
    from core.memory.writer import Edit


@dataclass(frozen=True, kw_only=True)
class Reverted:
    """The result of a revert."""

    undone: tuple[Commit, ...]
    """The commits that were reverted, the latest first."""
    commit: str | None
    """The new commit; the earlier one where `already` is true; None: a dry run, or there was
    nothing left to revert."""
    paths: tuple[str, ...]
    """Files that changed, or would change in a dry run, sorted."""
    kept: tuple[str, ...]
    """Those of them in which later edits were kept, sorted."""
    already: bool
    """Whether it was reverted before; nothing was changed then."""


def revert_run(vault: Path | HasRoot, run: str, *, dry_run: bool = False) -> Reverted:
    """Revert a run.

    Args:
        vault: the vault.
        run: the run's id.
        dry_run: change nothing. (Edits of the user are committed all the same.)

    Raises:
        NotFound: there is no such run.
        VaultChanged: later edits overlap; nothing was changed.
        VaultBusy: another process writes.
    """
    with editing(vault) as edit:
        commits = run_commits(edit.git, run)
        if not commits:
            raise NotFound(
                f"No run {run} is in the vault.", hint="List them with: mlxbun memory history"
            )
        return _reverted(edit, commits, None, what=f"run {run}", dry_run=dry_run)


def revert_article(vault: Path | HasRoot, path: str, *, dry_run: bool = False) -> Reverted:
    """Revert the last change of mlxbun to an article.

    In an article that only the user has written, it is the user's last change.

    Args:
        vault: the vault.
        path: the article, relative to the vault; it need not be there any more.
        dry_run: as for `revert_run`.

    Raises:
        NotFound: no commit has touched it.
        VaultChanged: later edits overlap; nothing was changed.
        VaultBusy: another process writes.
    """
    with editing(vault) as edit:
        versions = [each for each in history(edit.git, path) if not each.commit.reverts]
        if not versions:
            raise NotFound(f"No commit has changed {path}.")
        ours = [each for each in versions if each.commit.ours]
        version = (ours or versions)[0]
        what = f"the last change to {path}"
        return _reverted(edit, (version.commit,), version.path, what=what, dry_run=dry_run)


def _reverted(
    edit: Edit, commits: Sequence[Commit], path: str | None, *, what: str, dry_run: bool
) -> Reverted:
    git = edit.git
    before = [
        next((each for mark, each in _marks(git, commit) if mark in (None, path)), None)
        for commit in commits
    ]
    if all(before):
        done = next(each.hash for each in before if each)
        return Reverted(undone=tuple(commits), commit=done, paths=(), kept=(), already=True)
    plan = _Plan(git, git.head() or "")
    for commit in commits:
        plan.undo(commit, path)
    if plan.overlapping:
        names = ", ".join(sorted(plan.overlapping))
        raise VaultChanged(
            f"Later edits overlap with {what}: {names}.",
            paths=tuple(sorted(plan.overlapping)),
            hint="Nothing was changed; edit these files by hand.",
        )
    changes = plan.changes()
    paths = tuple(sorted(change.path for change in changes))
    new = None
    if changes and not dry_run:
        trailers = [(REVERTS, _mark(commit, path)) for commit in commits]
        new = edit.commit(changes, f"Revert {what}", trailers=trailers)
    kept = tuple(sorted(plan.kept & set(paths)))
    return Reverted(undone=tuple(commits), commit=new, paths=paths, kept=kept, already=not changes)


def _mark(commit: Commit, path: str | None) -> str:
    return commit.hash if path is None else f"{commit.hash} {path}"


def _marks(git: Git, commit: Commit) -> Iterator[tuple[str | None, Commit]]:
    """Yield what was reverted of a commit, a file or (None) all of it, and by which commit."""
    for each in reverting(git, commit.hash):
        for mark in each.reverts:
            hash_, _, path = mark.partition(" ")
            if hash_ == commit.hash:
                yield path or None, each


class _Plan:
    """The planned contents of files."""

    def __init__(self, git: Git, head: str) -> None:
        self._git = git
        self._head = head
        self._there = git.tree(head)
        self._planned: dict[str, bytes | None] = {}
        self.overlapping: set[str] = set()
        self.kept: set[str] = set()

    def undo(self, commit: Commit, only: str | None) -> None:
        """Revert a commit; later ones come first."""
        renamed = dict(_renames(self._git, commit.hash, self._head))
        done = {path for path, _ in _marks(self._git, commit)} | {LEDGER}
        paths = [path for path in _touched(self._git, commit) if path not in done]
        paths = [path for path in paths if only in (None, path)]
        bases = self._git.blobs(f"{commit.hash}:{path}" for path in paths)
        parent = commit.parents[0] if commit.parents else "0" * 40
        wanted = self._git.blobs(f"{parent}:{path}" for path in paths)
        for path, base, earlier in zip(paths, bases, wanted, strict=True):
            self._undo(path, renamed.get(path, path), base, earlier)

    def _undo(self, path: str, place: str, base: bytes | None, wanted: bytes | None) -> None:
        """Revert one file, which may have another name now."""
        place = path if path in self._there else place
        now = self._now(place)
        if now in (base, wanted):
            merged = wanted if now == base else now
        elif base is None or wanted is None or now is None:
            self._overlap(place)
            return
        else:
            result = merge(self._git, base=base, ours=now, theirs=wanted)
            if result is None:
                self._overlap(place)
                return
            merged = result
            self.kept.add(place)
        self._planned[place] = merged

    def _overlap(self, place: str) -> None:
        if not place.startswith(f"{TALK}/"):  # a record of what was refused; it may stay
            self.overlapping.add(place)

    def _now(self, path: str) -> bytes | None:
        if path in self._planned:
            return self._planned[path]
        return self._git.show(self._head, path)

    def changes(self) -> list[Change]:
        """Return what differs from the vault as it is."""
        found = []
        for path, data in sorted(self._planned.items()):
            before = self._git.show(self._head, path)
            if data != before:
                after = None if data is None else data.decode("utf-8", "surrogateescape")
                found.append(Change(path=path, before=digest(before), after=after))
        return found


def _touched(git: Git, commit: Commit) -> list[str]:
    trees = [commit.parents[0], commit.hash] if commit.parents else ["--root", commit.hash]
    printed = git.run(
        "diff-tree", "-r", "-z", "--no-renames", "--name-only", "--no-commit-id", *trees
    )  # fmt: skip
    return [os.fsdecode(path) for path in printed.split(b"\0") if path]


def _renames(git: Git, old: str, new: str) -> Iterator[tuple[str, str]]:
    """Yield the old and the new names of files that were renamed between two commits."""
    printed = git.run("diff-tree", "-r", "-z", "-M", "--diff-filter=R", "--name-status", old, new)
    parts = [os.fsdecode(part) for part in printed.split(b"\0")]
    yield from zip(parts[1::3], parts[2::3], strict=False)
