"""A plan in words: rows, sums and remarks. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING

from commands._shared.listing import Column, Row
from core.gc.choose import age_of
from core.gc.plan import Kind
from core.registry.files import printable
from core.units import format_bytes

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from core.gc.choose import Kept
    from core.gc.execute import Mishap, Result
    from core.gc.plan import Item, Plan

COLUMNS = (
    Column(heading="REPOSITORY"),
    Column(heading="WHAT"),
    Column(heading="UNUSED FOR"),
    Column(heading="FREES", right=True),
)

_LONGEST = 4096  # characters; as long as a path can be
_MOST_LINES = 10
_ELSEWHERE = {Kind.SHARED: "(shared)", Kind.LOCKS: "(locks)", Kind.LEFTOVERS: "(mlxbun)"}


def rows_for(items: Sequence[Item], *, now: float, piped: bool) -> Iterator[Row]:
    """Yield the rows of items.

    Args:
        items: the items.
        now: Unix seconds.
        piped: for a file: every row says its repository, not only the first of several.
    """
    last = ""
    for item in items:
        name = item.repository.label if item.repository else _ELSEWHERE[item.kind]
        age = "-" if item.last_used is None else age_of(now - item.last_used)
        shown = name if piped or name != last else ""
        last = name
        yield Row(cells=(printable(shown, _LONGEST), item.what, age, format_bytes(item.bytes)))


def sum_of(plan: Plan) -> str:
    """Return what a plan comes to, in a sentence."""
    cache = printable(str(plan.cache.root), _LONGEST)
    if not plan.items:
        there = "There is nothing to delete" if plan.cache.exists else "There is no cache"
        return f"{there} in {cache}."
    written = "" if plan.cache.by_access else " This disk tells when a file was written, not read."
    return f"{format_bytes(plan.bytes)} in all, in {cache}.{written}"


def kept_lines(plan: Plan) -> Iterator[str]:
    """Yield what stays and why, a line each; of many the first ones."""
    for kept in plan.kept[:_MOST_LINES]:
        yield f"kept: {_kept(kept)}"
    if len(plan.kept) > _MOST_LINES:
        yield f"kept: {len(plan.kept) - _MOST_LINES} more; --json lists all of them"
    if any(kept.unique for kept in plan.kept):
        yield "  --unique deletes snapshots with files that no other one has, too."


def skipped_lines(result: Result) -> Iterator[str]:
    """Yield what of an item has changed or is in use, a line each; of much the first."""
    yield from _told("skipped", result.skipped[:_MOST_LINES])
    if len(result.skipped) > _MOST_LINES:
        yield f"skipped {len(result.skipped) - _MOST_LINES} more"


def failed_lines(result: Result) -> Iterator[str]:
    """Yield what of an item could not be deleted, a line each."""
    yield from _told("not deleted", result.failed)


def _kept(kept: Kept) -> str:
    return printable(f"{kept.repository.label}, {kept.what}: {kept.reason}", _LONGEST)


def _told(what: str, mishaps: Sequence[Mishap]) -> Iterator[str]:
    for mishap in mishaps:
        yield printable(f"{what} {mishap.path}: {mishap.reason}", _LONGEST)
