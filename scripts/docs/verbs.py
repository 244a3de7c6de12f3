"""The app as documentation reads it: verbs with their arguments and options, as plain data."""

from __future__ import annotations

import inspect
import re
from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Any

import typer
from typer.core import TyperGroup

from commands._shared.options import EVERYWHERE, SETTINGS
from commands._shared.verb import verbs_of
from core.settings import Settings
from mlxbun_cli.app import app

if TYPE_CHECKING:
    from collections.abc import Iterator

_TYPES = {"int": "N", "float": "X", "str": "TEXT", "path": "PATH"}
_DEFAULT = re.compile(r" \[([^\[\]]+)\](\.?)$")


@dataclass(frozen=True, kw_only=True)
class Parameter:
    """An argument or an option."""

    key: str
    """What its function calls it; of a setting, its name."""
    spelled: str
    """As it is written: `--port PORT`, `MODEL`."""
    help: str
    """What it means, without the default."""
    default: str
    """What it is when it is not given; empty: nothing, or something that the help tells."""
    is_option: bool
    """False: it is an argument."""
    required: bool
    """It has to be given."""
    panel: str
    """The heading of its group in the help; empty: the first one."""


@dataclass(frozen=True, kw_only=True)
class Verb:
    """A command that can be run."""

    name: str
    """With the group's before it: `config show`."""
    usage: str
    """What stands behind `mlxbun`, without the options."""
    paragraphs: tuple[str, ...]
    """What it says it does; the first is one sentence."""
    parameters: tuple[Parameter, ...]
    """Its own, in the order of its help; without those that all have."""

    def among(self, panel: str) -> list[Parameter]:
        """Return the options of a panel; empty: those without one."""
        return [each for each in self.parameters if each.is_option and each.panel == panel]

    @property
    def arguments(self) -> list[Parameter]:
        """Return the arguments."""
        return [each for each in self.parameters if not each.is_option]


def read_app() -> tuple[list[Parameter], list[Verb]]:
    """Return the options that stand before a verb, and the verbs."""
    root: Any = typer.main.get_command(app)
    context: Any = typer.Context(root, info_name="mlxbun")
    options = [_parameter(each, context) for each in root.get_params(context) if not each.hidden]
    return options, list(_verbs(root, context, ""))


def _verbs(group: Any, context: Any, before: str) -> Iterator[Verb]:
    for name, command in verbs_of(group):
        inner: Any = typer.Context(command, info_name=name, parent=context)
        if isinstance(command, TyperGroup):
            yield from _verbs(command, inner, f"{before}{name} ")
        else:
            yield _verb(command, inner, before + name)


def _verb(command: Any, context: Any, name: str) -> Verb:
    shown = [each for each in command.get_params(context) if not each.hidden]
    parameters = [_parameter(each, context) for each in shown]
    arguments = [each for each in shown if each.param_type_name == "argument"]
    return Verb(
        name=name,
        usage=" ".join([name, *map(_usage, arguments)]),
        paragraphs=tuple(" ".join(p.split()) for p in inspect.cleandoc(command.help).split("\n\n")),
        parameters=tuple(each for each in parameters if each.panel != EVERYWHERE),
    )


def _usage(argument: Any) -> str:
    """Return an argument as a usage line has it: in brackets where it may be left out."""
    name: str = argument.metavar
    if argument.required or name.startswith("["):
        return name
    return f"[{name}]"


def _parameter(parameter: Any, context: Any) -> Parameter:
    is_option = parameter.param_type_name == "option"
    told = " ".join((parameter.help or "").split())
    found = _DEFAULT.search(told)
    panel = parameter.rich_help_panel or ""
    return Parameter(
        key=parameter.name,
        spelled=_spelled(parameter, context) if is_option else parameter.metavar,
        help=_DEFAULT.sub(r"\2", told),
        default=found[1] if found else _own_default(parameter),
        is_option=is_option,
        required=parameter.required,
        panel=panel,
    )


def _spelled(option: Any, context: Any) -> str:
    names = f"`{', '.join(option.opts)}`"
    if option.is_flag or getattr(option, "name", "") == "help":
        return names
    kind = re.search(r"(int|float|str|path)\b", option.display_type(context))
    value = option.metavar or _TYPES[kind[1] if kind else "str"]
    return f"{names[:-1]} {value}`"


def _own_default(parameter: Any) -> str:
    """Return the default that the function itself has."""
    value = getattr(parameter, "default", None)
    if value is None or value is False or value == "":
        return ""
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    return str(getattr(value, "value", value))


def setting_names() -> set[str]:
    """Return the names of all settings."""
    return {field.name for field in fields(Settings)}


__all__ = ["EVERYWHERE", "SETTINGS", "Parameter", "Verb", "read_app", "setting_names"]
