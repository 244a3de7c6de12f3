"""The store's tables, as numbered steps. Append only: a step that was released never changes.

`PRAGMA user_version` holds how many of them a file has seen.
"""

from __future__ import annotations

MIGRATIONS: tuple[tuple[str, ...], ...] = (
    (
        """
        CREATE TABLE job (
            number INTEGER PRIMARY KEY AUTOINCREMENT,
            id TEXT NOT NULL UNIQUE,
            kind TEXT NOT NULL,
            status TEXT NOT NULL,
            config_json TEXT NOT NULL,
            progress REAL NOT NULL DEFAULT 0,
            message TEXT,
            output_path TEXT,
            error TEXT,
            started_at TEXT NOT NULL,
            ended_at TEXT,
            accelerator INTEGER NOT NULL,
            machine TEXT NOT NULL,
            pid INTEGER NOT NULL,
            born TEXT NOT NULL,
            claimed INTEGER NOT NULL DEFAULT 0,
            seen_at REAL NOT NULL,
            output_read INTEGER NOT NULL DEFAULT 0
        )
        """,
        "CREATE INDEX job_by_status ON job (status)",
    ),
    ("ALTER TABLE job ADD COLUMN cancel_asked INTEGER NOT NULL DEFAULT 0",),
)
