"""`mlxbun memory` list, search, read, toc, section and links: the articles as they are."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from commands._shared.completion import memory_scopes
from commands._shared.options import JsonOption
from commands.memory.options import (
    AnchorArgument,
    ArticleArgument,
    PageArgument,
    VaultOption,
    checked_limit,
    names_shown,
    opened,
)
from core.errors import UsageProblem

if TYPE_CHECKING:
    from commands._shared.session import Session

_MOST_HITS = 200


def list_(context: typer.Context, vault: VaultOption = None, json: JsonOption = False) -> None:
    """List the articles and the pages of documentation."""
    session: Session = context.obj
    console = session.console(json=json)
    memory = opened(context, vault)
    names = memory.vault.names()
    if json:
        console.json({"articles": list(names.articles), "reference": list(names.reference)})
        return
    names_shown(console, [*names.articles, *names.reference], "The vault is empty.")


def search(
    context: typer.Context,
    words: Annotated[list[str], typer.Argument(metavar="WORDS...", help="What to search for.")],
    scope: Annotated[
        str,
        typer.Option(
            "--scope",
            autocompletion=memory_scopes,
            help="Search all, articles or reference.",
            metavar="SCOPE",
        ),
    ] = "all",
    limit: Annotated[
        int, typer.Option("--limit", help="Maximum number of matches to show.", metavar="N")
    ] = 50,
    vault: VaultOption = None,
    json: JsonOption = False,
) -> None:
    """Search the articles for words, the best match first.

    Every word must occur, or begin a word that does; words in double quotes are a phrase.
    """
    from core.memory.opening import SCOPES

    session: Session = context.obj
    console = session.console(json=json)
    if scope not in SCOPES:
        raise UsageProblem(f"--scope must be one of {', '.join(SCOPES)}, not {scope!r}.")
    found = opened(context, vault).search(
        " ".join(words), scope=scope, limit=checked_limit(limit, _MOST_HITS)
    )
    if json:
        console.json(
            {
                "summaries": [
                    {
                        "article": each.article,
                        "occurrences": each.occurrences,
                        "matched_terms": list(each.matched_terms),
                    }
                    for each in found.summaries
                ],
                "hits": [
                    {
                        "article": hit.article,
                        "anchor": hit.anchor,
                        "line": hit.line,
                        "excerpt": hit.excerpt,
                    }
                    for hit in found.hits
                ],
            }
        )
        return
    lines = [
        f"{hit.article}{'#' + hit.anchor if hit.anchor else ''}:{hit.line}: {hit.excerpt}"
        for hit in found.hits
    ]
    names_shown(console, lines, "No match.")


def read(
    context: typer.Context,
    article: PageArgument,
    as_of: Annotated[
        str | None,
        typer.Option("--as-of", help="Show the article as it was on this day.", metavar="DATE"),
    ] = None,
    vault: VaultOption = None,
    json: JsonOption = False,
) -> None:
    """Print an article.

    Through a pipe, these are the bytes of its file.
    """
    session: Session = context.obj
    console = session.console(json=json)
    memory = opened(context, vault)
    page = memory.vault.read(article) if as_of is None else memory.as_of(article, as_of)
    if json:
        console.json({"name": page.name, "path": page.path, "text": page.text})
    else:
        console.document(page.data)


def toc(
    context: typer.Context,
    article: PageArgument,
    vault: VaultOption = None,
    json: JsonOption = False,
) -> None:
    """Show the sections of an article with their anchors and lines."""
    session: Session = context.obj
    console = session.console(json=json)
    page = opened(context, vault).vault.read(article)
    sections = page.article.sections
    if json:
        rows = [
            {
                "heading": each.heading,
                "level": each.level,
                "anchor": each.anchor,
                "start": each.start,
                "end": each.end,
            }
            for each in sections
        ]
        console.json({"name": page.name, "sections": rows})
        return
    rows = [
        {
            "anchor": each.anchor,
            "heading": "  " * (each.level - 2) + each.heading,
            "lines": f"{each.start}-{each.end}",
        }
        for each in sections
    ]
    if rows:
        console.table(rows, {"anchor": "ANCHOR", "heading": "SECTION", "lines": "LINES"})
    else:
        console.note(f"{page.name} has no sections.")


def section(
    context: typer.Context,
    article: PageArgument,
    anchor: AnchorArgument,
    vault: VaultOption = None,
    json: JsonOption = False,
) -> None:
    """Print one section of an article, with the sections below it."""
    session: Session = context.obj
    console = session.console(json=json)
    page, found = opened(context, vault).section(article, anchor)
    if json:
        console.json(
            {
                "name": page.name,
                "anchor": found.anchor,
                "heading": found.heading,
                "level": found.level,
                "start": found.start,
                "end": found.end,
                "text": found.text,
            }
        )
    else:
        console.document(found.data)


def links(
    context: typer.Context,
    article: ArticleArgument,
    vault: VaultOption = None,
    json: JsonOption = False,
) -> None:
    """Show the articles that an article links to, and those that link to it."""
    session: Session = context.obj
    console = session.console(json=json)
    found = opened(context, vault).links(article)
    if json:
        console.json(
            {
                "name": found.name,
                "outbound": list(found.outbound),
                "inbound": list(found.inbound),
            }
        )
        return
    lines = [*(f"-> {name}" for name in found.outbound), *(f"<- {name}" for name in found.inbound)]
    names_shown(console, lines, f"{found.name} has no links.")


__all__ = ["Path", "links", "list_", "read", "search", "section", "toc"]
