"""Results of stages that a run keeps, so that a run that broke off resumes without asking again.

What is kept are the model's answers: everything else that a stage does follows from them. An answer
is found again by the name of the model and by the whole question: the stage, its instructions and
schema (so that a new version of a stage asks anew) and its data (so that a conversation that
changed does). The file is private, lies in the cache folder, and holds redacted text only. Answers
go when the run that used them has ended well, after `_DAYS` days, and when there are too many.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from core.database import Database
from core.errors import ContextTooLong, EngineFailed

if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Callable, Iterable
    from pathlib import Path

    from core.memory.asking import Model, Question

_MIGRATIONS = (
    (
        """CREATE TABLE answers (
            key TEXT PRIMARY KEY, stage TEXT NOT NULL, answer TEXT NOT NULL,
            at TEXT NOT NULL DEFAULT (datetime('now'))
        ) STRICT""",
    ),
)
_DAYS = 30
MOST_CHARACTERS = 64_000_000
"""Characters of all kept answers; the oldest go first."""
_LONGEST_ANSWER = 1_000_000


class ResultStore:
    """The kept answers of one vault. Safe in any thread and beside any number of processes."""

    def __init__(self, folder: Path, *, on_note: Callable[[str], None]) -> None:
        """Name the file; nothing is opened or made yet.

        Args:
            folder: what memory keeps of this vault outside of it.
            on_note: called with one sentence when a damaged file is left out or moved aside.
        """
        self._database = Database(
            folder / "results.db",
            name="The store of stage results",
            migrations=_MIGRATIONS,
            on_note=on_note,
            private=True,
        )

    def get(self, key: str) -> Mapping[str, Any] | None:
        """Return a kept answer; None: there is none, or it is damaged."""

        def look(connection: sqlite3.Connection) -> str | None:
            sql = "SELECT answer FROM answers WHERE key = ?"
            row = connection.execute(sql, (key,)).fetchone()
            return None if row is None else str(row["answer"])

        text = self._database.read(look, otherwise=None)
        if text is None:
            return None
        try:
            answer = json.loads(text)
        except (ValueError, RecursionError):
            return None
        return answer if isinstance(answer, dict) else None

    def put(self, key: str, stage: str, answer: Mapping[str, Any]) -> None:
        """Keep an answer; one that is too long is not kept, and is asked for again."""
        text = json.dumps(answer, ensure_ascii=False)
        if len(text) > _LONGEST_ANSWER:
            return
        sql = "INSERT OR REPLACE INTO answers (key, stage, answer) VALUES (?, ?, ?)"
        self._database.write(lambda link: link.execute(sql, (key, stage, text)) and None)

    def remove(self, keys: Iterable[str]) -> None:
        """Delete answers."""
        rows = [(key,) for key in keys]
        sql = "DELETE FROM answers WHERE key = ?"
        if rows:
            self._database.write(lambda link: link.executemany(sql, rows) and None)

    def tidy(self) -> None:
        """Delete what is old, and the oldest of what is too much."""

        def change(connection: sqlite3.Connection) -> None:
            old = "DELETE FROM answers WHERE at < datetime('now', ?)"
            connection.execute(old, (f"-{_DAYS} days",))
            too_much = (
                "DELETE FROM answers WHERE key IN (SELECT key FROM (SELECT key, SUM(length(answer))"
                " OVER (ORDER BY at DESC, rowid DESC) AS size FROM answers) WHERE size > ?)"
            )
            connection.execute(too_much, (MOST_CHARACTERS,))

        if self.count():
            self._database.write(change)

    def clear(self) -> None:
        """Delete all answers: what the user forgets may stand in any of them."""
        if self.count():
            self._database.write(lambda link: link.execute("DELETE FROM answers") and None)

    def count(self) -> int:
        """Return how many answers are kept."""
        sql = "SELECT COUNT(*) FROM answers"
        return self._database.read(lambda link: int(link.execute(sql).fetchone()[0]), otherwise=0)


def question_key(model: str, question: Question) -> str:
    """Return the key of the answer that a model gives to a question."""
    whole = [model, question.stage, question.instructions, question.schema, question.data]
    text = json.dumps(whole, sort_keys=True, ensure_ascii=False)
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()


class ModelFailed(Exception):
    """The engine is gone; no stage may take it for an answer that is missing.

    Attributes:
        error: what it said.
    """

    def __init__(self, error: EngineFailed) -> None:
        super().__init__(error.message)
        self.error = error


class KeepingModel:
    """A `core.memory.asking.Model` that asks another one, each question once."""

    def __init__(self, model: Model, results: ResultStore) -> None:
        """Put a store before a model."""
        self._model = model
        self._results = results
        self.used: set[str] = set()
        """Keys of all answers that were given."""

    @property
    def name(self) -> str:
        """The model's."""
        return self._model.name

    def answer(self, question: Question, *, cancelled: Callable[[], bool]) -> Mapping[str, Any]:
        """Return the kept answer, or ask and keep it; an answer that is not an object is empty.

        Raises:
            Cancelled: the run was cancelled.
            ContextTooLong: the question does not fit into the model's context.
            ModelFailed: the engine is gone.
            MlxbunError: there is no answer.
        """
        key = question_key(self._model.name, question)
        self.used.add(key)
        kept = self._results.get(key)
        if kept is not None:
            return kept
        try:
            given: object = self._model.answer(question, cancelled=cancelled)
        except ContextTooLong:
            raise
        except EngineFailed as problem:
            raise ModelFailed(problem) from problem
        answer = given if isinstance(given, Mapping) else {}
        self._results.put(key, question.stage, answer)
        return answer
