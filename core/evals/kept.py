"""From what was measured to an entry of the figures store. Imports no arrays."""

from __future__ import annotations

import json
from importlib.metadata import version
from typing import TYPE_CHECKING, Any

from core.figures import Evaluation, machine_key, model_revision

if TYPE_CHECKING:
    from collections.abc import Mapping
    from datetime import datetime

    from core.evals.table import Entry, ProofTable
    from core.machine.probe import Machine
    from core.registry.resolve import ModelRef


def describe_evaluation(
    table: ProofTable,
    entry: Entry,
    *,
    original: ModelRef,
    model: ModelRef,
    machine: Machine,
    found: Mapping[str, Any],
    now: datetime,
) -> Evaluation:
    """Return one model of a table as the figures store keeps it.

    Args:
        table: what was measured.
        entry: the model's line.
        original: the original on disk.
        model: the model on disk.
        machine: what it ran on.
        found: all that is to be kept, as JSON has it.
        now: when it ended, in UTC.
    """
    return Evaluation(
        model_id=model.model_id,
        revision=model_revision(model.folder),
        original_id=original.model_id,
        original_revision=model_revision(original.folder),
        machine=machine_key(machine),
        heldout=table.heldout,
        bits_per_weight=entry.bits_per_weight,
        size_bytes=entry.size_bytes,
        perplexity=entry.overall.perplexity,
        original_perplexity=table.original.overall.perplexity,
        kl=entry.overall.kl,
        agreement=entry.overall.agreement,
        mlx=version("mlx"),
        mlx_lm=version("mlx-lm"),
        mlxbun=version("mlxbun"),
        measured_at=now.isoformat(timespec="seconds"),
        found=json.dumps(found, ensure_ascii=False, allow_nan=False),
    )
