"""The result of `mlxbun eval`, for people and as JSON."""

from __future__ import annotations

import math
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from commands._shared.proof import show_proof
from core.evals.record import table_as_json

if TYPE_CHECKING:
    from commands._shared.console import Console
    from core.evals.answers import AnswerComparison
    from core.evals.run import Evaluated, Verified
    from core.evals.verify import Claim

_ANSWERS = {"what": "ANSWERS", "original": "ORIGINAL", "model": "MODEL"}


def show_evaluated(found: Evaluated, console: Console) -> None:
    """Show a comparison of two models."""
    if console.json_mode:
        console.json(evaluated_as_json(found))
        return
    show_proof(found.table, console)
    if found.answers is not None:
        _show_answers(found.answers, console)


def show_verified(found: Verified, console: Console) -> None:
    """Show a table that was measured again."""
    if console.json_mode:
        console.json(verified_as_json(found))
        return
    show_proof(found.table, console)
    false = [claim for claim in found.claims if not claim.holds]
    for claim in false:
        console.note(f"{claim}.")
    held = len(found.claims) - len(false)
    console.note(f"{held} of {len(found.claims)} claims of the table hold.")


def evaluated_as_json(found: Evaluated) -> dict[str, Any]:
    """Return a comparison of two models as JSON has it."""
    return {
        "original": found.original.model_id,
        "model": found.model.model_id,
        "table": table_as_json(found.table),
        "answers": None if found.answers is None else asdict(found.answers),
    }


def verified_as_json(found: Verified) -> dict[str, Any]:
    """Return a table that was measured again as JSON has it."""
    return {
        "original": found.original.model_id,
        "model": found.model.model_id,
        "table": table_as_json(found.table),
        "holds": all(claim.holds for claim in found.claims),
        "claims": [_claim(claim) for claim in found.claims],
    }


def _claim(claim: Claim) -> dict[str, Any]:
    """Return a claim as JSON has it: null for what is unbounded."""
    found = asdict(claim)
    bounded = {name: found[name] for name in ("claimed", "found") if math.isfinite(found[name])}
    return found | {"claimed": None, "found": None} | bounded


def _show_answers(found: AnswerComparison, console: Console) -> None:
    splits = [split for split in found.splits if split is not None]
    same = len(found.splits) - len(splits)
    console.text("\n")
    console.note(
        f"greedy answers: {same} of {len(found.splits)} are the same for {found.tokens} tokens"
        + (f"; the others diverge after {', '.join(map(str, splits))} tokens" if splits else "")
    )
    rows = [
        _row("valid JSON", found.original.json_valid, found.model.json_valid, found.json_tasks),
        _row("valid calls", found.original.calls_valid, found.model.calls_valid, found.call_tasks),
        _row("repaired calls", found.original.calls_repaired, found.model.calls_repaired, None),
    ]
    console.table(rows, _ANSWERS)
    for line in found.notes:
        console.note(line)


def _row(what: str, original: int | None, model: int | None, of: int | None) -> dict[str, Any]:
    def cell(count: int | None) -> str | None:
        return None if count is None else f"{count} of {of}" if of is not None else str(count)

    return {"what": what, "original": cell(original), "model": cell(model)}
