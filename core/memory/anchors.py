"""Anchors of headings, as GitHub makes them. Pure."""

from __future__ import annotations

import re
import unicodedata

_NAMELESS = "section"
"""Anchor of a heading without letters, because an empty anchor means the lead."""
_WIKILINK = re.compile(r"!?\[\[([^\[\]|]*)(?:\|([^\[\]]*))?\]\]")
_LINK = re.compile(r"!?\[([^\[\]]*)\]\([^()\s]*\)")
_MARKER = re.compile(r"\[\^[^\]\[\s^]{1,100}\]")


def slug(heading: str) -> str:
    """Return the anchor of a heading, before twins get numbers.

    Lower case in NFC; letters, digits, marks, `_` and `-` of any script stay, a space becomes `-`,
    everything else is dropped.
    """
    text = unicodedata.normalize("NFC", shown(heading)).lower()
    kept = "".join(char for char in text if char in " -_" or _is_word(char))
    return kept.strip().replace(" ", "-") or _NAMELESS


def shown(heading: str) -> str:
    """Return what a reader sees of a heading: links by their text, without footnote markers."""
    text = _MARKER.sub("", heading)
    text = _WIKILINK.sub(lambda match: match[2] or match[1], text)
    return _LINK.sub(lambda match: match[1], text).strip()


def _is_word(char: str) -> bool:
    return unicodedata.category(char)[0] in "LMN" or unicodedata.category(char) == "Pc"


class Anchors:
    """Gives every heading of a text its own anchor: twins get `-1`, `-2`."""

    def __init__(self) -> None:
        self._used: dict[str, int] = {}

    def of(self, heading: str) -> str:
        """Return the anchor of the next heading."""
        base = slug(heading)
        anchor = base
        while anchor in self._used:
            self._used[base] = self._used.get(base, 0) + 1
            anchor = f"{base}-{self._used[base]}"
        self._used[anchor] = 0
        return anchor
