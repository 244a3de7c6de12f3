"""Opens what a chat needs, in an order that lets mistakes show before the model is loaded."""

from __future__ import annotations

import os
import sys
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from commands.chat.diary import Diary
from commands.chat.interrupts import Interrupts
from commands.chat.keyboard import keys_kept
from commands.chat.lines import EditedLines, PipedLines
from commands.chat.loop import Chat
from commands.chat.models import Models
from commands.chat.screen import MarkdownScreen, PlainScreen
from commands.chat.slash import COMMANDS, run_command
from commands.chat.toolbox import Toolbox
from core.errors import UsageProblem
from core.memory.opening import open_memory
from core.memory.tools import MemoryTools
from core.sessions.store import SessionStore
from core.sessions.text import clean

if TYPE_CHECKING:
    from commands._shared.console import Console
    from commands._shared.session import Session
    from commands.chat.lines import Lines
    from commands.chat.screen import Screen
    from core.settings import Settings


@dataclass(frozen=True, kw_only=True)
class Wishes:
    """What the command line asks for besides settings."""

    model: str | None
    """A name, or None: the resumed conversation's, else the default one."""
    system: str | None
    """The system message, or None: as it was."""
    resume_last: bool
    """Go on with the latest conversation."""
    resume: str | None
    """Go on with the conversation of this name."""
    save: bool
    """Keep the conversation."""
    plain: bool
    """Show answers as they are."""
    stats: bool
    """Tell after each answer what it took."""
    json: bool
    """Answers are lines of JSON."""
    memory: bool = False
    """Let the model consult the memory vault."""


def run_chat(session: Session, settings: Settings, wishes: Wishes) -> int:
    """Chat until the person leaves; return the exit code.

    Raises:
        MlxbunError: the conversation cannot be resumed, or the model not be loaded.
    """
    console = session.console(json=wishes.json)
    with_person = bool(sys.stdin and sys.stdin.isatty())
    if wishes.json and with_person:
        raise UsageProblem(
            "chat --json takes its messages from a pipe, one a line.",
            hint="Try: echo 'What is the capital of France?' | mlxbun chat --json",
        )
    toolbox = _toolbox(session, console) if wishes.memory else None
    diary = _diary(session, wishes, console)
    resumed = bool(diary.conversation.messages)
    models = Models(session, settings, console)
    models.open(wishes.model or diary.conversation.model)
    _note_changes(diary, models.name, wishes.system)
    with keys_kept(), Interrupts() as interrupts:
        chat = Chat(
            models=models,
            diary=diary,
            lines=_lines(session, wishes, console, interrupts, with_person=with_person),
            screen=_screen(session, wishes, console, with_person=with_person),
            console=console,
            interrupts=interrupts,
            stats=wishes.stats,
            toolbox=toolbox,
        )
        if with_person:
            _greet(chat, resumed=resumed)
        code = chat.run(run_command)
    if wishes.json:
        console.event({"event": "done", "model": models.name, "session": diary.name})
    if with_person and diary.name and diary.conversation.messages:
        console.note(f"Kept as {diary.name}; `mlxbun chat --continue` goes on with it.")
    diary.close()
    models.close()
    return 0 if with_person else code


def _toolbox(session: Session, console: Console) -> Toolbox:
    """Return the tools of the memory vault.

    Raises:
        VaultMissing: there is none.
    """
    opening = partial(open_memory, session.paths, on_note=console.note)
    opening()
    return Toolbox(MemoryTools(opening))


def _diary(session: Session, wishes: Wishes, console: Console) -> Diary:
    store = SessionStore(session.paths.sessions_folder)
    kept = store if wishes.save else None
    diary = Diary(store=kept, cwd=str(Path.cwd()), on_trouble=console.note)
    if wishes.resume is not None:
        if wishes.resume_last:
            raise UsageProblem("--continue and --resume are two conversations; give one of them.")
        diary.resume(store.find(wishes.resume))
    elif wishes.resume_last:
        diary.resume(store.latest())
    return diary


def _note_changes(diary: Diary, model: str, system: str | None) -> None:
    if diary.conversation.model != model:
        diary.add({"type": "model", "model": model})
    if system is not None and diary.conversation.system != system:
        diary.add({"type": "system", "content": clean(system)})


def _lines(
    session: Session, wishes: Wishes, console: Console, interrupts: Interrupts, *, with_person: bool
) -> Lines:
    if not with_person:
        return PipedLines(sys.stdin.buffer if sys.stdin else None, interrupts)
    return EditedLines(
        history=session.paths.home / "chat-history",
        remember=wishes.save,
        words=[f"/{name}" for name in COMMANDS],
        terminal=session.environ.get("TERM"),
        note=console.reply,
    )


def _screen(session: Session, wishes: Wishes, console: Console, *, with_person: bool) -> Screen:
    if wishes.json:
        return PlainScreen(lambda _text: None)
    draws = bool(sys.stdout and sys.stdout.isatty()) and session.environ.get("TERM") != "dumb"
    if wishes.plain or not with_person or not draws:
        return PlainScreen(console.text)
    size = partial(_terminal_size, sys.stdout.fileno())
    return MarkdownScreen(console.text, environ=session.environ, size=size)


def _terminal_size(descriptor: int) -> os.terminal_size:
    columns, lines = os.get_terminal_size(descriptor)
    return os.terminal_size((columns or 80, lines or 24))  # some terminals do not know theirs


def _greet(chat: Chat, *, resumed: bool) -> None:
    """Say who answers and how to leave; show where a resumed conversation stands."""
    chat.console.note(f"{chat.models.name}; /help lists the commands, Ctrl-D leaves")
    if not resumed:
        return
    messages = chat.diary.conversation.messages
    name = chat.diary.name or "a conversation that will not be saved"
    chat.console.note(f"Going on with {name}, {len(messages)} messages. The last ones:")
    question = chat.diary.conversation.question
    if question is not None:
        chat.console.note(f"\n> {clean(question.content)}")
    if messages[-1].role == "assistant":
        chat.show(messages[-1].content)
    else:
        chat.console.note("It has no answer yet; /retry asks again.")
