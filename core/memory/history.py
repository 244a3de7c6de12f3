"""How articles came about: their commits, what each changed, who wrote a line, earlier texts.

The history of a file continues across renames. Only ancestors of the current commit
are shown: what was purged is not reachable by its hash.
"""

from __future__ import annotations

import os
import re
from dataclasses import dataclass
from datetime import date, datetime, time, timedelta
from typing import TYPE_CHECKING

from core.errors import BadRequest, NotFound
from core.memory.fast_import import MLXBUN

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from core.memory.git import Git

LARGEST_DIFF = 2 * 2**20
"""Bytes of a difference that are shown."""
MOST_COMMITS = 100_000
"""Commits of one article that are looked at."""
_RENAMES = 20
_REVISION = re.compile(r"[0-9a-f]{4,40}")
_DAY = re.compile(r"\d{4}-\d{2}-\d{2}")
_FORMAT = "--format=%H%x00%ct%x00%an%x00%ae%x00%P%x00%B"
_FIELDS = 6
_TRAILER = re.compile(r"([A-Za-z][A-Za-z0-9-]{0,60}): (.*)")
RUN, SOURCE, REVERTS = "Mlxbun-Run", "Mlxbun-Source", "Mlxbun-Reverts"
"""Trailers of our commits."""


@dataclass(frozen=True, kw_only=True)
class Commit:
    """A commit."""

    hash: str
    """All 40 digits."""
    when: datetime
    """When it was made, in the local time zone."""
    author: str
    """Name of who made the change."""
    ours: bool
    """Whether mlxbun wrote it; otherwise the user did, in an editor or with git."""
    subject: str
    """First line of its message."""
    message: str
    """The whole message, trailers included."""
    parents: tuple[str, ...]
    """Hashes of the commits before."""
    run: str | None = None
    """Id of the run that made it; None: no run did."""
    sources: tuple[str, ...] = ()
    """Conversations that the run names as its sources."""
    reverts: tuple[str, ...] = ()
    """Hashes of the commits that it reverts."""

    @property
    def date(self) -> str:
        """The day, `YYYY-MM-DD`, in the local time zone."""
        return self.when.date().isoformat()


@dataclass(frozen=True, kw_only=True)
class Version:
    """A commit that touched an article."""

    commit: Commit
    """The commit."""
    path: str
    """Where the article lay in it."""


@dataclass(frozen=True, kw_only=True)
class ArticleDiff:
    """What a commit changed in an article."""

    commit: Commit
    """The commit."""
    text: str
    """From `diff --git` on, as git shows it."""
    truncated: bool
    """Whether it is longer than `LARGEST_DIFF` and ends there."""


@dataclass(frozen=True, kw_only=True)
class BlamedLine:
    """A line of an article and the commit that wrote it."""

    number: int
    """1-based."""
    text: str
    """Without the line ending."""
    commit: Commit
    """The last one that changed the line."""


@dataclass(frozen=True, kw_only=True)
class OldText:
    """An article as it was."""

    path: str
    """Where it lay."""
    text: str
    """The whole text; bytes that are not UTF-8 are shown as U+FFFD."""
    commit: Commit
    """The last one that had touched it by then."""


def history(git: Git, path: str, limit: int = MOST_COMMITS) -> tuple[Version, ...]:
    """Return the commits that touched a file, the latest first, behind renames too.

    Args:
        git: the vault's repository.
        path: relative to the vault; the file need not be there any more.
        limit: commits at most.
    """
    git.require_top_level()
    start, at = git.head(), path
    found: list[Version] = []
    for _ in range(_RENAMES):
        if start is None or len(found) >= limit:
            break
        count = f"--max-count={limit - len(found)}"
        commits = list(_log(git, count, start, "--", at))
        found += [Version(commit=commit, path=at) for commit in commits]
        if not commits or not commits[-1].parents:
            break
        before = _renamed_from(git, commits[-1], at)
        start = commits[-1].parents[0]
        if before is None:
            break
        at = before
    return tuple(found[:limit])


def vault_history(git: Git, limit: int = MOST_COMMITS) -> tuple[Commit, ...]:
    """Return the latest commits of the whole vault, the latest first."""
    git.require_top_level()
    head = git.head()
    return tuple(_log(git, f"--max-count={limit}", head)) if head else ()


def diff(git: Git, path: str, rev: str | None = None) -> ArticleDiff:
    """Return what a commit changed in a file.

    Args:
        git: the vault's repository.
        path: relative to the vault.
        rev: the first 4 to 40 digits of the commit's hash; None: the latest that touched the file.

    Raises:
        BadRequest: `rev` is something else (field `rev`).
        NotFound: no commit that touched the file has this hash, or several do.
    """
    version = find_version(git, path, rev)
    commit = version.commit
    old = _renamed_from(git, commit, version.path) if commit.parents else None
    paths = [version.path, *([old] if old else [])]
    trees = [commit.parents[0], commit.hash] if commit.parents else ["--root", commit.hash]
    shown = git.call(
        "diff-tree", "-r", "-p", "-M", "--text", "--no-commit-id", "--no-ext-diff",
        "--no-textconv", "--no-color", "--full-index", *trees, "--", *paths,
        limit=LARGEST_DIFF, cut=True,
    )  # fmt: skip
    return ArticleDiff(commit=commit, text=_text(shown.out), truncated=shown.cut)


def find_version(git: Git, path: str, rev: str | None = None) -> Version:
    """Return the commit with a hash among those that touched a file; see `diff`."""
    if rev is not None and not _REVISION.fullmatch(rev):
        raise BadRequest("rev must be 4 to 40 hexadecimal digits of a commit hash", field="rev")
    versions = history(git, path, 1 if rev is None else MOST_COMMITS)
    fits = [each for each in versions if each.commit.hash.startswith(rev or "")]
    if not fits:
        what = f"commit {rev}" if rev else "commit"
        raise NotFound(f"No {what} has changed {path}.")
    if len(fits) > 1:
        raise NotFound(f"Several commits begin with {rev}.", hint="Give more digits.")
    return fits[0]


def blame(git: Git, path: str) -> tuple[BlamedLine, ...]:
    """Return who wrote each line of a file, as the last commit has it.

    Raises:
        NotFound: the last commit has no such file.
    """
    git.require_top_level()
    head = git.head()
    if head is None or path not in git.tree(head):
        raise NotFound(f"{path} is not in the last commit.")
    printed = git.run("blame", "--porcelain", "--no-textconv", head, "--", path)
    lines: list[tuple[str, str]] = []
    commit = ""
    for line in printed.split(b"\n"):
        if line.startswith(b"\t"):
            lines.append((commit, _text(line[1:]).removesuffix("\r")))
        elif re.match(rb"[0-9a-f]{40} \d+ \d+", line):
            commit = line[:40].decode("ascii")
    known = {each.hash: each for each in commits(git, sorted({commit for commit, _ in lines}))}
    return tuple(
        BlamedLine(number=number, text=text, commit=known[commit])
        for number, (commit, text) in enumerate(lines, 1)
    )


def read_as_of(git: Git, path: str, day: str) -> OldText:
    """Return a file as it was at the end of a day, in the local time zone.

    Args:
        git: the vault's repository.
        path: where it lies now, or lay last.
        day: `YYYY-MM-DD`.

    Raises:
        BadRequest: there is no such day (field `as_of`).
        NotFound: the file was not there.
    """
    end = end_of_day(day)
    for version in history(git, path):
        if version.commit.when < end:
            data = git.show(version.commit.hash, version.path)
            if data is None:
                break
            return OldText(path=version.path, text=_text(data), commit=version.commit)
    raise NotFound(f"{path} was not in the vault at the end of {day}.")


def end_of_day(day: str) -> datetime:
    """Return the first moment after a day, in the local time zone.

    Raises:
        BadRequest: it is not a day (field `as_of`).
    """
    try:
        if not _DAY.fullmatch(day):
            raise ValueError
        after = date.fromisoformat(day) + timedelta(days=1)
        return datetime.combine(after, time()).astimezone()
    except (ValueError, OverflowError, OSError):
        raise BadRequest(f"{day!r} is not a date like 2026-03-01.", field="as_of") from None


def changed_since(git: Git, when: datetime) -> tuple[str, ...]:
    """Return the files that commits have touched since a moment, sorted."""
    head = git.head()
    if head is None:
        return ()
    printed = git.run(
        "log", "-z", "--name-only", "--no-renames", "--format=",
        f"--since={int(when.timestamp())}", head,
    )  # fmt: skip
    return tuple(sorted({os.fsdecode(path) for path in printed.split(b"\0") if path.strip()}))


def last_run(git: Git) -> Commit | None:
    """Return the commit of the last run; None: there was none yet."""
    return next((each for each in _ours(git, f"^{RUN}: ") if each.run), None)


def run_commits(git: Git, run: str) -> tuple[Commit, ...]:
    """Return the commits of a run, the latest first."""
    if not re.fullmatch(r"[A-Za-z0-9-]{1,64}", run):
        return ()
    return tuple(each for each in _ours(git, f"^{RUN}: {run}$") if each.run == run)


def reverting(git: Git, commit: str) -> tuple[Commit, ...]:
    """Return the commits that revert another one, wholly or in a file, the latest first."""
    found = _ours(git, f"^{REVERTS}: {commit}")
    return tuple(each for each in found if any(mark.startswith(commit) for mark in each.reverts))


def commits(git: Git, hashes: Sequence[str]) -> tuple[Commit, ...]:
    """Return commits by their hashes, in the same order."""
    if not hashes:
        return ()
    listed = "".join(f"{each}\n" for each in hashes).encode("ascii")
    return tuple(_log(git, "--no-walk=unsorted", "--stdin", data=listed))


def commits_since(git: Git, old: str) -> tuple[Commit, ...]:
    """Return the commits behind the current one that are not behind another, the latest first."""
    head = git.head()
    return tuple(_log(git, head, f"^{old}")) if head else ()


def _ours(git: Git, pattern: str) -> Iterator[Commit]:
    """Yield our commits with a line in their message, the latest first."""
    head = git.head()
    if head is not None:
        yield from _log(git, f"--author=<{MLXBUN.email}>", f"--grep={pattern}", head)


def _log(git: Git, *args: str, data: bytes | None = None) -> Iterator[Commit]:
    printed = git.run("log", "-z", _FORMAT, *args, input=data)
    parts = printed.split(b"\0")
    for at in range(0, len(parts) - _FIELDS + 1, _FIELDS):
        yield _commit([_text(part) for part in parts[at : at + _FIELDS]])


def _commit(fields: Sequence[str]) -> Commit:
    name, seconds, author, email, parents, message = fields
    ours = email == MLXBUN.email
    trailers = list(_trailers(message)) if ours else []
    return Commit(
        hash=name,
        when=_moment(seconds),
        author=author,
        ours=ours,
        subject=message.split("\n", 1)[0].strip(),
        message=message,
        parents=tuple(parents.split()),
        run=next((value for key, value in trailers if key == RUN), None),
        sources=tuple(value for key, value in trailers if key == SOURCE),
        reverts=tuple(value for key, value in trailers if key == REVERTS),
    )


def _moment(seconds: str) -> datetime:
    """Return a commit's date; 1970, as git shows it, where a commit has none that can be read."""
    try:
        return datetime.fromtimestamp(int(seconds)).astimezone()
    except (ValueError, OverflowError, OSError):
        return datetime.fromtimestamp(0).astimezone()


def _trailers(message: str) -> Iterator[tuple[str, str]]:
    paragraphs = message.strip().rsplit("\n\n", 1)
    for line in paragraphs[-1].split("\n") if len(paragraphs) > 1 else ():
        match = _TRAILER.fullmatch(line)
        if match:
            yield match[1], match[2].strip()


def _renamed_from(git: Git, commit: Commit, path: str) -> str | None:
    """Return which file a commit has renamed to a path; None: it has not."""
    if not commit.parents:
        return None
    printed = git.run(
        "diff-tree", "-r", "-z", "-M", "--diff-filter=R", "--name-status", "--no-commit-id",
        commit.parents[0], commit.hash,
    )  # fmt: skip
    parts = [os.fsdecode(part) for part in printed.split(b"\0")]
    pairs: Iterable[tuple[str, str]] = zip(parts[1::3], parts[2::3], strict=False)
    return next((old for old, new in pairs if new == path), None)


def _text(data: bytes) -> str:
    return data.decode("utf-8", "replace")
