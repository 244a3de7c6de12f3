"""Looking for models on the Hub, and what it takes to serve another one."""

from __future__ import annotations

from shlex import quote
from typing import TYPE_CHECKING, Annotated, Literal

from msgspec import UNSET, Meta, Struct, UnsetType

if TYPE_CHECKING:
    from collections.abc import Iterable

    from core.download.search import FoundModel


class HubResult(Struct, kw_only=True):
    """A model on the Hub."""

    id: str
    downloads: int
    likes: int
    size_estimate: Annotated[None, Meta(description="the Hub's search does not tell")] = None


class HubSearch(Struct, kw_only=True):
    """The body of `GET /api/hub/search`."""

    ok: Literal[True] = True
    offline: Annotated[bool, Meta(description="the Hub could not be asked")]
    error: Annotated[str | UnsetType, Meta(description="why not")] = UNSET
    results: list[HubResult]


class ServeRequest(Struct, kw_only=True):
    """What `POST /api/hub/serve` takes."""

    model: str


class RestartRequired(Struct, kw_only=True):
    """A server serves one model: another one takes another start."""

    ok: Literal[False] = False
    restart_required: Literal[True] = True
    command: Annotated[str, Meta(description="for a shell")]


def search_body(found: Iterable[FoundModel]) -> HubSearch:
    """Return the body with what was found."""
    results = [HubResult(id=m.repo_id, downloads=m.downloads, likes=m.likes) for m in found]
    return HubSearch(offline=False, results=results)


def restart_body(model: str) -> RestartRequired:
    """Return the body that names the command."""
    # Whoever pastes it into a shell must get a name there, whatever stands in it.
    guarded = f"-- {quote(model)}" if model.startswith("-") else quote(model)
    return RestartRequired(command=f"mlxbun serve {guarded}")
