"""`mlxbun memory` list, search, read, toc, section and links: the articles as they are."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated, Any

import typer

from commands._shared.completion import memory_scopes
from commands._shared.options import JsonOption
from commands.memory.options import (
    AnchorArgument,
    ArticleArgument,
    PageArgument,
    VaultOption,
    checked_limit,
    checked_scope,
    names_shown,
    opened,
)
from core.errors import NotFound

if TYPE_CHECKING:
    from commands._shared.console import Console
    from commands._shared.session import Session
    from core.memory.opening import Memory
    from core.memory.parts import Section
    from core.memory.search.index import Hit
    from core.memory.vault import Page

_MOST_HITS = 200
_NAMED = 8  # sections, in a hint


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
    session: Session = context.obj
    console = session.console(json=json)
    chosen = checked_scope(scope)
    memory = opened(context, vault)
    found = memory.index.search(
        memory.vault, " ".join(words), scope=chosen, limit=checked_limit(limit, _MOST_HITS)
    )
    if json:
        console.json(
            {
                "summaries": [asdict(each) for each in found.summaries],
                "hits": [asdict(hit) for hit in found.hits],
                "left_out": list(found.left_out),
            }
        )
        return
    names_shown(console, [_hit_line(hit) for hit in found.hits], "No matches.")
    for line in found.left_out:
        console.note(line)


def _hit_line(hit: Hit) -> str:
    anchor = f"#{hit.anchor}" if hit.anchor else ""
    return f"{hit.article}{anchor}:{hit.line}: {hit.excerpt}"


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

    Through a pipe, it prints the bytes of the file.
    """
    session: Session = context.obj
    console = session.console(json=json)
    memory = opened(context, vault)
    if as_of is not None:
        _read_as_of(memory, article, as_of, console)
        return
    page = memory.vault.read(article)
    if page.warning:
        console.note(page.warning)
    if json:
        console.json(_page_json(page.name, page.path, page.text))
    else:
        console.document(memory.vault.raw(page))


def _read_as_of(memory: Memory, article: str, day: str, console: Console) -> None:
    """Print an article as it was at the end of a day."""
    from core.memory.history import read_as_of
    from core.memory.vault import name_of

    found = read_as_of(memory.git, memory.path_of(article), day)
    if console.json_mode:
        commit = found.commit.hash
        name = name_of(found.path)
        console.json(_page_json(name, found.path, found.text, as_of=day, commit=commit))
    else:
        console.document(found.text.encode())


def _page_json(
    name: str, path: str, text: str, *, as_of: str | None = None, commit: str | None = None
) -> dict[str, Any]:
    return {"name": name, "path": path, "text": text, "as_of": as_of, "commit": commit}


def toc(
    context: typer.Context,
    article: PageArgument,
    vault: VaultOption = None,
    json: JsonOption = False,
) -> None:
    """Show the sections of an article with their anchors and lines."""
    session: Session = context.obj
    console = session.console(json=json)
    from core.memory.article import parse

    page = opened(context, vault).vault.read(article)
    sections = parse(page.text).sections
    if json:
        console.json({"name": page.name, "sections": [_section_json(each) for each in sections]})
        return
    rows = [
        {
            "anchor": each.anchor,
            "heading": "  " * max(each.level - 2, 0) + each.heading,
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
    page = opened(context, vault).vault.read(article)
    found = _find_section(page, anchor)
    if json:
        console.json({"name": page.name, **_section_json(found), "text": found.text})
    else:
        console.document(found.text.encode())


def _section_json(section: Section) -> dict[str, Any]:
    return {
        "anchor": section.anchor,
        "heading": section.heading,
        "level": section.level,
        "start": section.start,
        "end": section.end,
    }


def _find_section(page: Page, anchor: str) -> Section:
    """Return a section by its anchor or its heading.

    Raises:
        NotFound: there is no such section; the hint lists the sections.
    """
    from core.memory.article import parse

    article = parse(page.text)
    if (found := article.section(anchor)) is not None:
        return found
    known = ", ".join(each.anchor for each in article.sections[:_NAMED])
    raise NotFound(
        f"{page.name} has no section {anchor!r}.",
        hint=f"Sections: {known}." if known else "The article has no sections.",
    )


def links(
    context: typer.Context,
    article: ArticleArgument,
    vault: VaultOption = None,
    json: JsonOption = False,
) -> None:
    """Show the articles that an article links to, and those that link to it."""
    from core.memory.graph import links_of

    session: Session = context.obj
    console = session.console(json=json)
    memory = opened(context, vault)
    found = links_of(memory.vault, article)
    if json:
        console.json(asdict(found))
        return
    outbound = [*found.outbound, *found.reference]
    lines = [*(f"-> {name}" for name in outbound), *(f"<- {name}" for name in found.inbound)]
    lines += [f"-> {name} (no such article)" for name in found.unresolved]
    names_shown(console, lines, f"{found.name} has no links.")
