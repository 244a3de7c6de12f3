"""`mlxbun stop`: end a running server, as Ctrl-C would."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from commands._shared.completion import servers
from commands._shared.options import JsonOption
from core.errors import MlxbunError
from core.servers import find_server, list_servers, stop_server

if TYPE_CHECKING:
    from commands._shared.session import Session
    from core.servers import RunningServer


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
    json: JsonOption = False,
) -> None:
    """Stop a server; its running answers finish first."""
    session: Session = context.obj
    console = session.console(json=json)
    running = list_servers(session.paths.run_folder)
    stopped, left = [], []
    for server in running if every else [find_server(name, running)]:
        if stop_server(server, patience=wait):
            stopped.append(server)
            if not json:
                console.note(f"stopped {server.pid} ({server.url}, {server.model})")
        else:
            left.append(server)
    if json:
        told = {"stopped": stopped, "still_running": left}
        console.json({key: [_as_json(server) for server in some] for key, some in told.items()})
    for server in left:
        raise MlxbunError(
            f"The server {server.pid} still runs after {wait:g} seconds.",
            hint=f"Look at it with `mlxbun ps`, or end it with `kill -9 {server.pid}`.",
        )


def _as_json(server: RunningServer) -> dict[str, Any]:
    return {"pid": server.pid, "url": server.url, "model": server.model}
