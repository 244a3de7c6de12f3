"""The Typer app: global options and the commands. The only reader of `os.environ`.

But for `mlxbun_cli.completion`, which answers Tab without coming here.

Command modules are light: they import their heavy parts in function bodies.
"""

from __future__ import annotations

import os
from typing import Annotated

import typer

from commands._shared.console import Console
from commands._shared.session import Session
from commands.bench import bench
from commands.chat import chat
from commands.config import config_app
from commands.doctor import doctor
from commands.download import download
from commands.fit import fit
from commands.gc import gc
from commands.generate import generate
from commands.ls import ls
from commands.ps import ps
from commands.serve import serve
from commands.stop import stop
from commands.upload import upload
from core.paths import Paths
from mlxbun_cli.completion.options import InstallOption, ShowOption

app = typer.Typer(
    name="mlxbun",
    help="Run, serve and shape language models on your own machine with MLX.",
    no_args_is_help=True,
    add_completion=False,  # ours is quicker, and quotes: mlxbun_cli.completion
    pretty_exceptions_enable=False,
    rich_markup_mode="rich",
)


def _show_version(wanted: bool) -> None:
    if wanted:
        from importlib.metadata import version

        Console().text(f"mlxbun {version('mlxbun')}\n")
        raise typer.Exit


@app.callback()
def door(
    context: typer.Context,
    _version: Annotated[
        bool, typer.Option("--version", callback=_show_version, is_eager=True, help="Show it.")
    ] = False,
    _install: InstallOption = None,
    _show: ShowOption = None,
) -> None:
    """Read the environment once and hand it on."""
    environ = dict(os.environ)
    context.obj = Session(environ=environ, paths=Paths.from_environ(environ))


app.command()(serve)
app.command()(generate)
app.command()(chat)
app.command()(ls)
app.command()(download)
app.command()(fit)
app.command()(gc)
app.command()(upload)
app.command()(bench)
app.command()(ps)
app.command()(stop)
app.command()(doctor)
app.add_typer(config_app, name="config")


def debugging() -> bool:
    """Return whether the user asked for tracebacks."""
    return os.environ.get("MLXBUN_DEBUG", "") not in ("", "0")
