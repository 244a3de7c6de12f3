"""How files on their way are shown: live bars for a person, lines for a log. Used by the console.

Both are called from the transfer's thread.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any, Protocol

from core.units import format_bytes, format_seconds

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import TracebackType

    from core.progress import Transfer

_LINE_SECONDS = 5.0  # between two lines of a log
_LONGEST_LEFT = 100 * 3600  # what would take longer stands still


class TransferView(Protocol):
    """Where a transfer is shown."""

    def show(self, transfer: Transfer) -> None:
        """Show where it stands now."""

    def say(self, line: str) -> None:
        """Tell something that has happened."""


class PlainTransfer:
    """Lines: one every few seconds while bytes come, and whatever is said."""

    def __init__(
        self, write: Callable[[str], None], *, clock: Callable[[], float] = time.monotonic
    ) -> None:
        """Begin.

        Args:
            write: takes a line.
            clock: tells seconds.
        """
        self._write = write
        self._clock = clock
        self._last = clock()

    def show(self, transfer: Transfer) -> None:
        """Write a line when the last one is old enough."""
        if self._clock() - self._last >= _LINE_SECONDS:
            self._last = self._clock()
            self._write(f"{transfer.task}: {amount_of(transfer)}")

    def say(self, line: str) -> None:
        """Write a line."""
        self._write(line)


class LiveTransfer:
    """Bars: one for everything and one for each file that is on its way. A context manager."""

    def __init__(self, rich: Any) -> None:
        """Prepare; nothing is drawn yet.

        Args:
            rich: a Rich console on a terminal.
        """
        from rich.progress import BarColumn, Progress, TextColumn
        from rich.table import Column

        # Where a terminal is narrow, names give way first.
        name = Column(no_wrap=True, overflow="ellipsis", ratio=1)
        amount = Column(no_wrap=True)
        self._bars = Progress(
            TextColumn("{task.description}", markup=False, table_column=name),
            BarColumn(bar_width=14),
            TextColumn("{task.fields[amount]}", markup=False, table_column=amount),
            console=rich,
            transient=True,
            redirect_stdout=False,
            expand=True,
            refresh_per_second=5,
        )
        self._whole: Any = None
        self._files: dict[str, Any] = {}

    def __enter__(self) -> LiveTransfer:
        self._bars.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._bars.stop()

    def show(self, transfer: Transfer) -> None:
        """Draw the bars anew."""
        if self._whole is None:
            self._whole = self._bars.add_task(transfer.task, amount="")
        amount = amount_of(transfer)
        self._bars.update(self._whole, completed=transfer.done, total=transfer.total, amount=amount)
        for name in self._files.keys() - {file.task for file in transfer.moving}:
            self._bars.remove_task(self._files.pop(name))
        for file in transfer.moving:
            if file.task not in self._files:
                self._files[file.task] = self._bars.add_task(f"  {file.task}", amount="")
            done = file.total is not None and file.done >= file.total
            amount = "checking" if done else f"{format_bytes(file.done)} of {_bytes(file.total)}"
            self._bars.update(
                self._files[file.task], completed=file.done, total=file.total, amount=amount
            )

    def say(self, line: str) -> None:
        """Print a line above the bars."""
        self._bars.console.print(line, markup=False, highlight=False, soft_wrap=True)


def amount_of(transfer: Transfer) -> str:
    """Return how much is there, how fast it comes and how long it takes, on one line."""
    parts = [f"{format_bytes(transfer.done)} of {format_bytes(transfer.total)}"]
    if transfer.rate:
        parts.append(f"{format_bytes(transfer.rate)}/s")
    left = transfer.seconds_left
    if left and left < _LONGEST_LEFT:
        parts.append(f"{format_seconds(max(round(left), 1))} left")
    return ", ".join(parts)


def _bytes(count: int | None) -> str:
    return "?" if count is None else format_bytes(count)
