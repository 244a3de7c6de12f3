"""Which sources `mlxbun memory` ingest and synthesize read: the options, and what they mean."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from commands._shared.completion import data_sets, folders

if TYPE_CHECKING:
    from commands._shared.session import Session
    from core.memory.sources.find import SourceOptions

_PANEL = "Sources"

SessionsOption = Annotated[
    bool,
    typer.Option(
        "--sessions/--no-sessions",
        help="Read the chats of mlxbun [on].",
        rich_help_panel=_PANEL,
    ),
]
ExportsOption = Annotated[
    list[Path] | None,
    typer.Option(
        "--export",
        autocompletion=data_sets,
        help="Read an export of ChatGPT or Claude: a ZIP, conversations.json, or a folder; "
        "repeatable.",
        metavar="PATH",
        rich_help_panel=_PANEL,
    ),
]
NotesOption = Annotated[
    list[Path] | None,
    typer.Option(
        "--notes",
        autocompletion=folders,
        help="Read a folder of Markdown notes; repeatable.",
        metavar="FOLDER",
        rich_help_panel=_PANEL,
    ),
]
ClaudeCodeOption = Annotated[
    bool,
    typer.Option("--claude-code", help="Read the logs of Claude Code.", rich_help_panel=_PANEL),
]
CodexOption = Annotated[
    bool, typer.Option("--codex", help="Read the logs of Codex.", rich_help_panel=_PANEL)
]


def chosen_sources(
    session: Session,
    *,
    sessions: bool,
    exports: list[Path] | None,
    notes: list[Path] | None,
    claude_code: bool,
    codex: bool,
) -> SourceOptions:
    """Return what the options mean."""
    from dataclasses import replace

    from core.memory.sources.find import usual_places
    from core.paths import expanded

    usual = usual_places(session.paths, session.environ, claude_code=claude_code, codex=codex)
    return replace(
        usual,
        sessions=usual.sessions if sessions else None,
        exports=tuple(map(expanded, exports or ())),
        notes=tuple(map(expanded, notes or ())),
    )
