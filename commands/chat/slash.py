"""What lines with a slash in front do: one function each, and one table, which /help prints."""

from __future__ import annotations

import difflib
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

from core.errors import MlxbunError, UsageProblem
from core.paths import atomic_write, expanded
from core.sessions.export import exporter
from core.sessions.text import clean
from core.settings import parse_setting

if TYPE_CHECKING:
    from collections.abc import Callable

    from commands.chat.loop import Chat

_EXCERPT = 60  # characters


@dataclass(frozen=True, kw_only=True)
class Command:
    """One command."""

    usage: str
    """What may stand behind its name; an empty text: nothing may."""
    help: str
    """What it does."""
    run: Callable[[Chat, str], None]
    """Does it, given what stands behind the name."""


def run_command(chat: Chat, line: str) -> None:
    """Do what a line says: `/name`, perhaps with something behind it.

    Raises:
        UsageProblem: no such command, with near misses; or a wrong argument.
        MlxbunError: what the command raises.
    """
    name, argument = re.fullmatch(r"/(\S*)\s*(.*)", line, re.DOTALL).groups()  # type: ignore[union-attr]
    command = COMMANDS.get(name.lower())
    if command is None:
        raise _unknown(name)
    argument = argument.strip()
    if argument and not command.usage:
        raise UsageProblem(f"/{name} takes nothing behind it.")
    command.run(chat, argument)


def _unknown(name: str) -> UsageProblem:
    begin = [known for known in COMMANDS if name and known.startswith(name.lower())]
    near = begin or difflib.get_close_matches(name.lower(), COMMANDS, n=3, cutoff=0.6)
    guess = f"Did you mean {' or '.join(f'/{known}' for known in near)}? " if near else ""
    return UsageProblem(
        f"There is no command /{name}.",
        hint=f"{guess}/help lists them; a message that begins with a slash takes two.",
    )


def _help(chat: Chat, _argument: str) -> None:
    rows = [(f"/{name} {command.usage}", command.help) for name, command in COMMANDS.items()]
    rows += [
        ("//TEXT", "a message that begins with a slash"),
        (
            '"""',
            "begins and ends a message of several lines; so do Alt-Enter and \\ at a line's end",
        ),
        ("Ctrl-C", "stops the answer"),
    ]
    width = max(len(left) for left, _ in rows)
    for left, right in rows:
        chat.console.reply(f"{left:<{width}}  {right}")


def _system(chat: Chat, argument: str) -> None:
    if argument:
        content = None if argument == "-" else argument
        chat.diary.add({"type": "system", "content": content})
    system = chat.diary.conversation.system
    chat.console.reply("No system message." if system is None else f"System: {clean(system)}")


def _temperature(chat: Chat, argument: str) -> None:
    if argument:
        wanted = (
            None
            if argument == "-"
            else parse_setting("temperature", argument, where="/temperature")
        )
        chat.temperature = wanted
    default = chat.models.engine.info.defaults.temperature
    now = default if chat.temperature is None else chat.temperature
    chat.console.reply(f"Temperature {now:g}.")


def _retry(chat: Chat, _argument: str) -> None:
    chat.retry()


def _undo(chat: Chat, _argument: str) -> None:
    question = chat.diary.conversation.question
    if question is None:
        raise UsageProblem("There is nothing to take back.")
    chat.diary.add({"type": "undo"})
    text = " ".join(clean(question.content).split())
    excerpt = text if len(text) <= _EXCERPT else f"{text[:_EXCERPT]}..."
    chat.console.reply(f"Taken back: {excerpt}")


def _save(chat: Chat, argument: str, *, over: bool = False) -> None:
    if not chat.diary.conversation.messages:
        raise UsageProblem("There is nothing to save yet.")
    target = expanded(argument or f"{chat.diary.name or 'conversation'}.md")
    export = exporter(target.suffix)
    if target.exists() and not over:
        raise UsageProblem(f"{target} is there already.", hint=f"`/save! {target}` writes over it.")
    try:
        with atomic_write(target) as file:
            file.write(export(chat.diary.conversation).encode())
    except OSError as problem:
        raise MlxbunError(
            f"{target} cannot be written: {problem.strerror}.", hint="Name another file."
        ) from problem
    chat.console.reply(f"Saved as {target}.")


def _save_over(chat: Chat, argument: str) -> None:
    _save(chat, argument, over=True)


def _model(chat: Chat, argument: str) -> None:
    if not argument:
        for name in sorted({*chat.models.known(), chat.models.name}):
            chat.console.reply(f"{'*' if name == chat.models.name else ' '} {name}")
        return
    chat.models.change(argument, chat.interrupts)
    if chat.models.name != chat.diary.conversation.model:
        chat.diary.add({"type": "model", "model": chat.models.name})
    chat.console.reply(f"{chat.models.name} answers from here on.")


def _stats(chat: Chat, argument: str) -> None:
    if argument not in ("", "on", "off"):
        raise UsageProblem(f"/stats is on or off, not {argument!r}.")
    chat.stats = argument == "on" if argument else not chat.stats
    chat.console.reply(f"Stats are {'on' if chat.stats else 'off'}.")


def _exit(chat: Chat, _argument: str) -> None:
    chat.leaving = True


COMMANDS: dict[str, Command] = {
    "help": Command(usage="", help="show this list", run=_help),
    "system": Command(
        usage="[TEXT | -]", help="show the system message, set it, or drop it (-)", run=_system
    ),
    "temperature": Command(
        usage="[X | -]", help="show it, set it, or take the model's own (-)", run=_temperature
    ),
    "retry": Command(usage="", help="give up the last answer and ask again", run=_retry),
    "undo": Command(usage="", help="take back the last question and its answer", run=_undo),
    "save": Command(usage="[FILE]", help="write the conversation as .md or .jsonl", run=_save),
    "save!": Command(usage="[FILE]", help="the same, over a file that is there", run=_save_over),
    "model": Command(usage="[NAME]", help="list the models here, or load another", run=_model),
    "stats": Command(
        usage="[on | off]", help="tell speed and cached tokens after each answer", run=_stats
    ),
    "exit": Command(usage="", help="leave, as Ctrl-D does, and Ctrl-C twice", run=_exit),
}
