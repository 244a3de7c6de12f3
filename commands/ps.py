"""`mlxbun ps`: the servers that run on this machine."""

from __future__ import annotations

import time
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import typer

from commands._shared.options import JsonOption
from core.servers import list_servers
from core.units import format_seconds

if TYPE_CHECKING:
    from commands._shared.session import Session
    from core.servers import RunningServer


def ps(context: typer.Context, json: JsonOption = False) -> None:
    """List the running servers."""
    session: Session = context.obj
    servers = list_servers(session.paths.run_folder)
    console = session.console(json=json)
    now = time.time()
    if json:
        console.json({"servers": [_as_json(server, now) for server in servers]})
        return
    if not servers:
        console.note("No mlxbun server is running.")
        return
    rows = [
        {
            "pid": server.pid,
            "url": server.url,
            "model": server.model,
            "up": format_seconds(_up(server, now)),
        }
        for server in servers
    ]
    console.table(rows, {"pid": "PID", "url": "ADDRESS", "model": "MODEL", "up": "UP"})


def _as_json(server: RunningServer, now: float) -> dict[str, Any]:
    return {
        "pid": server.pid,
        "url": server.url,
        "model": server.model,
        "folder": server.folder,
        "started_at": datetime.fromtimestamp(server.started_at, UTC).isoformat(timespec="seconds"),
        "up_seconds": round(_up(server, now), 3),
    }


def _up(server: RunningServer, now: float) -> float:
    return max(0.0, now - server.started_at)
