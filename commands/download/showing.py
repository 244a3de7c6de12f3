"""What a download's events look like: bars and sentences for people, one JSON line for programs."""

from __future__ import annotations

import time
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from core.download.events import (
    FetchedAnew,
    FileDone,
    Moved,
    Planned,
    Retrying,
    Unlisted,
    Waiting,
)
from core.units import format_bytes, format_seconds

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from commands._shared.console import Console
    from commands._shared.transfer import TransferView
    from core.download.events import Event, OnEvent
    from core.download.plan import DownloadPlan
    from core.progress import Transfer

_LINE_SECONDS = 1.0  # between two lines of progress


@contextmanager
def shown_events(console: Console) -> Iterator[OnEvent]:
    """Yield what shows the events of the download in the block."""
    if console.json_mode:
        yield _Lines(console.event)
        return
    with console.transfer() as view:
        yield _Sentences(view)


@contextmanager
def comforted(console: Console) -> Iterator[None]:
    """Tell whoever presses Ctrl-C in the block that nothing is lost."""
    try:
        yield
    except KeyboardInterrupt:
        console.note("What has come is kept: the same command goes on there.")
        raise


def plan_event(plan: DownloadPlan) -> dict[str, Any]:
    """Return a plan as the first line of a download, or the only one of a dry run."""
    return {
        "event": "plan",
        "id": plan.name.repo_id,
        "revision": plan.name.revision,
        "commit": plan.commit,
        "folder": str(plan.folder),
        "total_bytes": plan.total_bytes,
        "present_bytes": plan.present_bytes,
        "missing_bytes": plan.missing_bytes,
        "files": [
            {
                "name": file.name,
                "size_bytes": file.size,
                "present_bytes": file.present,
                "complete": file.is_here,
            }
            for file in plan.files
        ],
    }


def count_files(plan: DownloadPlan) -> str:
    """Return how many files a plan has: `1 file`, `12 files`."""
    return "1 file" if len(plan.files) == 1 else f"{len(plan.files)} files"


class _Sentences:
    """Events for a person."""

    def __init__(self, view: TransferView) -> None:
        self._view = view

    def __call__(self, event: Event, /) -> None:
        if isinstance(event, Moved):
            self._view.show(event.transfer)
        else:
            self._view.say(_sentence(event))


def _sentence(event: Event) -> str:
    match event:
        case Planned(plan=plan):
            said = _beginning(plan)
        case FileDone(name=name, size=size):
            said = f"{name}: {format_bytes(size)}, checked"
        case Retrying(name=name, reason=reason, wait=wait):
            said = f"{name}: {reason}; going on in {format_seconds(wait)}"
        case Waiting(name=name):
            said = f"{name}: another program is fetching it; waiting"
        case FetchedAnew(name=name):
            said = f"{name}: its content was wrong; fetching it anew"
        case Unlisted(reason=reason):
            said = f"This download is not listed: {reason}"
        case Moved(transfer=transfer):
            said = transfer.task
    return said


def _beginning(plan: DownloadPlan) -> str:
    if all(file.is_here for file in plan.files):
        return f"{plan.name}: everything is here already, {format_bytes(plan.total_bytes)}"
    here = f", {format_bytes(plan.present_bytes)} of it here" if plan.present_bytes else ""
    return (
        f"{plan.name}: fetching {format_bytes(plan.missing_bytes)}"
        f" ({count_files(plan)}, {format_bytes(plan.total_bytes)}{here})"
    )


class _Lines:
    """Events for a program; progress not more often than one can read."""

    def __init__(self, write: Callable[[dict[str, Any]], None]) -> None:
        self._write = write
        self._last = 0.0

    def __call__(self, event: Event, /) -> None:
        if isinstance(event, Moved):
            now = time.monotonic()
            whole = event.transfer.done == event.transfer.total
            if now - self._last < _LINE_SECONDS and not whole:
                return
            self._last = now
        self._write(_line(event))


def _line(event: Event) -> dict[str, Any]:
    told: dict[str, Any]
    match event:
        case Planned(plan=plan):
            told = plan_event(plan)
        case Moved(transfer=transfer):
            told = {"event": "progress", **_amounts(transfer)}
        case FileDone(name=name, size=size):
            told = {"event": "file", "name": name, "size_bytes": size}
        case Retrying(name=name, reason=reason, failures=failures, wait=wait):
            more = {"reason": reason, "failures": failures, "wait_seconds": round(wait, 3)}
            told = {"event": "retry", "name": name, **more}
        case Waiting(name=name):
            told = {"event": "waiting", "name": name}
        case FetchedAnew(name=name):
            told = {"event": "anew", "name": name}
        case Unlisted(reason=reason):
            told = {"event": "unlisted", "reason": reason}
    return told


def _amounts(transfer: Transfer) -> dict[str, Any]:
    return {
        "done_bytes": transfer.done,
        "total_bytes": transfer.total,
        "bytes_per_second": round(transfer.rate),
        "files_done": transfer.files_done,
        "files_total": transfer.files_total,
        "files": [
            {"name": file.task, "done_bytes": file.done, "size_bytes": file.total}
            for file in transfer.moving
        ],
    }
