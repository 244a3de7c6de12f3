"""`--install-completion` and `--show-completion`: for this shell, or for the one that is named."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from commands._shared.completion import shells

if TYPE_CHECKING:
    from commands._shared.session import Session

_INSTALL, _SHOW = "--install-completion", "--show-completion"
_THIS = "this"


def with_shell_named(arguments: list[str]) -> list[str]:
    """Return a command line whose option of completion has a value: Typer knows none without."""
    at = next((at for at, word in enumerate(arguments) if word in (_INSTALL, _SHOW)), None)
    if at is None or any(word[:1] != "-" for word in arguments[:at]):  # words of a verb
        return arguments
    behind = arguments[at + 1 :]
    if behind and behind[0][:1] != "-":
        return arguments
    return [*arguments[:at], f"{arguments[at]}={_THIS}", *behind]


def _install(context: typer.Context, shell: str | None) -> None:
    if shell is None:
        return
    from platform import system

    from mlxbun_cli.completion.install import install, login_remark

    session: Session = context.obj
    shell = _named(shell, session)
    done = install(shell, environ=session.environ, paths=session.paths)
    console = session.console()
    console.note(f"{shell} completion {'is installed' if done.changed else 'was there already'}:")
    console.note(f"  {done.places.script}")
    if done.places.start_file is not None:
        console.note(f"  {done.places.start_file} has a line that reads it")
    if remark := login_remark(shell, environ=session.environ, system=system()):
        console.note(remark)
    console.note("Shells that start from now on complete mlxbun by Tab.")
    raise typer.Exit


def _show(context: typer.Context, shell: str | None) -> None:
    if shell is None:
        return
    from mlxbun_cli.completion.install import script_of

    session: Session = context.obj
    session.console().text(script_of(_named(shell, session)))
    raise typer.Exit


def _named(shell: str, session: Session) -> str:
    from mlxbun_cli.completion.install import find_shell

    return find_shell(session.environ) if shell == _THIS else shell


InstallOption = Annotated[
    str | None,
    typer.Option(
        _INSTALL,
        metavar="[SHELL]",
        callback=_install,
        autocompletion=shells,
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
        help="Print the script that does it.",
    ),
]
