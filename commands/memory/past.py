"""`mlxbun memory` history, diff, blame, why and revert: how articles came about."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Annotated, Any

import typer

from commands._shared.completion import articles, pages
from commands._shared.options import JsonOption
from commands.memory.options import (
    DryRunOption,
    PageArgument,
    VaultOption,
    checked_limit,
    names_shown,
    opened,
)
from core.errors import UsageProblem

if TYPE_CHECKING:
    from collections.abc import Iterator

    from commands._shared.session import Session
    from core.memory.history import BlamedLine, Commit
    from core.memory.revert import Reverted
    from core.memory.why import Cited, Reason

_MOST_COMMITS = 1000
_SHORT = 10  # digits of a hash that are shown
_HASH = re.compile(r"[0-9a-f]{4,40}")


def history(
    context: typer.Context,
    article: Annotated[
        str | None,
        typer.Argument(autocompletion=pages, help="An article; default: the whole vault."),
    ] = None,
    limit: Annotated[
        int, typer.Option("--limit", help="Maximum number of commits to show.", metavar="N")
    ] = 50,
    vault: VaultOption = None,
    json: JsonOption = False,
) -> None:
    """List the commits that changed an article or the vault, the latest first."""
    from core.memory.history import history as versions
    from core.memory.history import vault_history

    session: Session = context.obj
    console = session.console(json=json)
    most = checked_limit(limit, _MOST_COMMITS)
    memory = opened(context, vault)
    path = None if article is None else memory.path_of(article)
    if path is None:
        commits = list(vault_history(memory.git, most))
    else:
        commits = [version.commit for version in versions(memory.git, path, most)]
    if json:
        console.json({"path": path, "commits": [commit_json(each) for each in commits]})
    else:
        names_shown(console, [_commit_line(each) for each in commits], "No commits yet.")


def diff(
    context: typer.Context,
    article: PageArgument,
    revision: Annotated[
        str | None,
        typer.Argument(
            metavar="COMMIT", help="A commit, as `history` shows it; default: the latest."
        ),
    ] = None,
    vault: VaultOption = None,
    json: JsonOption = False,
) -> None:
    """Show what a commit changed in an article."""
    from core.memory.history import diff as difference

    session: Session = context.obj
    console = session.console(json=json)
    if revision is not None and not _HASH.fullmatch(revision):
        raise UsageProblem(
            f"COMMIT must be 4 to 40 hexadecimal digits, not {revision!r}.",
            hint="List the commits with: mlxbun memory history ARTICLE",
        )
    memory = opened(context, vault)
    path = memory.path_of(article)
    found = difference(memory.git, path, revision)
    if found.truncated:
        console.note("The difference is too long; only its beginning is shown.")
    if json:
        body = {"path": path, "commit": commit_json(found.commit), "diff": found.text}
        console.json(body | {"truncated": found.truncated})
    else:
        console.document(found.text.encode())


def blame(
    context: typer.Context,
    article: PageArgument,
    vault: VaultOption = None,
    json: JsonOption = False,
) -> None:
    """Show for each line of an article the commit that wrote it."""
    from core.memory.history import blame as blamed

    session: Session = context.obj
    console = session.console(json=json)
    memory = opened(context, vault)
    path = memory.vault.find(article)
    lines = blamed(memory.git, path)
    if json:
        console.json({"path": path, "lines": [_blame_json(each) for each in lines]})
    else:
        names_shown(console, [_blame_line(each) for each in lines], f"{path} is empty.")


def why(
    context: typer.Context,
    sentence: Annotated[str, typer.Argument(help="A sentence of an article, or words of one.")],
    vault: VaultOption = None,
    json: JsonOption = False,
) -> None:
    """Show where a sentence comes from: the quoted message, its date, the run and the commit."""
    from core.memory.why import why as reasons

    session: Session = context.obj
    console = session.console(json=json)
    memory = opened(context, vault)
    git = memory.git if memory.git.is_top_level() else None
    found = reasons(sentence, vault=memory.vault, git=git, store=memory.store)
    if json:
        sentences = [_reason_json(each) for each in found.found]
        console.json({"sentences": sentences, "more": found.more})
        return
    console.lines(line for each in found.found for line in _reason_lines(each))
    if found.more:
        console.note(f"{found.more} other sentences fit as well.")


def revert(
    context: typer.Context,
    target: Annotated[
        str,
        typer.Argument(
            metavar="RUN|ARTICLE",
            autocompletion=articles,
            help="A run, as `history` shows it, or an article.",
        ),
    ],
    dry_run: DryRunOption = False,
    vault: VaultOption = None,
    json: JsonOption = False,
) -> None:
    """Undo a run, or what the last run changed in an article, in a new commit.

    Later edits are kept; where they overlap, nothing changes.
    """
    from core.memory.revert import revert_article, revert_run

    session: Session = context.obj
    console = session.console(json=json)
    memory = opened(context, vault)
    if memory.is_run(target):
        done = revert_run(memory.vault, target, dry_run=dry_run)
    else:
        done = revert_article(memory.vault, memory.path_of(target), dry_run=dry_run)
    if json:
        console.json(_reverted_json(done, dry_run=dry_run))
        return
    none = "It was undone before; nothing changed." if done.already else "There is nothing to undo."
    names_shown(console, done.paths, none)
    if done.kept:
        console.note(f"Later edits are kept in {', '.join(done.kept)}.")
    if done.commit and not done.already:
        console.note(f"Commit {done.commit[:_SHORT]}.")


def commit_json(commit: Commit) -> dict[str, Any]:
    """Return a commit as a JSON object."""
    return {
        "hash": commit.hash,
        "date": commit.when.isoformat(),
        "author": commit.author,
        "ours": commit.ours,
        "subject": commit.subject,
        "run": commit.run,
        "sources": list(commit.sources),
    }


def _commit_line(commit: Commit) -> str:
    run = f"  run {commit.run}" if commit.run else ""
    return f"{commit.hash[:_SHORT]}  {commit.date}  {commit.author}: {commit.subject}{run}"


def _blame_json(line: BlamedLine) -> dict[str, Any]:
    return {"line": line.number, "text": line.text, "commit": commit_json(line.commit)}


def _blame_line(line: BlamedLine) -> str:
    who = line.commit.run or line.commit.author
    return f"{line.commit.hash[:_SHORT]}  {line.commit.date}  {who}  {line.number}: {line.text}"


def _reason_json(reason: Reason) -> dict[str, Any]:
    origin = reason.origin
    return {
        "article": reason.article,
        "path": reason.path,
        "line": reason.line,
        "anchor": reason.anchor,
        "sentence": reason.sentence,
        "match": reason.match,
        "cited": [_cited_json(each) for each in reason.cited],
        "commit": commit_json(origin.commit) if origin and origin.commit else None,
        "certain": origin.certain if origin else False,
    }


def _cited_json(cited: Cited) -> dict[str, Any]:
    citation = cited.citation
    return {
        "label": cited.label,
        "text": cited.text,
        "source": citation.source if citation else None,
        "message": citation.message if citation else None,
        "date": citation.date if citation else None,
        "quote": citation.quote if citation else None,
        "role": cited.role,
        "turn": cited.turn,
        "title": cited.title,
        "quoted": cited.quoted,
    }


def _reason_lines(reason: Reason) -> Iterator[str]:
    yield f"{reason.path}:{reason.line}: {reason.sentence}"
    for cited in reason.cited:
        yield from _cited_lines(cited)
    if not reason.cited:
        yield "  nothing is cited"
    origin = reason.origin
    if origin is None or origin.commit is None:
        yield "  not committed yet"
        return
    commit = origin.commit
    run = f", run {commit.run}" if commit.run else ""
    least = "" if origin.certain else " or earlier"
    yield f"  commit {commit.hash[:_SHORT]}{least}, {commit.date}, {commit.author}{run}"


def _cited_lines(cited: Cited) -> Iterator[str]:
    citation = cited.citation
    if citation is None:
        yield f"  [^{cited.label}] {cited.text or 'is not defined'}"
        return
    title = f" ({cited.title})" if cited.title else ""
    yield f"  {citation.date or 'undated'}  {citation.source}#{citation.message}{title}"
    yield f"    “{citation.quote}”"
    if cited.quoted is False:
        yield "    The message does not have these words."
    elif cited.turn is None:
        yield "    The message is not stored here."


def _reverted_json(done: Reverted, *, dry_run: bool) -> dict[str, Any]:
    return {
        "undone": [commit_json(each) for each in done.undone],
        "commit": done.commit,
        "paths": list(done.paths),
        "kept": list(done.kept),
        "already": done.already,
        "dry_run": dry_run,
    }
