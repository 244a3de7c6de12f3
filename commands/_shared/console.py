"""The one output sink. Data goes to stdout, everything else to stderr; `--json` is JSON alone.

Every JSON document and every line of NDJSON is an object that carries `schema`; docs/json.md says
what else. Nothing outside this module prints. Rich is imported when a person reads, not for
`--json`.
"""

from __future__ import annotations

import io
import json
import math
import re
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any, Literal, TextIO

from commands._shared.failure import exit_code, failure_as_json
from commands._shared.streams import ReaderGone, Streams, is_unicode, whole_characters
from core.errors import MlxbunError
from core.units import format_bytes

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    from commands._shared.transfer import TransferView
    from core.progress import OnProgress, Progress

__all__ = ["SCHEMA", "Console", "ReaderGone"]

SCHEMA = 1
"""The version of all JSON that the commands print: raised when a key goes or means another thing.

A new key does not raise it.
"""

# What JSON lets stand as it is, and a terminal obeys: controls, ends of lines, directions of text.
_UNSEEN = re.compile("[\x7f-\x9f\u200e\u200f\u2028-\u202e\u2066-\u2069]")

# What a name may bring into a sentence, and a terminal would obey: all that, and more controls.
_OBEYED = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u200e\u200f\u2028-\u202e\u2066-\u2069]")
_UNSHOWN = "\N{REPLACEMENT CHARACTER}"


class Console:
    """Writes tables, records, text and progress.

    Attributes:
        json_mode: print data as JSON and nothing else on stdout.
        quiet: keep notes and progress to ourselves; data and errors are shown.
    """

    def __init__(
        self,
        *,
        json_mode: bool = False,
        quiet: bool = False,
        streams: Streams | None = None,
    ) -> None:
        """Take the streams; by default those of the process."""
        self.json_mode = json_mode
        self.quiet = quiet
        self._streams = streams or Streams()

    @property
    def width(self) -> int | None:
        """Columns of the terminal that data goes to; None: it goes to a file or a pipe."""
        if not self._streams.out.isatty():
            return None
        from shutil import get_terminal_size

        return get_terminal_size().columns

    @property
    def styled(self) -> bool:
        """Whether data may have colors: it goes to a terminal, and nothing speaks against it."""
        return self._streams.is_styled(self._streams.out)

    def table(
        self, rows: Sequence[Mapping[str, Any]], columns: Mapping[str, str], *, key: str = "rows"
    ) -> None:
        """Show rows.

        Args:
            rows: mappings with the same keys; JSON keeps all of them.
            columns: the keys that a person sees, with their headings.
            key: what JSON calls the rows.
        """
        if self.json_mode:
            self.json({key: list(rows)})
            return
        from rich.table import Table

        table = Table(box=None, pad_edge=False, header_style="bold")
        for name, heading in columns.items():
            numbers = all(isinstance(row.get(name), int | float) for row in rows)
            table.add_column(heading, justify="right" if numbers else "left", overflow="fold")
        for row in rows:
            table.add_row(*(_cell(row.get(name)) for name in columns))
        # A pipe has no width; folding data at 80 columns there would break `grep` and `cut`.
        drawn = io.StringIO()
        self._rich(drawn, styled=self.styled, width=self.width or 10_000).print(table)
        self._streams.write("".join(f"{line.rstrip()}\n" for line in drawn.getvalue().splitlines()))

    def record(self, data: Mapping[str, Any]) -> None:
        """Show one thing as `name  value` lines, nested mappings indented."""
        if self.json_mode:
            self.json(data)
        else:
            self._record_lines(data, "")

    def json(self, data: Mapping[str, Any]) -> None:
        """Print the one JSON document of a command on stdout."""
        self._print(data, "document", indent=2)

    def event(self, data: Mapping[str, Any]) -> None:
        """Print one line of JSON on stdout: many of them are NDJSON."""
        self._print(data, "events", indent=None)

    def text(self, chunk: str) -> None:
        """Write text to stdout as it is and at once: a streamed answer, a version."""
        self._streams.write(chunk)

    def lines(self, lines: Iterable[str]) -> None:
        """Print lines on stdout; what a terminal would obey is replaced."""
        self._streams.write("".join(f"{_OBEYED.sub(_UNSHOWN, line)}\n" for line in lines))

    def document(self, data: bytes) -> None:
        """Print a text file: byte for byte, but on a terminal without what it would obey."""
        if not self._streams.out.isatty():
            self._streams.write_bytes(data)
            return
        text = data.decode("utf-8", "replace").replace("\r\n", "\n")
        self.lines(text.removesuffix("\n").split("\n"))

    def note(self, line: str) -> None:
        """Tell a person something that is not data, on stderr; not with `--quiet`."""
        if not self.quiet:
            self.reply(line)

    def aside(self, chunk: str) -> None:
        """Let a person watch text that is not data as it comes, faint on stderr: reasoning.

        Only on a terminal, and not with `--quiet`: a log would hold it without its looks.
        """
        if self.quiet or not self._streams.err.isatty():
            return
        faint = self._streams.is_styled(self._streams.err)
        self._streams.tell(f"\x1b[2m{chunk}\x1b[0m" if faint else chunk)

    def reply(self, line: str) -> None:
        """Tell a person what was asked for at the keyboard, on stderr."""
        self._streams.tell(_OBEYED.sub("\N{REPLACEMENT CHARACTER}", line) + "\n")

    def error(self, error: MlxbunError, *, event: str = "failed") -> None:
        """Say what went wrong and what to do next; as `fail`."""
        self.fail(error.message, hint=error.hint, code=exit_code(error), event=event)

    def fail(self, message: str, *, hint: str | None, code: int, event: str = "failed") -> None:
        """Say what went wrong on stderr, with `--json` also as an object on stdout.

        Where a whole document is there already, it stays the only one.

        Args:
            message: what happened, one sentence.
            hint: what to do next, one sentence, or None.
            code: what the shell is told.
            event: what JSON calls it; `failed` is the end of the command.
        """
        self.reply(f"mlxbun: {message}")
        if hint:
            self.reply(f"  {hint}")
        if self.json_mode and self._streams.printed != "document":
            told = failure_as_json(message, hint=hint, code=code)
            with suppress(ReaderGone, MlxbunError):
                self.event({"event": event, "error": told})

    @contextmanager
    def progress(self) -> Iterator[OnProgress]:
        """Show the reports of a task: a live bar on a terminal, else a line per quarter."""
        if self.quiet or not self._streams.is_styled(self._streams.err):
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
        rich = self._rich(self._streams.err, styled=True)
        # What goes to stdout meanwhile stays there; what goes to stderr appears above the bars.
        with Bars(*columns, console=rich, transient=True, redirect_stdout=False) as bars:
            tasks: dict[str, Any] = {}

            def show(report: Progress, /) -> None:
                if report.task not in tasks:
                    tasks[report.task] = bars.add_task(report.task, total=report.total, amount="")
                task, speed = tasks[report.task], bars.tasks[tasks[report.task]].speed
                amount = _amount(report, speed)
                bars.update(task, completed=report.done, total=report.total, amount=amount)

            yield show

    def quarters(self) -> OnProgress:
        """Return what tells the reports of a task by a line per quarter: beside a live display."""
        return _PlainProgress(self)

    @contextmanager
    def transfer(self) -> Iterator[TransferView]:
        """Show files on their way: bars on a terminal, else a line every few seconds."""
        from commands._shared.transfer import LiveTransfer, PlainTransfer

        if self.quiet or not self._streams.is_styled(self._streams.err):
            yield PlainTransfer(self.note)
            return
        with LiveTransfer(self._rich(self._streams.err, styled=True)) as view:
            yield view

    @contextmanager
    def live(self) -> Iterator[Callable[[str], None] | None]:
        """Yield what draws lines at the bottom of the terminal anew; None: nothing may move."""
        if self.quiet or not self._streams.is_styled(self._streams.err):
            yield None
            return
        from rich.live import Live
        from rich.text import Text

        rich = self._rich(self._streams.err, styled=True)
        with Live(console=rich, redirect_stdout=False, refresh_per_second=5) as live:
            yield lambda lines: live.update(Text(lines, no_wrap=True, overflow="ellipsis"))

    def _print(
        self, data: Mapping[str, Any], kind: Literal["document", "events"], *, indent: int | None
    ) -> None:
        ascii_alone = not is_unicode(self._streams.out)
        whole = {"schema": SCHEMA, **_plain(data)}
        text = json.dumps(whole, indent=indent, ensure_ascii=ascii_alone, allow_nan=False)
        self._streams.printed = kind
        self._streams.write(_UNSEEN.sub(lambda found: f"\\u{ord(found[0]):04x}", text) + "\n")

    def _record_lines(self, data: Mapping[str, Any], indent: str) -> None:
        width = max((len(str(key)) for key in data), default=0)
        for key, value in data.items():
            if isinstance(value, dict):
                self._streams.write(f"{indent}{key}\n")
                self._record_lines(value, indent + "  ")
            else:
                self._streams.write(f"{indent}{key!s:<{width}}  {_cell(value)}\n")

    @staticmethod
    def _rich(file: TextIO, *, styled: bool, width: int | None = None) -> Any:
        from rich.console import Console as RichConsole

        return RichConsole(
            file=file,
            width=width,
            highlight=False,
            markup=False,
            # Told, so that it does not ask variables of which we know nothing (FORCE_COLOR).
            force_terminal=styled,
            color_system="auto" if styled else None,
        )


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
    if unit == "bytes":
        return format_bytes(number)
    return f"{number} {unit.removesuffix('s') if number == 1 else unit}"


def _plain(value: Any) -> Any:
    """Return a value as JSON has it: no number that is none, no half of a character."""
    if isinstance(value, dict):
        return {whole_characters(str(key)): _plain(inner) for key, inner in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(inner) for inner in value]
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if value is None or isinstance(value, bool | int):
        return value
    return whole_characters(str(value))


def _cell(value: Any) -> str:
    if value is None:
        return "-"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, list | tuple):
        return ", ".join(map(_cell, value)) or "-"
    # What comes from a disk or the net must not move the cursor or break a table.
    return "".join(c if c.isprintable() else "\N{REPLACEMENT CHARACTER}" for c in str(value))
