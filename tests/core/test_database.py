"""A SQLite file that can be made again: private, of one version, and gone when it is erased."""

from __future__ import annotations

import sqlite3
import stat
from pathlib import Path

import pytest

from core.database import Database, MemoryDatabase
from core.errors import MlxbunError

TABLES = ("CREATE TABLE one (text TEXT)",)


class Kept:
    """A database whose notes are kept."""

    def __init__(self, path: Path, version: int = 1) -> None:
        self.path = path
        self.notes: list[str] = []
        self.database = Database(
            path,
            name="The cache",
            migrations=(TABLES,),
            on_note=self.notes.append,
            disposable=version,
        )

    def add(self, text: str) -> None:
        self.database.write(lambda c: c.execute("INSERT INTO one VALUES (?)", (text,)))

    def texts(self) -> list[str] | None:
        def look(connection: sqlite3.Connection) -> list[str] | None:
            return [text for (text,) in connection.execute("SELECT text FROM one")]

        return self.database.read(look, otherwise=None)


@pytest.fixture
def kept(tmp_path: Path) -> Kept:
    return Kept(tmp_path / "folder" / "cache.db")


def test_only_the_user_reads_it(kept: Kept) -> None:
    assert kept.texts() is None
    kept.add("a")
    assert kept.texts() == ["a"]
    assert stat.S_IMODE(kept.path.stat().st_mode) == 0o600
    assert stat.S_IMODE(kept.path.parent.stat().st_mode) == 0o700


@pytest.mark.parametrize("newer", [True, False])
def test_another_version_is_left_out_and_replaced(kept: Kept, newer: bool) -> None:
    Kept(kept.path, version=2 if newer else 1).add("old")
    other = Kept(kept.path, version=1 if newer else 2)
    assert other.texts() is None
    other.add("new")
    assert other.texts() == ["new"]
    assert b"old" not in kept.path.read_bytes()
    assert other.notes == []


@pytest.mark.parametrize("content", [b"no database at all", b"SQLite format 3\0" + b"x" * 4096])
def test_damage_is_replaced_without_a_copy(kept: Kept, content: bytes) -> None:
    kept.add("old")
    kept.path.write_bytes(content)
    assert kept.texts() is None
    assert "is damaged" in kept.notes[0]
    kept.add("new")
    assert kept.texts() == ["new"]
    assert kept.notes[-1] == "The cache was damaged and is made again."
    assert {path.name for path in kept.path.parent.iterdir()} == {"cache.db", "cache.db.lock"}


def test_missing_tables_are_damage_and_a_wrong_statement_is_an_error(kept: Kept) -> None:
    kept.add("a")
    with sqlite3.connect(kept.path) as connection:
        connection.execute("DROP TABLE one")
    assert kept.texts() is None
    kept.add("b")
    assert kept.texts() == ["b"]
    with pytest.raises(MlxbunError, match="no such table"):
        kept.database.write(lambda c: c.execute("INSERT INTO two VALUES (1)"))


def test_an_erased_file_is_gone(kept: Kept) -> None:
    kept.database.erase()
    kept.add("a")
    kept.database.erase()
    assert list(kept.path.parent.iterdir()) == []
    assert kept.texts() is None


def test_in_memory_a_change_is_whole_or_not_at_all() -> None:
    database = MemoryDatabase(TABLES)

    def fail(connection: sqlite3.Connection) -> None:
        connection.execute("INSERT INTO one VALUES ('a')")
        raise ValueError("changed its mind")

    def count(connection: sqlite3.Connection) -> int:
        return len(connection.execute("SELECT * FROM one").fetchall())

    with pytest.raises(ValueError, match="changed its mind"):
        database.write(fail)
    assert database.read(count, otherwise=-1) == 0
    database.write(lambda c: c.execute("INSERT INTO one VALUES ('a')"))
    assert database.read(count, otherwise=-1) == 1
    database.erase()
    assert database.read(count, otherwise=-1) == 0


def test_tables_that_sqlite_cannot_make_are_one_sentence() -> None:
    with pytest.raises(MlxbunError, match="no such module: nosuch"):
        MemoryDatabase(("CREATE VIRTUAL TABLE one USING nosuch (text)",))
