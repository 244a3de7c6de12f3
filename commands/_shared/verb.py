"""A command as mlxbun has them: with options that all of them take, and a help that can be plain.

The options stand before the verb or behind it. Where colors are not wanted, the help has no boxes
either.
"""

from __future__ import annotations

from collections import defaultdict
from functools import cache
from typing import TYPE_CHECKING, Any, cast

import typer
from typer.core import TyperCommand, TyperGroup

from commands._shared.options import EVERYWHERE, OfflineOption, QuietOption

if TYPE_CHECKING:
    from commands._shared.session import Session

_FIRST = ("Arguments", "Options")
_WRONG_USAGE = 2


class Verb(TyperCommand):
    """One command."""

    def __init__(self, name: str | None, **more: Any) -> None:
        """Add the options that every command takes."""
        more["params"] = [*(more.get("params") or ()), *_options_of_all()]
        super().__init__(name, **more)

    def format_options(self, ctx: Any, formatter: Any) -> None:
        """Write the plain help's arguments and options, by panels as the other help has them."""
        _write_panels(self, ctx, formatter)

    def get_params(self, ctx: Any) -> list[Any]:
        """Return the arguments and options."""
        return _named(super().get_params(ctx))

    def get_help(self, ctx: Any) -> str:
        """Show the help, and return nothing that is left to show."""
        return _show_help(self, super().get_help, ctx)


class VerbGroup(TyperGroup):
    """Several commands. Without one of them it shows its help, and that is wrong usage."""

    def __init__(self, **more: Any) -> None:
        """Add the options that every command takes, for those who write them first."""
        more["params"] = [*(more.get("params") or ()), *_options_of_all()]
        super().__init__(**more)

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Read the words up to the command's name."""
        if not args and not ctx.resilient_parsing:
            typer.echo(ctx.get_help())
            raise typer.Exit(_WRONG_USAGE)
        return super().parse_args(ctx, args)

    def format_options(self, ctx: Any, formatter: Any) -> None:
        """Write the plain help's options and commands."""
        _write_panels(self, ctx, formatter)
        with formatter.section("Commands"):
            formatter.write_dl([(name, first_paragraph(verb)) for name, verb in verbs_of(self)])

    def get_params(self, ctx: Any) -> list[Any]:
        """Return the arguments and options."""
        return _named(super().get_params(ctx))

    def get_help(self, ctx: Any) -> str:
        """Show the help, and return nothing that is left to show."""
        return _show_help(self, super().get_help, ctx)


def verbs_of(group: Any) -> list[tuple[str, Any]]:
    """Return the commands of a group that are shown, with their names, in their order."""
    return [(name, verb) for name, verb in group.commands.items() if not verb.hidden]


def first_paragraph(verb: Any) -> str:
    """Return what a command says it does, on one line."""
    return " ".join((verb.help or "").split("\n\n")[0].split())


@cache
def _options_of_all() -> tuple[Any, ...]:
    """Return --quiet and --offline as Typer makes them of a function's parameters."""

    def carrier(quiet: QuietOption = False, offline: OfflineOption = False) -> None:
        """Carry the options."""

    app = typer.Typer(add_completion=False)
    app.command()(carrier)
    return tuple(typer.main.get_command(app).params)


def _show_help(command: Verb | VerbGroup, help_of: Any, ctx: Any) -> str:
    session = cast("Session | None", ctx.obj)
    if session is None:
        return cast("str", help_of(ctx))
    if session.console().styled:
        command.rich_markup_mode = "rich"
        _escape(command)
    else:
        command.rich_markup_mode = None
    if text := help_of(ctx):  # the other one has printed itself
        session.console().text(text)
    return ""


def _escape(command: Verb | VerbGroup) -> None:
    """Keep `[8]` from being read as markup."""
    from rich.markup import escape

    verbs = [verb for _, verb in verbs_of(command)] if isinstance(command, VerbGroup) else []
    for each in (command, *verbs, *command.params):
        each.help = each.help and escape(each.help)


def _named(parameters: list[Any]) -> list[Any]:
    """Return parameters named as others do: arguments in capitals, flags without a type."""
    for parameter in parameters:
        if parameter.metavar is not None:
            continue
        if parameter.param_type_name == "argument":
            parameter.metavar = parameter.name.upper()
        elif parameter.is_flag:
            parameter.metavar = ""
    return parameters


def _write_panels(command: Verb | VerbGroup, ctx: Any, formatter: Any) -> None:
    panels: defaultdict[str, list[tuple[str, str]]] = defaultdict(list)
    for parameter in command.get_params(ctx):
        if record := parameter.get_help_record(ctx):
            kind = "Arguments" if parameter.param_type_name == "argument" else "Options"
            panel = getattr(parameter, "rich_help_panel", None) or kind
            panels[panel].append(record)
    last = [name for name in panels if name not in _FIRST and name != EVERYWHERE]
    for name in (*_FIRST, *last, EVERYWHERE):
        if records := panels.get(name):
            with formatter.section(name):
                formatter.write_dl(records)
