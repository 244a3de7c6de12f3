"""`mlxbun memory` ingest and synthesize: from conversations to articles."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from commands._shared.interrupts import Interrupts
from commands._shared.options import JsonOption
from commands.memory.options import BudgetOption, ModelOption, VaultOption, opened
from commands.memory.showing import show_ingested, show_summary, shown_events
from commands.memory.sources import (
    ClaudeCodeOption,
    CodexOption,
    ExportsOption,
    NotesOption,
    SessionsOption,
    chosen_sources,
)
from core.errors import UsageProblem

if TYPE_CHECKING:
    from commands._shared.console import Console
    from commands._shared.session import Session
    from core.memory.asking import Model
    from core.memory.events import SynthesisSummary
    from core.memory.pipeline import SynthesisOptions

_STOPPING = "Stopping at the next step; Ctrl-C again stops at once."
_STOPPED = "Stopped. The vault is as it was; finished steps are kept for the next run."


def synthesize(
    context: typer.Context,
    dry_run: Annotated[
        bool,
        typer.Option("--dry-run", help="Show what a run would do; open no model, write nothing."),
    ] = False,
    since: Annotated[
        str | None,
        typer.Option("--since", help="Leave out older conversations.", metavar="DATE"),
    ] = None,
    model: ModelOption = None,
    limit: Annotated[
        int | None,
        typer.Option(
            "--limit", help="Maximum number of conversations, the oldest first.", metavar="N"
        ),
    ] = None,
    budget: BudgetOption = None,
    review: Annotated[
        bool,
        typer.Option(
            "--review", help="Write to a branch, to accept or reject with `mlxbun memory review`."
        ),
    ] = False,
    sessions: SessionsOption = True,
    exports: ExportsOption = None,
    notes: NotesOption = None,
    claude_code: ClaudeCodeOption = False,
    codex: CodexOption = False,
    scheduled: Annotated[bool, typer.Option("--scheduled", hidden=True)] = False,
    vault: VaultOption = None,
    json: JsonOption = False,
) -> None:
    """Read new conversations and write what they say into the articles, in one commit.

    The model only proposes: every change is checked before it is written, and refused changes are
    listed under Talk/. Ctrl-C leaves the vault as it was.
    """
    from core.memory.pipeline import SynthesisOptions

    session: Session = context.obj
    console = session.console(json=json)
    options = SynthesisOptions(
        sources=chosen_sources(
            session,
            sessions=sessions,
            exports=exports,
            notes=notes,
            claude_code=claude_code,
            codex=codex,
        ),
        dry_run=dry_run,
        model_id=model,
        since=None if since is None else since_day(since),
        limit=limit,
        budget_minutes=budget,
        review=review,
    )
    run = _Run(options, model, vault, session=session, console=console)
    if scheduled:
        run.if_due()
    else:
        run.now()


class _Run:
    """One run at the shell."""

    def __init__(
        self,
        options: SynthesisOptions,
        model: str | None,
        vault: Path | None,
        *,
        session: Session,
        console: Console,
    ) -> None:
        self._options, self._model, self._vault = options, model, vault
        self._session, self._console = session, console

    def now(self) -> None:
        """Run, and show the result."""
        with Interrupts(_STOPPING, self._console.note) as interrupts:
            show_summary(self._work(interrupts, leased=False), self._console)

    def if_due(self) -> None:
        """Run if the schedule says so, and keep the result for `status`."""
        from core.memory.schedule import run_scheduled

        with Interrupts(_STOPPING, self._console.note) as interrupts:
            ended = run_scheduled(
                lambda: self._work(interrupts, leased=True),
                paths=self._session.paths,
                cancelled=interrupts.pressed,
            )
        if ended is None:
            self._console.note("No run is due.")
        else:
            self._console.note(f"{ended.outcome}: {ended.reason}")

    def _work(self, interrupts: Interrupts, *, leased: bool) -> SynthesisSummary:
        """Run the pipeline.

        Raises:
            KeyboardInterrupt: it was stopped by Ctrl-C.
        """
        from core.memory.asking import Cancelled
        from core.memory.opening import vault_root
        from core.memory.pipeline import synthesize

        paths = self._session.paths
        interrupts.begin()
        try:
            with shown_events(self._console) as on_event:
                return synthesize(
                    self._options,
                    vault_root=vault_root(paths, self._vault),
                    paths=paths,
                    model=lambda: self._open(leased=leased),
                    on_event=on_event,
                    cancelled=interrupts.pressed,
                    clock=_now,
                )
        except (Cancelled, KeyboardInterrupt):
            self._console.note(_STOPPED)
            raise KeyboardInterrupt from None

    def _open(self, *, leased: bool) -> Model:
        """Open the model; a scheduled run has the accelerator already."""
        from core.memory.local_model import open_model

        session, console = self._session, self._console
        return open_model(
            self._model,
            settings=session.settings().values,
            paths=session.paths,
            environ=session.environ,
            on_progress=console.quarters(),
            on_note=console.note,
            leased=leased,
        )


def since_day(text: str) -> datetime:
    """Return the beginning of a day, in the local time zone.

    Raises:
        UsageProblem: it is not a day.
    """
    try:
        return datetime.strptime(text, "%Y-%m-%d").astimezone()
    except (ValueError, OverflowError) as problem:
        raise UsageProblem(f"--since must be a day such as 2026-01-31, not {text!r}.") from problem


def _now() -> datetime:
    return datetime.now(UTC).astimezone()


def ingest(
    context: typer.Context,
    sessions: SessionsOption = True,
    exports: ExportsOption = None,
    notes: NotesOption = None,
    claude_code: ClaudeCodeOption = False,
    codex: CodexOption = False,
    vault: VaultOption = None,
    json: JsonOption = False,
) -> None:
    """Read new conversations and keep them, with secrets removed, for a later `synthesize`."""
    from core.memory.asking import Cancelled
    from core.memory.stages.ingest import ingest as run

    session: Session = context.obj
    console = session.console(json=json)
    memory = opened(context, vault)
    options = chosen_sources(
        session,
        sessions=sessions,
        exports=exports,
        notes=notes,
        claude_code=claude_code,
        codex=codex,
    )
    with Interrupts(_STOPPING, console.note) as interrupts, shown_events(console) as on_event:
        interrupts.begin()
        try:
            result = run(
                vault=memory.vault,
                paths=session.paths,
                sources=options,
                store=memory.store,
                on_event=on_event,
                cancelled=interrupts.pressed,
            )
        except Cancelled:
            console.note("Stopped. What was read is kept.")
            raise KeyboardInterrupt from None
    show_ingested(result, console)
