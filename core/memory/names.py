"""Names of articles, and how they are compared. Pure."""

from __future__ import annotations

import unicodedata


def name_key(name: str) -> str:
    """Return the key under which two spellings of a name are one article.

    Without case, in NFC, runs of whitespace and underscores as one space (as MediaWiki compares
    titles).
    """
    folded = unicodedata.normalize("NFC", unicodedata.normalize("NFC", name).casefold())
    return " ".join(folded.replace("_", " ").split())
