"""Forgetting in history: every commit is written anew without what is forgotten.

The vault is cleaned first (`core.memory.forget`), so files and index stay as they are; only commits
and what they hold change. Authors, dates, order and messages stay, the trailers of runs too.
Signatures cannot stay. Afterwards nothing that the branch does not reach is left in the repository:
no reflog, no old objects. All of it goes through a git directory of our own (`core.memory.git`), so
nothing that is configured in the repository runs.
"""

from __future__ import annotations

import os
import re
import shutil
import tempfile
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from core.errors import MlxbunError, StoreCorrupt, UsageProblem, VaultBusy
from core.memory.cleaning import FORGOTTEN, Needle, clean_article, clean_talk, unlink
from core.memory.fast_import import quoted_path
from core.memory.forget import forgets_line, is_searched
from core.memory.git import HASH
from core.memory.git_process import clean_environ, run_git
from core.memory.history import history
from core.memory.ledger import LEDGER
from core.memory.names import name_key
from core.memory.vault import ARTICLES, LARGEST_PAGE, name_of, path_of, talk_path
from core.memory.worktree import LARGEST_FILE
from core.memory.writer import editing
from core.registry.files import read_bytes

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
    from collections.abc import Set as AbstractSet

    from core.memory.forget import ForgetPlan
    from core.memory.git import Git, TreeEntry

MOST_COMMITS = 100_000
_SECONDS = 1800.0
_BATCH = 200  # blobs that are read at once
_REMOTE = re.compile(r"^[ \t]*\[remote[ \t]+\"([^\"\n]{1,200})\"", re.MULTILINE)
# What git and editors keep in `.git` of earlier commands, which may show old commits.
_LEFTOVERS = (
    *("logs", "ORIG_HEAD", "FETCH_HEAD", "MERGE_MSG", "SQUASH_MSG", "AUTO_MERGE", "MERGE_RR"),
    *("rr-cache", "lost-found", "ADD_EDIT.patch", "addp-hunk-edit.diff", "fast_import_crash_*"),
    *("*_EDITMSG", "*_EDITMSG~", ".*_EDITMSG.sw?"),
    *("objects/info/commit-graph", "objects/info/commit-graphs"),
)
_MOST_FILES = 100_000  # that are looked through for what remains
_NAMED = 5  # files in a sentence


@dataclass(frozen=True, kw_only=True)
class Purged:
    """The result of rewriting history."""

    commits: int
    """Commits that were rewritten; 0: none of them has the text."""
    before: str
    """The commit that the branch pointed to."""
    after: str
    """The commit that it points to now."""
    remaining: tuple[str, ...]
    """Where the text still is, one sentence each."""


def refuse_purge(git: Git) -> None:
    """Do nothing where history can be rewritten.

    Raises:
        UsageProblem: it cannot: other branches or tags, remote branches, a shallow or partial
            clone, other work trees, borrowed objects; each is named, and what to do about it.
    """
    git.require_top_level()
    branch = git.branch()
    if branch is None or git.head() is None:
        raise UsageProblem(
            "The history cannot be rewritten: no branch is checked out, or it has no commits.",
            hint="Check out the vault's branch with git.",
        )
    listed = git.repository("for-each-ref", "--format=%(refname)").out.decode(errors="replace")
    others = [name for name in listed.split("\n") if name and name != branch]
    if others:
        shown = ", ".join(others[:5]) + (", …" if len(others) > 5 else "")
        raise UsageProblem(
            f"The history cannot be rewritten while other refs hold it: {shown}.",
            hint="Delete these branches, tags, stashes or remote branches first, or finish their "
            "review.",
        )
    for name, what in (
        ("shallow", "a shallow clone"),
        ("worktrees", "a repository with other work trees"),
        ("objects/info/alternates", "a repository that borrows objects from another one"),
    ):
        if (git.folder / name).exists():
            raise UsageProblem(f"The history of {what} cannot be rewritten.")
    if any((git.folder / "objects" / "pack").glob("*.promisor")):
        raise UsageProblem("The history of a partial clone cannot be rewritten.")


def purge(
    git: Git,
    plan: ForgetPlan,
    *,
    on_progress: Callable[[int, int], None] = lambda _done, _all: None,
) -> Purged:
    """Rewrite the history of a vault without what a plan forgets.

    The plan has been carried out in the vault before (`core.memory.forget.forget`).

    Args:
        git: the vault's repository.
        plan: what is forgotten.
        on_progress: called with the number of commits written, and of all.

    Raises:
        UsageProblem: history cannot be rewritten, or is too long.
        VaultBusy: another process works in the repository.
        MlxbunError: git or the disk fails; history is as it was.
    """
    refuse_purge(git)
    with editing(git.root) as edit, edit.git_locked():
        if edit.left_out or edit.recorded:
            raise UsageProblem(
                "The vault has changes that were not committed before.",
                hint="Look at them with `mlxbun memory history`, and run the command again.",
            )
        git.kept_open = edit.git.kept_open
        refuse_purge(git)
        branch, before = git.branch(), git.head()
        assert branch is not None
        assert before is not None
        rewriting = _Rewriting(git, plan, before)
        commits = rewriting.commits(before)
        after = rewriting.write(commits, on_progress)
        if git.run("diff-tree", "-r", "--name-only", before, after).strip():
            raise StoreCorrupt("The vault would not be the same afterwards; nothing was changed.")
        if after != before and not git.move_ref(branch, after, before, why="mlxbun: purge"):
            raise VaultBusy("The branch moved while history was rewritten; nothing was changed.")
        _drop_leftovers(git)
        _drop_objects(git, branch, after)
        same = set(rewriting.commits(after))
    return Purged(
        commits=sum(commit not in same for commit in commits),
        before=before,
        after=after,
        remaining=(*rewriting.remaining(), *_remaining(git, plan, known=rewriting.unread)),
    )


class _Rewriting:
    """Writes commits anew. Used once."""

    def __init__(self, git: Git, plan: ForgetPlan, tip: str) -> None:
        self._git = git
        self._plan = plan
        self._needle = None if plan.article else Needle(plan.target)
        # Names can be everyday words: only the name as it is written is removed from messages.
        self._name = re.compile(rf"(?<!\w){re.escape(plan.article or '')}(?!\w)")
        self._turns = {(turn.source, turn.message) for turn in plan.turns}
        earlier = _earlier(git, path_of(plan.article)) if plan.article else set()
        self._clean: dict[tuple[str, str], bytes | str | None] = dict.fromkeys(earlier)
        there = git.tree(tip)
        talks = {talk_path(name_of(path)) for path, _ in earlier} - there.keys()
        article = [path_of(plan.article), talk_path(plan.article)] if plan.article else []
        self._gone = {name_key(path) for path in (*article, *talks)}
        self._earlier = {name_of(path) for path, _ in earlier}
        self.unread: set[str] = set()
        """Paths of files that are not searched or not changed."""
        self._paths: set[str] = set()
        self._authors: set[str] = set()

    def remaining(self) -> Iterator[str]:
        """Yield where the text still is in the new commits, one sentence each."""
        for found, sentence in (
            (self.unread, "Not searched or changed, in some commit: {}."),
            (self._paths, "Names of files that say it, in some commit: {}."),
            (self._authors, "Names of authors that say it: {}."),
            (self._earlier, "Earlier names of the article, which other pages may have: {}."),
        ):
            if found:
                yield sentence.format(_listed(found))

    def commits(self, tip: str) -> list[str]:
        """Return all commits, parents before children."""
        count = f"--max-count={MOST_COMMITS + 1}"
        listed = self._git.run("rev-list", "--topo-order", count, tip)
        found = listed.decode("ascii").split()
        if len(found) > MOST_COMMITS:
            raise UsageProblem(f"The history has more than {MOST_COMMITS:,} commits.")
        return found[::-1]

    def write(self, commits: Sequence[str], on_progress: Callable[[int, int], None]) -> str:
        """Write the commits and return the new tip."""
        args = ("fast-import", "--quiet", "--force", "--done", "--date-format=raw-permissive")
        printed = self._git.run(*args, input=self._stream(commits, on_progress), timeout=_SECONDS)
        tip = printed.decode("ascii", "replace").strip()
        if not HASH.fullmatch(tip):
            raise StoreCorrupt("git could not rewrite the history; it is as it was.")
        return tip

    def _stream(
        self, commits: Sequence[str], on_progress: Callable[[int, int], None]
    ) -> Iterator[bytes]:
        """Yield what `git fast-import` reads."""
        marks = {commit: number for number, commit in enumerate(commits, 1)}
        for number, commit in enumerate(commits, 1):
            yield from self._commit(commit, marks)
            on_progress(number, len(commits))
        yield b"get-mark :%d\ndone\n" % len(commits)

    def _commit(self, commit: str, marks: Mapping[str, int]) -> Iterator[bytes]:
        raw = self._git.run("cat-file", "commit", commit)
        head, _, message = raw.partition(b"\n\n")
        fields: dict[bytes, list[bytes]] = {}
        for line in head.split(b"\n"):
            name, _, value = line.partition(b" ")
            fields.setdefault(name, []).append(value)
        message = self._message(message)
        yield b"commit refs/mlxbun/purge\nmark :%d\n" % marks[commit]
        for person in (fields[b"author"][0], fields[b"committer"][0]):
            if self._says(who := person.rpartition(b"> ")[0].decode(errors="replace") + ">"):
                self._authors.add(who)
        yield b"author %s\ncommitter %s\n" % (fields[b"author"][0], fields[b"committer"][0])
        if b"encoding" in fields:
            yield b"encoding %s\n" % fields[b"encoding"][0]
        yield b"data %d\n%s\n" % (len(message), message)
        for order, parent in enumerate(fields.get(b"parent", ())):
            yield b"%s :%d\n" % (b"merge" if order else b"from", marks[parent.decode("ascii")])
        yield b"deleteall\n"
        yield from self._files(self._git.tree(commit))
        yield b"\n"

    def _files(self, tree: Mapping[str, TreeEntry]) -> Iterator[bytes]:
        unknown = [path for path, entry in tree.items() if (path, entry.blob) not in self._clean]
        for at in range(0, len(unknown), _BATCH):
            self._look(unknown[at : at + _BATCH], tree)
        for path, entry in tree.items():
            if self._says(path):
                self._paths.add(path)
            kept = self._clean[path, entry.blob]
            if isinstance(kept, str):
                yield b"M %s %s %s\n" % (entry.mode.encode(), kept.encode(), quoted_path(path))
            elif kept is not None:
                yield b"M %s inline %s\n" % (entry.mode.encode(), quoted_path(path))
                yield b"data %d\n%s\n" % (len(kept), kept)

    def _look(self, paths: Sequence[str], tree: Mapping[str, TreeEntry]) -> None:
        """Find out what becomes of some files: other bytes, the blob as it is, or nothing."""
        plain = [path for path in paths if tree[path].mode in ("100644", "100755")]
        for path in paths:
            self._clean[path, tree[path].blob] = tree[path].blob
        found = self._git.blobs(tree[path].blob for path in plain)
        for path, data in zip(plain, found, strict=True):
            if data is not None:
                cleaned = self._cleaned(path, data)
                if cleaned != data:
                    self._clean[path, tree[path].blob] = cleaned

    def _cleaned(self, path: str, data: bytes) -> bytes | None:
        """Return a file without what is forgotten; None: it is deleted."""
        if name_key(path) in self._gone:
            return None
        if path == LEDGER:
            return self._ledger(data)
        try:
            text = data.decode()
        except UnicodeDecodeError:
            self.unread.add(path)
            return data
        if is_searched(path) and len(data) <= LARGEST_PAGE:
            return self._text(path, text).encode()
        if self._says(text):
            self.unread.add(path)
        return data

    def _text(self, path: str, text: str) -> str:
        if self._needle is None:
            return unlink(text, self._plan.article or "")
        clean = clean_article if path.startswith(f"{ARTICLES}/") else clean_talk
        return clean(text, self._needle).text

    def _says(self, text: str) -> bool:
        return self._needle is not None and self._needle.without(text) != text

    def _ledger(self, data: bytes) -> bytes:
        if not self._plan.source:
            return data
        lines = data.decode("utf-8", "surrogateescape").splitlines(keepends=True)
        kept = [x for x in lines if not forgets_line(x, self._turns, self._plan.article)]
        return "".join(kept).encode("utf-8", "surrogateescape")

    def _message(self, message: bytes) -> bytes:
        text = message.decode("utf-8", "surrogateescape")
        lines = text.split("\n")
        kept = [x if x.startswith("Mlxbun-") else self._line(x) for x in lines]
        return "\n".join(kept).encode("utf-8", "surrogateescape")

    def _line(self, line: str) -> str:
        return (
            self._name.sub(FORGOTTEN, line) if self._needle is None else self._needle.without(line)
        )


def _earlier(git: Git, path: str) -> set[tuple[str, str]]:
    """Return where an article lay before it was renamed: paths and the blobs that were there."""
    found = set()
    for version in history(git, path):
        if version.path != path:
            listed = git.run(
                "ls-tree", "-z", "--full-tree", version.commit.hash, "--", version.path
            )
            blob = listed.partition(b"\t")[0].decode("ascii").rpartition(" ")[2]
            found.add((version.path, blob))
    return found


def _drop_leftovers(git: Git) -> None:
    """Delete reflogs and what git keeps of earlier commands."""
    for path in [path for name in _LEFTOVERS for path in git.folder.glob(name)]:
        if path.is_dir() and not path.is_symlink():
            shutil.rmtree(path, ignore_errors=True)
        else:
            with suppress(FileNotFoundError):
                path.unlink()


def _drop_objects(git: Git, branch: str, tip: str) -> None:
    """Delete every object that the branch does not reach."""
    with tempfile.TemporaryDirectory(prefix="mlxbun-purge-") as name:
        view = Path(name)
        (view / "objects").mkdir()
        (view / "refs" / "heads").mkdir(parents=True)
        (view / "HEAD").write_text("ref: refs/heads/main\n")
        (view / "refs" / "heads" / "main").write_text(f"{tip}\n")
        environ = clean_environ(not_within=git.root) | {
            "GIT_DIR": str(view),
            "GIT_WORK_TREE": str(git.root),
            "GIT_OBJECT_DIRECTORY": str(git.folder / "objects"),
        }
        for mark in (git.folder / "objects" / "pack").glob("*.keep"):
            mark.unlink(missing_ok=True)  # such packs would stay as they are
        for args in (("repack", "-a", "-d", "-f", "-q"), ("prune", "--expire=now")):
            done = run_git(
                args, environ, root=git.root, limit=2**20, timeout=_SECONDS, keep=git.kept_open
            )
            if done.code:
                raise StoreCorrupt(
                    f"History was rewritten, but git {args[0]} failed: {done.error}.",
                    hint=f"Run `git gc --prune=now` in {git.root} (branch {branch}).",
                )


def _remaining(git: Git, plan: ForgetPlan, *, known: AbstractSet[str]) -> tuple[str, ...]:
    """Return where the text still is besides the commits, one sentence each."""
    notes = []
    found = () if plan.article else {*_files_with(git.root, Needle(plan.target))} - known
    if found:
        notes.append(f"These files still say it: {_listed(found)}.")
    with suppress(OSError, MlxbunError):
        config = (git.folder / "config").read_bytes()[: 2**20].decode(errors="replace")
        notes += [
            f"The remote {remote} keeps what was pushed to it; push with --force."
            for remote in _REMOTE.findall(config)
        ]
    return tuple(notes)


def _files_with(root: Path, needle: Needle) -> Iterator[str]:
    """Yield the files of a vault that still hold a text; cleaned ones no longer do.

    Objects of git are left out: what the branch does not reach is gone.
    """
    seen = 0
    for folder, names, files in os.walk(root):
        if Path(folder) == root / ".git":
            names.remove("objects")
        for name in sorted(files):
            seen += 1
            if seen > _MOST_FILES:
                return
            path = Path(folder) / name
            with suppress(OSError):
                text = "" if path.is_symlink() else _text_of(path)
                if needle.without(text) != text:
                    yield path.relative_to(root).as_posix()


def _text_of(path: Path) -> str:
    return read_bytes(path, limit=LARGEST_FILE).decode(errors="replace")


def _listed(names: Iterable[str]) -> str:
    shown = sorted(name.encode(errors="replace").decode() for name in names)
    return ", ".join(shown[:_NAMED]) + (", …" if len(shown) > _NAMED else "")
