"""A server with a home of its own: a cache to fill, an environment, a client on this machine."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx

from commands.serve.serving import ServeOptions
from core.paths import Paths
from core.settings import Settings
from tests.commands.serve.fake_engine import FakeEngine
from tests.commands.serve.live import live_server, serve_options
from tests.processes import environ_of


@dataclass(frozen=True, kw_only=True)
class Home:
    """One server and what it works with."""

    environ: dict[str, str]
    options: ServeOptions
    engine: FakeEngine
    client: httpx.Client

    @property
    def paths(self) -> Paths:
        return self.options.paths

    def get(self, path: str, **options: Any) -> Any:
        """Return the JSON at a path that answers well."""
        answer = self.client.get(path, **options)
        assert answer.status_code == 200, answer.text
        return answer.json()

    def post(self, path: str, body: Any) -> Any:
        """Return the JSON of a POST that is answered well."""
        answer = self.client.post(path, json=body)
        assert answer.status_code == 200, answer.text
        return answer.json()

    @classmethod
    @contextmanager
    def opened(
        cls, folder: Path, hub: str, *, settings: Settings | None = None, **environ: str
    ) -> Iterator[Home]:
        """Open a server whose home is a folder and whose Hub is at an address."""
        place = environ_of(folder, HF_ENDPOINT=hub, **environ)
        options, engine = serve_options(place), FakeEngine()
        with (
            live_server(engine, options=options, settings=settings) as base,
            httpx.Client(base_url=base, timeout=20, trust_env=False) as client,
        ):
            try:
                yield cls(environ=place, options=options, engine=engine, client=client)
            finally:
                options.downloads.cancel()
                options.downloads.wait(5)
