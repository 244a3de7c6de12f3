"""A real uvicorn on a real socket, in a thread, for tests that need to hang up or to be hung up."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager

import uvicorn

from commands.serve.app import create_app
from commands.serve.listener import bind, listen, url
from commands.serve.port import ServedEngine
from commands.serve.serving import ServeOptions
from core.settings import Settings


@contextmanager
def live_server(engine: ServedEngine, *, keep_alive: float = 10.0) -> Iterator[str]:
    """Serve an engine and yield the server's address."""
    options = ServeOptions(
        version="0.0.0",
        started_at=1_760_000_000.5,
        other_models=lambda: {"acme/other": False, "acme/seeing": True},
        keep_alive=keep_alive,
    )
    config = uvicorn.Config(
        create_app(engine, Settings(), options),
        lifespan="off",
        log_level="error",
        ws="none",
        timeout_graceful_shutdown=1,
    )
    server = uvicorn.Server(config)
    with bind("127.0.0.1", 0) as listener:
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
