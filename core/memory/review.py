"""Runs that wait for a review: accept or reject them, sentence by sentence.

`synthesize --review` leaves its commit on a branch, `mlxbun/RUN`. `waiting` lists these runs, and
`open_review` shows every new sentence with what it cites. `decide` makes one commit of what was
accepted, records the rest in the ledger, so that it does not come back, and deletes the branch.
What the user has changed meanwhile is kept: accepted sentences go into the articles as they are
now, and one that cannot is put on the Talk page.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from core.errors import NotFound, UsageProblem, VaultChanged
from core.memory.history import commits
from core.memory.ledger import LEDGER, LedgerEntry, appended, parse_ledger
from core.memory.merging import merge
from core.memory.names import name_key
from core.memory.reviewing import (
    ReviewItem,
    allowance,
    items,
    replayed,
    without,
    without_links,
)
from core.memory.talk import Entry, with_entries
from core.memory.validate import faults
from core.memory.vault import ARTICLES, TALK, name_of, open_vault, talk_path
from core.memory.writer import Change, editing

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from datetime import datetime
    from pathlib import Path

    from core.memory.citation import Citation
    from core.memory.git import Git
    from core.memory.writer import Edit

_BRANCHES = "refs/heads/mlxbun/"
_MOST_ATTEMPTS = 4
_LEFT = (
    "A sentence of a reviewed run could not be added, because the article has changed meanwhile."
)


@dataclass(frozen=True, kw_only=True)
class WaitingRun:
    """A run that waits for its review."""

    run: str
    """Its id."""
    branch: str
    """The branch on which it lies."""
    commit: str
    """Its commit."""
    when: datetime
    """When it was made."""
    articles: tuple[str, ...]
    """Articles that it creates or changes, sorted."""


@dataclass(frozen=True, kw_only=True)
class Review:
    """A run and what it changes."""

    run: WaitingRun
    """The run."""
    items: tuple[ReviewItem, ...]
    """What to decide, by article, in the order of the text."""


@dataclass(frozen=True, kw_only=True)
class Reviewed:
    """The result of a review."""

    run: str
    """Id of the run."""
    commit: str
    """The commit that took it into the vault."""
    accepted: tuple[ReviewItem, ...]
    """What is in the articles now."""
    rejected: tuple[ReviewItem, ...]
    """What does not come back."""
    left: tuple[ReviewItem, ...]
    """Accepted, but not possible any more; each is on a Talk page."""


def waiting(git: Git) -> tuple[WaitingRun, ...]:
    """Return the runs that wait for a review, the oldest first.

    Raises:
        UsageProblem: the vault is not the top level of a git repository.
    """
    listed = git.repository("for-each-ref", "--format=%(refname) %(objectname)", _BRANCHES)
    found = []
    for line in listed.out.decode("utf-8", "surrogateescape").splitlines():
        ref, _, commit = line.partition(" ")
        run = _waiting_run(git, ref.removeprefix("refs/heads/"), commit)
        if run is not None:
            found.append(run)
    return tuple(sorted(found, key=lambda run: (run.when, run.run)))


def open_review(git: Git, run: str) -> Review:
    """Return what a run changes.

    Raises:
        NotFound: no run with this id waits for a review.
    """
    return _opened(git, run).review()


def decide(vault: Path, run: str, decisions: Mapping[str, bool]) -> Reviewed:
    """Take what was accepted into the vault, and make sure that the rest does not come back.

    Args:
        vault: the vault's folder.
        run: the run's id.
        decisions: for the id of every item whether it is accepted.

    Raises:
        NotFound: no run with this id waits for a review.
        UsageProblem: an item has no decision, or there is no such item.
        VaultBusy: another process writes.
        VaultChanged: files changed again and again meanwhile.
    """
    for attempt in range(1, _MOST_ATTEMPTS + 1):
        with editing(vault) as edit:
            opened = _opened(edit.git, run)
            taking = _Taking(opened, edit, _checked(opened, decisions))
            try:
                return taking.done()
            except VaultChanged:
                if attempt == _MOST_ATTEMPTS:
                    raise
    raise AssertionError("unreachable")


def _checked(opened: _Opened, decisions: Mapping[str, bool]) -> dict[str, bool]:
    known = {item.id for item in opened.review().items}
    unknown = sorted(set(decisions) - known)
    if unknown:
        raise UsageProblem(f"Run {opened.run.run} has no item {unknown[0]!r}.")
    missing = known - set(decisions)
    if missing:
        number = len(missing)
        raise UsageProblem(
            f"{number} item{'s' if number > 1 else ''} of run {opened.run.run} not decided.",
            hint="Accept or reject every item.",
        )
    return dict(decisions)


def _waiting_run(git: Git, branch: str, commit: str) -> WaitingRun | None:
    """Return the run on a branch; None: what lies there is not one of ours."""
    (found,) = commits(git, [commit])
    if not found.ours or found.run is None or len(found.parents) > 1:
        return None
    paths = _changed_paths(git, next(iter(found.parents), None), commit)
    articles = (name_of(path) for path in paths if path.startswith(f"{ARTICLES}/"))
    return WaitingRun(
        run=found.run,
        branch=branch,
        commit=commit,
        when=found.when,
        articles=tuple(sorted(articles)),
    )


def _changed_paths(git: Git, base: str | None, tip: str) -> list[str]:
    before, after = git.tree(base), git.tree(tip)
    return sorted(path for path, entry in after.items() if before.get(path) != entry)


def _opened(git: Git, run: str) -> _Opened:
    found = next((each for each in waiting(git) if each.run == run), None)
    if found is None:
        raise NotFound(
            f"No run {run} waits for a review.", hint="List them with: mlxbun memory review"
        )
    return _Opened(git, found)


class _Opened:
    """The two sides of a run: its commit and the one before."""

    def __init__(self, git: Git, run: WaitingRun) -> None:
        self.git, self.run = git, run
        (commit,) = commits(git, [run.commit])
        self.sources = commit.sources
        self.base_commit = next(iter(commit.parents), None)
        paths = _changed_paths(git, self.base_commit, run.commit)
        self.articles = [path for path in paths if path.startswith(f"{ARTICLES}/")]
        self.talk = [path for path in paths if path.startswith(f"{TALK}/")]

    def base(self, path: str) -> str | None:
        """Return a file before the run."""
        return _text(self.git.show(self.base_commit, path)) if self.base_commit else None

    def tip(self, path: str) -> str:
        """Return a file after the run."""
        return _text(self.git.show(self.run.commit, path)) or ""

    def items(self, path: str) -> tuple[ReviewItem, ...]:
        return items(name_of(path), self.base(path), self.tip(path))

    def review(self) -> Review:
        found = tuple(item for path in self.articles for item in self.items(path))
        return Review(run=self.run, items=found)

    def entries(self) -> tuple[LedgerEntry, ...]:
        """Return the lines of the ledger that the run has added."""
        before = self.base(LEDGER) or ""
        return parse_ledger(self.tip(LEDGER).removeprefix(before)).entries


def _text(data: bytes | None) -> str | None:
    return None if data is None else data.decode("utf-8", "surrogateescape")


@dataclass
class _Result:
    accepted: list[ReviewItem] = field(default_factory=list)
    rejected: list[ReviewItem] = field(default_factory=list)
    left: list[ReviewItem] = field(default_factory=list)


class _Taking:
    """One review being taken into the vault, while it is held for writing."""

    def __init__(self, opened: _Opened, edit: Edit, decisions: Mapping[str, bool]) -> None:
        self.opened, self.edit, self.decisions = opened, edit, decisions
        self.vault = open_vault(edit.git.root)
        self.result = _Result()
        self.names = {name_key(name) for name in self.vault.names().articles}

    def done(self) -> Reviewed:
        """Commit, and delete the branch."""
        run = self.opened.run
        changes = [*self._articles(), *self._talk(), *self._ledger()]
        accepted, total = len(self.result.accepted), len(self.decisions)
        commit = self.edit.commit(
            changes,
            f"Accept {accepted} of {total} changes of run {run.run}",
            run=run.run,
            sources=self.opened.sources if accepted else (),
        )
        self.edit.delete_branch(run.branch)
        return Reviewed(
            run=run.run,
            commit=commit,
            accepted=tuple(self.result.accepted),
            rejected=tuple(self.result.rejected),
            left=tuple(self.result.left),
        )

    # -- articles ------------------------------------------------------------------------------

    def _articles(self) -> Iterator[Change]:
        wanted: dict[str, tuple[str, list[ReviewItem]]] = {}
        gone = []
        for path in self.opened.articles:
            found = self.opened.items(path)
            kept = [item for item in found if self.decisions[item.id]]
            out = [item for item in found if not self.decisions[item.id]]
            self.result.rejected += out
            text = without(self.opened.base(path), self.opened.tip(path), out, kept)
            if text is None:
                gone.append(name_of(path))
            elif kept:
                wanted[path] = (text, kept)
                self.names.add(name_key(name_of(path)))
        self.names -= {name_key(name) for name in gone} - {
            name_key(name) for name in self.vault.names().articles
        }
        for path, (text, kept) in wanted.items():
            change = self._change(path, without_links(text, gone), kept)
            if change is not None:
                yield change

    def _change(self, path: str, text: str, kept: list[ReviewItem]) -> Change | None:
        """Return the change of one article; None: nothing can be accepted of it any more."""
        base, (now, digest) = self.opened.base(path), self._now(path)
        if now is None and base is not None:  # the user has deleted it
            self.result.left += kept
            return None
        result = self._combined(base, now, text, kept)
        allowed = allowance(now or "", result or "", names=self.names, facts=len(kept))
        if result is None or faults(now or "", result, allowed):
            self.result.left += kept
            return None
        self.result.accepted += kept
        return Change(path=path, before=digest, after=result)

    def _combined(
        self, base: str | None, now: str | None, text: str, kept: list[ReviewItem]
    ) -> str | None:
        """Return the accepted text with what has changed meanwhile; None: they do not go together.

        First by merging both texts; where they overlap, sentence by sentence.
        """
        if now is None or now == base:
            return text
        merged = merge(
            self.edit.git, base=_bytes(base or ""), ours=_bytes(now), theirs=_bytes(text)
        )
        if merged is not None:
            result = _text(merged) or ""
            allowed = allowance(now, result, names=self.names, facts=len(kept))
            if not faults(now, result, allowed):
                return result
        try:
            return replayed(now, text, kept)
        except UsageProblem:
            return None

    def _now(self, path: str) -> tuple[str | None, str | None]:
        """Return a file of the vault as it is, and the digest of its bytes."""
        data = self.edit.git.show("HEAD", path)
        return _text(data), None if data is None else hashlib.sha256(data).hexdigest()

    # -- Talk and ledger -----------------------------------------------------------------------

    def _talk(self) -> Iterator[Change]:
        left: dict[str, list[Entry]] = {}
        for item in self.result.left:
            entry = Entry(heading="Not added", reason=_LEFT, text=_shown(item))
            left.setdefault(talk_path(item.article), []).append(entry)
        for path in sorted({*self.opened.talk, *left}):
            now, digest = self._now(path)
            text = now or ""
            if path in self.opened.talk:
                base, tip = self.opened.base(path) or "", self.opened.tip(path)
                text = tip if text == base else text + "\n" + tip.removeprefix(base)
            text = with_entries(text, path.removeprefix(f"{TALK}/")[:-3], left.get(path, ()))
            yield Change(path=path, before=digest, after=text)

    def _ledger(self) -> Iterator[Change]:
        now, digest = self._now(LEDGER)
        rejected = _keys(self.result.rejected)
        left = _keys(self.result.left)
        known = parse_ledger(now or "")
        entries = [
            _with_state(entry, rejected, left)
            for entry in self.opened.entries()
            if not known.knows(entry.fact)
        ]
        if entries:
            yield Change(path=LEDGER, before=digest, after=appended(now or "", entries))


def _bytes(text: str) -> bytes:
    return text.encode("utf-8", "surrogateescape")


def _shown(item: ReviewItem) -> str:
    return f"{item.text} ({'; '.join(item.notes)})"


def _key(citation: Citation) -> tuple[str, str, str]:
    return (citation.source, citation.message, name_key(citation.property or ""))


def _keys(found: list[ReviewItem]) -> frozenset[tuple[str, str, str]]:
    return frozenset(_key(citation) for item in found for citation in item.citations)


def _with_state(
    entry: LedgerEntry,
    rejected: frozenset[tuple[str, str, str]],
    left: frozenset[tuple[str, str, str]],
) -> LedgerEntry:
    """Return a line of the run with what the review has made of its fact."""
    key = (entry.source, entry.message, entry.property)
    if key in rejected:
        return replace(entry, state="rejected")
    return replace(entry, state="talk") if key in left else entry
