"""`mlxbun quantize --dry-run`: the plan for each layer, the size, memory and time."""

from __future__ import annotations

import re
from collections import defaultdict
from typing import TYPE_CHECKING, Any

from core.quantize.plain import plan_as_json
from core.units import format_bytes, format_seconds

if TYPE_CHECKING:
    from collections.abc import Iterator

    from commands._shared.console import Console
    from core.quantize.form import Form
    from core.quantize.open import QuantizePlan
    from core.quantize.plan import Planned

_NUMBER = re.compile(r"(?<=\.)\d+(?=\.)")
_COLUMNS = {
    "layers": "LAYERS",
    "count": "COUNT",
    "shape": "SHAPE",
    "form": "FORMAT",
    "size": "SIZE",
    "why": "WHY",
}


def show_plan(found: QuantizePlan, console: Console) -> None:
    """Show what a run would do."""
    if console.json_mode:
        console.event({"event": "plan", **plan_as_json(found)})
        return
    console.table(list(_rows(found)), _COLUMNS)
    console.text("\n")
    console.record(dict(_facts(found)))


def _rows(found: QuantizePlan) -> Iterator[dict[str, Any]]:
    """Yield a row for each group of layers that differ only in the numbers in their names."""
    groups: dict[tuple[Any, ...], list[Planned]] = defaultdict(list)
    for each in found.plan.layers:
        name = _NUMBER.sub("*", each.layer.path)
        groups[name, each.layer.shape, each.form, each.choices, each.reason].append(each)
    for (name, shape, form, choices, reason), alike in groups.items():
        size = sum(each.nbytes for each in alike)
        yield {
            "layers": name,
            "count": len(alike),
            "shape": "x".join(map(str, shape)),
            "form": " or ".join(map(form_words, choices)) if choices else form_words(form),
            "size": "-" if choices else format_bytes(size),
            "why": reason or "-",
        }


def form_words(form: Form | None) -> str:
    """Return a form for people."""
    if form is None:
        return "unquantized"
    name = f"{form.bits}-bit" if form.mode == "affine" else form.mode
    return f"{name} g{form.group_size}"


def _facts(found: QuantizePlan) -> Iterator[tuple[str, Any]]:
    yield "model", found.model_id
    yield "result", found.target
    yield "bits per weight", f"{found.bits_per_weight:.3f}"
    before = f" ({format_bytes(found.source_bytes)} before)" if found.source_bytes else ""
    yield "weights", f"{format_bytes(found.result_bytes)}{before}"
    yield "memory", f"about {format_bytes(found.memory_bytes)}, in addition to Python and MLX"
    yield "time", f"about {format_seconds(found.seconds)}, without sweep and proof"
