"""Pieces of error sentences. What a client sent is never repeated at length."""

from __future__ import annotations

import json


def quoted(text: str) -> str:
    """Return a client's text in quotes, cut where it would fill the screen."""
    return json.dumps(_cut(text, 80), ensure_ascii=False)


def decapitalized(reason: str) -> str:
    """Return a sentence of msgspec as the second half of one of ours."""
    return _cut(reason[:1].lower() + reason[1:], 200)


def _cut(text: str, length: int) -> str:
    return text if len(text) <= length else f"{text[:length]}…"
