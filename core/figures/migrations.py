"""The store's tables, as numbered steps. Append only: a step that was released never changes.

`PRAGMA user_version` holds how many of them a file has seen.
"""

from __future__ import annotations

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
    (
        """
        CREATE TABLE evaluation (
            id INTEGER PRIMARY KEY,
            measured_at TEXT NOT NULL,
            model_id TEXT NOT NULL,
            revision TEXT NOT NULL,
            original_id TEXT NOT NULL,
            original_revision TEXT NOT NULL,
            machine TEXT NOT NULL,
            heldout TEXT NOT NULL,
            bits_per_weight REAL NOT NULL,
            size_bytes INTEGER NOT NULL,
            perplexity REAL NOT NULL,
            original_perplexity REAL NOT NULL,
            kl REAL NOT NULL,
            agreement REAL NOT NULL,
            mlx TEXT NOT NULL,
            mlx_lm TEXT NOT NULL,
            mlxbun TEXT NOT NULL,
            found TEXT NOT NULL
        )
        """,
        "CREATE INDEX evaluation_by_model ON evaluation (model_id, measured_at)",
    ),
)
