"""`mlxbun stop`: end a running server, as Ctrl-C would."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from commands._shared.completion import servers
from core.errors import MlxbunError
from core.servers import find_server, list_servers, stop_server

if TYPE_CHECKING:
    from commands._shared.session import Session


def stop(
    context: typer.Context,
    name: Annotated[
        str | None,
        typer.Argument(
            autocompletion=servers,
            metavar="[SERVER]",
            help="A pid, a port or a part of the model's name.",
        ),
    ] = None,
    every: Annotated[bool, typer.Option("--all", help="Stop every running server.")] = False,
    wait: Annotated[
        float,
        typer.Option("--wait", help="Seconds to wait for running answers.", metavar="SECONDS"),
    ] = 40.0,
) -> None:
    """Stop a server; its running answers finish first."""
    session: Session = context.obj
    console = session.console()
    running = list_servers(session.paths.run_folder)
    for server in running if every else [find_server(name, running)]:
        if not stop_server(server, patience=wait):
            raise MlxbunError(
                f"The server {server.pid} still runs after {wait:g} seconds.",
                hint=f"Look at it with `mlxbun ps`, or end it with `kill -9 {server.pid}`.",
            )
        console.note(f"stopped {server.pid} ({server.url}, {server.model})")
