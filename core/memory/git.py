"""git as the vault's library of record: plumbing only, and nothing that a repository brings runs.

Objects are read and written through a git directory of our own (the *view*): empty, private, with
the vault's objects behind it. So git never sees the vault's `.git/config`, its hooks, its
`info/attributes` or its refs: no filter, textconv, external diff, fsmonitor, alias, credential
helper or signing program can be configured there. Only three questions go to the repository
itself: which branch is checked out, where a branch points, and to move it; hooks are off for those
as well. Files are never checked out or added by git: bytes go in as they are (`fast-import`), and
the writer puts them on disk.

The environment is built from nothing: no inherited `GIT_*`, no system, global or user settings. No
shell, no terminal, no network; output and time are bounded.
"""

from __future__ import annotations

import os
import re
import secrets
import shutil
import tempfile
import threading
import weakref
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING

from core.errors import MlxbunError, StoreCorrupt, UsageProblem
from core.memory.fast_import import MLXBUN, fast_import
from core.memory.git_process import (
    LONGEST_OUTPUT,
    LONGEST_SECONDS,
    Outcome,
    clean_environ,
    run_git,
)

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from datetime import datetime

    from core.memory.fast_import import FileChange, Person


HASH = re.compile(r"[0-9a-f]{40}")
_OUTSIDE = re.compile(r"//|/\.\.?/|/\.git/", re.IGNORECASE)
_ABBREVIATED = re.compile(r"[0-9a-f]{4,40}")


@dataclass(frozen=True, kw_only=True)
class TreeEntry:
    """A file in a commit."""

    mode: str
    """`100644`, `100755`, `120000` (a symbolic link) or `160000` (a submodule)."""
    blob: str
    """Hash of its bytes."""


class Git:
    """The repository of one vault. Usable from several threads."""

    def __init__(self, root: Path) -> None:
        """Look at a vault's root; nothing is read or written yet."""
        self.root = root
        self.folder = root / ".git"
        self._view: Path | None = None
        self._making = threading.Lock()
        self.kept_open: tuple[int, ...] = ()
        """Descriptors that commands inherit: a lock stays held until the last of them has ended,
        even if we are killed before."""

    # -- the repository ------------------------------------------------------------------------

    def is_top_level(self) -> bool:
        """Return whether the vault is the top level of a repository of its own.

        `.git` has to be a folder: a link or a file that points elsewhere (a linked work tree, a
        submodule) would have us write into a repository that is not the vault's alone.
        """
        folder = self.folder
        if folder.is_symlink() or not folder.is_dir():
            return False
        return (folder / "HEAD").is_file() and not (folder / "commondir").exists()

    def require_top_level(self) -> None:
        """Do nothing where the vault is a repository's top level.

        Raises:
            UsageProblem: it is not.
        """
        if self.is_top_level():
            return
        if self.folder.is_symlink() or self.folder.exists():
            raise UsageProblem(
                f"{self.folder} is not a repository of the vault's own.",
                hint="A link, a linked work tree or a submodule cannot hold a vault; "
                "move the vault into a folder of its own.",
            )
        raise UsageProblem(
            f"{self.root} is not a git repository.", hint="Create it: `mlxbun memory init`."
        )

    def init(self) -> bool:
        """Create the vault's repository; also inside another one.

        Returns:
            False if it was there.

        Raises:
            GitMissing: there is no usable git.
            UsageProblem: `.git` is a file or a link.
        """
        if self.is_top_level():
            return False
        if self.folder.is_symlink() or self.folder.is_file():
            self.require_top_level()
        environ = self._environ()
        options = ("--quiet", "--template=", "--initial-branch=main", "--object-format=sha1")
        args = ("init", *options, "--", ".")
        self._checked(args, self._call(args, environ))
        return True

    def head(self) -> str | None:
        """Return the hash of the current commit; None: there is none yet."""
        return self._ref("HEAD")

    def branch(self) -> str | None:
        """Return the branch that is checked out (`refs/heads/main`); None: none (detached)."""
        found = self.repository("symbolic-ref", "--quiet", "HEAD", accept=(0, 1))
        return found.out.decode("utf-8", "surrogateescape").strip() or None

    def branch_tip(self, branch: str) -> str | None:
        """Return the commit of a branch, by its short name; None: there is no such branch."""
        return self._ref(f"refs/heads/{branch}")

    def _ref(self, name: str) -> str | None:
        found = self.repository(
            "rev-parse", "--verify", "--quiet", "--end-of-options", f"{name}^{{commit}}",
            accept=(0, 1),
        )  # fmt: skip
        commit = found.out.decode("ascii", "replace").strip()
        if commit and not HASH.fullmatch(commit):
            raise UsageProblem(
                f"{self.root} uses a hash other than SHA-1, which mlxbun cannot read.",
                hint="Create the repository again with the default object format.",
            )
        return commit or None

    def move_ref(self, name: str, new: str | None, old: str | None, *, why: str) -> bool:
        """Point a ref at another commit, if it still is where it is believed to be.

        Args:
            name: the full name: `refs/heads/main`.
            new: the commit; None deletes the ref.
            old: where it has to point; None: it must not exist.
            why: for the reflog.

        Returns:
            False if it points elsewhere by now, or another git holds its lock.

        Raises:
            UsageProblem: the reflog leads through a symbolic link.
        """
        self._refuse_linked_logs(name)
        was = old or "0" * 40
        what = f"update {name}\0{new}\0{was}\0" if new else f"delete {name}\0{was}\0"
        done = self.repository(
            "update-ref", "--create-reflog", "-m", " ".join(why.split()), "--stdin", "-z",
            data=os.fsencode(what), accept=(0, 1, 128),
        )  # fmt: skip
        if done.code and ("No space left" in done.error or "ermission denied" in done.error):
            raise self._failure("update-ref", done)
        return done.code == 0

    def _refuse_linked_logs(self, name: str) -> None:
        """Refuse reflogs that are links: git would append to the file that they lead to.

        Raises:
            UsageProblem: one is.
        """
        for log in ("HEAD", name):
            parts = PurePosixPath("logs", log).parts
            for count in range(1, len(parts) + 1):
                place = self.folder.joinpath(*parts[:count])
                if place.is_symlink():
                    raise UsageProblem(f"{place} is a symbolic link.", hint="Delete it.")

    # -- objects -------------------------------------------------------------------------------

    def resolve(self, rev: str) -> str | None:
        """Return the whole hash of a commit; None: no commit's hash begins so, or several do.

        Branches, tags and expressions such as `HEAD~1` are not hashes, and neither blob nor tree
        nor tag objects are commits.
        """
        if not _ABBREVIATED.fullmatch(rev):
            return None
        args = ("rev-parse", "--verify", "--quiet", f"{rev}^{{commit}}")
        found = self.call(*args, accept=(0, 1, 128)).out.decode("ascii", "replace").strip()
        return found if found.startswith(rev) and HASH.fullmatch(found) else None

    def commit_of(self, rev: str) -> str | None:
        """Return the commit that a whole hash, `HEAD` or the name of a branch stands for."""
        if HASH.fullmatch(rev):
            return rev
        return self.head() if rev == "HEAD" else self.branch_tip(rev)

    def show(self, rev: str, path: str, *, limit: int = LONGEST_OUTPUT) -> bytes | None:
        """Return the bytes of a file in a commit; None: it is not there.

        Args:
            rev: a whole hash, `HEAD` or the name of a branch.
            path: relative to the vault.
            limit: bytes at most.

        Raises:
            MlxbunError: the file is larger.
        """
        commit = self.commit_of(rev)
        if commit is None:
            return None
        done = self.call("cat-file", "blob", f"{commit}:{path}", accept=(0, 128), limit=limit)
        return None if done.code else done.out

    def blobs(self, specs: Iterable[str]) -> Iterator[bytes | None]:
        """Yield the bytes of objects, in order; None for those that are not there.

        Args:
            specs: hashes of blobs, or `COMMIT:PATH`.
        """
        wanted = list(specs)
        if any("\n" in spec for spec in wanted):
            for spec in wanted:
                done = self.call("cat-file", "blob", spec, accept=(0, 128))
                yield None if done.code else done.out
            return
        printed = self.run("cat-file", "--batch", input=os.fsencode("\n".join([*wanted, ""])))
        at = 0
        for _ in wanted:
            end = printed.index(b"\n", at)
            words = printed[at:end].rsplit(b" ", 2)
            at = end + 1
            if len(words) != 3 or not words[2].isdigit():
                yield None
                continue
            size = int(words[2])
            yield printed[at : at + size] if words[1] == b"blob" else None
            at += size + 1

    def tree(self, commit: str | None) -> dict[str, TreeEntry]:
        """Return the files of a commit, by path; None has none.

        Raises:
            StoreCorrupt: a path leads out of the vault, or into git's own files.
        """
        if commit is None:
            return {}
        listed = self.run("ls-tree", "-r", "-z", "--full-tree", commit)
        entries = {}
        for line in filter(None, listed.split(b"\0")):
            about, _, path = line.partition(b"\t")
            mode, _, blob = about.decode("ascii").split(" ")
            entries[os.fsdecode(path)] = TreeEntry(mode=mode, blob=blob)
        self.refuse_outside(entries)
        return entries

    def refuse_outside(self, paths: Iterable[str]) -> None:
        """Do nothing where all paths of a commit or an index name files of the vault.

        git makes no others, but reads them.

        Raises:
            StoreCorrupt: one leads out of the vault, or into git's own files.
        """
        wrong = next((path for path in paths if _OUTSIDE.search(f"/{path}/")), None)
        if wrong is not None:
            raise StoreCorrupt(
                f"The repository of {self.root} has a file with the path {wrong[:100]!r}.",
                hint="Such a path leads out of the vault. Check the repository: `git fsck`.",
            )

    def write_commit(
        self,
        changes: Iterable[FileChange],
        *,
        parent: str | None,
        author: Person,
        message: str,
        when: datetime,
    ) -> str:
        """Write a commit and its files into the object store; no ref and no file moves.

        Args:
            changes: what differs from `parent`; read once, while git takes it in.
            parent: the commit before; None: the first of all.
            author: who did it. The committer is always mlxbun.
            message: subject, blank line, text.
            when: with a time zone.

        Returns:
            Its hash.
        """
        ref = f"refs/mlxbun/{secrets.token_hex(8)}"  # in the view only
        stream = fast_import(
            changes, ref=ref, parent=parent, author=author, message=message, when=when
        )
        args = ("fast-import", "--quiet", "--force", "--done", "--date-format=raw")
        commit = self.run(*args, input=stream).decode("ascii", "replace").strip()
        (self._view_folder() / ref).unlink(missing_ok=True)
        if not HASH.fullmatch(commit):
            raise StoreCorrupt(f"git could not write a commit for {self.root}.")
        return commit

    # -- commands ------------------------------------------------------------------------------

    def run(
        self,
        *args: str,
        input: bytes | Iterable[bytes] | None = None,  # noqa: A002
        limit: int = LONGEST_OUTPUT,
        timeout: float = LONGEST_SECONDS,
        index: Path | None = None,
    ) -> bytes:
        """Run a git command on the vault's objects and return what it prints.

        It sees no refs: commits are named by their hashes.

        Raises:
            GitMissing: there is no usable git.
            StoreCorrupt: git failed.
            MlxbunError: it printed or took too much.
        """
        return self.call(*args, data=input, limit=limit, timeout=timeout, index=index).out

    def call(
        self,
        *args: str,
        data: bytes | Iterable[bytes] | None = None,
        limit: int = LONGEST_OUTPUT,
        timeout: float = LONGEST_SECONDS,
        index: Path | None = None,
        accept: tuple[int, ...] = (0,),
        cut: bool = False,
    ) -> Outcome:
        """Run a git command on the vault's objects.

        Args:
            args: the command and its arguments.
            data: what it reads.
            limit: bytes of output at most.
            timeout: seconds at most.
            index: an index file to use.
            accept: exit statuses that are answers.
            cut: whether output over the limit is cut instead of an error.
        """
        environ = self._environ()
        environ |= {
            "GIT_DIR": str(self._view_folder()),
            "GIT_WORK_TREE": str(self.root),
            "GIT_OBJECT_DIRECTORY": str(self.folder / "objects"),
            "GIT_SHALLOW_FILE": str(self.folder / "shallow"),
        }
        if index is not None:
            environ["GIT_INDEX_FILE"] = str(index)
        done = self._call(args, environ, data=data, limit=limit, timeout=timeout)
        return self._checked(args, done, accept=accept, cut=cut)

    def repository(
        self, *args: str, data: bytes | None = None, accept: tuple[int, ...] = (0,)
    ) -> Outcome:
        """Run a command that reads or moves refs, in the repository itself."""
        self.require_top_level()
        environ = self._environ()
        environ |= {"GIT_DIR": str(self.folder), "GIT_WORK_TREE": str(self.root)}
        return self._checked(args, self._call(args, environ, data=data), accept=accept)

    def _checked(
        self, args: tuple[str, ...], done: Outcome, *, accept: tuple[int, ...] = (0,),
        cut: bool = False,
    ) -> Outcome:  # fmt: skip
        if done.cut and not cut:
            raise MlxbunError(f"git {args[0]} printed more than mlxbun reads, in {self.root}.")
        if not done.cut and done.code not in accept:
            raise self._failure(args[0], done)
        return done

    def _failure(self, command: str, done: Outcome) -> MlxbunError:
        reason = done.error or f"exit status {done.code}"
        if "No space left" in reason or "disk full" in reason.lower():
            return MlxbunError(
                f"git could not write to {self.root}: {reason}.", hint="Free some disk space."
            )
        return StoreCorrupt(
            f"git {command} failed in {self.root}: {reason}.",
            hint="Check the repository: `git fsck`.",
        )

    def _call(
        self,
        args: tuple[str, ...],
        environ: dict[str, str],
        *,
        data: bytes | Iterable[bytes] | None = None,
        limit: int = LONGEST_OUTPUT,
        timeout: float = LONGEST_SECONDS,
    ) -> Outcome:
        return run_git(
            args, environ, root=self.root, data=data, limit=limit, timeout=timeout,
            keep=self.kept_open,
        )  # fmt: skip

    def _environ(self) -> dict[str, str]:
        return clean_environ(not_within=self.root) | {
            "GIT_COMMITTER_NAME": MLXBUN.name,
            "GIT_COMMITTER_EMAIL": MLXBUN.email,
        }

    def _view_folder(self) -> Path:
        """Return our own git directory, made at its first use."""
        with self._making:
            # Temporary folders are tidied away under servers that run for weeks.
            if self._view is None or not (self._view / "refs").is_dir():
                self._view = Path(tempfile.mkdtemp(prefix="mlxbun-git-"))
                weakref.finalize(self, shutil.rmtree, self._view, ignore_errors=True)
                (self._view / "refs").mkdir()
                (self._view / "objects").mkdir()
                (self._view / "HEAD").write_text("ref: refs/heads/none\n")
            return self._view
