"""The verbs of `mlxbun jobs`."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Annotated

import typer

from commands._shared.completion import job_ids, job_kinds, unfinished_job_ids
from commands._shared.options import JsonOption
from commands._shared.verb import Verb, VerbGroup
from commands.jobs.words import COLUMNS, event_words, job_as_json, job_record, job_row
from core.errors import MlxbunError, UsageProblem

if TYPE_CHECKING:
    from commands._shared.console import Console
    from commands._shared.session import Session
    from core.jobs.store import JobStore
    from core.jobs.tail import Tail

_POLL_SECONDS = 0.25
_CANCEL_SECONDS = 10.0

jobs_app = typer.Typer(help="Show, watch and cancel long work that runs by itself.", cls=VerbGroup)


@jobs_app.command("list", cls=Verb)
def list_(
    context: typer.Context,
    kind: Annotated[
        str | None,
        typer.Option(
            "--kind", autocompletion=job_kinds, help="Of this sort alone.", metavar="KIND"
        ),
    ] = None,
    limit: Annotated[int, typer.Option("--limit", help="Most jobs to show.", metavar="N")] = 20,
    json: JsonOption = False,
) -> None:
    """List the last jobs, the newest first."""
    from core.jobs.job import KINDS

    session: Session = context.obj
    console = session.console(json=json)
    if kind is not None and kind not in KINDS:
        raise UsageProblem(f"--kind is one of {', '.join(KINDS)}, not {kind!r}.")
    if limit < 1:
        raise UsageProblem("--limit is at least 1.")
    jobs = _store(session, console).recent(kind=kind, limit=limit)
    if json:
        console.json({"jobs": [job_as_json(job) for job in jobs]})
    elif jobs:
        console.table([job_row(job) for job in jobs], COLUMNS)
    else:
        console.note(f"There is no {kind} job yet." if kind else "There is no job yet.")


@jobs_app.command(cls=Verb)
def show(
    context: typer.Context,
    job: Annotated[
        str, typer.Argument(autocompletion=job_ids, help="An id, or the beginning of one.")
    ],
    json: JsonOption = False,
) -> None:
    """Show all that is known of a job."""
    session: Session = context.obj
    console = session.console(json=json)
    found = _store(session, console).find(job)
    console.record({"job": job_as_json(found)} if json else job_record(found))


@jobs_app.command(cls=Verb)
def logs(
    context: typer.Context,
    job: Annotated[
        str, typer.Argument(autocompletion=job_ids, help="An id, or the beginning of one.")
    ],
    follow: Annotated[
        bool, typer.Option("--follow", "-f", help="Go on until the job ends.")
    ] = False,
    json: JsonOption = False,
) -> None:
    """Print what a job has told.

    With --follow the exit code is 0 when the job is done, and 1 when it has failed. Ctrl-C ends the
    watching; the job goes on.
    """
    from core.jobs.tail import Tail

    session: Session = context.obj
    console = session.console(json=json)
    store = _store(session, console)
    tail = Tail(store, store.find(job))
    try:
        _print_events(tail, console, follow=follow)
    except KeyboardInterrupt:
        console.note(f"\nJob {tail.job.id} goes on; `mlxbun jobs cancel {tail.job.id}` ends it.")
        raise
    if not tail.started and not json:
        console.note(f"Job {tail.job.id} has told nothing, or its log was tidied away.")
    if follow and tail.job.status != "done":
        raise MlxbunError(f"Job {tail.job.id} has failed: {tail.job.error}")


@jobs_app.command(cls=Verb)
def cancel(
    context: typer.Context,
    job: Annotated[
        str,
        typer.Argument(autocompletion=unfinished_job_ids, help="An id, or the beginning of one."),
    ],
    json: JsonOption = False,
) -> None:
    """End a job that waits or runs.

    It keeps what it has: a training its last checkpoint. A second time interrupts it at once.
    """
    from core.jobs.cancel import cancel_job

    session: Session = context.obj
    console = session.console(json=json)
    store = _store(session, console)
    ended = cancel_job(store, store.find(job).id, patience=_CANCEL_SECONDS)
    if json:
        console.json({"job": job_as_json(ended)})
    elif ended.error == "cancelled":
        console.note(f"Job {ended.id} is cancelled.")
    elif ended.is_over:
        console.note(f"Job {ended.id} came to its end before: {ended.status}.")
    else:
        console.note(f"Job {ended.id} was asked to end, and does so after what it is at now.")


def _store(session: Session, console: Console) -> JobStore:
    from core.jobs.store import JobStore

    return JobStore(session.paths.jobs_folder, on_note=console.note)


def _print_events(tail: Tail, console: Console, *, follow: bool) -> None:
    """Print the events that there are, and those to come until the job is over."""
    while not tail.over:
        events = tail.read()
        for event in events:
            if console.json_mode:
                console.event(event)
            elif words := event_words(event):
                console.text(f"{words}\n")
        if not events and not tail.over:
            if not follow:
                return
            time.sleep(_POLL_SECONDS)
