"""What the verbs of `mlxbun memory` share: arguments, options, and how the vault is opened."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal, cast

import typer

from commands._shared.completion import anchors, articles, folders, memory_models, pages
from core.errors import UsageProblem

if TYPE_CHECKING:
    from collections.abc import Sequence

    from commands._shared.console import Console
    from commands._shared.session import Session
    from core.memory.opening import Memory

VaultOption = Annotated[
    Path | None,
    typer.Option(
        "--vault",
        autocompletion=folders,
        help="Vault folder; also MLXBUN_WIKI [~/.mlxbun/wiki].",
        metavar="DIR",
    ),
]
PageArgument = Annotated[
    str,
    typer.Argument(
        metavar="ARTICLE", autocompletion=pages, help="Name of an article, or Reference/NAME."
    ),
]
ArticleArgument = Annotated[
    str, typer.Argument(metavar="ARTICLE", autocompletion=articles, help="Name of an article.")
]
AnchorArgument = Annotated[
    str,
    typer.Argument(metavar="ANCHOR", autocompletion=anchors, help="A section, as `toc` shows it."),
]
ModelOption = Annotated[
    str | None,
    typer.Option(
        "--model",
        autocompletion=memory_models,
        help="Model to use, as for `mlxbun generate`; `rules`: fixed rules, no model.",
        metavar="MODEL",
    ),
]
BudgetOption = Annotated[
    float | None,
    typer.Option(
        "--budget",
        help="Begin no other conversation after 60% of this time; the rest is for the articles.",
        metavar="MINUTES",
    ),
]
YesOption = Annotated[bool, typer.Option("--yes", "-y", help="Do not ask for confirmation.")]
DryRunOption = Annotated[
    bool, typer.Option("--dry-run", help="Show what would change; change nothing.")
]


def opened(context: typer.Context, vault: Path | None) -> Memory:
    """Return the vault that is meant. Nothing in it is written.

    Raises:
        VaultMissing: there is none.
    """
    from core.memory.opening import open_memory

    session: Session = context.obj
    return open_memory(session.paths, vault, on_note=session.console().note)


def checked_limit(limit: int, most: int) -> int:
    """Return a limit that is in its range.

    Raises:
        UsageProblem: it is not.
    """
    if not 1 <= limit <= most:
        raise UsageProblem(f"--limit must be from 1 to {most}.")
    return limit


def checked_scope(scope: str) -> Literal["all", "articles", "reference"]:
    """Return a scope that exists.

    Raises:
        UsageProblem: there is no such scope.
    """
    if scope in ("all", "articles", "reference"):
        return cast('Literal["all", "articles", "reference"]', scope)
    raise UsageProblem(f"--scope must be all, articles or reference, not {scope!r}.")


def names_shown(console: Console, names: Sequence[str], none: str) -> None:
    """Print names, one a line, or a note if there are none."""
    if names:
        console.lines(names)
    else:
        console.note(none)
