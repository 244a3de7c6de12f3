"""The group: its verbs in the order of its help."""

from __future__ import annotations

import typer

from commands._shared.verb import Verb, VerbGroup
from commands.memory.evaluating import evaluate
from commands.memory.forgetting import forget
from commands.memory.mcp import mcp
from commands.memory.past import blame, diff, history, revert, why
from commands.memory.reading import links, list_, read, search, section, toc
from commands.memory.reviewing import review
from commands.memory.scheduling import schedule, unschedule
from commands.memory.setup import doctor, init, open_, status
from commands.memory.writing import ingest, synthesize

memory_app = typer.Typer(
    cls=VerbGroup, help="Keep a personal wiki that models write and read: Markdown in git."
)
# Verbs whose functions cannot have their names: builtins of Python.
_NAMES = {list_: "list", open_: "open", evaluate: "eval"}

for verb in (
    init,
    status,
    list_,
    search,
    read,
    toc,
    section,
    links,
    history,
    diff,
    blame,
    why,
    revert,
    forget,
    open_,
    doctor,
    ingest,
    synthesize,
    review,
    schedule,
    unschedule,
    evaluate,
    mcp,
):
    memory_app.command(_NAMES.get(verb), cls=Verb)(verb)
