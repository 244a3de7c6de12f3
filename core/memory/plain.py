"""Text as plain words on one line, and what may stand in a sentence. Pure, linear time."""

from __future__ import annotations

import re

_WIKILINK = re.compile(r"!?\[\[([^\[\]|\n]{1,2000})(?:\\?\|([^\[\]\n]{1,2000}))?\]\]")
_MARKUP = re.compile(
    r"\[\[|\]\]|\[\^|\]\(|!\[|<[a-zA-Z/!]|`|\$\$|\w://|^\s*(?:[#>|~]|[-*+] |\d{1,9}[.)] )|\*\*|__"
    r"|\{\{|%%|==|[\x00-\x1f\x7f\u2028\u2029\u202a-\u202e\u2066-\u2069]"
)
LONGEST_SENTENCE = 500
"""Characters of a sentence at most."""


def unlinked(text: str) -> str:
    """Return a text with the words of its wikilinks instead of the links."""
    return _WIKILINK.sub(lambda match: match[2] or match[1].partition("#")[0], text)


def shortened(text: str, longest: int) -> str:
    """Return a text on one line of at most `longest` characters; `…` marks a cut."""
    line = " ".join(text.split())
    return line if len(line) <= longest else f"{line[: longest - 1]}…"


def has_markup(text: str) -> bool:
    """Return whether a text is more than plain words: links, HTML, code, lists, line breaks."""
    return _MARKUP.search(text) is not None
