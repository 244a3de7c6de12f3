"""Runs the application on a bound socket until it has drained."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

import uvicorn

from commands.serve.app import create_app
from commands.serve.lifespan import DrainingServer, drain_on_signals
from commands.serve.listener import listen
from commands.serve.serving import ServeOptions
from core.errors import EngineLost

if TYPE_CHECKING:
    import socket
    from collections.abc import Callable, Mapping

    from commands.serve.port import ServedEngine
    from core.settings import Settings


def run_server(
    engine: ServedEngine,
    settings: Settings,
    *,
    listener: socket.socket,
    version: str,
    other_models: Callable[[], Mapping[str, bool]],
    on_drain: Callable[[int], None],
    on_cut: Callable[[int], None],
) -> None:
    """Answer requests until a signal has ended that, then close the engine.

    Args:
        engine: the model that answers.
        settings: the merged settings.
        listener: a bound socket; it is closed at the end.
        version: ours.
        other_models: returns the models in the cache, each with whether it sees.
        on_drain: told the number of running requests when the drain begins.
        on_cut: told the number of those that were cut off because their time was over.

    Raises:
        AddressInUse: another server took the port since the socket was bound.
        EngineLost: the engine died or stalled.
    """
    options = ServeOptions(version=version, started_at=time.time(), other_models=other_models)
    config = uvicorn.Config(
        create_app(engine, settings, options),
        loop="uvloop",
        http="httptools",
        ws="none",
        lifespan="off",
        log_level="warning",
        access_log=False,
        server_header=False,
        timeout_graceful_shutdown=1,
    )
    server = DrainingServer(
        config,
        drain=options.drain,
        patience=settings.drain_timeout,
        alive=lambda: not engine.lost,
        on_drain=on_drain,
        on_cut=on_cut,
    )
    listen(listener)
    with drain_on_signals(options.drain):
        try:
            server.run(sockets=[listener])
            if engine.lost:
                raise EngineLost(
                    "The engine was lost, and the server has ended.",
                    hint="Start it again; a supervisor can tell this by exit code 9.",
                )
        finally:
            engine.close()
