"""What the routes share: the engine and what was decided when the server started."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from commands.serve.lifespan import Drain
from commands.serve.workers import Workers

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from commands.serve.port import ServedEngine
    from core.settings import Settings


@dataclass(frozen=True, kw_only=True)
class ServeOptions:
    """What a server is told at its start and no setting holds."""

    version: str
    """Ours, as the API index names it."""
    started_at: float
    """Unix seconds."""
    other_models: Callable[[], Mapping[str, bool]] = dict
    """Returns the models in the cache by id, each with whether it sees; may read the disk."""
    drain: Drain = field(default_factory=Drain)
    """Whether new requests are taken."""
    keep_alive: float = 10.0
    """Seconds of silence in a stream after which a comment is sent."""


@dataclass(frozen=True, kw_only=True)
class Serving:
    """What a handler works with."""

    engine: ServedEngine
    """The model that answers."""
    settings: Settings
    """The merged settings."""
    options: ServeOptions
    """What the start decided."""
    workers: Workers = field(default_factory=Workers)
    """Threads for what would hold up the event loop."""
