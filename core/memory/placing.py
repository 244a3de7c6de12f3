"""Takes a vault from one commit to the next: files, branch and index, all or nothing.

The order: stage the new files under `.git/mlxbun/work`, write a journal, put the files in place
(`core.memory.swap`), move the branch, replace the index, drop the journal. Moving the branch is the
point of no return: if the process is killed before it, `heal` restores the files; after it, only
the index has to be replaced. The old files are kept until the next change, in case an editor that
had one open was still writing.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import shutil
import time
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from core.errors import BadRequest, VaultBusy, VaultChanged
from core.memory.git import HASH
from core.memory.git_index import write_index
from core.memory.swap import aside_of, exchange, put_new, sync_folder
from core.memory.worktree import Unreadable, checked_path, leads_through_link, read_content
from core.paths import atomic_write, remove_temporary

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

    from core.memory.git import Git

_POLL_SECONDS = 0.05
_STALE_SECONDS = 0.5
_OURS = b"mlxbun holds this lock\n"


@dataclass(frozen=True, kw_only=True)
class Move:
    """A planned change to a file on disk."""

    path: str
    """Relative to the vault."""
    before: str | None
    """SHA-256 of what lies there; None: nothing."""
    after: bytes | None
    """What is to lie there; None: nothing."""


@dataclass(frozen=True, kw_only=True)
class _Moved:
    """A move as the journal records it."""

    path: str
    before: str | None
    after: str | None


@dataclass(frozen=True, kw_only=True)
class _Journal:
    """What was under way."""

    branch: str
    old: str | None
    new: str
    moves: tuple[_Moved, ...]


class Placing:
    """Moves a vault from commit to commit. Its user holds the lock of `core.memory.writer`."""

    def __init__(self, git: Git, folder: Path) -> None:
        """Work in the repository's private folder."""
        self._git = git
        self._work = folder / "work"
        self._journal = folder / "journal.json"
        self._replaced = folder / "replaced.json"

    # -- git's own lock ------------------------------------------------------------------------

    @contextmanager
    def locked(self, wait: float) -> Iterator[None]:
        """Keep the user's git out while the block runs, by git's own lock on the index.

        Raises:
            VaultBusy: a git command has held it all the time.
        """
        lock = self._git.folder / "index.lock"
        until = time.monotonic() + wait
        while not self._take(lock):
            if time.monotonic() >= until:
                raise VaultBusy(
                    f"Another git command is running in {self._git.root}.",
                    hint=f"If none is, delete {lock} and run the command again.",
                )
            time.sleep(_POLL_SECONDS)
        try:
            yield
        finally:
            lock.unlink(missing_ok=True)

    def _take(self, lock: Path) -> bool:
        with contextlib.suppress(FileNotFoundError, PermissionError):
            if lock.stat().st_size == len(_OURS) and lock.read_bytes() == _OURS:
                lock.unlink()  # of a process that was killed: one that runs holds the other lock
        self._work.mkdir(mode=0o700, exist_ok=True)
        ours = self._work / "index-lock"
        ours.write_bytes(_OURS)
        try:
            put_new(ours, lock)  # appears with its content, to distinguish it from git's
        except FileExistsError:
            return False
        return True

    # -- forward -------------------------------------------------------------------------------

    def place(self, old: str | None, new: str, moves: Sequence[Move], *, why: str) -> None:
        """Move files, branch and index from one commit to the next.

        Args:
            old: the commit at which the vault is; None: none yet.
            new: the commit at which it is to be.
            moves: the files that differ on disk.
            why: for the reflog.

        Raises:
            VaultChanged: an editor was faster; everything is as it was, and the editor's.
            VaultBusy: the branch has moved; everything is as it was.
            OSError: the disk fails; everything is as it was.
        """
        branch = self._git.branch()
        assert branch is not None  # the writer has looked
        self._empty_work()
        journal = self._prepared(branch, old, new, moves)
        try:
            for number, move in enumerate(moves):
                self._put(number, move)
            self._refuse_late(journal)
            for folder in {(self._git.root / move.path).parent for move in moves}:
                sync_folder(folder)
            if not self._git.move_ref(branch, new, old, why=why):
                raise VaultBusy(
                    f"Another git command moved the branch in {self._git.root}.",
                    hint="Run the command again.",
                )
        except BaseException:
            # Ctrl-C may come when the branch has moved already.
            if self._git.branch_tip(branch.removeprefix("refs/heads/")) == new:
                self._finish()
            else:
                self._take_back(journal, old)
            raise
        self._finish()

    def _prepared(
        self, branch: str, old: str | None, new: str, moves: Sequence[Move]
    ) -> _Journal:  # fmt: skip
        for number, move in enumerate(moves):
            if move.after is not None:
                self._stage(number, move.path, move.after)
        write_index(self._git, new, self._work / "index")
        journal = _Journal(
            branch=branch,
            old=old,
            new=new,
            moves=tuple(
                _Moved(path=move.path, before=move.before, after=digest(move.after))
                for move in moves
            ),
        )
        with atomic_write(self._journal) as file:
            file.write(_written(journal))
        sync_folder(self._journal.parent)
        return journal

    def _stage(self, number: int, path: str, data: bytes) -> None:
        staged = self._work / str(number)
        with staged.open("wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        with contextlib.suppress(FileNotFoundError):
            staged.chmod((self._git.root / path).stat().st_mode & 0o777)

    def _put(self, number: int, move: Move) -> None:
        ours, place = self._work / str(number), self._git.root / move.path
        try:
            if move.before is None:
                place.parent.mkdir(parents=True, exist_ok=True)
                put_new(ours, place)
            elif move.after is None:
                place.rename(ours)
            else:
                exchange(ours, place)
        except (FileNotFoundError, FileExistsError, NotADirectoryError, IsADirectoryError):
            raise changed([move.path]) from None

    def _refuse_late(self, journal: _Journal) -> None:
        late = [each.path for number, each in enumerate(journal.moves)
                if each.before and self._digest_of(number) != each.before]  # fmt: skip
        if late:
            raise changed(late)

    def _finish(self) -> None:
        index = self._work / "index"
        if index.exists():
            index.replace(self._git.folder / "index")
        self._journal.replace(self._replaced)

    # -- back ----------------------------------------------------------------------------------

    def heal(self) -> bool:
        """Repair what a killed process left behind; git's lock is held.

        Returns:
            Whether there was anything.
        """
        remove_temporary(self._journal.parent)
        journal = _read(self._journal)
        if journal is None:
            return False
        self._drop_ref_locks(journal)
        head = self._git.head()
        if head is not None and self._is_in(journal.new, head):
            write_index(self._git, head, self._work / "index")
            self._finish()
        else:
            self._take_back(journal, head)
        return True

    def _is_in(self, commit: str, head: str) -> bool:
        done = self._git.call("merge-base", "--is-ancestor", commit, head, accept=(0, 1, 128))
        return done.code == 0

    def _drop_ref_locks(self, journal: _Journal) -> None:
        """Delete the locks of a git that was killed together with its mlxbun."""
        for name in (journal.branch, "HEAD"):
            lock = self._git.folder / f"{name}.lock"
            if not lock.exists():
                continue
            seen = lock.stat()
            time.sleep(_STALE_SECONDS)
            with contextlib.suppress(FileNotFoundError):
                same = os.path.samestat(seen, lock.stat())
                if same and lock.read_bytes().strip() in (b"", journal.new.encode()):
                    lock.unlink()

    def _take_back(self, journal: _Journal, head: str | None) -> None:
        for number, move in enumerate(journal.moves):
            kept = self._git.show(head, move.path) if head else None
            if digest(kept) == move.before:  # else a commit of the user has taken it in
                self._undo(number, move, kept)
        self._journal.replace(self._replaced)

    def _undo(self, number: int, move: _Moved, kept: bytes | None) -> None:
        if leads_through_link(self._git.root, move.path):
            return
        place = self._git.root / move.path
        now = self._digest_at(move.path)
        ours = self._work / str(number)
        if move.after is not None and now == move.after:
            if move.before is None:
                self._remove(number, move)
                return
            self._old_bytes(number, move, kept)
            with contextlib.suppress(FileNotFoundError, FileExistsError):
                exchange(ours, place)
                if self._digest_of(number) != move.after:
                    exchange(ours, place)  # an editor wrote over ours at this moment
        elif now is None and move.before and (move.after is None or aside_of(ours).exists()):
            self._old_bytes(number, move, kept)
            with contextlib.suppress(FileExistsError):
                put_new(ours, place)

    def _remove(self, number: int, move: _Moved) -> None:
        """Remove a new file, unless an editor writes to it at this moment."""
        place = self._git.root / move.path
        # Not to its staged name: renaming one of two links of a file to the other does nothing.
        aside = aside_of(self._work / str(number))
        with contextlib.suppress(FileNotFoundError, FileExistsError):
            place.rename(aside)
            if digest(aside.read_bytes()) != move.after:
                put_new(aside, place)

    def _old_bytes(self, number: int, move: _Moved, kept: bytes | None) -> None:
        """See to it that the work folder has what lay in the place before."""
        ours = self._work / str(number)
        aside = aside_of(ours)
        if aside.exists():
            aside.replace(ours)
        if self._digest_of(number) in (None, move.after):
            self._stage(number, move.path, kept or b"")

    # -- what editors wrote too late -----------------------------------------------------------

    def late(self) -> dict[str, bytes]:
        """Return what was written into files after they had been replaced, by path."""
        journal = _read(self._replaced)
        found = {}
        for number, move in enumerate(journal.moves if journal else ()):
            for file in (self._work / str(number), aside_of(self._work / str(number))):
                with contextlib.suppress(FileNotFoundError):
                    data = file.read_bytes()
                    if data and digest(data) not in (move.before, move.after):
                        found[move.path] = data
        return found

    def forget_late(self) -> None:
        """Delete the files that were replaced; a purge relies on it."""
        if self._replaced.exists():
            self._empty_work()

    def _empty_work(self) -> None:
        self._replaced.unlink(missing_ok=True)
        shutil.rmtree(self._work, ignore_errors=True)
        self._work.mkdir(mode=0o700, exist_ok=True)

    def _digest_of(self, number: int) -> str | None:
        try:
            return digest((self._work / str(number)).read_bytes())
        except FileNotFoundError:
            return None

    def _digest_at(self, path: str) -> str | None:
        try:
            content = read_content(self._git.root, path)
        except Unreadable:
            return "unreadable"
        return digest(content.data) if content else None


def digest(data: bytes | None) -> str | None:
    """Return the SHA-256 of bytes, in hexadecimal; None of None."""
    return None if data is None else hashlib.sha256(data).hexdigest()


def changed(paths: Sequence[str]) -> VaultChanged:
    """Return the error for files that are not what a change was planned for."""
    first, *others = sorted(paths)
    also = f" and {len(others)} more" if others else ""
    return VaultChanged(
        f"{first}{also} changed while mlxbun was working on it.",
        paths=tuple(sorted(paths)),
        hint="Nothing was written; run the command again.",
    )


def _written(journal: _Journal) -> bytes:
    return json.dumps(
        {
            "branch": journal.branch,
            "old": journal.old,
            "new": journal.new,
            "moves": [[each.path, each.before, each.after] for each in journal.moves],
        }
    ).encode()


def _read(file: Path) -> _Journal | None:
    """Return a journal; None: there is none, or not one that mlxbun writes."""
    try:
        found: Any = json.loads(file.read_bytes())
        commits = [each for each in (found["old"], found["new"]) if each is not None]
        if not found["branch"].startswith("refs/heads/") or not all(map(HASH.fullmatch, commits)):
            return None
        moves = tuple(
            _Moved(path=checked_path(path), before=was, after=now)
            for path, was, now in found["moves"]
        )
        return _Journal(branch=found["branch"], old=found["old"], new=found["new"], moves=moves)
    except (OSError, ValueError, TypeError, KeyError, AttributeError, RecursionError, BadRequest):
        return None
