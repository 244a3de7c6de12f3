"""Plans and results of quantizations as plain values, for JSON. Imports no arrays."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from core.evals.record import table_as_json

if TYPE_CHECKING:
    from core.quantize.open import QuantizePlan
    from core.quantize.plan import Planned
    from core.quantize.run import QuantizeResult


def result_as_json(result: QuantizeResult) -> dict[str, Any]:
    """Return a result as plain values."""
    found = {name: value for name, value in vars(result).items() if name not in ("table", "kept")}
    return found | {
        "folder": str(result.folder),
        "kept": [{"layer": layer, "reason": reason} for layer, reason in result.kept],
        "notes": list(result.notes),
        "table": None if result.table is None else table_as_json(result.table),
    }


def plan_as_json(found: QuantizePlan) -> dict[str, Any]:
    """Return what a run would do as plain values."""
    return {
        "model": found.model_id,
        "target": found.target,
        "bits_per_weight": found.bits_per_weight,
        "result_bytes": found.result_bytes,
        "source_bytes": found.source_bytes,
        "memory_bytes": found.memory_bytes,
        "seconds": found.seconds,
        "notes": list(found.notes),
        "layers": [_layer(each) for each in found.plan.layers],
    }


def _layer(each: Planned) -> dict[str, Any]:
    return {
        "path": each.layer.path,
        "shape": list(each.layer.shape),
        "form": None if each.form is None else each.form.as_config(),
        "choices": [form.as_config() for form in each.choices],
        "reason": each.reason,
        "bytes": each.nbytes,
    }
