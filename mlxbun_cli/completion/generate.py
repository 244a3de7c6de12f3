"""`make completions`: writes verbs.json from the app, and the scripts into completions/."""

from __future__ import annotations

import inspect
import json
from enum import Enum
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any, get_args, get_type_hints

import typer
from typer.core import TyperGroup
from typer.main import get_command

from commands._shared import completion
from commands._shared.verb import first_paragraph, verbs_of
from mlxbun_cli.app import app
from mlxbun_cli.completion.scripts import FILES, SCRIPTS
from mlxbun_cli.completion.tree import TABLE

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

SCRIPT_FOLDER = Path(__file__).parents[2] / "completions"


def describe_app() -> dict[str, Any]:
    """Return what the table holds: the app with its verbs, options and arguments."""
    return _verb(get_command(app))


def generated() -> Mapping[Path, str]:
    """Return the files that are made, and what stands in them."""
    table = json.dumps(describe_app(), indent=1, ensure_ascii=False) + "\n"
    scripts = {SCRIPT_FOLDER / FILES[shell]: script for shell, script in SCRIPTS.items()}
    return {TABLE: table, **scripts}


def main() -> None:
    """Write them."""
    for path, text in generated().items():
        path.parent.mkdir(exist_ok=True)
        path.write_text(text, encoding="utf-8")


def _verb(command: Any) -> dict[str, Any]:
    """Return a command of Typer's as plain data; what is empty or hidden is left out."""
    about = _hints(command.callback)
    shown = [p for p in command.get_params(typer.Context(command)) if not p.hidden]
    described = [(p.param_type_name, _parameter(p, about.get(p.name))) for p in shown]
    verb: dict[str, Any] = {
        "help": first_paragraph(command),
        "options": [each for kind, each in described if kind == "option"],
        "arguments": [each for kind, each in described if kind == "argument"],
    }
    if isinstance(command, TyperGroup):
        verb["verbs"] = {name: _verb(each) for name, each in verbs_of(command)}
    return {key: value for key, value in verb.items() if value}


def _hints(callback: Callable[..., Any] | None) -> dict[str, Any]:
    """Return the annotations of the function behind a command."""
    return get_type_hints(inspect.unwrap(callback), include_extras=True) if callback else {}


def _parameter(parameter: Any, annotation: Any) -> dict[str, Any]:
    option = parameter.param_type_name == "option"
    described = {
        "key": parameter.name,
        "names": [*parameter.opts, *parameter.secondary_opts] if option else [],
        "help": " ".join((parameter.help or "").split()),
        "is_flag": option and parameter.is_flag,
        "repeated": parameter.multiple if option else parameter.nargs == -1,
    }
    told = described | ({} if described["is_flag"] else _values(annotation))
    return {key: value for key, value in told.items() if value}


def _values(annotation: Any) -> dict[str, Any]:
    """Return what is known of the values of a parameter."""
    for info in getattr(annotation, "__metadata__", ()):
        if (completer := getattr(info, "autocompletion", None)) is not None:
            return {"ask": _address(completion, completer)}
    kinds = list(_kinds(annotation))
    words = [str(each.value) for kind in kinds if issubclass(kind, Enum) for each in kind]
    return {"words": words, "paths": any(issubclass(kind, Path) for kind in kinds)}


def _kinds(annotation: Any) -> Iterator[type]:
    """Yield the classes in an annotation such as `Annotated[list[Path] | None, ...]`."""
    if isinstance(annotation, type):
        yield annotation
    for inner in get_args(annotation):
        yield from _kinds(inner)


def _address(module: ModuleType, function: object) -> str:
    """Return `module:name` of a function, so that it can be called by name.

    Raises:
        LookupError: it is none of the module's; completion would import what defines it.
    """
    for name, value in vars(module).items():
        if value is function:
            return f"{module.__name__}:{name}"
    raise LookupError(f"{function!r} is not in {module.__name__}.")


if __name__ == "__main__":
    main()
