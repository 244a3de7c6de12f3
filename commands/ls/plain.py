"""A card as JSON: every field, numbers as numbers."""

from __future__ import annotations

import os
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from core.registry.library import ModelCard
    from core.registry.storage import Quantization


def as_json(card: ModelCard) -> dict[str, Any]:
    """Return a card as plain values; names that are no Unicode are made some."""
    return {
        "id": _text(card.name),
        "source": "cache" if card.in_cache else "folder",
        "folder": _text(str(card.folder)),
        "commit": card.commit and _text(card.commit),
        "refs": [_text(ref) for ref in card.refs],
        "type": card.model_type,
        "architectures": list(card.architectures),
        "parameters": card.parameters,
        "quantization": _quantization(card, card.quantization),
        "dtype": card.dtype,
        "size_bytes": card.size_bytes,
        "weights_bytes": card.weights_bytes,
        "modified": _date(card.modified),
        "context": card.context,
        "vision": card.vision,
        "audio": card.audio,
        "chat": card.chat,
        "tools": card.tools,
        "thinking": card.thinking,
        "usable": card.problem is None,
        "supported": card.supported,
        "reason": card.reason and _text(card.reason),
        "note": card.note,
    }


def _quantization(card: ModelCard, packed: Quantization | None) -> dict[str, Any] | None:
    if packed is None:
        return None
    average = None
    if card.parameters and card.weights_bytes is not None:
        average = round(8 * card.weights_bytes / card.parameters, 3)
    return {
        "bits": packed.bits,
        "group_size": packed.group_size,
        "mode": packed.mode,
        "mixed": packed.mixed,
        "widths": list(packed.widths),
        "bits_per_weight": average,
    }


def _date(seconds: float | None) -> str | None:
    if seconds is None:
        return None
    try:
        return datetime.fromtimestamp(seconds, UTC).isoformat(timespec="seconds")
    except (ValueError, OverflowError, OSError):  # a file system can hold any number
        return None


def _text(name: str) -> str:
    return os.fsencode(name).decode("utf-8", "replace")
