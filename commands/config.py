"""`mlxbun config`: show each setting with its source, or set one in the config file."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated

import typer

from commands._shared.completion import setting_names, setting_values
from commands._shared.options import JsonOption
from commands._shared.verb import Verb, VerbGroup
from core.errors import UsageProblem
from core.settings import parse_setting, read_config, write_config

if TYPE_CHECKING:
    from commands._shared.session import Session

config_app = typer.Typer(help="Show and change settings.", cls=VerbGroup)


@config_app.command(cls=Verb)
def show(context: typer.Context, json: JsonOption = False) -> None:
    """Show every setting, its value and where the value comes from."""
    session: Session = context.obj
    console = session.console(json=json)
    rows = [asdict(row) for row in session.settings().rows()]
    if json:
        console.json({"config_file": session.paths.config_file, "settings": rows})
        return
    console.table(
        rows, {"name": "SETTING", "value": "VALUE", "source": "SOURCE", "help": "MEANING"}
    )
    console.note(f"config file: {session.paths.config_file}")


@config_app.command("set", cls=Verb)
def set_(
    context: typer.Context,
    name: Annotated[str, typer.Argument(autocompletion=setting_names, help="The setting's name.")],
    value: Annotated[
        str | None,
        typer.Argument(autocompletion=setting_values, help="Its value; leave it out to unset."),
    ] = None,
    json: JsonOption = False,
) -> None:
    """Write one setting to the config file; without VALUE take it out."""
    session: Session = context.obj
    target = session.paths.config_file
    parsed = parse_setting(name, value, where=name) if value is not None else None
    if value is None and name not in read_config(target):
        raise UsageProblem(f"{name} is not set in {target}.")
    write_config(target, name, parsed)
    if json:
        session.console(json=True).json({"name": name, "value": parsed, "config_file": target})
        return
    done = f"{name} = {parsed}" if value is not None else f"{name} is unset"
    session.console().note(f"{done} ({target})")
