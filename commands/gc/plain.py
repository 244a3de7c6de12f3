"""A plan and its results as JSON takes them."""

from __future__ import annotations

import os
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from core.gc.choose import Kept
    from core.gc.execute import Mishap, Result
    from core.gc.plan import Item, Plan
    from core.gc.seen import Repository


def as_json(plan: Plan, results: Sequence[Result] | None) -> dict[str, Any]:
    """Return a plan as plain values.

    Args:
        plan: the plan.
        results: what became of its items, in their order; None: nothing was deleted.
    """
    document: dict[str, Any] = {
        "cache": _text(plan.cache.root),
        "executed": results is not None,
        "last_used_by": "access" if plan.cache.by_access else "modification",
        "bytes": plan.bytes,
        "items": [_item(item) for item in plan.items],
        "kept": [_kept(kept) for kept in plan.kept],
    }
    if results is None:
        return document
    settled = zip(document["items"], results, strict=True)
    return document | {
        "items": [item | _outcome(result) for item, result in settled],
        "freed_bytes": sum(result.bytes for result in results),
        "deleted": sum(len(result.deleted) for result in results),
        "skipped": sum(len(result.skipped) for result in results),
        "failed": sum(len(result.failed) for result in results),
    }


def _item(item: Item) -> dict[str, Any]:
    return {
        "kind": item.kind.value,
        "what": item.what,
        **_repository(item.repository),
        "commit": item.snapshot and _text(item.snapshot.commit),
        "paths": [_text(path) for path in item.paths],
        "bytes": item.bytes,
        "last_used": _date(item.last_used),
    }


def _outcome(result: Result) -> dict[str, Any]:
    return {
        "freed_bytes": result.bytes,
        "deleted": len(result.deleted),
        "skipped": [_mishap(mishap) for mishap in result.skipped],
        "failed": [_mishap(mishap) for mishap in result.failed],
    }


def _kept(kept: Kept) -> dict[str, Any]:
    return {
        **_repository(kept.repository),
        "what": kept.what,
        "commit": kept.snapshot and _text(kept.snapshot.commit),
        "path": _text(kept.path),
        "reason": _text(kept.reason),
        "unique": [_text(name) for name in kept.unique],
    }


def _repository(repository: Repository | None) -> dict[str, Any]:
    return {
        "repo_type": repository and repository.kind,
        "repo_id": repository and _text(repository.repo_id),
    }


def _mishap(mishap: Mishap) -> dict[str, Any]:
    return {"path": _text(mishap.path), "reason": _text(mishap.reason)}


def _date(seconds: float | None) -> str | None:
    if seconds is None:
        return None
    try:
        return datetime.fromtimestamp(seconds, UTC).isoformat(timespec="seconds")
    except (ValueError, OverflowError, OSError):  # a file system can hold any number
        return None


def _text(name: str | Path) -> str:
    return os.fsencode(name).decode("utf-8", "replace")
