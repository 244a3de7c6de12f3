"""`/api/memory/*`: what is in the vault; `GET /v1/memory/synthesize`: a run that writes it.

A vault that is not there is an answer with status 200, as clients of the reference expect it.
"""

from __future__ import annotations

import ipaddress
import sqlite3
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, TypeVar

from litestar import Request, Response, get, post

from commands.serve.failures import STATUSES
from commands.serve.openapi import documented
from commands.serve.routes.answer import StreamedAnswer
from commands.serve.routes.api import as_json, problem, read_fields, refused
from commands.serve.sse import EventStream
from commands.serve.wire import memory as wire
from commands.serve.wire.api import ApiProblem, clean
from commands.serve.wire.memory_bodies import (
    article_body,
    history_body,
    init_body,
    search_body,
    status_body,
)
from core.errors import MlxbunError, NotFound, VaultMissing
from core.memory.opening import root_for_program, vault_root
from core.memory.status import vault_status
from core.memory.vault import name_of, open_vault

if TYPE_CHECKING:
    from collections.abc import Callable

    import msgspec

    from commands.serve.serving import Serving
    from core.memory.events import SynthesisEvent
    from core.memory.opening import Memory

_Result = TypeVar("_Result")
_UNREADABLE = 503
# What browsers send with requests that the user has not made yet.
_AHEAD = ("sec-purpose", "purpose", "x-purpose", "x-moz")
_EARLY = ("prefetch", "prerender", "preview")
_ONLY_LOOPBACK = "Ask for this at 127.0.0.1 or localhost."
_LEAVING_OUT = "Nothing is done for a request that is made in advance."


@get("/api/memory/status", opt=documented(answer=wire.MemoryStatus, error=ApiProblem))
async def show_status(request: Request[Any, Any, Any]) -> Response[bytes]:
    """Count the articles of the vault and name the latest."""
    return await _read(request, lambda memory: status_body(vault_status(memory.vault)))


@get("/api/memory/list", opt=documented(answer=wire.MemoryList, error=ApiProblem))
async def list_articles(request: Request[Any, Any, Any]) -> Response[bytes]:
    """List the articles and the pages of documentation."""

    def read(memory: Memory) -> wire.MemoryList:
        names = memory.vault.names()
        return wire.MemoryList(articles=list(names.articles), reference=list(names.reference))

    return await _read(request, read)


@get(
    "/api/memory/search",
    opt=documented(answer=wire.MemorySearch, error=ApiProblem, query=("q!", "scope", "limit")),
)
async def search(request: Request[Any, Any, Any]) -> Response[bytes]:
    """Search the articles for words."""
    query = request.query_params

    def read(memory: Memory) -> wire.MemorySearch:
        words, scope = wire.query_of(query), wire.scope_of(query)
        limit = wire.limit_of(query)
        return search_body(memory.index.search(memory.vault, words, scope=scope, limit=limit))

    return await _read(request, read)


@get(
    "/api/memory/article",
    opt=documented(answer=wire.MemoryArticle, error=ApiProblem, query=("name!",)),
)
async def show_article(request: Request[Any, Any, Any]) -> Response[bytes]:
    """Return an article and its structure."""
    query = request.query_params
    return await _read(request, lambda memory: article_body(memory.vault.read(wire.name_of(query))))


@get(
    "/api/memory/links",
    opt=documented(answer=wire.MemoryLinks, error=ApiProblem, query=("name!",)),
)
async def show_links(request: Request[Any, Any, Any]) -> Response[bytes]:
    """List the articles that an article links to, and those that link to it."""
    query = request.query_params

    def read(memory: Memory) -> wire.MemoryLinks:
        from core.memory.graph import links_of

        found = links_of(memory.vault, wire.name_of(query))
        return wire.MemoryLinks(
            name=found.name, outbound=list(found.outbound), inbound=list(found.inbound)
        )

    return await _read(request, read)


@get(
    "/api/memory/history",
    opt=documented(answer=wire.MemoryHistory, error=ApiProblem, query=("name!", "limit")),
)
async def show_history(request: Request[Any, Any, Any]) -> Response[bytes]:
    """List the commits that touched an article, the latest first."""
    query = request.query_params

    def read(memory: Memory) -> wire.MemoryHistory:
        name, limit = wire.name_of(query), wire.limit_of(query)
        return _history(memory, name, limit)

    return await _read(request, read)


@get(
    "/api/memory/diff",
    opt=documented(answer=wire.MemoryDiff, error=ApiProblem, query=("name!", "rev!")),
)
async def show_diff(request: Request[Any, Any, Any]) -> Response[bytes]:
    """Return what a commit changed in an article."""
    query = request.query_params

    def read(memory: Memory) -> wire.MemoryDiff:
        return _diff(memory, wire.name_of(query), wire.revision_of(query))

    return await _read(request, read)


@post(
    "/api/memory/init",
    status_code=200,
    opt=documented(body=wire.InitOrder, answer=wire.MemoryInit, error=ApiProblem),
)
async def set_up(request: Request[Any, Any, Any]) -> Response[bytes]:
    """Set up the vault; where there is one, add what is missing."""
    serving: Serving = request.app.state.serving
    path = wire.path_of(await read_fields(request))
    return await _answer(serving, lambda: _set_up(serving, path))


@get(
    "/v1/memory/synthesize",
    opt=documented(event=wire.SynthesisMessage, error=ApiProblem, query=("dry",)),
)
async def synthesize(request: Request[Any, Any, Any]) -> Response[Any]:
    """Write what new conversations say into the vault, and send what happens as events."""
    serving: Serving = request.app.state.serving
    if _is_early(request):
        return problem(_LEAVING_OUT, 503)
    if not _is_loopback(request):
        return problem(_ONLY_LOOPBACK, 403)
    dry, drain = wire.dry_of(request.query_params), serving.options.drain

    def work(send: Callable[[list[bytes]], None], cancelled: Callable[[], bool]) -> None:
        _synthesize(serving, send, cancelled, dry=dry)

    stream = EventStream(
        serving.syntheses.frames(work, dry=dry, stopping=lambda: drain.begun),
        on_close=lambda: None,
        keep_alive=serving.options.keep_alive,
    )
    return StreamedAnswer(stream)


async def _read(
    request: Request[Any, Any, Any], read: Callable[[Memory], msgspec.Struct]
) -> Response[bytes]:
    """Answer with what is read of the vault."""
    serving: Serving = request.app.state.serving
    return await _answer(serving, lambda: read(serving.memory.get(serving.options.paths)))


async def _answer(serving: Serving, work: Callable[[], msgspec.Struct]) -> Response[bytes]:
    """Do some work on the disk and answer. A fault of the vault is never a 500."""
    try:
        return as_json(await serving.options.drain.unless_given_up(serving.disk.run(work)))
    except VaultMissing:
        return as_json(wire.missing_body(str(vault_root(serving.options.paths))))
    except MlxbunError as error:
        if STATUSES[type(error)] != 500:
            raise
        return refused(error, _UNREADABLE)
    except (OSError, sqlite3.Error) as error:
        return problem(f"The vault cannot be read: {error}.", _UNREADABLE)


def _history(memory: Memory, name: str, limit: int) -> wire.MemoryHistory:
    from core.memory.history import history

    path = memory.vault.find(name)
    is_git = memory.git.is_top_level()
    versions = history(memory.git, path, limit) if is_git else ()
    return history_body(name_of(path), versions, is_git=is_git)


def _diff(memory: Memory, name: str, revision: str) -> wire.MemoryDiff:
    from core.memory.history import diff

    path = memory.vault.find(name)
    if not memory.git.is_top_level():
        raise NotFound("The vault is not a git repository.")
    found = diff(memory.git, path, revision)
    return wire.MemoryDiff(name=clean(name_of(path)), rev=found.commit.hash, diff=clean(found.text))


def _set_up(serving: Serving, path: str | None) -> wire.MemoryInit:
    from core.memory.setup import setup_vault

    paths = serving.options.paths
    root = vault_root(paths) if path is None else root_for_program(path, paths)
    result = setup_vault(root, on_note=lambda _line: None)
    return init_body(result, vault_status(open_vault(root)))


def _synthesize(
    serving: Serving,
    send: Callable[[list[bytes]], None],
    cancelled: Callable[[], bool],
    *,
    dry: bool,
) -> None:
    """Run the pipeline with the model that is served."""
    from core.memory.events import StageProgress
    from core.memory.pipeline import SynthesisOptions
    from core.memory.pipeline import synthesize as run
    from core.memory.sources.find import SourceOptions

    options, last = serving.options, 0

    def on_event(event: SynthesisEvent) -> None:
        nonlocal last
        if isinstance(event, StageProgress):  # a message for each percent, not for each item
            share, last = last, 100 * event.done // max(event.total, 1)
            if share == last:
                return
        send(wire.event_message(event))

    sources = SourceOptions(sessions=options.paths.sessions_folder)
    run(
        SynthesisOptions(sources=sources, dry_run=dry),
        vault_root=vault_root(options.paths),
        paths=options.paths,
        model=lambda: options.memory_model(serving.engine),
        on_event=on_event,
        cancelled=cancelled,
        clock=lambda: datetime.now(UTC).astimezone(),
    )


def _is_loopback(request: Request[Any, Any, Any]) -> bool:
    """Return whether a request comes by a loopback address.

    Only there do browsers name the site that sends a GET (`Sec-Fetch-Site`) over plain HTTP; this
    GET writes, so a page of another site must not be able to send it.
    """
    client = request.client
    try:
        return client is not None and ipaddress.ip_address(client.host).is_loopback
    except ValueError:
        return False


def _is_early(request: Request[Any, Any, Any]) -> bool:
    """Return whether a browser asks in advance, for a page that may never be opened."""
    values = (request.headers.get(name, "").lower() for name in _AHEAD)
    return any(word in each for each in values for word in _EARLY)
