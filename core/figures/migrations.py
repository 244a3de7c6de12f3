"""The store's tables, as numbered steps. Append only: a step that was released never changes.

`PRAGMA user_version` holds how many of them a file has seen.
"""

from __future__ import annotations

import sqlite3

from core.errors import StoreCorrupt

MIGRATIONS: tuple[tuple[str, ...], ...] = (
    (
        """
        CREATE TABLE run (
            id INTEGER PRIMARY KEY,
            measured_at TEXT NOT NULL,
            complete INTEGER NOT NULL,
            model_id TEXT NOT NULL,
            revision TEXT NOT NULL,
            machine TEXT NOT NULL,
            processor TEXT NOT NULL,
            cores INTEGER NOT NULL,
            memory_bytes INTEGER NOT NULL,
            backend TEXT NOT NULL,
            mlx TEXT NOT NULL,
            mlx_lm TEXT NOT NULL,
            mlxbun TEXT NOT NULL,
            blas TEXT NOT NULL,
            loaded_as TEXT NOT NULL,
            dequantize TEXT NOT NULL,
            prefill TEXT NOT NULL,
            batch INTEGER NOT NULL,
            tokens INTEGER NOT NULL
        )
        """,
        "CREATE INDEX run_by_model ON run (model_id, machine, measured_at)",
        """
        CREATE TABLE figure (
            run_id INTEGER NOT NULL REFERENCES run (id),
            kind TEXT NOT NULL,
            size INTEGER NOT NULL,
            unit TEXT NOT NULL,
            median REAL NOT NULL,
            low REAL NOT NULL,
            high REAL NOT NULL,
            least REAL NOT NULL,
            most REAL NOT NULL,
            samples TEXT NOT NULL,
            PRIMARY KEY (run_id, kind, size)
        ) WITHOUT ROWID
        """,
    ),
)


def migrate(connection: sqlite3.Connection) -> None:
    """Bring a file to the newest tables, all steps in one transaction.

    Args:
        connection: in autocommit mode, so that transactions are begun and ended here.

    Raises:
        StoreCorrupt: a newer mlxbun has written the file.
        sqlite3.Error: it cannot be written.
    """
    if _version(connection) == len(MIGRATIONS):
        return
    connection.execute("BEGIN IMMEDIATE")
    try:
        version = _version(connection)  # another process may have been faster
        if version > len(MIGRATIONS):
            raise StoreCorrupt(
                f"The benchmark store has version {version}, and this mlxbun knows "
                f"{len(MIGRATIONS)}.",
                hint="A newer mlxbun has written it: update this one.",
            )
        for step in MIGRATIONS[version:]:
            for statement in step:
                connection.execute(statement)
        connection.execute(f"PRAGMA user_version = {len(MIGRATIONS)}")
        connection.execute("COMMIT")
    except BaseException:
        connection.execute("ROLLBACK")
        raise


def _version(connection: sqlite3.Connection) -> int:
    (version,) = connection.execute("PRAGMA user_version").fetchone()
    return int(version)
