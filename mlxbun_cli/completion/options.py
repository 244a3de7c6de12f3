"""`--install-completion` and `--show-completion`: for this shell, or for the one that is named."""

from __future__ import annotations

import os
from typing import Annotated

import typer

from commands._shared.completion import shells
from commands._shared.console import Console
from core.paths import Paths

_INSTALL, _SHOW = "--install-completion", "--show-completion"
_THIS = "this"


def with_shell_named(arguments: list[str]) -> list[str]:
    """Return a command line whose option of completion has a value: Typer knows none without."""
    return [*arguments, _THIS] if arguments in ([_INSTALL], [_SHOW]) else arguments


def _install(shell: str | None) -> None:
    if shell is None:
        return
    from platform import system

    from mlxbun_cli.completion.install import install, login_remark

    environ = dict(os.environ)
    shell = _named(shell)
    done = install(shell, environ=environ, paths=Paths.from_environ(environ))
    console = Console()
    console.note(f"{shell} completion {'is installed' if done.changed else 'was there already'}:")
    console.note(f"  {done.places.script}")
    if done.places.start_file is not None:
        console.note(f"  {done.places.start_file} has a line that reads it")
    if remark := login_remark(shell, environ=environ, system=system()):
        console.note(remark)
    console.note("Shells that start from now on complete mlxbun by Tab.")
    raise typer.Exit


def _show(shell: str | None) -> None:
    if shell is None:
        return
    from mlxbun_cli.completion.install import script_of

    Console().text(script_of(_named(shell)))
    raise typer.Exit


def _named(shell: str) -> str:
    from mlxbun_cli.completion.install import find_shell

    return find_shell(os.environ) if shell == _THIS else shell


InstallOption = Annotated[
    str | None,
    typer.Option(
        _INSTALL,
        metavar="[SHELL]",
        callback=_install,
        autocompletion=shells,
        is_eager=True,
        help="Complete words by Tab, in this shell or in bash, zsh or fish.",
    ),
]
ShowOption = Annotated[
    str | None,
    typer.Option(
        _SHOW,
        metavar="[SHELL]",
        callback=_show,
        autocompletion=shells,
        is_eager=True,
        help="Print the script that does it.",
    ),
]
