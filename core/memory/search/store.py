"""The tables of the index, and their queries. Knows no files."""

from __future__ import annotations

import json
import secrets
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from core.memory.search.document import Document, make_document
from core.memory.search.files import FOLDERS, UNSETTLED, Content, Signature
from core.memory.search.tokens import VERSION as TOKENS_VERSION

if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Iterable, Mapping, Sequence

    from core.memory.search.files import Scope

_TABLES_VERSION = 1
VERSION = _TABLES_VERSION * 1000 + TOKENS_VERSION
"""Of the file: another version is rebuilt. Raise `_TABLES_VERSION` with every change of `TABLES`
or of `core.memory.search.document`."""

# The columns of `words` hold words that our own tokenizer has cut, so FTS5's has only to split at
# white space. `document` keeps the words, which FTS5 needs again to delete a row.
TABLES: tuple[str, ...] = (
    "CREATE TABLE state (generation INTEGER NOT NULL)",
    "INSERT INTO state VALUES (0)",
    """
    CREATE TABLE file (
        id INTEGER PRIMARY KEY,
        path TEXT NOT NULL UNIQUE,
        folder TEXT NOT NULL,
        signature TEXT NOT NULL,
        digest BLOB,
        problem TEXT
    )
    """,
    """
    CREATE TABLE document (
        id INTEGER PRIMARY KEY REFERENCES file (id),
        title TEXT NOT NULL,
        aliases TEXT NOT NULL,
        body TEXT NOT NULL,
        starts BLOB NOT NULL,
        sections TEXT NOT NULL,
        text TEXT NOT NULL
    )
    """,
    """
    CREATE VIRTUAL TABLE words USING fts5 (
        title, aliases, body,
        content = 'document', content_rowid = 'id', tokenize = "ascii tokenchars '+#$'"
    )
    """,
    "INSERT INTO words (words, rank) VALUES ('rank', 'bm25(8.0, 5.0, 1.0)')",
)


@dataclass(frozen=True, kw_only=True)
class Known:
    """What the index knows of the files."""

    generation: int
    """Drawn anew with every change of the index; 0: it is empty."""
    signatures: dict[str, Signature]
    """By path."""
    problems: dict[str, str]
    """Why a file is not searched, by path."""


@dataclass(frozen=True, kw_only=True)
class Row:
    """A document that was found."""

    path: str
    """Of its file, relative to the vault."""
    document: Document
    """What the index keeps of it."""


def generation(connection: sqlite3.Connection) -> int:
    """Return by what a change of the index is noticed."""
    ((number,),) = connection.execute("SELECT generation FROM state")
    return int(number)


def known(connection: sqlite3.Connection) -> Known:
    """Return what the index knows of the files."""
    signatures, problems = {}, {}
    for path, signature, problem in connection.execute("SELECT path, signature, problem FROM file"):
        signatures[path] = tuple(map(int, signature.split()))
        if problem is not None:
            problems[path] = problem
    return Known(generation=generation(connection), signatures=signatures, problems=problems)


def update(
    connection: sqlite3.Connection,
    *,
    changed: Mapping[str, tuple[Signature, Content | str]],
    gone: Iterable[str],
) -> tuple[int, int]:
    """Bring files into the index and others out of it; return its generation before and after.

    Args:
        connection: in a transaction that writes.
        changed: by path, the signature with which a file was seen and what stood in it, or why it
            is not searched.
        gone: paths of files that are not there any more.
    """
    before = generation(connection)
    for path in gone:
        _delete(connection, path)
    for path, (signature, content) in changed.items():
        _put(connection, path, signature, content)
    after = secrets.randbits(62) + 1
    connection.execute("UPDATE state SET generation = ?", (after,))
    return before, after


def _put(
    connection: sqlite3.Connection, path: str, signature: Signature, content: Content | str
) -> None:
    stored = connection.execute("SELECT digest FROM file WHERE path = ?", (path,)).fetchone()
    if stored and isinstance(content, Content) and stored["digest"] == content.digest:
        connection.execute(
            "UPDATE file SET signature = ?, problem = NULL WHERE path = ?",
            (_written(content.signature), path),
        )
        return
    if stored:
        _delete(connection, path)
    problem = content if isinstance(content, str) else None
    folder, _, name = path.partition("/")
    digest = content.digest if isinstance(content, Content) else None
    seen = content.signature if isinstance(content, Content) else signature
    row = connection.execute(
        "INSERT INTO file (path, folder, signature, digest, problem) VALUES (?, ?, ?, ?, ?)",
        (path, folder, _written(seen), digest, problem),
    ).lastrowid
    if isinstance(content, Content):
        document = make_document(name.removesuffix(".md"), content.text)
        _insert(connection, int(row or 0), document)


def _insert(connection: sqlite3.Connection, row: int, document: Document) -> None:
    words = (document.title, document.aliases, document.body)
    connection.execute(
        "INSERT INTO document VALUES (?, ?, ?, ?, ?, ?, ?)",
        (row, *words, document.starts, json.dumps(document.sections), document.text),
    )
    connection.execute(
        "INSERT INTO words (rowid, title, aliases, body) VALUES (?, ?, ?, ?)", (row, *words)
    )


def _delete(connection: sqlite3.Connection, path: str) -> None:
    stored = connection.execute("SELECT id FROM file WHERE path = ?", (path,)).fetchone()
    if stored is None:
        return
    row = (stored["id"],)
    connection.execute(
        "INSERT INTO words (words, rowid, title, aliases, body) "
        "SELECT 'delete', id, title, aliases, body FROM document WHERE id = ?",
        row,
    )
    connection.execute("DELETE FROM document WHERE id = ?", row)
    connection.execute("DELETE FROM file WHERE id = ?", row)


def ranked(
    connection: sqlite3.Connection, expression: str, *, scope: Scope | None, limit: int
) -> list[int]:
    """Return the ids of the documents that match an FTS5 expression, the best first."""
    folder = FOLDERS[scope] if scope else None
    rows = connection.execute(
        "SELECT words.rowid FROM words JOIN file ON file.id = words.rowid "
        "WHERE words MATCH ? AND (? IS NULL OR file.folder = ?) ORDER BY rank LIMIT ?",
        (expression, folder, folder, limit),
    )
    return [row for (row,) in rows]


def rows(connection: sqlite3.Connection, ids: Sequence[int]) -> list[Row]:
    """Return documents, in the order of their ids."""
    query = "SELECT * FROM document JOIN file USING (id) WHERE id = ?"
    return [_row(connection.execute(query, (each,)).fetchone()) for each in ids]


def _row(row: Mapping[str, Any]) -> Row:
    document = Document(
        title=row["title"],
        aliases=row["aliases"],
        body=row["body"],
        starts=row["starts"],
        sections=tuple((start, anchor) for start, anchor in json.loads(row["sections"])),
        text=row["text"],
    )
    return Row(path=row["path"], document=document)


def _written(signature: Signature) -> str:
    return "" if signature == UNSETTLED else " ".join(map(str, signature))
