"""Bodies of `/api/memory/*`, made of what `core.memory` returns."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Literal

from msgspec import UNSET

from commands.serve.wire import memory as wire
from commands.serve.wire.api import clean
from core.memory.article import parse
from core.memory.structure import structure

if TYPE_CHECKING:
    from collections.abc import Sequence

    from core.memory.history import Version
    from core.memory.parts import Article
    from core.memory.parts import Infobox as Box
    from core.memory.search.index import SearchResult
    from core.memory.setup import SetupResult
    from core.memory.status import VaultStatus
    from core.memory.structure import Part
    from core.memory.vault import Page

_DATE = re.compile(r"\d{4}-\d{2}(?:-\d{2})?")
_LINK = re.compile(r"\[\[[^\[\]]+\]\]")


def status_body(found: VaultStatus) -> wire.MemoryStatus:
    """Return the body of a status."""
    return wire.MemoryStatus(status=vault_body(found))


def vault_body(found: VaultStatus) -> wire.VaultStatus:
    """Return what there is in a vault."""
    return wire.VaultStatus(
        root=clean(str(found.root)),
        exists=True,
        article_count=found.articles,
        reference_count=found.reference,
        is_git_repo=found.is_git,
        recent_articles=[
            wire.RecentArticle(article=clean(each.article), mtime_ms=round(each.modified * 1000, 3))
            for each in found.recent
        ],
    )


def init_body(result: SetupResult, found: VaultStatus) -> wire.MemoryInit:
    """Return the body that says what was set up."""
    return wire.MemoryInit(
        result=wire.InitResult(
            root=clean(str(result.root)),
            created=[clean(path) for path in result.created],
            git_initialized=result.git_initialized,
            already_set_up=result.already_set_up,
        ),
        status=vault_body(found),
    )


def search_body(found: SearchResult) -> wire.MemorySearch:
    """Return the body of a search."""
    return wire.MemorySearch(
        summaries=[
            wire.SearchSummary(
                article=clean(each.article),
                occurrences=each.occurrences,
                matched_terms=[clean(term) for term in each.matched_terms],
            )
            for each in found.summaries
        ],
        hits=[
            wire.SearchHit(
                article=hit.article, anchor=hit.anchor or "", line=hit.line, excerpt=hit.excerpt
            )
            for hit in found.hits
        ],
    )


def history_body(name: str, versions: Sequence[Version], *, is_git: bool) -> wire.MemoryHistory:
    """Return the body of a history."""
    return wire.MemoryHistory(
        name=clean(name),
        is_git_repo=is_git,
        entries=[
            wire.HistoryEntry(
                hash=version.commit.hash,
                date=version.commit.date,
                subject=clean(version.commit.subject),
            )
            for version in versions
        ],
    )


def article_body(page: Page) -> wire.MemoryArticle:
    """Return the body of an article."""
    article = parse(page.text)
    return wire.MemoryArticle(
        name=clean(page.name),
        path=clean(page.path),
        content=clean(page.text),
        infobox=_infobox(article.infobox) if article.infobox else None,
        lead=_lead(article),
        series=clean(article.series) or None,
        structure=[_item(part) for part in structure(article)],
    )


def _lead(article: Article) -> str | None:
    """Return the first paragraph on one line."""
    if not article.lead_spans:
        return None
    start, stop = article.lead_spans[0]
    return clean(" ".join(article.source[start:stop].split()))


def _infobox(box: Box) -> wire.Infobox:
    return wire.Infobox(
        type=clean(box.type) or None,
        entity_kind=box.kind,
        fields=[_field(key, value) for key, value in box.fields],
    )


def _field(key: str, value: str) -> wire.InfoboxField:
    is_link = _LINK.search(value) is not None
    return wire.InfoboxField(
        key=clean(key),
        value=clean(value),
        is_entity_link=is_link,
        kind=_field_kind(key, value, is_link=is_link),
    )


def _field_kind(
    key: str, value: str, *, is_link: bool
) -> Literal["scalar", "entity-link", "list", "date"]:
    """Return what a value looks like: aliases are separated by commas, others by semicolons."""
    if ("," if key == "aliases" else ";") in value:
        return "list"
    if is_link:
        return "entity-link"
    return "date" if _DATE.fullmatch(value.strip()) else "scalar"


def _item(part: Part) -> wire.StructureItem:
    return wire.StructureItem(
        kind=part.kind,
        title=UNSET if part.title is None else clean(part.title),
        depth=UNSET if part.depth is None else part.depth,
        start_line=part.start,
        end_line=part.end,
    )
