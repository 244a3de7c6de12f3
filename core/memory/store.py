"""Ingested conversations, and what became of them: one SQLite file per vault.

Holds redacted text only. Files, and what is forgotten, are kept as keyed hashes: neither a path nor
a forgotten text can be read from it. Knows neither readers nor articles.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import datetime
from typing import TYPE_CHECKING, Literal, cast

from core.database import Database
from core.memory.estimate import estimated_tokens
from core.memory.forgotten import ForgottenMarks
from core.memory.redact.key import keyed
from core.memory.sources.raw import digest_of
from core.memory.turns import SourceConversation, Turn

if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Callable, Iterable, Sequence
    from pathlib import Path

    from core.memory.turns import Role, SourceKind

Outcome = Literal["new", "changed", "unchanged", "older", "forgotten"]
"""What `add` did: `older` is a version that an earlier file had newer; nothing is stored then."""

_MIGRATIONS = (
    (
        """CREATE TABLE conversations (
            id TEXT PRIMARY KEY, kind TEXT NOT NULL, title TEXT NOT NULL, began TEXT, last TEXT,
            digest TEXT NOT NULL, origin TEXT NOT NULL, tokens INTEGER NOT NULL,
            synthesized TEXT, run TEXT
        ) STRICT""",
        """CREATE TABLE turns (
            conversation TEXT NOT NULL REFERENCES conversations ON DELETE CASCADE,
            position INTEGER NOT NULL, id TEXT NOT NULL, role TEXT NOT NULL, text TEXT NOT NULL,
            at TEXT, PRIMARY KEY (conversation, position)
        ) STRICT, WITHOUT ROWID""",
        "CREATE INDEX turns_by_id ON turns (id)",
        """CREATE TABLE files (
            file TEXT PRIMARY KEY, state TEXT NOT NULL
        ) STRICT, WITHOUT ROWID""",
    ),
)
_COPIED: tuple[SourceKind, ...] = ("claude-code", "codex")
_MANY = 500  # parameters of one statement


@dataclass(frozen=True, kw_only=True)
class ConversationHead:
    """What the store knows of a conversation besides its turns."""

    id: str
    """`KIND:ID`."""
    kind: SourceKind
    """Where it comes from."""
    title: str
    """May be empty."""
    at: datetime | None
    """When it began."""
    last: datetime | None
    """When its last dated turn was written."""
    digest: str
    """Over its redacted turns."""
    tokens: int
    """Tokens of its turns, estimated from their length."""
    synthesized: str | None
    """The digest up to which articles were written from it; None: never."""


class ConversationStore:
    """The conversations of one vault. Safe in any thread and beside any number of processes."""

    def __init__(
        self, folder: Path, *, key: bytes, marks: Path, on_note: Callable[[str], None]
    ) -> None:
        """Name the files; nothing is opened or made yet.

        Args:
            folder: what memory keeps of this vault outside of it.
            key: the vault's secret (`core.memory.redact.key`).
            marks: the file that lists what is forgotten (`core.memory.forgotten`).
            on_note: called with one sentence when a damaged file is left out or moved aside.
        """
        self._key = key
        self._marks = ForgottenMarks(marks)
        self._database = Database(
            folder / "conversations.db",
            name="The store of conversations",
            migrations=_MIGRATIONS,
            on_note=on_note,
            private=True,
        )

    def conversations(self) -> tuple[ConversationHead, ...]:
        """Return all conversations, oldest first; undated ones come last."""
        return self._heads("")

    def unsynthesized(self, *, since: datetime | None = None) -> tuple[ConversationHead, ...]:
        """Return the conversations that are new or have changed since articles were written.

        Args:
            since: leaves out those whose last turn is older; undated ones stay.
        """
        heads = self._heads("WHERE synthesized IS NOT digest")
        return tuple(h for h in heads if since is None or h.last is None or h.last >= since)

    def get(self, source_id: str) -> SourceConversation | None:
        """Return a conversation; None: there is none with this id."""

        def look(connection: sqlite3.Connection) -> SourceConversation | None:
            sql = "SELECT * FROM conversations WHERE id = ?"
            row = connection.execute(sql, (source_id,)).fetchone()
            if row is None:
                return None
            sql = "SELECT * FROM turns WHERE conversation = ? ORDER BY position"
            turns = tuple(_turn(turn) for turn in connection.execute(sql, (source_id,)))
            return SourceConversation(
                id=row["id"],
                kind=row["kind"],
                title=row["title"],
                turns=turns,
                digest=row["digest"],
                at=_time(row["began"]),
            )

        return self._database.read(look, otherwise=None)

    def add(self, conversation: SourceConversation, *, origin: str) -> Outcome:
        """Store a conversation, unless it is there already or forgotten.

        Args:
            conversation: redacted, without turns that are forgotten (`forgotten_turns`).
            origin: the file that it was read from. The same file always replaces what it said
                before; another file only if its last turn is not older.
        """
        return self.add_all([conversation], origin=origin)[0]

    def add_all(
        self, conversations: Sequence[SourceConversation], *, origin: str
    ) -> tuple[Outcome, ...]:
        """Do for several conversations of a file what `add` does, all at once or not at all."""
        mark = self.mark("file", origin)
        return self._database.write(
            lambda connection: tuple(self._add(connection, each, mark) for each in conversations)
        )

    def _add(
        self, connection: sqlite3.Connection, conversation: SourceConversation, origin: str
    ) -> Outcome:
        if self._marks.known([self.mark("source", conversation.id)]):
            return "forgotten"
        last = max((turn.at for turn in conversation.turns if turn.at), default=None)
        sql = "SELECT digest, origin, last FROM conversations WHERE id = ?"
        before = connection.execute(sql, (conversation.id,)).fetchone()
        if before is not None:
            if before["digest"] == conversation.digest:
                return "unchanged"
            if before["origin"] != origin and _is_older(last, _time(before["last"])):
                return "older"
        _write(connection, conversation, origin=origin, last=last)
        return "new" if before is None else "changed"

    def mark_synthesized(self, digests: Iterable[tuple[str, str]], *, run: str) -> None:
        """Remember up to which digest articles were written.

        Args:
            digests: ids of conversations, each with the digest that the run has read.
            run: the run's id.
        """
        rows = [(digest, run, source) for source, digest in digests]
        sql = "UPDATE conversations SET synthesized = ?, run = ? WHERE id = ?"
        self._database.write(lambda connection: connection.executemany(sql, rows) and None)

    def copied_turns(self, conversation: SourceConversation) -> frozenset[str]:
        """Return the ids of its turns that another conversation of its kind holds already."""

        def look(connection: sqlite3.Connection) -> frozenset[str]:
            found: set[str] = set()
            for part in _parts([turn.id for turn in conversation.turns]):
                marks = ",".join("?" * len(part))
                sql = (
                    "SELECT DISTINCT turns.id FROM turns JOIN conversations AS c"
                    " ON c.id = turns.conversation"
                    f" WHERE turns.id IN ({marks}) AND c.kind = ? AND c.id <> ?"
                )
                values = (*part, conversation.kind, conversation.id)
                found.update(row[0] for row in connection.execute(sql, values))
            return frozenset(found)

        return self._database.read(look, otherwise=frozenset())

    def remove(self, ids: Iterable[str]) -> int:
        """Delete conversations and return how many there were."""
        wanted = list(ids)

        def change(connection: sqlite3.Connection) -> int:
            sql = "DELETE FROM conversations WHERE id = ?"
            return sum(connection.execute(sql, (source,)).rowcount for source in wanted)

        return self._database.write(change)

    def forget_turns(self, source_id: str, ids: frozenset[str], *, title: str | None) -> None:
        """Delete turns of a conversation, or all of it if no other is left, and mark them.

        What was synthesized stays so: the rest need not be read again.

        Args:
            source_id: the conversation; it need not be there any more.
            ids: of the turns.
            title: a new title; None: it stays.
        """
        conversation = self.get(source_id)
        kind = source_id.partition(":")[0]
        self.forget("turn", [turn_name(source_id, kind, each) for each in ids])
        if conversation is None:
            return
        # The file that it came from is read again: what is said of it is no longer so.
        sql = "DELETE FROM files WHERE file IN (SELECT origin FROM conversations WHERE id = ?)"
        self._database.write(lambda connection: connection.execute(sql, (source_id,)) and None)
        turns = tuple(turn for turn in conversation.turns if turn.id not in ids)
        if not turns:
            self.remove([source_id])
            return
        left = replace(
            conversation,
            turns=turns,
            digest=digest_of(turns),
            title=conversation.title if title is None else title,
        )

        def change(connection: sqlite3.Connection) -> None:
            sql = "SELECT origin, last FROM conversations WHERE id = ?"
            row = connection.execute(sql, (source_id,)).fetchone()
            sql = "UPDATE conversations SET synthesized = ? WHERE id = ? AND synthesized = digest"
            connection.execute(sql, (left.digest, source_id))
            _write(connection, left, origin=row["origin"], last=_time(row["last"]))

        self._database.write(change)

    def mark(self, what: str, text: str) -> str:
        """Return the keyed hash under which a text is known without being kept."""
        return keyed(self._key, what, text)

    def forget(self, what: str, texts: Iterable[str]) -> None:
        """Mark texts as forgotten.

        Args:
            what: their kind: `source` (an id), `turn` (`turn_name`), or `words` (of a sentence).
            texts: kept as keyed hashes only.
        """
        self._marks.add(self.mark(what, text) for text in texts)

    def forgotten(self, what: str, texts: Sequence[str]) -> frozenset[str]:
        """Return those of some texts that are marked as forgotten."""
        by_mark = {self.mark(what, text): text for text in texts}
        return frozenset(by_mark[mark] for mark in self._marks.known(by_mark))

    def forgotten_turns(self, conversation: SourceConversation) -> frozenset[str]:
        """Return the ids of its turns that are forgotten, here or in what they were copied from."""
        names = {
            turn_name(conversation.id, conversation.kind, turn.id): turn.id
            for turn in conversation.turns
        }
        return frozenset(names[name] for name in self.forgotten("turn", list(names)))

    def is_forgotten(self, source_id: str, message: str) -> bool:
        """Return whether a turn of a conversation is forgotten, whether or not it is stored."""
        name = turn_name(source_id, source_id.partition(":")[0], message)
        return bool(self.forgotten("turn", [name]))

    def file_state(self, file: str) -> str | None:
        """Return what `remember_file` was given for a file; None: never."""

        def look(connection: sqlite3.Connection) -> str | None:
            sql = "SELECT state FROM files WHERE file = ?"
            row = connection.execute(sql, (self.mark("file", file),)).fetchone()
            return None if row is None else str(row["state"])

        return self._database.read(look, otherwise=None)

    def remember_file(self, file: str, state: str) -> None:
        """Remember in which state a file was read whole."""
        values = (self.mark("file", file), state)
        sql = "INSERT OR REPLACE INTO files VALUES (?, ?)"
        self._database.write(lambda connection: connection.execute(sql, values) and None)

    def _heads(self, condition: str) -> tuple[ConversationHead, ...]:
        sql = f"SELECT * FROM conversations {condition} ORDER BY began IS NULL, began, id"
        return self._database.read(
            lambda connection: tuple(_head(row) for row in connection.execute(sql)), otherwise=()
        )


def turn_name(source_id: str, kind: str, turn: str) -> str:
    """Return the name under which a turn is forgotten.

    In logs of programs that copy turns into other files, the copies have the same name.
    """
    return f"{kind if kind in _COPIED else source_id}#{turn}"


def _write(
    connection: sqlite3.Connection,
    conversation: SourceConversation,
    *,
    origin: str,
    last: datetime | None,
) -> None:
    connection.execute(
        "INSERT INTO conversations (id, kind, title, began, last, digest, origin, tokens)"
        " VALUES (?, ?, ?, ?, ?, ?, ?, ?) ON CONFLICT (id) DO UPDATE SET"
        " title = excluded.title, began = excluded.began, last = excluded.last,"
        " digest = excluded.digest, origin = excluded.origin, tokens = excluded.tokens",
        (
            conversation.id,
            conversation.kind,
            conversation.title,
            _written(conversation.at),
            _written(last),
            conversation.digest,
            origin,
            sum(estimated_tokens(turn.text) for turn in conversation.turns),
        ),
    )
    connection.execute("DELETE FROM turns WHERE conversation = ?", (conversation.id,))
    connection.executemany(
        "INSERT INTO turns VALUES (?, ?, ?, ?, ?, ?)",
        (
            (conversation.id, position, turn.id, turn.role, turn.text, _written(turn.at))
            for position, turn in enumerate(conversation.turns)
        ),
    )


def _turn(row: sqlite3.Row) -> Turn:
    return Turn(id=row["id"], role=cast("Role", row["role"]), text=row["text"], at=_time(row["at"]))


def _head(row: sqlite3.Row) -> ConversationHead:
    return ConversationHead(
        id=row["id"],
        kind=row["kind"],
        title=row["title"],
        at=_time(row["began"]),
        last=_time(row["last"]),
        digest=row["digest"],
        tokens=row["tokens"],
        synthesized=row["synthesized"],
    )


def _parts(values: Sequence[str]) -> Iterable[list[str]]:
    return (list(values[i : i + _MANY]) for i in range(0, len(values), _MANY))


def _is_older(one: datetime | None, other: datetime | None) -> bool:
    return other is not None and (one is None or one < other)


def _written(when: datetime | None) -> str | None:
    return None if when is None else when.isoformat()


def _time(text: str | None) -> datetime | None:
    return None if text is None else datetime.fromisoformat(text)
