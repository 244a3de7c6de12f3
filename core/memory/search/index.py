"""Search in a vault: the index is brought up to date with the files at every search.

A search looks at every file (time, size, inode); only what changed is read, and only what has
another digest is indexed again. The index is one SQLite file, shared by processes; where it cannot
be written, this process keeps one in memory.
"""

from __future__ import annotations

import threading
from dataclasses import dataclass
from itertools import islice
from typing import TYPE_CHECKING, Literal

from core.database import Database, MemoryDatabase
from core.errors import BadRequest, MlxbunError
from core.memory.search import files, store
from core.memory.search.document import anchor_at, excerpt, matching_lines, occurrences
from core.memory.search.query import parse_query
from core.memory.vault import name_of

if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
    from pathlib import Path

    from core.memory.search.files import Content, Signature
    from core.memory.search.query import Term
    from core.memory.vault import HasRoot

MOST_RESULTS = 200
"""Largest `limit` of a search."""
_HITS_EACH = 5  # lines of one article
_BATCH = 500  # files that one transaction indexes


@dataclass(frozen=True, kw_only=True)
class Summary:
    """An article that was found."""

    article: str
    """Its name; `Reference/NAME` for a reference document."""
    occurrences: int
    """How often the terms stand in it; at least 1."""
    matched_terms: tuple[str, ...]
    """The terms that it holds, as they were typed."""


@dataclass(frozen=True, kw_only=True)
class Hit:
    """A line that was found."""

    article: str
    """Its article, as in `Summary`."""
    anchor: str | None
    """Anchor of its section; None: the lead."""
    line: int
    """1-based."""
    excerpt: str
    """The line, or the part of it that was found; at most `LONGEST_EXCERPT` characters."""


@dataclass(frozen=True, kw_only=True)
class SearchResult:
    """What a search has found."""

    summaries: tuple[Summary, ...]
    """The best first."""
    hits: tuple[Hit, ...]
    """Lines of the articles, in the order of `summaries`."""
    left_out: tuple[str, ...] = ()
    """Files that are not searched, one sentence each: too large, unreadable."""


class SearchIndex:
    """The index of one vault. Safe in any thread and beside any number of processes."""

    def __init__(self, path: Path, *, on_note: Callable[[str], None] = lambda _note: None) -> None:
        """Name the file; nothing is opened or made yet.

        Args:
            path: the SQLite file.
            on_note: called with one sentence when the index is rebuilt or kept in memory.
        """
        self._note = on_note
        self._database: Database | MemoryDatabase = Database(
            path,
            name="The search index",
            migrations=(store.TABLES,),
            on_note=on_note,
            disposable=store.VERSION,
        )
        self._lock = threading.Lock()
        self._looker = files.Looker()
        self._known: store.Known | None = None

    def search(
        self,
        vault: HasRoot,
        query: str,
        *,
        scope: Literal["all", "articles", "reference"] = "all",
        limit: int = 50,
    ) -> SearchResult:
        """Find the articles that hold all terms, the best first.

        If there are none: those that hold all terms as beginnings of words, else those that hold
        some terms, else those that hold some as beginnings.

        Args:
            vault: where to search.
            query: what a person typed (`core.memory.search.query`); without a word in it, nothing
                is found.
            scope: which files.
            limit: most articles, and most lines; 1 to `MOST_RESULTS`.

        Raises:
            BadRequest: the query is too long, or `limit` out of range.
            MlxbunError: the index can be kept neither on disk nor in memory.
        """
        if not 1 <= limit <= MOST_RESULTS:
            raise BadRequest(f"limit must be 1 to {MOST_RESULTS}, not {limit}.", field="limit")
        terms = parse_query(query)
        chosen = None if scope == "all" else scope
        if not terms:
            return SearchResult(summaries=(), hits=())
        with self._lock:
            return self._search(vault.root, terms, chosen, limit)

    def refresh(self, vault: HasRoot) -> None:
        """Bring the index up to date, as every search does.

        Raises:
            MlxbunError: it can be kept neither on disk nor in memory.
        """
        with self._lock:
            self._refresh(vault.root)

    def erase(self) -> None:
        """Delete the index, so that nothing of a forgotten text is left in it.

        The next search makes it again.

        Raises:
            MlxbunError: it cannot be deleted.
        """
        with self._lock:
            self._database.erase()
            self._known = None

    def _search(
        self, root: Path, terms: Sequence[Term], scope: files.Scope | None, limit: int
    ) -> SearchResult:
        for _ in range(2):
            self._refresh(root)
            if self._known and not self._known.signatures:  # no file, and maybe no index
                return SearchResult(summaries=(), hits=())
            found = self._database.read(
                lambda connection: _find(connection, terms, scope, limit), otherwise=None
            )
            if found is not None:
                known = self._known.problems if self._known else {}
                return _result(found, terms, limit, known)
            self._discard()  # it is damaged
        raise MlxbunError(
            "The search index is damaged again as soon as it is made.",
            hint="Check the disk, or set MLXBUN_CACHE to a folder on another one.",
        )

    def _refresh(self, root: Path) -> None:
        seen = self._looker.look(root)
        try:
            self._update(root, seen)
        except MlxbunError as problem:
            self._go_to_memory(problem)
            self._update(root, seen)

    def _discard(self) -> None:
        try:
            self._database.erase()
        except MlxbunError as problem:
            self._go_to_memory(problem)
        self._known = None

    def _go_to_memory(self, problem: MlxbunError) -> None:
        """Keep the index in memory from here on.

        Raises:
            MlxbunError: the problem, if it is there already.
        """
        if isinstance(self._database, MemoryDatabase):
            raise problem
        self._note(f"{problem.message} The search index is kept in memory.")
        self._database = MemoryDatabase(store.TABLES)
        self._known = None

    def _update(self, root: Path, seen: Mapping[str, Signature]) -> None:
        known = self._load()
        if known.signatures == seen:
            return
        gone = known.signatures.keys() - seen.keys()
        changed = [path for path, mark in seen.items() if known.signatures.get(path) != mark]
        batches = _batches(changed, _BATCH)
        for batch in batches or [[]]:
            contents = {path: (seen[path], files.read(root, path)) for path in batch}
            self._write(contents, gone)
            gone = set()
        if self._known is None:
            self._load()

    def _load(self) -> store.Known:
        """Return what the index on disk knows, from memory if it has not changed."""
        here = self._known

        def look(connection: sqlite3.Connection) -> store.Known:
            if here and store.generation(connection) == here.generation:
                return here
            return store.known(connection)

        nothing = store.Known(generation=0, signatures={}, problems={})
        self._known = self._database.read(look, otherwise=nothing)
        return self._known

    def _write(
        self, contents: Mapping[str, tuple[Signature, Content | str]], gone: Iterable[str]
    ) -> None:
        gone = tuple(gone)
        before, after = self._database.write(
            lambda connection: store.update(connection, changed=contents, gone=gone)
        )
        known = self._known
        if known is None or known.generation != before:  # another process has written, too
            self._known = None
            return
        signatures, problems = known.signatures, known.problems
        for path in gone:
            signatures.pop(path, None)
            problems.pop(path, None)
        for path, (seen, content) in contents.items():
            problems.pop(path, None)
            if isinstance(content, str):
                signatures[path], problems[path] = seen, content
            else:
                signatures[path] = content.signature
        self._known = store.Known(generation=after, signatures=signatures, problems=problems)


def _batches(paths: Sequence[str], size: int) -> list[list[str]]:
    rest = iter(paths)
    return list(iter(lambda: list(islice(rest, size)), []))


def _find(
    connection: sqlite3.Connection,
    terms: Sequence[Term],
    scope: files.Scope | None,
    limit: int,
) -> list[tuple[store.Row, Sequence[Term]]]:
    """Return the best documents, each with the terms that stand in it."""
    wide = [term.widened() for term in terms]
    for tried, word in ((terms, " AND "), (wide, " AND "), (terms, " OR "), (wide, " OR ")):
        expression = word.join(term.expression for term in tried)
        ids = store.ranked(connection, expression, scope=scope, limit=limit)
        if ids:
            return [(row, tried) for row in store.rows(connection, ids)]
    return []


def _result(
    found: Sequence[tuple[store.Row, Sequence[Term]]],
    terms: Sequence[Term],
    limit: int,
    problems: Mapping[str, str],
) -> SearchResult:
    hits: list[Hit] = []
    for row, tried in found:
        if len(hits) >= limit:
            break
        hits += islice(_hits(row, tried), limit - len(hits))
    return SearchResult(
        summaries=tuple(_summary(row, tried, terms) for row, tried in found),
        hits=tuple(hits),
        left_out=tuple(problems[path] for path in sorted(problems)),
    )


def _summary(row: store.Row, tried: Sequence[Term], terms: Sequence[Term]) -> Summary:
    document = row.document
    everywhere = document.title + document.aliases + document.body
    held = [
        term.text for term, each in zip(terms, tried, strict=True) if each.pattern in everywhere
    ]
    return Summary(
        article=name_of(row.path),
        occurrences=occurrences(document.body, tried) or occurrences(everywhere, tried),
        matched_terms=tuple(held),
    )


def _hits(row: store.Row, terms: Sequence[Term]) -> Iterator[Hit]:
    document = row.document
    lines = document.text.split("\n")
    # Only the name of the file holds them: its first line stands for the article.
    numbers = matching_lines(document.body, document.starts, terms, most=_HITS_EACH) or (1,)
    for number in numbers:
        yield Hit(
            article=name_of(row.path),
            anchor=anchor_at(document.sections, number),
            line=number,
            excerpt=excerpt(lines[number - 1], terms),
        )
