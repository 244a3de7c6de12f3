"""Options made from a table of fields (`core.fields`): one for each field, spelled and read alike.

Light to import: a table imports no arrays.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Annotated, Any, Optional, TypeVar

import typer

from core.fields import read_table_file
from core.values import Names, Number, Switch, WholeNumber

if TYPE_CHECKING:
    from pathlib import Path

    from core.fields import FieldTable

T = TypeVar("T")

# The type of an option by the reader of its field; all others are texts.
_KINDS: dict[type, Any] = {
    WholeNumber: int,
    Number: float,
    Switch: bool,
    Names: list[str],
}
_METAVARS: dict[str, str | None] = {str(int): "N", str(float): "X", str(bool): None}


@dataclass(frozen=True, kw_only=True)
class FieldOptions:
    """How the fields of a table look on a command line."""

    table: FieldTable[Any]
    """The fields."""
    panel: Callable[[str], str | None] = lambda _name: None
    """Returns the panel of the help in which a field stands; None: the first one."""
    spelled: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """Options that are not called like their fields."""
    metavars: Mapping[str, str] = field(default_factory=dict)
    """What stands for the value of a field in the help, where it is not N, X or NAME."""
    completers: Mapping[str, Any] = field(default_factory=dict)
    """What Tab offers."""
    defaults: Mapping[str, str] = field(default_factory=dict)
    """How a default is shown in the help, where that is not the value."""

    def parameters(self, *, leave_out: tuple[str, ...] = ()) -> list[inspect.Parameter]:
        """Return the options of all fields, as Typer reads them."""
        return [self._option(name) for name in self.table.names if name not in leave_out]

    def given(self, options: Mapping[str, Any]) -> dict[str, Any]:
        """Return the raw values of the fields among a command's options; None: not given."""
        values = {name: options[name] for name in self.table.names if name in options}
        return {name: _joined(value) for name, value in values.items()}

    def _option(self, name: str) -> inspect.Parameter:
        kind = _KINDS.get(type(self.table.fields[name].metadata["read"]), str)
        spelled = self.spelled.get(name, (f"--{name.replace('_', '-')}",))
        if kind is bool:
            spelled = (f"{spelled[0]}/--no-{spelled[0][2:]}",)
        option = typer.Option(
            *spelled,
            help=self._help(name),
            metavar=self.metavars.get(name) or _METAVARS.get(str(kind), "NAME"),
            autocompletion=self.completers.get(name),
            rich_help_panel=self.panel(name),
        )
        return parameter(name, Annotated[Optional[kind], option], None)  # noqa: UP045 (a value)

    def _help(self, name: str) -> str:
        default = self.table.default(name)
        if default is None or default is False or default == ():
            return self.table.help(name)
        shown = self.defaults.get(name, _shown(default))
        return f"{self.table.help(name).removesuffix('.')} [{shown}]."


def read_fields(make: Callable[..., T], given: Mapping[str, Any], file: Path | None) -> T:
    """Return what options and a file say; options take precedence over the file.

    Args:
        make: merges layers of raw values, as `FieldTable.merged` does.
        given: the raw values of the options; None: not given.
        file: TOML, YAML or JSON with more of them; None: there is none.

    Raises:
        NotFound: there is no such file.
        UsageProblem: it cannot be read, or a field is unknown or outside its range.
    """
    if file is None:
        return make(given, where=("--{}",))
    return make(read_table_file(file), given, where=(f"{{}} in {file.name}", "--{}"))


def parameter(name: str, annotation: Any, default: Any) -> inspect.Parameter:
    """Return a parameter of a command whose signature is made."""
    kind = inspect.Parameter.KEYWORD_ONLY
    return inspect.Parameter(name, kind, annotation=annotation, default=default)


def take_options(command: Callable[..., None], parameters: list[inspect.Parameter]) -> None:
    """Give a command that takes `**options` a signature that Typer and completion read."""
    command.__dict__["__signature__"] = inspect.Signature(parameters)
    command.__annotations__ = {each.name: each.annotation for each in parameters}


def _joined(value: Any) -> Any:
    """Return what a repeatable option was given as one text; nothing given: None."""
    if not isinstance(value, list):
        return value
    return ",".join(value) if value else None


def _shown(default: Any) -> str:
    if default is True:
        return "on"
    if isinstance(default, tuple):
        return ",".join(map(str, default))
    return f"{default:g}" if isinstance(default, int | float) else str(default)
