"""The one output sink. Data goes to stdout, everything else to stderr; `--json` is JSON alone.

Nothing outside this module prints. Rich is imported when a person reads, not for `--json`.
"""

from __future__ import annotations

import io
import json
import os
import sys
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any, TextIO

from core.errors import MlxbunError
from core.units import format_bytes

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from commands._shared.transfer import TransferView
    from core.progress import OnProgress, Progress


class ReaderGone(Exception):
    """Nobody reads our output any more: the end of a pipe was closed."""


class Console:
    """Writes tables, records, text and progress.

    Attributes:
        json_mode: print data as JSON and nothing else on stdout.
    """

    def __init__(
        self, *, json_mode: bool = False, out: TextIO | None = None, err: TextIO | None = None
    ) -> None:
        self.json_mode = json_mode
        # Python has None for a stream that was closed before it started (`mlxbun ls >&-`).
        self._out = out or sys.stdout or io.StringIO()
        self._err = err or sys.stderr or io.StringIO()

    @property
    def width(self) -> int | None:
        """Columns of the terminal that data goes to; None: it goes to a file or a pipe."""
        if not self._out.isatty():
            return None
        from shutil import get_terminal_size

        return get_terminal_size().columns

    def table(self, rows: Sequence[Mapping[str, Any]], columns: Mapping[str, str]) -> None:
        """Show rows. `columns` maps a row's key to its heading; JSON keeps every key."""
        if self.json_mode:
            self.json(list(rows))
            return
        from rich.table import Table

        table = Table(box=None, pad_edge=False, header_style="bold")
        for key, heading in columns.items():
            numbers = all(isinstance(row.get(key), int | float) for row in rows)
            table.add_column(heading, justify="right" if numbers else "left", overflow="fold")
        for row in rows:
            table.add_row(*(_cell(row.get(key)) for key in columns))
        rich = self._rich(self._out)
        with rich.capture() as shown:
            rich.print(table)
        self._write(self._out, shown.get())

    def record(self, data: Mapping[str, Any]) -> None:
        """Show one thing as `name  value` lines, nested mappings indented."""
        if self.json_mode:
            self.json(dict(data))
        else:
            self._record_lines(data, "")

    def json(self, data: Any) -> None:
        """Print one JSON document on stdout."""
        self._write(self._out, json.dumps(data, indent=2, ensure_ascii=False, default=str) + "\n")

    def event(self, data: Mapping[str, Any]) -> None:
        """Print one line of JSON on stdout: many of them are NDJSON."""
        self._write(self._out, json.dumps(dict(data), ensure_ascii=False, default=str) + "\n")

    def text(self, chunk: str) -> None:
        """Write text to stdout as it is and at once: a streamed answer, a version."""
        self._write(self._out, chunk)

    def note(self, line: str) -> None:
        """Tell a person something that is not data, on stderr, while somebody is there to hear."""
        with suppress(ReaderGone, MlxbunError):
            self._write(self._err, line + "\n")

    def error(self, error: MlxbunError) -> None:
        """Say what went wrong and what to do next, on stderr."""
        self.note(f"mlxbun: {error.message}")
        if error.hint:
            self.note(f"  {error.hint}")

    @contextmanager
    def progress(self) -> Iterator[OnProgress]:
        """Show the reports of a task: a live bar on a terminal, else a line per quarter."""
        if not self._err.isatty():
            yield _PlainProgress(self)
            return
        from rich.progress import BarColumn, TimeRemainingColumn
        from rich.progress import Progress as Bars

        columns = (
            "{task.description}",
            BarColumn(),
            "{task.fields[amount]}",
            TimeRemainingColumn(),
        )
        with Bars(*columns, console=self._rich(self._err), transient=True) as bars:
            tasks: dict[str, Any] = {}

            def show(report: Progress, /) -> None:
                if report.task not in tasks:
                    tasks[report.task] = bars.add_task(report.task, total=report.total, amount="")
                task, speed = tasks[report.task], bars.tasks[tasks[report.task]].speed
                amount = _amount(report, speed)
                bars.update(task, completed=report.done, total=report.total, amount=amount)

            yield show

    @contextmanager
    def transfer(self) -> Iterator[TransferView]:
        """Show files on their way: bars on a terminal, else a line every few seconds."""
        from commands._shared.transfer import LiveTransfer, PlainTransfer

        rich = self._rich(self._err) if self._err.isatty() else None
        if rich is None or rich.is_dumb_terminal:
            yield PlainTransfer(self.note)
            return
        with LiveTransfer(rich) as view:
            yield view

    def _record_lines(self, data: Mapping[str, Any], indent: str) -> None:
        width = max((len(str(key)) for key in data), default=0)
        for key, value in data.items():
            if isinstance(value, dict):
                self._write(self._out, f"{indent}{key}\n")
                self._record_lines(value, indent + "  ")
            else:
                self._write(self._out, f"{indent}{key!s:<{width}}  {_cell(value)}\n")

    def _rich(self, stream: TextIO) -> Any:
        from rich.console import Console as RichConsole

        # A pipe has no width; folding data at 80 columns there would break `grep` and `cut`.
        width = None if stream.isatty() else 10_000
        return RichConsole(file=stream, width=width, highlight=False, markup=False)

    @staticmethod
    def _write(stream: TextIO, text: str) -> None:
        try:
            stream.write(text)
            stream.flush()
        except OSError as problem:
            # Python flushes once more at exit, and would complain: let that go nowhere.
            os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())
            if isinstance(problem, BrokenPipeError):
                raise ReaderGone from None
            raise MlxbunError(f"The output cannot be written: {problem.strerror}.") from problem


class _PlainProgress:
    """Progress for a log file: a line for every quarter that was reached."""

    def __init__(self, console: Console) -> None:
        self._console = console
        self._shown: dict[str, int] = {}

    def __call__(self, report: Progress, /) -> None:
        quarter = 4 * report.done // report.total if report.total else 0
        if self._shown.get(report.task, -1) >= quarter:
            return
        self._shown[report.task] = quarter
        whole = f": {quarter * 25}% of {_count(report.total, report.unit)}" if report.total else ""
        self._console.note(report.task + whole)


def _amount(report: Progress, speed: float | None) -> str:
    """Return how much is done, of bytes also how fast: `12 of 45 figures`."""
    if report.unit != "bytes":
        return (
            f"{report.done} of {report.total} {report.unit}" if report.total else str(report.done)
        )
    whole = f" of {format_bytes(report.total)}" if report.total else ""
    pace = f", {format_bytes(speed)}/s" if speed else ""
    return format_bytes(report.done) + whole + pace


def _count(number: int, unit: str) -> str:
    return format_bytes(number) if unit == "bytes" else f"{number} {unit}"


def _cell(value: Any) -> str:
    if value is None:
        return "-"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, list | tuple):
        return ", ".join(map(_cell, value)) or "-"
    # What comes from a disk or the net must not move the cursor or break a table.
    return "".join(c if c.isprintable() else "\N{REPLACEMENT CHARACTER}" for c in str(value))
