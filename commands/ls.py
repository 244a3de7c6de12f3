"""`mlxbun ls`: the models in the Hugging Face cache. Imports neither MLX nor huggingface_hub."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import typer

from commands._shared.options import JsonOption
from core.units import format_bytes

if TYPE_CHECKING:
    from commands._shared.session import Session
    from core.registry.cache import CachedModel

_COLUMNS = {
    "id": "MODEL",
    "type": "TYPE",
    "size": "SIZE",
    "quantization": "QUANTIZATION",
    "context": "CONTEXT",
}


def ls(context: typer.Context, json: JsonOption = False) -> None:
    """List the models in the Hugging Face cache."""
    from core.registry.cache import list_models

    session: Session = context.obj
    console = session.console(json=json)
    rows = [_row(model) for model in list_models(session.paths.hub_cache)]
    if not rows and not json:
        console.note(f"There are no models in {session.paths.hub_cache} yet.")
        console.note("  `mlxbun download starter` fetches a first one.")
        return
    notes = {"note": "NOTE"} if any(row["note"] for row in rows) else {}
    console.table(rows, _COLUMNS | notes)


def _row(model: CachedModel) -> dict[str, Any]:
    from core.registry.cache import snapshot_size
    from core.registry.snapshot import read_card

    card = read_card(model.folder)
    size = snapshot_size(model.folder)
    return {
        "id": model.repo_id,
        "type": card.model_type,
        "size": format_bytes(size),
        "size_bytes": size,
        "quantization": card.quantization,
        "context": card.context,
        "commit": model.commit,
        "folder": str(model.folder),
        "usable": model.problem is None,
        "note": f"cannot be used: {model.problem}" if model.problem else None,
    }
