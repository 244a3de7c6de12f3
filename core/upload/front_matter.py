"""The YAML block at the top of a card, as the Hub reads it. Foreign input: it is never believed.

Source: huggingface_hub's `RepoCard`: a block between two lines of three dashes, which has to be a
mapping.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping

_BLOCK = re.compile(r"\A\s*---[ \t]*\r?\n(.*?)\r?\n---[ \t]*(?:\r?\n|\Z)", re.DOTALL)
_LONGEST = 200_000  # characters of a block that are read


@dataclass(frozen=True, kw_only=True)
class Front:
    """A card, in two parts."""

    block: str
    """The block with its dashes, exactly as it stands; empty: there is none."""
    data: Mapping[str, Any]
    """What the block says; empty where it cannot be read."""
    body: str
    """The rest."""


def split_card(text: str) -> Front:
    """Return the two parts of a card. Does not raise."""
    match = _BLOCK.match(text)
    if match is None:
        return Front(block="", data={}, body=text)
    return Front(block=match[0], data=_read(match[1]), body=text[match.end() :])


def write_block(data: Mapping[str, Any]) -> str:
    """Return a block that says so, with its dashes and a line break; nothing for no data."""
    if not data:
        return ""
    import yaml  # type: ignore[import-untyped]

    text = yaml.safe_dump(dict(data), sort_keys=False, allow_unicode=True, width=100)
    return f"---\n{text}---\n"


def texts(value: Any) -> tuple[str, ...]:
    """Return the texts of an entry that may be one text or a list of them."""
    values = value if isinstance(value, list) else [value]
    return tuple(one for one in values if isinstance(one, str) and one and len(one) <= 200)


def _read(block: str) -> Mapping[str, Any]:
    import yaml

    if len(block) > _LONGEST:
        return {}
    try:
        data = yaml.safe_load(block)
    except (yaml.YAMLError, ValueError, RecursionError):
        return {}
    return data if isinstance(data, dict) else {}
