"""`mlxbun adapters list` and `inspect`."""

from __future__ import annotations

from dataclasses import asdict
from datetime import datetime
from typing import TYPE_CHECKING, Annotated, Any

import typer

from commands._shared.completion import adapters
from commands._shared.options import JsonOption
from commands._shared.verb import Verb, VerbGroup
from core.units import format_bytes, format_count, format_number

if TYPE_CHECKING:
    from commands._shared.session import Session
    from core.registry.adapters import Fit
    from core.train.shelf import AdapterCard

adapters_app = typer.Typer(
    cls=VerbGroup, help="Show the adapters that were trained here.", rich_markup_mode="rich"
)
_COLUMNS = {
    "name": "ADAPTER",
    "base": "BASE",
    "method": "METHOD",
    "rank": "RANK",
    "size": "SIZE",
    "loss": "LOSS",
    "made": "MADE",
}


@adapters_app.command(name="list", cls=Verb)
def list_(context: typer.Context, json: JsonOption = False) -> None:
    """List the adapters that are kept on this disk, the latest first."""
    from core.engine.adapters import adapter_folders
    from core.train.shelf import list_adapters

    session: Session = context.obj
    console = session.console(json=json)
    cards = list_adapters(session.paths, on_broken=lambda told: console.note(f"Left out: {told}"))
    if console.json_mode:
        console.json({"adapters": [_plain(card) for card in cards]})
        return
    if not cards:
        console.note(f"There are no adapters in {adapter_folders(session.paths.cache)[0]}.")
        return
    console.table([_row(card) for card in cards], _COLUMNS)


@adapters_app.command(cls=Verb)
def inspect(
    context: typer.Context,
    adapter: Annotated[
        str,
        typer.Argument(
            autocompletion=adapters, help="A folder, or the name of one that `list` shows."
        ),
    ],
    json: JsonOption = False,
) -> None:
    """Show what an adapter is: its base, its form, how it was made and what was measured."""
    from core.provenance import encode
    from core.train.shelf import find_card, fit_to_base, provenance_of

    session: Session = context.obj
    console = session.console(json=json)
    card = find_card(adapter, session.paths)
    provenance = provenance_of(card.folder)
    fit = fit_to_base(card, session.paths, session.settings().values.model_folders)
    recipe = encode(provenance).get("recipe", {}) if provenance else {}
    if console.json_mode:
        judged = {
            "fits_base": _fits(fit),
            "problem": fit.problem if fit else None,
        }
        console.json({**_plain(card), **judged, "recipe": recipe})
        return
    console.record(
        {
            "folder": str(card.folder),
            "base": card.base,
            "fits it": _words_of(fit),
            "kind": card.kind,
            "rank": card.rank,
            "scale": card.scale,
            "layers": card.layers,
            "parameters": format_count(card.parameters),
            "size": format_bytes(card.size_bytes),
            "loss": _loss(card),
        }
        | ({"recipe": recipe} if recipe else {})
    )


def _plain(card: AdapterCard) -> dict[str, Any]:
    return asdict(card) | {"folder": str(card.folder)}


def _fits(fit: Fit | None) -> bool | None:
    """Return whether an adapter fits its base; None: the files do not tell."""
    if fit is None or (fit.problem is None and not fit.complete):
        return None
    return fit.problem is None


def _words_of(fit: Fit | None) -> str:
    if fit is None:
        return "unknown: it is not on this disk"
    unknown = "unknown: some layers are not in the model's files under these names"
    return fit.problem or ("yes" if fit.complete else unknown)


def _row(card: AdapterCard) -> dict[str, Any]:
    return {
        "name": card.name,
        "base": card.base,
        "method": card.method or card.kind,
        "rank": card.rank,
        "size": format_bytes(card.size_bytes),
        "loss": _loss(card),
        "made": f"{datetime.fromtimestamp(card.modified):%Y-%m-%d %H:%M}",
    }


def _loss(card: AdapterCard) -> str | None:
    if card.loss is None:
        return None
    before = "" if card.base_loss is None else f"{format_number(card.base_loss)} to "
    return before + format_number(card.loss)
