"""A card as a row of the table. Pure: cards in, words out."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from commands._shared.listing import Column, Row
from core.registry.files import printable
from core.registry.selection import ABILITIES
from core.units import format_bytes, format_count

if TYPE_CHECKING:
    from collections.abc import Sequence

    from core.registry.library import ModelCard

_LONGEST = 4096  # characters; as long as a path can be


@dataclass(frozen=True, kw_only=True)
class CardColumn:
    """A column and what stands in it."""

    head: Column
    """Its heading."""
    cell: Callable[[ModelCard], str | None]
    """What stands there for a card; None: not told."""


def columns_for(*, all_revisions: bool, dated: bool, piped: bool) -> list[CardColumn]:
    """Return the columns of the table.

    Args:
        all_revisions: commits and refs are shown.
        dated: the date is shown.
        piped: for a file: what is remarked stands in a column of its own.
    """
    revision = [_column("REVISION", _revision), _column("REFS", _refs, least=6)]
    return [
        _column("MODEL", lambda card: card.name),
        *(revision if all_revisions else []),
        _column("TYPE", lambda card: card.model_type, least=10),
        _column("PARAMS", _parameters, right=True),
        _column("QUANT", _quantization, least=11),
        _column("SIZE", lambda card: format_bytes(card.size_bytes), right=True),
        _column("CONTEXT", _context, right=True),
        *([_column("DATE", _date)] if dated else []),
        _column("CAN", _abilities if piped else _marked_abilities),
        *([_column("NOTE", remark)] if piped else []),
    ]


def row_for(card: ModelCard, columns: Sequence[CardColumn]) -> Row:
    """Return the row of a card."""
    cells = (column.cell(card) for column in columns)
    below = "" if card.supported else remark(card)
    return Row(
        cells=tuple(printable(cell or "-", _LONGEST) for cell in cells),
        below=printable(below or "", _LONGEST),
    )


def remark(card: ModelCard) -> str | None:
    """Return what has to be said about a model, or None."""
    if card.supported:
        return card.note
    return f"{'cannot be used' if card.problem else 'not supported'}: {card.reason}"


def has_footnote(card: ModelCard) -> bool:
    """Return whether a model can do more than mlxbun lets it."""
    return card.supported and (card.vision or card.audio)


def format_context(tokens: int) -> str:
    """Return a context as people call it: `8k`, `128k`, `1M`, or the number as it is."""
    for factor, unit in ((10**6, "M"), (2**20, "M"), (1000, "k"), (1024, "k")):
        if tokens % factor == 0 and tokens:
            return f"{tokens // factor}{unit}"
    return str(tokens)


def _column(
    heading: str,
    cell: Callable[[ModelCard], str | None],
    *,
    right: bool = False,
    least: int | None = None,
) -> CardColumn:
    return CardColumn(head=Column(heading=heading, right=right, least=least), cell=cell)


def _revision(card: ModelCard) -> str | None:
    return card.commit and printable(card.commit)[:8]


def _refs(card: ModelCard) -> str | None:
    return ",".join(card.refs) or None


def _parameters(card: ModelCard) -> str | None:
    return format_count(card.parameters) if card.parameters is not None else None


def _quantization(card: ModelCard) -> str | None:
    return card.quantization.label if card.quantization else card.dtype


def _context(card: ModelCard) -> str | None:
    return format_context(card.context) if card.context is not None else None


def _date(card: ModelCard) -> str | None:
    if card.modified is None:
        return None
    try:
        return time.strftime("%Y-%m-%d", time.localtime(card.modified))
    except (ValueError, OverflowError, OSError):  # a file system can hold any number
        return None


def _abilities(card: ModelCard) -> str | None:
    return " ".join(name for name in ABILITIES if getattr(card, name)) or None


def _marked_abilities(card: ModelCard) -> str | None:
    marks = ("vision", "audio") if has_footnote(card) else ()
    can = (name for name in ABILITIES if getattr(card, name))
    return " ".join(f"{name}*" if name in marks else name for name in can) or None
