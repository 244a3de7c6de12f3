"""`mlxbun memory` ingest and synthesize: from conversations to articles."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from commands._shared.completion import memory_models
from commands._shared.engine import open_shown
from commands._shared.interrupts import Interrupts
from commands._shared.options import JsonOption
from commands.memory.options import VaultOption, opened
from commands.memory.showing import show_summary, shown_events
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
        typer.Option("--dry-run", help="Show what there is to do; use no model, write nothing."),
    ] = False,
    since: Annotated[
        str | None,
        typer.Option("--since", help="Leave out older conversations.", metavar="DATE"),
    ] = None,
    model: Annotated[
        str | None,
        typer.Option(
            "--model",
            autocompletion=memory_models,
            help="Model to use, as for `mlxbun generate`; `rules`: fixed rules, no model.",
            metavar="MODEL",
        ),
    ] = None,
    limit: Annotated[
        int | None,
        typer.Option(
            "--limit", help="Maximum number of conversations, the oldest first.", metavar="N"
        ),
    ] = None,
    budget: Annotated[
        float | None,
        typer.Option("--budget", help="Begin nothing new after this time.", metavar="MINUTES"),
    ] = None,
    review: Annotated[
        bool,
        typer.Option(
            "--review", help="Write to a branch; `mlxbun memory review` accepts or rejects it."
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

    The model only proposes: every change is checked before it is written, and what is refused is
    listed under Talk/. Ctrl-C leaves the vault as it was.
    """


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
