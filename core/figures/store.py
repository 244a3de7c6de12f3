"""The benchmark store: one SQLite file, written by whoever measures, read by whoever predicts.

What happens to a file that is damaged, busy or full is `core.database`'s part.
"""

from __future__ import annotations

import json
from dataclasses import astuple, fields
from functools import partial
from typing import TYPE_CHECKING, Any

from core.database import Database
from core.figures.identity import machine_key
from core.figures.migrations import MIGRATIONS
from core.figures.records import Evaluation, Figure, MachineIdentity, Run, RunSettings

if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Callable
    from pathlib import Path

_MACHINE = tuple(f.name for f in fields(MachineIdentity))
_SETTINGS = tuple(f.name for f in fields(RunSettings))
_OWN = ("measured_at", "complete", "model_id", "revision", "mlx", "mlx_lm", "mlxbun")
_RUN = (*_OWN, "machine", *_MACHINE, *_SETTINGS)
_FIGURE = tuple(f.name for f in fields(Figure))
_EVALUATION = tuple(f.name for f in fields(Evaluation) if f.name != "evaluation_id")


class FigureStore:
    """The benchmark runs in one file. Safe in any thread and beside any number of processes."""

    def __init__(self, path: Path, *, on_note: Callable[[str], None] = lambda _note: None) -> None:
        """Name the file; nothing is opened or made yet.

        Args:
            path: the file.
            on_note: hears in one sentence that a damaged file is left out or moved aside.
        """
        self._database = Database(
            path, name="The benchmark store", migrations=MIGRATIONS, on_note=on_note
        )

    def add(self, run: Run) -> int:
        """Keep a run, whole or not at all, and return its number.

        Raises:
            MlxbunError: the file cannot be written: no permission, no space, always busy.
            StoreCorrupt: a newer mlxbun has written it.
        """
        return self._database.write(partial(self._insert, run=run))

    def runs(self, model: str | None = None, limit: int | None = None) -> list[Run]:
        """Return the runs, the newest first.

        Args:
            model: a whole model id; where no run has it, a part of one in any case. None: all.
            limit: most runs to return; None: all.

        Raises:
            MlxbunError: the file cannot be read.
        """
        where = """
            :model IS NULL OR model_id = :model
            OR NOT EXISTS (SELECT 1 FROM run WHERE model_id = :model)
            AND instr(lower(model_id), lower(:model))
        """
        return self._select(where, limit=limit, model=model)

    def latest(self, *, model_id: str, revision: str | None, machine: str) -> Run | None:
        """Return the newest complete run of a model on a machine, or None.

        Args:
            model_id: as `Run.model_id`.
            revision: as `Run.revision`; None: any.
            machine: what `machine_key` returns.

        Raises:
            MlxbunError: the file cannot be read.
        """
        where = """
            model_id = :model_id AND machine = :machine AND complete
            AND (:revision IS NULL OR revision = :revision)
        """
        found = self._select(where, limit=1, model_id=model_id, revision=revision, machine=machine)
        return found[0] if found else None

    def add_evaluation(self, evaluation: Evaluation) -> int:
        """Keep an evaluation and return its number.

        Raises:
            MlxbunError: the file cannot be written: no permission, no space, always busy.
            StoreCorrupt: a newer mlxbun has written it.
        """
        values = tuple(getattr(evaluation, name) for name in _EVALUATION)

        def insert(connection: sqlite3.Connection) -> int:
            number = connection.execute(_insert_into("evaluation", _EVALUATION), values).lastrowid
            assert number is not None
            return number

        return self._database.write(insert)

    def evaluations(self, model: str | None = None, limit: int | None = None) -> list[Evaluation]:
        """Return the evaluations, the newest first.

        Args:
            model: a whole model id, or a part of one in any case. None: all.
            limit: most evaluations to return; None: all.

        Raises:
            MlxbunError: the file cannot be read.
        """
        chosen = f"""
            SELECT id, {", ".join(_EVALUATION)} FROM evaluation
            WHERE :model IS NULL OR instr(lower(model_id), lower(:model))
            ORDER BY measured_at DESC, id DESC LIMIT :limit
        """
        values = {"model": model, "limit": -1 if limit is None else limit}

        def look(connection: sqlite3.Connection) -> list[Evaluation]:
            return [_evaluation(row) for row in connection.execute(chosen, values).fetchall()]

        return self._database.read(look, otherwise=[])

    def _insert(self, connection: sqlite3.Connection, run: Run) -> int:
        cursor = connection.execute(_insert_into("run", _RUN), _row(run))
        number = cursor.lastrowid
        assert number is not None
        connection.executemany(
            _insert_into("figure", ("run_id", *_FIGURE)),
            [(number, *_figure_row(figure)) for figure in run.figures],
        )
        return number

    def _select(self, where: str, *, limit: int | None, **values: Any) -> list[Run]:
        order = "ORDER BY measured_at DESC, id DESC LIMIT :limit"
        chosen = f"SELECT id, {', '.join(_RUN)} FROM run WHERE {where} {order}"
        values["limit"] = -1 if limit is None else limit

        def look(connection: sqlite3.Connection) -> list[Run]:
            rows = connection.execute(chosen, values).fetchall()
            return [_run(row, _figures(connection, row["id"])) for row in rows]

        return self._database.read(look, otherwise=[])


def _row(run: Run) -> tuple[Any, ...]:
    own = tuple(getattr(run, name) for name in _OWN)
    return (*own, machine_key(run.machine), *astuple(run.machine), *astuple(run.settings))


def _figure_row(figure: Figure) -> tuple[Any, ...]:
    return (*(getattr(figure, name) for name in _FIGURE[:-1]), json.dumps(figure.samples))


def _insert_into(table: str, columns: tuple[str, ...]) -> str:
    marks = ", ".join("?" for _ in columns)
    return f"INSERT INTO {table} ({', '.join(columns)}) VALUES ({marks})"


def _evaluation(row: sqlite3.Row) -> Evaluation:
    return Evaluation(**{name: row[name] for name in _EVALUATION}, evaluation_id=row["id"])


def _figures(connection: sqlite3.Connection, run_id: int) -> tuple[Figure, ...]:
    chosen = f"SELECT {', '.join(_FIGURE)} FROM figure WHERE run_id = ?"
    figures = [
        Figure(**{**dict(row), "samples": tuple(json.loads(row["samples"]))})
        for row in connection.execute(chosen, (run_id,))
    ]
    return tuple(sorted(figures, key=lambda figure: figure.order))


def _run(row: sqlite3.Row, figures: tuple[Figure, ...]) -> Run:
    own = {name: row[name] for name in _OWN}
    return Run(
        **{**own, "complete": bool(own["complete"])},
        machine=MachineIdentity(**{name: row[name] for name in _MACHINE}),
        settings=RunSettings(**{name: row[name] for name in _SETTINGS}),
        figures=figures,
        run_id=row["id"],
    )
