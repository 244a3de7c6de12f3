"""`mlxbun memory` history, diff, blame, why, revert and forget: how articles came about."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from commands._shared.completion import memory_targets
from commands._shared.options import JsonOption
from commands.memory.options import (
    DryRunOption,
    PageArgument,
    VaultOption,
    YesOption,
    checked_limit,
    opened,
)
from core.errors import UsageProblem

if TYPE_CHECKING:
    from commands._shared.session import Session

_MOST_COMMITS = 1000


def history(
    context: typer.Context,
    article: PageArgument,
    limit: Annotated[
        int, typer.Option("--limit", help="Maximum number of commits to show.", metavar="N")
    ] = 50,
    vault: VaultOption = None,
    json: JsonOption = False,
) -> None:
    """List the commits that touched an article, the latest first."""


def diff(
    context: typer.Context,
    article: PageArgument,
    revision: Annotated[
        str | None, typer.Argument(help="A commit, as `history` shows it; default: the latest.")
    ] = None,
    vault: VaultOption = None,
    json: JsonOption = False,
) -> None:
    """Show what a commit changed in an article."""


def blame(
    context: typer.Context,
    article: PageArgument,
    vault: VaultOption = None,
    json: JsonOption = False,
) -> None:
    """Show for each line of an article the commit that wrote it."""


def why(
    context: typer.Context,
    sentence: Annotated[str, typer.Argument(help="A sentence of an article, or a part of one.")],
    vault: VaultOption = None,
    json: JsonOption = False,
) -> None:
    """Show where a sentence comes from: the quoted message, its date, the run and the commit."""


def revert(
    context: typer.Context,
    target: Annotated[
        str,
        typer.Argument(
            metavar="RUN|ARTICLE", autocompletion=memory_targets, help="A run, or an article."
        ),
    ],
    dry_run: DryRunOption = False,
    vault: VaultOption = None,
    json: JsonOption = False,
) -> None:
    """Undo a run, or the last change to an article, in a new commit.

    Edits that you made later are kept; where that is not possible, nothing changes.
    """


def forget(
    context: typer.Context,
    target: Annotated[
        str, typer.Argument(metavar="TEXT|ARTICLE", help="Words of an article, or an article.")
    ],
    source: Annotated[
        bool, typer.Option("--source", help="Also forget the conversations it comes from.")
    ] = False,
    purge: Annotated[
        bool, typer.Option("--purge", help="Also remove it from the git history.")
    ] = False,
    yes: YesOption = False,
    dry_run: DryRunOption = False,
    vault: VaultOption = None,
    json: JsonOption = False,
) -> None:
    """Remove a text or an article, also from caches, the index and later runs."""
