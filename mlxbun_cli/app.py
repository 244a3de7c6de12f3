"""The Typer app: global options and the commands. The only reader of `os.environ`.

But for `mlxbun_cli.completion`, which answers Tab without coming here.

Command modules are light: they import their heavy parts in function bodies.
"""

from __future__ import annotations

import os
from typing import Annotated

import typer

from commands._shared.session import Session
from commands._shared.streams import Streams
from commands._shared.verb import Verb, VerbGroup
from commands.adapters import adapters_app
from commands.bench import bench
from commands.chat import chat
from commands.config import config_app
from commands.doctor import doctor
from commands.download import download
from commands.eval import evaluate
from commands.fit import fit
from commands.fuse import fuse
from commands.gc import gc
from commands.generate import generate
from commands.import_gguf import import_gguf
from commands.jobs import jobs_app
from commands.ls import ls
from commands.memory import memory_app
from commands.perplexity import perplexity
from commands.ps import ps
from commands.quantize import quantize
from commands.serve import serve
from commands.stop import stop
from commands.train import train
from commands.upload import upload
from core.paths import Paths
from mlxbun_cli.completion.options import InstallOption, ShowOption, with_shell_named

app = typer.Typer(
    name="mlxbun",
    help="Run, serve and shape language models on your own machine with MLX.",
    cls=VerbGroup,
    add_completion=False,  # ours is quicker, and quotes: mlxbun_cli.completion
    pretty_exceptions_enable=False,
    rich_markup_mode="rich",
)


def new_session() -> Session:
    """Read the environment once."""
    environ = dict(os.environ)
    paths = Paths.from_environ(environ)
    return Session(environ=environ, paths=paths, streams=Streams.of(environ))


def _show_version(context: typer.Context, wanted: bool) -> None:
    if wanted:
        from importlib.metadata import version

        context.obj.console().text(f"mlxbun {version('mlxbun')}\n")
        raise typer.Exit


@app.callback()
def door(
    context: typer.Context,
    _version: Annotated[
        bool,
        typer.Option("--version", callback=_show_version, is_eager=True, help="Show the version."),
    ] = False,
    _install: InstallOption = None,
    _show: ShowOption = None,
) -> None:
    """Hand the session on."""
    context.obj = context.obj or new_session()


# Verbs whose functions cannot have their names: a keyword and a builtin of Python.
_NAMES = {import_gguf: "import", evaluate: "eval"}

for verb in (
    serve,
    generate,
    chat,
    ls,
    download,
    import_gguf,
    fit,
    gc,
    upload,
    train,
    quantize,
    fuse,
    bench,
    evaluate,
    perplexity,
    ps,
    stop,
    doctor,
):
    app.command(_NAMES.get(verb), cls=Verb)(verb)
app.add_typer(adapters_app, name="adapters")
app.add_typer(jobs_app, name="jobs")
app.add_typer(memory_app, name="memory")
app.add_typer(config_app, name="config")


def invoke(arguments: list[str], session: Session) -> None:
    """Run one command.

    Not by calling `app`: Typer would end the process by itself where a pipe breaks.

    Raises:
        typer.Exit: it has ended with a code of its own.
        typer.TyperException: the command line is wrong.
    """
    command = typer.main.get_command(app)
    words = with_shell_named(arguments)
    with command.make_context("mlxbun", words, obj=session) as context:
        command.invoke(context)


def debugging() -> bool:
    """Return whether the user asked for tracebacks."""
    return os.environ.get("MLXBUN_DEBUG", "") not in ("", "0")
