"""`GET /v1/adapters` and `GET /v1/adapters/available`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from litestar import Request, Response, get

from commands.serve.openapi import documented
from commands.serve.routes.api import as_json
from commands.serve.wire.adapters import (
    AvailableAdapters,
    MountedAdapters,
    available_row,
    mounted_row,
)
from core.errors import MlxbunError

if TYPE_CHECKING:
    from pathlib import Path

    from commands.serve.serving import Serving
    from core.train.shelf import AdapterCard


@get("/v1/adapters", opt=documented(answer=MountedAdapters))
async def list_mounted(request: Request[Any, Any, Any]) -> Response[bytes]:
    """List the adapter that all answers are given with, if there is one."""
    serving: Serving = request.app.state.serving
    mounted = serving.engine.info.mounted
    if mounted is None:
        return as_json(MountedAdapters(adapters=[]))
    card = await serving.options.drain.unless_given_up(serving.disk.run(_card, mounted.folder))
    return as_json(MountedAdapters(adapters=[mounted_row(mounted, card)]))


@get("/v1/adapters/available", opt=documented(answer=AvailableAdapters))
async def list_available(request: Request[Any, Any, Any]) -> Response[bytes]:
    """List the adapters on this disk, each with whether it goes with the served model."""
    serving: Serving = request.app.state.serving
    cards = await serving.options.drain.unless_given_up(serving.disk.run(_cards, serving))
    info = serving.engine.info
    return as_json(AvailableAdapters(adapters=[available_row(card, info) for card in cards]))


def _card(folder: Path) -> AdapterCard | None:
    from core.train.shelf import read_card

    try:
        return read_card(folder)
    except (MlxbunError, OSError):
        return None


def _cards(serving: Serving) -> list[AdapterCard]:
    from core.train.shelf import list_adapters

    return list_adapters(serving.options.paths)
