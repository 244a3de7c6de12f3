"""Results of a search in conversations, and a conversation as stored on disk."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Annotated, Literal

from msgspec import UNSET, Meta, Raw, Struct, UnsetType

from commands.serve.wire.api import clean

if TYPE_CHECKING:
    from core.sessions.search import Found, SearchResult

NO_QUERY = "q is required"
NO_PATH = "path is required"
OUTSIDE = "path is outside the session directory"


class SessionMatch(Struct, kw_only=True):
    """A place where the words stand."""

    snippet: str
    ranges: Annotated[
        list[tuple[int, int]],
        Meta(description="[start, end) of the words in the snippet, in Unicode code points"),
    ]
    role: Literal["user", "assistant"]


class SessionFound(Struct, kw_only=True, rename="camel"):
    """A conversation that holds the words."""

    session_path: str
    session_title: str
    matches: list[SessionMatch]


class SessionSearch(Struct, kw_only=True):
    """The body of `GET /api/sessions/search`."""

    ok: Literal[True] = True
    results: list[SessionFound]
    truncated: Annotated[
        Literal[True] | UnsetType, Meta(description="there was more to read than a search may")
    ] = UNSET


class SessionExport(Struct, kw_only=True):
    """The body of `GET /api/sessions/export`."""

    ok: Literal[True] = True
    path: str
    entries: Annotated[list[Raw], Meta(description="the lines of the file, in their order")]


def search_body(result: SearchResult) -> SessionSearch:
    """Return the body with the results."""
    return SessionSearch(
        results=[_found(each) for each in result.found],
        truncated=UNSET if result.complete else True,
    )


def _found(found: Found) -> SessionFound:
    return SessionFound(
        session_path=os.fsencode(found.path.absolute()).decode("utf-8", "replace"),
        session_title=clean(found.title),
        matches=[
            SessionMatch(
                snippet=match.snippet,
                ranges=[(match.start, match.end)],
                role="user" if match.role == "user" else "assistant",
            )
            for match in found.matches
        ],
    )
