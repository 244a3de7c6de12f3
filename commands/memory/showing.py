"""What a run of the pipeline looks like: progress on stderr, NDJSON for programs, a summary."""

from __future__ import annotations

from contextlib import contextmanager
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from core.memory.events import Note, StageProgress, StageStarted
from core.progress import Progress
from core.units import format_seconds

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from commands._shared.console import Console
    from core.memory.events import SynthesisEvent, SynthesisSummary
    from core.memory.stages.ingest import IngestResult


@contextmanager
def shown_events(console: Console) -> Iterator[Callable[[SynthesisEvent], None]]:
    """Yield what shows the events of the run in the block; the summary is shown later."""
    if console.json_mode:

        def print_event(event: SynthesisEvent) -> None:
            if line := _event_line(event):
                console.event(line)

        yield print_event
        return
    with console.progress() as show:

        def show_event(event: SynthesisEvent) -> None:
            match event:
                case StageStarted():
                    console.note(f"{event.stage}: {event.message}")
                case StageProgress():
                    show(
                        Progress(task=event.stage, done=event.done, total=event.total, unit="items")
                    )
                case Note():
                    console.note(event.message)
                case _:
                    pass

        yield show_event


def show_summary(summary: SynthesisSummary, console: Console) -> None:
    """Print the result of a run."""
    if console.json_mode:
        console.event({"event": "done", **asdict(summary)})
        return
    if not summary.run:  # what it says was a note of the plan already
        console.record(_planned(summary))
        return
    console.note(summary.note)
    if summary.conversations:
        console.record(_done(summary))
    if summary.branch is not None:
        console.note(f"Accept or reject it with: mlxbun memory review {summary.run}")
    elif summary.refused:
        console.note("What was refused, and why, is in the folder Talk of the vault.")


def show_ingested(result: IngestResult, console: Console) -> None:
    """Print what came of the sources."""
    if console.json_mode:
        console.event({"event": "done", **result.as_json()})
        return
    console.record(
        {"new": result.new, "changed": result.changed, "unchanged": result.unchanged}
        | ({"broken lines": result.broken_lines} if result.broken_lines else {})
        | ({"cut messages": result.cut} if result.cut else {})
    )
    for each in result.skipped:
        times = "" if each.count == 1 else f" ({each.count} times)"
        console.note(f"Left out: {each.reason}{times}")


def _planned(summary: SynthesisSummary) -> dict[str, Any]:
    return {
        "conversations": summary.conversations,
        "tokens": summary.tokens,
        "time": format_seconds(summary.seconds) if summary.seconds else None,
    }


def _done(summary: SynthesisSummary) -> dict[str, Any]:
    return {
        "run": summary.run,
        "commit": summary.commit,
        "branch": summary.branch,
        "model": summary.model,
        "conversations": summary.conversations,
        "facts": summary.facts,
        "created": list(summary.created),
        "changed": list(summary.changed),
        "refused": summary.refused,
        "complete": summary.complete,
        "time": format_seconds(summary.seconds),
    }


def _event_line(event: SynthesisEvent) -> dict[str, Any] | None:
    match event:
        case StageStarted():
            return {"event": "stage", "stage": event.stage, "message": event.message}
        case StageProgress():
            return {
                "event": "progress",
                "stage": event.stage,
                "done": event.done,
                "total": event.total,
            }
        case Note():
            return {"event": "note", "message": event.message}
        case _:
            return None
