"""Texts that came from outside, made safe to show, to store and to name a file with."""

from __future__ import annotations

import re
import unicodedata

# C0 but for tab and line feed, DEL, C1: what a terminal could obey instead of showing it.
_CONTROLS = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]")
_SLUG_CHARACTERS = 40


def clean(text: str) -> str:
    """Return a text without control characters and without halves of characters.

    No model and no file may send escape sequences to the terminal that shows it.
    """
    whole = text.replace("\r\n", "\n").encode("utf-8", "replace").decode("utf-8")
    return _CONTROLS.sub("", whole)


def slug(text: str) -> str:
    """Return a text's first words as a part of a file name; never empty."""
    ascii_only = unicodedata.normalize("NFKD", text).encode("ascii", "ignore").decode()
    words = re.findall(r"[a-z0-9]+", ascii_only.lower())
    kept = ""
    for word in words:
        if len(kept) + len(word) > _SLUG_CHARACTERS:
            break
        kept += f"-{word}" if kept else word
    return kept or (words[0][:_SLUG_CHARACTERS] if words else "chat")
