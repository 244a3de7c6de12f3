"""A real uvicorn on a real socket, in a thread, for tests that need to hang up or to be hung up."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager

import uvicorn

from commands.serve.app import create_app
from commands.serve.listener import bind, listen, url
from commands.serve.malformed import HttpProtocol
from commands.serve.port import ServedEngine
from commands.serve.serving import ServeOptions
from core.fit.host import sku_host
from core.fit.machines import find_skus
from core.paths import Paths
from core.settings import Settings

_NOWHERE = {"HOME": "/no/such/home"}


def serve_options(
    environ: Mapping[str, str] = _NOWHERE, *, keep_alive: float = 10.0
) -> ServeOptions:
    """Return what a server is told, as on a small Mac."""
    return ServeOptions(
        version="0.0.0",
        started_at=1_760_000_000.5,
        paths=Paths.from_environ(environ),
        environ=environ,
        host=sku_host(find_skus("M4 Pro 24")[0]),
        other_models=lambda: {"acme/other": False, "acme/seeing": True},
        keep_alive=keep_alive,
    )


@contextmanager
def live_server(
    engine: ServedEngine,
    *,
    options: ServeOptions | None = None,
    settings: Settings | None = None,
    host: str = "127.0.0.1",
) -> Iterator[str]:
    """Serve an engine and yield the server's address."""
    config = uvicorn.Config(
        create_app(engine, settings or Settings(), options or serve_options()),
        http=HttpProtocol,
        proxy_headers=False,
        lifespan="off",
        log_level="error",
        ws="none",
        timeout_graceful_shutdown=1,
    )
    server = uvicorn.Server(config)
    with bind(host, 0) as listener:
        listen(listener)
        thread = threading.Thread(target=server.run, args=([listener],), daemon=True)
        thread.start()
        while not server.started:
            time.sleep(0.01)
        try:
            yield url(listener)
        finally:
            server.should_exit = True
            thread.join(5)


def wait_until(condition: object, seconds: float = 5.0) -> None:
    """Wait for a callable to turn true."""
    assert callable(condition)
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, "it did not happen in time"
        time.sleep(0.01)
