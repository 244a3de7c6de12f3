"""What an upload looks like: tables, bars and sentences for people, JSON lines for programs."""

from __future__ import annotations

import time
from contextlib import ExitStack, contextmanager
from typing import TYPE_CHECKING, Any

from core.registry.files import printable
from core.units import format_bytes, format_seconds
from core.upload.events import FileSent, Made, Moved, Noted, Planned, Present, Retrying

if TYPE_CHECKING:
    from collections.abc import Iterator

    from commands._shared.console import Console
    from commands._shared.transfer import TransferView
    from core.progress import Transfer
    from core.upload.events import Event, OnEvent, Stage
    from core.upload.job import UploadResult
    from core.upload.plan import UploadPlan

_LINE_SECONDS = 1.0  # between two lines of progress
_KINDS = {"model": "a model", "adapter": "an adapter", "dataset": "a data set", "files": "files"}
_STAGES = {"reading": "reading", "sending": "sending"}


@contextmanager
def shown_events(console: Console) -> Iterator[OnEvent]:
    """Yield what shows the events of the upload in the block."""
    if console.json_mode:
        yield _Lines(console)
        return
    try:
        with _Sentences(console) as shown:
            yield shown
    except KeyboardInterrupt:
        console.note("What has been sent is kept: the same command sends the rest.")
        raise


def show_plan(plan: UploadPlan, console: Console) -> None:
    """Show what would be uploaded: the kind, the files, what is left out, and the card."""
    if console.json_mode:
        console.event(plan_event(plan))
        return
    console.text(f"{_beginning(plan)}\n\n")
    files = [{"file": file.name, "size": format_bytes(file.size)} for file in plan.files]
    console.table(files, {"file": "FILE", "size": "SIZE"})
    if plan.skipped:
        console.text("\n")
        left = [{"file": one.name, "reason": one.reason} for one in plan.skipped]
        console.table(left, {"file": "LEFT OUT", "reason": "WHY"})
    console.text("".join(f"\n{note}\n" for note in plan.notes))
    console.text(f"\n{plan.card.why}\n")
    if plan.card.text is not None:
        console.text(f"\n{_shown_text(plan.card.text)}")


def plan_event(plan: UploadPlan) -> dict[str, Any]:
    """Return a plan as the first line of an upload, or the only one of a dry run."""
    request = plan.request
    return {
        "event": "plan",
        "id": request.target.repo_id,
        "type": plan.repo_type,
        "kind": plan.kind,
        "revision": request.target.branch,
        "private": request.private,
        "source": str(request.source),
        "message": plan.message,
        "total_bytes": plan.total_bytes,
        "files": [{"name": file.name, "size_bytes": file.size} for file in plan.files],
        "skipped": [
            {"name": one.name, "reason": one.reason, "size_bytes": one.size} for one in plan.skipped
        ],
        "card": {
            "text": plan.card.text,
            "why": plan.card.why,
            "into_folder": request.keep_card and plan.card.text is not None,
        },
        "notes": list(plan.notes),
    }


def done_event(done: UploadResult) -> dict[str, Any]:
    """Return the last line of an upload."""
    return {
        "event": "done",
        "id": done.plan.request.target.repo_id,
        "type": done.plan.repo_type,
        "revision": done.plan.request.target.branch,
        "url": done.url,
        "commit": done.commit,
        "commit_url": done.commit_url,
        "changed": done.changed,
        "total_bytes": done.plan.total_bytes,
        "sent_bytes": done.sent_bytes,
    }


class _Sentences:
    """Events for a person. A context manager; each stage has a view of its own."""

    def __init__(self, console: Console) -> None:
        self._console = console
        self._views = ExitStack()
        self._view: TransferView | None = None
        self._stage: Stage = "reading"

    def __enter__(self) -> _Sentences:
        self._open()
        return self

    def __exit__(self, *_failure: object) -> None:
        self._views.close()

    def __call__(self, event: Event, /) -> None:
        if isinstance(event, Moved) and event.stage != self._stage:
            self._views.close()
            self._stage = event.stage
            self._open()
        view = self._view
        if view is None:
            return
        if isinstance(event, Moved):
            view.show(event.transfer)
        else:
            view.say(_sentence(event))

    def _open(self) -> None:
        self._view = self._views.enter_context(self._console.transfer())


def _sentence(event: Event) -> str:
    match event:
        case Planned(plan=plan):
            said = "\n".join([_beginning(plan), *_left_out(plan), *plan.notes, plan.card.why])
        case Made(what=what, url=url, private=private):
            kept = "private, " if private and what == "repository" else ""
            said = f"made the {what} ({kept}{url})"
        case Present(files=files, size=size):
            said = f"{_files(files)} ({format_bytes(size)}) on the Hub already"
        case FileSent(name=name, size=size):
            said = f"{name}: {format_bytes(size)}, sent"
        case Retrying(name=name, reason=reason, wait=wait):
            said = f"{name}: {reason}; trying again in {format_seconds(wait)}"
        case Noted(text=text):
            said = text
        case Moved(stage=stage):
            said = _STAGES[stage]
    return said


def _beginning(plan: UploadPlan) -> str:
    private = "private " if plan.request.private else ""
    where = f"the {private}{plan.repo_type} repository {plan.request.target}"
    source = printable(str(plan.request.source), 200)
    what = f"{_files(len(plan.files))}, {format_bytes(plan.total_bytes)}"
    return f"{source}: {_KINDS[plan.kind]}, {what}, to {where}"


def _left_out(plan: UploadPlan) -> list[str]:
    """Return a line about what is not uploaded, or none."""
    names = [printable(one.name) for one in plan.skipped]
    if not names:
        return []
    more = f" and {len(names) - 4} more" if len(names) > 4 else ""
    return [f"left out: {', '.join(names[:4])}{more} (--dry-run tells why)"]


def _files(count: int) -> str:
    return "1 file" if count == 1 else f"{count} files"


class _Lines:
    """Events for a program; progress not more often than one can read."""

    def __init__(self, console: Console) -> None:
        self._console = console
        self._last = 0.0

    def __call__(self, event: Event, /) -> None:
        if isinstance(event, Moved):
            now = time.monotonic()
            whole = event.transfer.done == event.transfer.total
            if now - self._last < _LINE_SECONDS and not whole:
                return
            self._last = now
        self._console.event(_line(event))


def _line(event: Event) -> dict[str, Any]:
    told: dict[str, Any]
    match event:
        case Planned(plan=plan):
            told = plan_event(plan)
        case Made(what=what, url=url, private=private):
            told = {"event": "made", "what": what, "url": url, "private": private}
        case Moved(stage=stage, transfer=transfer):
            told = {"event": "progress", "stage": stage, **_amounts(transfer)}
        case Present(files=files, size=size):
            told = {"event": "present", "files": files, "size_bytes": size}
        case FileSent(name=name, size=size):
            told = {"event": "file", "name": name, "size_bytes": size}
        case Retrying(name=name, reason=reason, failures=failures, wait=wait):
            more = {"reason": reason, "failures": failures, "wait_seconds": round(wait, 3)}
            told = {"event": "retry", "name": name, **more}
        case Noted(text=text):
            told = {"event": "note", "text": text}
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


def _shown_text(text: str) -> str:
    """Return a card as it can be shown on a terminal: line breaks, and nothing else that moves."""
    return "".join(
        c if c.isprintable() or c in "\n\t" else "\N{REPLACEMENT CHARACTER}" for c in text
    )
