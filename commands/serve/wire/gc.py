"""What of the Hugging Face cache is superseded, and what became of it."""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING, Annotated, Literal

from msgspec import UNSET, Meta, Struct, UnsetType

from commands.serve.wire.api import clean

if TYPE_CHECKING:
    from collections.abc import Sequence

    from core.gc.execute import Result
    from core.gc.plan import Item, Plan, RepositoryShare
    from core.gc.seen import Entry


class GcRow(Struct, kw_only=True):
    """What goes of one repository."""

    repo_id: str
    prune_snapshots: Annotated[int, Meta(description="superseded, and deleted")]
    skipped_snapshots: Annotated[int, Meta(description="superseded, with files of their own: kept")]
    dead_blobs: int
    reclaim_bytes: int


class GcPlan(Struct, kw_only=True):
    """The body of `GET /api/gc/plan`."""

    ok: Literal[True] = True
    superseded: list[GcRow]
    reclaim_bytes: int
    plan: Annotated[str, Meta(description="what this plan is called, for /api/gc/execute")]


class GcOrder(Struct, kw_only=True):
    """What `POST /api/gc/execute` takes."""

    yes: Literal[True]
    plan: Annotated[
        str | UnsetType, Meta(description="delete that plan; where things have changed: nothing")
    ] = UNSET


class GcDone(Struct, kw_only=True):
    """The body of `POST /api/gc/execute`."""

    ok: Annotated[bool, Meta(description="false: something could not be deleted")]
    snapshots: int
    blobs: int
    reclaimed_bytes: int
    skipped: Annotated[int, Meta(description="what had changed or was in use meanwhile, and stays")]
    error: Annotated[str | UnsetType, Meta(description="when `ok` is false")] = UNSET


def plan_body(plan: Plan) -> GcPlan:
    """Return the body of a plan that holds snapshots and contents alone."""
    return GcPlan(
        superseded=[_row(share) for share in plan.shares()],
        reclaim_bytes=plan.bytes,
        plan=plan_name(plan),
    )


def plan_name(plan: Plan) -> str:
    """Return a name that two plans share only when they delete the same things."""
    words = [line for item in plan.items for line in _lines(item)]
    return hashlib.sha256("\n".join(words).encode("utf-8", "surrogateescape")).hexdigest()[:32]


def done_body(results: Sequence[Result]) -> GcDone:
    """Return the body that tells what is gone."""
    snapshots = sum(
        result.item.snapshot is not None and result.item.snapshot.path in result.deleted
        for result in results
    )
    failed = sum(len(result.failed) for result in results)
    things = "1 thing" if failed == 1 else f"{failed} things"
    return GcDone(
        ok=not failed,
        snapshots=snapshots,
        blobs=sum(len(result.deleted) for result in results) - snapshots,
        reclaimed_bytes=sum(result.bytes for result in results),
        skipped=sum(len(result.skipped) for result in results),
        error=f"{things} could not be deleted." if failed else UNSET,
    )


def _row(share: RepositoryShare) -> GcRow:
    return GcRow(
        repo_id=clean(share.repository.label),
        prune_snapshots=len(share.snapshots),
        skipped_snapshots=len(share.unique),
        dead_blobs=len(share.blobs),
        reclaim_bytes=share.bytes,
    )


def _lines(item: Item) -> list[str]:
    entries = [blob.entry for blob in item.blobs]
    if item.snapshot is not None:
        entries = [item.snapshot.entry, *(file.entry for file in item.snapshot.files), *entries]
    return [_line(entry) for entry in entries]


def _line(entry: Entry) -> str:
    return f"{entry.path!s} {entry.form} {entry.key} {entry.size} {entry.modified_ns}"
