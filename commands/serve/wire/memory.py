"""The memory vault over HTTP: bodies of `/api/memory/*`, their parameters, and a run's events."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Annotated, Any, Literal

import msgspec
from msgspec import UNSET, Meta, Struct, UnsetType

from commands.serve.wire.api import clean
from core.errors import BadRequest
from core.memory.events import Note, StageProgress, StageStarted
from core.memory.stages.types import STAGES

if TYPE_CHECKING:
    from collections.abc import Mapping

    from core.memory.events import SynthesisEvent, SynthesisSummary

NO_VAULT = "no memory vault yet"
SCOPES = ("all", "articles", "reference")
Scope = Literal["all", "articles", "reference"]
_SHOWN = 50
_MOST = 200
_LONGEST_NAME = 255  # bytes; no file system has longer ones
_LONGEST_QUERY = 1000  # characters
_REVISION = re.compile(r"[0-9a-f]{4,40}")
_SWITCHED = {"": False, "0": False, "false": False, "1": True, "true": True}


class MemoryMissing(Struct, kw_only=True):
    """There is no vault yet."""

    ok: Literal[False] = False
    enabled: Literal[False] = False
    error: str = NO_VAULT
    root: Annotated[str, Meta(description="where it would be")]


class RecentArticle(Struct, kw_only=True, rename="camel"):
    """An article that was written lately."""

    article: str
    mtime_ms: Annotated[float, Meta(description="milliseconds since 1970")]


class VaultStatus(Struct, kw_only=True, rename="camel"):
    """What there is in a vault."""

    root: str
    exists: bool
    article_count: int
    reference_count: int
    is_git_repo: bool
    recent_articles: Annotated[list[RecentArticle], Meta(description="the latest first")]


class MemoryStatus(Struct, kw_only=True):
    """The body of `GET /api/memory/status`."""

    ok: Literal[True] = True
    enabled: Literal[True] = True
    status: VaultStatus


class MemoryList(Struct, kw_only=True):
    """The body of `GET /api/memory/list`."""

    ok: Literal[True] = True
    articles: list[str]
    reference: list[str]


class SearchSummary(Struct, kw_only=True):
    """An article in which the words stand."""

    article: str
    occurrences: int
    matched_terms: list[str]


class SearchHit(Struct, kw_only=True):
    """A place where the words stand."""

    article: str
    anchor: Annotated[str, Meta(description="of the section; empty: above the first one")]
    line: Annotated[int, Meta(description="counted from 1")]
    excerpt: str


class MemorySearch(Struct, kw_only=True):
    """The body of `GET /api/memory/search`."""

    ok: Literal[True] = True
    summaries: Annotated[list[SearchSummary], Meta(description="the best match first")]
    hits: list[SearchHit]


class InfoboxField(Struct, kw_only=True, rename="camel"):
    """A line of an infobox."""

    key: str
    value: str
    is_entity_link: bool
    kind: Literal["scalar", "entity-link", "list", "date"]


class Infobox(Struct, kw_only=True, rename="camel"):
    """What stands at the top of an article."""

    type: str | None
    entity_kind: Literal["thing", "person", "domain", "project", "standard"]
    fields: list[InfoboxField]


class StructureItem(Struct, kw_only=True, rename="camel"):
    """A part of an article with its lines, counted from 1, both inclusive."""

    kind: Literal["h1", "series", "infobox", "lead", "section", "see-also", "notes", "references"]
    title: str | UnsetType = UNSET
    depth: int | UnsetType = UNSET
    start_line: int
    end_line: int


class MemoryArticle(Struct, kw_only=True):
    """The body of `GET /api/memory/article`."""

    ok: Literal[True] = True
    name: str
    path: Annotated[str, Meta(description="relative to the vault")]
    content: str
    infobox: Infobox | None
    lead: str | None
    series: str | None
    structure: list[StructureItem]


class MemoryLinks(Struct, kw_only=True):
    """The body of `GET /api/memory/links`."""

    ok: Literal[True] = True
    name: str
    outbound: list[str]
    inbound: list[str]


class HistoryEntry(Struct, kw_only=True):
    """A commit that touched an article."""

    hash: str
    date: Annotated[str, Meta(description="YYYY-MM-DD")]
    subject: str


class MemoryHistory(Struct, kw_only=True, rename="camel"):
    """The body of `GET /api/memory/history`, the latest first."""

    ok: Literal[True] = True
    name: str
    is_git_repo: bool
    entries: list[HistoryEntry]


class MemoryDiff(Struct, kw_only=True):
    """The body of `GET /api/memory/diff`."""

    ok: Literal[True] = True
    name: str
    rev: str
    diff: str


class InitOrder(Struct, kw_only=True):
    """What `POST /api/memory/init` takes."""

    path: Annotated[
        str | UnsetType,
        Meta(description="inside the vault's own folder, or the temporary folder"),
    ] = UNSET


class InitResult(Struct, kw_only=True, rename="camel"):
    """What was set up."""

    root: str
    created: Annotated[list[str], Meta(description="relative to root")]
    git_initialized: bool
    already_set_up: bool


class MemoryInit(Struct, kw_only=True):
    """The body of `POST /api/memory/init`."""

    ok: Literal[True] = True
    result: InitResult
    status: VaultStatus


class SynthesisMessage(Struct, kw_only=True):
    """One event of `GET /v1/memory/synthesize`."""

    type: Literal["stage", "log", "done", "summary", "error"]
    stage: str | UnsetType = UNSET
    message: str | UnsetType = UNSET
    implemented: bool | UnsetType = UNSET
    stages: list[str] | UnsetType = UNSET
    note: str | UnsetType = UNSET


def missing_body(root: str) -> MemoryMissing:
    """Return the body that says that there is no vault."""
    return MemoryMissing(root=clean(root))


def name_of(query: Mapping[str, str]) -> str:
    """Return the name of an article that a client sent.

    Raises:
        BadRequest: it is missing, has a NUL, or is longer than a file name can be.
    """
    name = query.get("name", "")
    if not name.strip():
        raise BadRequest("name is required", field="name")
    _check_plain("name", name)
    if len(name.encode("utf-8", "replace")) > _LONGEST_NAME:
        raise BadRequest(f"name must have {_LONGEST_NAME} bytes at most", field="name")
    return name


def query_of(query: Mapping[str, str]) -> str:
    """Return the words that are searched for.

    Raises:
        BadRequest: there are none, too many, or a NUL is among them.
    """
    words = query.get("q", "")
    if not words.strip():
        raise BadRequest("q is required", field="q")
    _check_plain("q", words)
    if len(words) > _LONGEST_QUERY:
        raise BadRequest(f"q must have {_LONGEST_QUERY} characters at most", field="q")
    return words


def scope_of(query: Mapping[str, str]) -> Scope:
    """Return what is searched.

    Raises:
        BadRequest: there is no such scope.
    """
    scope = query.get("scope") or "all"
    for known in SCOPES:
        if scope == known:
            return known  # type: ignore[return-value]
    raise BadRequest(f"scope must be one of {', '.join(SCOPES)}", field="scope")


def limit_of(query: Mapping[str, str]) -> int:
    """Return how many results to send.

    Raises:
        BadRequest: it is not an integer from 1 to 200.
    """
    asked = query.get("limit")
    if asked is None:
        return _SHOWN
    plain = len(asked) <= 3 and asked.isascii() and asked.isdigit()
    if not plain or not 1 <= int(asked) <= _MOST:
        raise BadRequest(f"limit must be an integer from 1 to {_MOST}", field="limit")
    return int(asked)


def revision_of(query: Mapping[str, str]) -> str:
    """Return the commit whose diff is wanted.

    Raises:
        BadRequest: it is not a commit hash, or the beginning of one.
    """
    revision = query.get("rev", "")
    if not _REVISION.fullmatch(revision):
        raise BadRequest("rev must be a commit hash: 4 to 40 hexadecimal digits", field="rev")
    return revision


def dry_of(query: Mapping[str, str]) -> bool:
    """Return whether a run is only planned.

    Raises:
        BadRequest: the value is not 0, 1, false or true.
    """
    try:
        return _SWITCHED[query.get("dry", "").lower()]
    except KeyError:
        raise BadRequest("dry must be 0 or 1", field="dry") from None


def path_of(fields: Mapping[str, Any]) -> str | None:
    """Return where a vault is to be set up; None: where it is by default.

    Raises:
        BadRequest: it is not a string, is empty, or has a NUL.
    """
    path = fields.get("path")
    if path is None:
        return None
    if not isinstance(path, str) or not path.strip():
        raise BadRequest("path must be a string that names a folder", field="path")
    _check_plain("path", path)
    return path


def event_message(event: SynthesisEvent) -> list[bytes]:
    """Return an event of a run as JSON; the last one of a run is two."""
    match event:
        case StageStarted():
            found = SynthesisMessage(type="stage", stage=event.stage, message=clean(event.message))
        case StageProgress():
            progress = f"{event.stage}: {event.done} of {event.total}"
            found = SynthesisMessage(type="log", message=progress)
        case Note():
            found = SynthesisMessage(type="log", message=clean(event.message))
        case _:
            return _closing(event)
    return [msgspec.json.encode(found)]


def error_message(message: str) -> bytes:
    """Return the event that ends a run which failed."""
    return msgspec.json.encode(SynthesisMessage(type="error", message=clean(message)))


def _closing(summary: SynthesisSummary) -> list[bytes]:
    note = clean(summary.note)
    kind = "synthesis done" if summary.run else "synthesis planned"
    done = SynthesisMessage(type="done", message=f"{kind} — {note}")
    closing = SynthesisMessage(type="summary", implemented=True, stages=list(STAGES), note=note)
    return [msgspec.json.encode(done), msgspec.json.encode(closing)]


def _check_plain(field: str, value: str) -> None:
    if "\0" in value:
        raise BadRequest(f"{field} must not have a NUL character", field=field)
