"""The only way to change a vault: one writer at a time, one commit for all, nothing overwritten.

    with editing(vault) as edit:                  # waits for other writers, heals, records edits
        edit.commit([Change(...)], message="Add what was said about Lyon", run=run)

1. A lock (`.git/mlxbun/lock`) keeps other mlxbuns out; git's own `index.lock` keeps out the user's
   git, for as long as files and refs move.
2. What the user has changed is committed first, as the user's own.
3. A file that is not what its change was planned for is `VaultChanged`, before anything moves.
4. `core.memory.exchange` puts the files in place and moves the branch, all or nothing.
"""

from __future__ import annotations

import os
import re
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING

from core.errors import BadRequest, UsageProblem, VaultBusy
from core.memory.commit_messages import edit_message, with_trailers
from core.memory.fast_import import MLXBUN, FileChange, Person, login_person
from core.memory.git import Git
from core.memory.git_index import read_index
from core.memory.locking import acquire, disk_errors
from core.memory.placing import Move, Placing, changed, digest
from core.memory.redact.key import private_folder
from core.memory.worktree import (
    Content,
    Unreadable,
    checked_path,
    leads_through_link,
    read_content,
    scan,
)

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from core.memory.git import TreeEntry
    from core.memory.git_index import Index
    from core.memory.vault import HasRoot
    from core.memory.worktree import DirtyFile, LeftOut

_BRANCH = re.compile(r"mlxbun/[A-Za-z0-9][A-Za-z0-9_-]{0,99}")
_UNDER_WAY = {
    "MERGE_HEAD": "merge",
    "CHERRY_PICK_HEAD": "cherry-pick",
    "REVERT_HEAD": "revert",
    "rebase-merge": "rebase",
    "rebase-apply": "rebase",
}


@dataclass(frozen=True, kw_only=True)
class Change:
    """A planned change to a file of the vault."""

    path: str
    """Relative to the vault, with `/`."""
    before: str | None
    """SHA-256 of the bytes for which the change was planned, in hexadecimal; None: there must not
    be such a file."""
    after: str | None
    """The whole new text; None deletes the file."""


@contextmanager
def editing(vault: Path | HasRoot, wait: float = 10.0) -> Iterator[Edit]:
    """Hold the vault for writing; what the user has changed in it is committed first.

    What an earlier process left halfway, because it was killed, is repaired before that.

    Args:
        vault: the vault, or its folder.
        wait: seconds to wait for other writers.

    Raises:
        VaultBusy: another process writes, or the user's git is in the middle of something.
        UsageProblem: the vault is not the top level of a git repository.
        GitMissing: there is no usable git.
        MlxbunError: git or the disk fails.
    """
    git = Git(vault if isinstance(vault, Path) else vault.root)
    git.require_top_level()
    with disk_errors(git.root, "written"):
        folder = _own_folder(git.root)
    with _locked(folder / "lock", wait) as descriptor:
        git.kept_open = (descriptor,)
        edit = Edit(git, Placing(git, folder), wait)
        edit.record()
        yield edit
        edit.record_late()


class Edit:
    """A vault that is held for writing."""

    def __init__(self, git: Git, placing: Placing, wait: float) -> None:
        """Take the repository; its lock is held."""
        self.git = git
        """The repository."""
        self.recorded: tuple[str, ...] = ()
        """Paths of the user's edits that were committed, sorted."""
        self.left_out: tuple[LeftOut, ...] = ()
        """Files of the user that could not be committed."""
        self._wait = wait
        self._placing = placing

    def record(self) -> None:
        """Heal what was left halfway, then commit what the user has changed."""
        with disk_errors(self.git.root, "written"), self._placing.locked(self._wait):
            self._record()

    def record_late(self) -> None:
        """Commit what an editor wrote into files while they were replaced."""
        if self._placing.late():
            self.record()

    def commit(
        self,
        changes: Sequence[Change],
        message: str,
        *,
        run: str | None = None,
        sources: Sequence[str] = (),
        trailers: Sequence[tuple[str, str]] = (),
    ) -> str:
        """Make changes to files, all of them in one commit, or none.

        Args:
            changes: one for each path.
            message: subject, and after a blank line more if there is more to say.
            run: id of the run that made them, for the trailer `Mlxbun-Run`.
            sources: conversations behind them, for the trailers `Mlxbun-Source`.
            trailers: more names and values.

        Returns:
            Hash of the commit; of the one before where nothing changes.

        Raises:
            VaultChanged: a file is not what its change was planned for; nothing was changed.
            VaultBusy: the user's git is in the middle of something; nothing was changed.
            BadRequest: a path leads out of the vault.
            UsageProblem: a path that git ignores, or that leads through a symbolic link.
            MlxbunError: git or the disk fails; nothing was changed.
        """
        planned = _by_path(changes)
        text = with_trailers(message, run, sources, trailers)
        with disk_errors(self.git.root, "written"), self._placing.locked(self._wait):
            head, known = self._record()
            moves = self._moves(planned, known)
            if not moves and head is not None:
                return head
            files = [FileChange(path=move.path, data=move.after) for move in moves]
            return self._commit(head, files, moves, message=text, author=MLXBUN)

    def commit_on_branch(
        self,
        branch: str,
        changes: Sequence[Change],
        message: str,
        *,
        run: str | None = None,
        sources: Sequence[str] = (),
    ) -> str:
        """Commit changes on a branch of ours; files, index and the current branch stay.

        Args:
            branch: `mlxbun/WORD`; it is begun at the current commit if there is none of the name.
            changes: planned for the files as they are on that branch.
            message: as for `commit`.
            run: as for `commit`.
            sources: as for `commit`.

        Returns:
            Hash of the commit.

        Raises:
            BadRequest: the name or a path is wrong.
            VaultChanged: a file is not what its change was planned for.
        """
        _checked_branch(branch)
        with disk_errors(self.git.root, "written"):
            tip = self.git.branch_tip(branch)
            parent = tip or self.git.head()
            planned = _by_path(changes)
            stale = [
                path
                for path, change in planned.items()
                if change.before != digest(self.git.show(parent, path) if parent else None)
            ]
            if stale:
                raise changed(stale)
            commit = self.git.write_commit(
                [FileChange(path=path, data=_bytes(each)) for path, each in planned.items()],
                parent=parent,
                author=MLXBUN,
                message=with_trailers(message, run, sources, ()),
                when=_now(),
            )
            if not self.git.move_ref(f"refs/heads/{branch}", commit, tip, why="mlxbun: review"):
                raise _moved(self.git.root)
            return commit

    def delete_branch(self, branch: str) -> None:
        """Delete a branch of ours; a missing one is not an error."""
        _checked_branch(branch)
        tip = self.git.branch_tip(branch)
        if tip and not self.git.move_ref(f"refs/heads/{branch}", None, tip, why="mlxbun: reviewed"):
            raise _moved(self.git.root)

    @contextmanager
    def git_locked(self) -> Iterator[None]:
        """Keep the user's git out while the block runs; `commit` does this itself.

        Raises:
            VaultBusy: a git command is running.
        """
        with disk_errors(self.git.root, "written"), self._placing.locked(self._wait):
            yield

    def drop_replaced(self) -> None:
        """Delete what is kept of the files that were replaced last."""
        self.record_late()
        self._placing.forget_late()

    # -- steps ---------------------------------------------------------------------------------

    def _commit(
        self,
        head: str | None,
        files: Iterable[FileChange],
        moves: Sequence[Move],
        *,
        message: str,
        author: Person,
    ) -> str:
        commit = self.git.write_commit(
            files, parent=head, author=author, message=message, when=_now()
        )
        self._placing.place(head, commit, moves, why=f"mlxbun: {message.splitlines()[0]}")
        return commit

    def _moves(self, planned: Mapping[str, Change], files: Mapping[str, TreeEntry]) -> list[Move]:
        """Return what has to move on disk.

        Raises:
            VaultChanged: a file is not what its change was planned for.
        """
        root = self.git.root
        for path in planned:
            if leads_through_link(root, path):
                raise UsageProblem(f"{path} leads through a symbolic link in {root}.")
        found = {path: _content(root, path) for path in planned}
        now = {path: digest(content.data if content else None) for path, content in found.items()}
        stale = [path for path, change in planned.items() if change.before != now[path]]
        if stale:
            raise changed(stale)
        moves = []
        for path, change in planned.items():
            content, after = found[path], _bytes(change)
            if (content.data if content else None) == after:
                continue
            entry = files.get(path)
            if content and entry is None:
                raise UsageProblem(
                    f"{path} is not under version control in {root}, so mlxbun does not change it.",
                    hint="See .gitignore.",
                )
            if (entry.blob if entry else None) != (content.blob if content else None):
                raise changed([path])  # since it was recorded, and back to what it was before
            moves.append(Move(path=path, before=now[path], after=after))
        return moves

    # -- the user's edits ----------------------------------------------------------------------

    def _record(self) -> tuple[str | None, dict[str, TreeEntry]]:
        """Return the commit at which the vault is now, and its files."""
        index = self._usable_index()
        if self._placing.heal() | self._record_late():
            index = read_index(self.git)
        head = self.git.head()
        files = self.git.tree(head)
        if self._record_staged(index, head, files):
            head = self.git.head()
            files = self.git.tree(head)
        found = scan(self.git, files, absent=index.absent)
        self.left_out = found.left_out
        if not found.dirty:
            return head, files
        edits = self._edits(found.dirty, files)
        message = edit_message(found.dirty)
        head = self._commit(head, edits, (), message=message, author=login_person())
        self.recorded = tuple(sorted({*self.recorded, *(each.path for each in found.dirty)}))
        return head, self.git.tree(head)

    def _edits(
        self, dirty: Sequence[DirtyFile], files: Mapping[str, TreeEntry]
    ) -> Iterator[FileChange]:  # fmt: skip
        for each in dirty:
            entry = files.get(each.path)
            try:
                content = read_content(self.git.root, each.path)
            except Unreadable:
                continue  # since the scan; the next one names it
            if content is None:
                yield FileChange(path=each.path, data=None)
            else:
                is_file = entry and entry.mode != "120000" != content.mode
                mode = entry.mode if entry and is_file else content.mode
                yield FileChange(path=each.path, data=content.data, mode=mode)

    def _record_late(self) -> bool:
        """Commit what an editor wrote into a file that was just being replaced."""
        late = self._placing.late()
        if late:
            files = [FileChange(path=path, data=data) for path, data in sorted(late.items())]
            message = "Record edits that crossed with a change by mlxbun\n"
            head = self.git.head()
            self._commit(head, files, (), message=message, author=login_person())
            self.recorded = tuple(sorted({*self.recorded, *late}))
        else:
            self._placing.forget_late()
        return bool(late)

    def _record_staged(
        self, index: Index, head: str | None, files: Mapping[str, TreeEntry]
    ) -> bool:
        """Commit what the user has staged and then changed again on disk: it is nowhere else."""
        staged = []
        for path, entry in index.files.items():
            known = files.get(path)
            if path in index.absent or (known and known.blob == entry.blob):
                continue
            content = _content(self.git.root, path)
            if content is None or content.blob != entry.blob:
                (data,) = self.git.blobs([entry.blob])
                if data:  # empty: `git add --intent-to-add`
                    staged.append(FileChange(path=path, data=data, mode=entry.mode))
        if staged:
            message = "Record staged edits\n"
            self._commit(head, staged, (), message=message, author=login_person())
        return bool(staged)

    def _usable_index(self) -> Index:
        """Return the index of a repository in which nothing is under way.

        Raises:
            VaultBusy: the user's git is in the middle of something.
        """
        root = self.git.root
        for name, what in _UNDER_WAY.items():
            if (self.git.folder / name).exists():
                raise VaultBusy(
                    f"A {what} is under way in {root}.",
                    hint=f"Finish it: `git {what} --continue` or `git {what} --abort`.",
                )
        index = read_index(self.git)
        if index.unmerged:
            raise VaultBusy(
                f"The git index of {root} has unresolved conflicts.",
                hint="Resolve them with `git add`, then run the command again.",
            )
        if self.git.branch() is None:
            raise VaultBusy(
                f"No branch is checked out in {root}.", hint="Check one out: `git switch main`."
            )
        return index


def _own_folder(root: Path) -> Path:
    """Return `.git/mlxbun` of a vault, made if missing.

    Raises:
        UsageProblem: something else has the name.
        OSError: it cannot be made.
    """
    folder = private_folder(root)
    if folder.is_symlink() or (folder.exists() and not folder.is_dir()):
        raise UsageProblem(f"{folder} is not a folder.", hint="Delete it.")
    folder.mkdir(mode=0o700, exist_ok=True)
    return folder


@contextmanager
def _locked(file: Path, wait: float) -> Iterator[int]:
    """Hold a lock file, and yield its descriptor."""
    with disk_errors(file.parents[2], "written"):
        descriptor = os.open(file, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
    try:
        if not acquire(descriptor, wait=wait):
            raise VaultBusy(
                "Another mlxbun is writing to the memory vault.", hint="Try again when it is done."
            )
        yield descriptor
    finally:
        os.close(descriptor)


def _content(root: Path, path: str) -> Content | None:
    try:
        return read_content(root, path)
    except Unreadable as problem:
        raise UsageProblem(f"{path} cannot be changed: {problem}.") from problem


def _by_path(changes: Sequence[Change]) -> dict[str, Change]:
    planned = {checked_path(change.path): change for change in changes}
    if len(planned) != len(changes):
        raise UsageProblem("Two changes to the same file cannot go into one commit.")
    return planned


def _bytes(change: Change) -> bytes | None:
    if change.after is None:
        return None
    try:
        return change.after.encode("utf-8", "surrogateescape")
    except UnicodeEncodeError:
        raise UsageProblem(f"The new text of {change.path} is not valid Unicode.") from None


def _now() -> datetime:
    return datetime.now().astimezone()


def _checked_branch(branch: str) -> None:
    if not _BRANCH.fullmatch(branch):
        raise BadRequest(f"{branch!r} is not the name of a branch for reviews.", field="branch")


def _moved(root: Path) -> VaultBusy:
    return VaultBusy(
        f"Another git command moved the branch in {root}.", hint="Run the command again."
    )
