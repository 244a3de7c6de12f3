"""Runs the application on a bound socket until it has drained."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

import uvicorn

from commands.serve.app import create_app
from commands.serve.lifespan import DrainingServer, drain_on_signals
from commands.serve.listener import listen
from commands.serve.malformed import HttpProtocol
from commands.serve.serving import ServeOptions
from core.errors import EngineLost

if TYPE_CHECKING:
    import socket
    from collections.abc import Callable, Mapping

    from commands.serve.port import ServedEngine
    from core.fit.host import Host
    from core.paths import Paths
    from core.settings import Settings

# For downloads, and then uploads, to note that the server has ended them.
_FAREWELL = 3.0

# Seconds that an idle connection stays open: longer than the 60 after which load balancers and the
# connection pools of clients close theirs, so that none of them writes to a closed connection.
_KEEP_ALIVE = 75


def run_server(
    engine: ServedEngine,
    settings: Settings,
    *,
    listener: socket.socket,
    version: str,
    paths: Paths,
    environ: Mapping[str, str],
    host: Host,
    other_models: Callable[[], Mapping[str, bool]],
    on_drain: Callable[[int], None],
    on_cut: Callable[[int], None],
    trace: Callable[[str], None] | None = None,
) -> None:
    """Answer requests until a signal has ended that, then close the engine.

    Args:
        engine: the model that answers.
        settings: the merged settings.
        listener: a bound socket; it is closed at the end.
        version: ours.
        paths: our folders and the Hugging Face cache.
        environ: the environment, for the Hub's variables.
        host: this machine, as models are to fit it.
        other_models: returns the models in the cache, each with whether it sees.
        on_drain: told the number of running requests when the drain begins.
        on_cut: told the number of those that were cut off because their time was over.
        trace: takes a line for each request; None: requests are not traced.

    Raises:
        AddressInUse: another server took the port since the socket was bound.
        EngineLost: the engine died or stalled.
    """
    options = ServeOptions(
        version=version,
        started_at=time.time(),
        paths=paths,
        environ=environ,
        host=host,
        other_models=other_models,
        trace=trace,
    )
    config = uvicorn.Config(
        create_app(engine, settings, options),
        loop="uvloop",
        http=HttpProtocol,
        ws="none",
        lifespan="off",
        log_level="warning",
        access_log=False,
        server_header=False,
        timeout_keep_alive=_KEEP_ALIVE,
        proxy_headers=False,  # whom a header names says nothing of who is at this machine
        timeout_graceful_shutdown=1,
    )

    def drained(running: int) -> None:
        options.downloads.cancel()
        on_drain(running)

    server = DrainingServer(
        config,
        drain=options.drain,
        patience=settings.drain_timeout,
        alive=lambda: not engine.lost,
        on_drain=drained,
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
            options.downloads.cancel()
            options.uploads.cancel()
            options.downloads.wait(_FAREWELL)
            options.uploads.wait(_FAREWELL)
            engine.close()
