"""`mlxbun ps`: the servers that run on this machine."""

from __future__ import annotations

import time
from dataclasses import asdict
from typing import TYPE_CHECKING

import typer

from commands._shared.options import JsonOption
from core.servers import list_servers
from core.units import format_seconds

if TYPE_CHECKING:
    from commands._shared.session import Session


def ps(context: typer.Context, json: JsonOption = False) -> None:
    """List the running servers."""
    session: Session = context.obj
    servers = list_servers(session.paths.run_folder)
    console = session.console(json=json)
    if not servers and not json:
        console.note("No mlxbun server is running.")
        return
    now = time.time()
    rows = [
        {**asdict(server), "up": format_seconds(max(0.0, now - server.started_at))}
        for server in servers
    ]
    console.table(rows, {"pid": "PID", "url": "ADDRESS", "model": "MODEL", "up": "UP"})
