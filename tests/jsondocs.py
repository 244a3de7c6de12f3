"""What docs/json.md promises of the JSON that commands print, and whether some output keeps it.

The page has a section for each verb, `## ls`, and in it a table of keys, or a table for each event
under `### plan`. A key is a path (`models[].id`; `*` is any key), a type is one of `TYPES`, or
several with `or` between them. What is told `as the document of [bench](#bench)` has the keys of
that one; what is told ``as `table` of [eval](#eval)``, those of that key. The other section comes
first.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

PAGE = Path(__file__).resolve().parents[1] / "docs" / "json.md"
TYPES = {"text", "integer", "number", "boolean", "null", "list", "object"}
EVERY = "Every object"  # the section of what all objects have
FAILED = "When something goes wrong"
_DOCUMENT = ""


@dataclass
class Section:
    """What a verb prints."""

    tables: dict[str, dict[str, set[str]]] = field(default_factory=dict)
    """Types by key, by event; the event of the one document is empty."""


@cache
def page() -> dict[str, Section]:
    """Return the sections of the page by their headings."""
    sections: dict[str, Section] = {}
    section, event = Section(), _DOCUMENT
    for line in PAGE.read_text(encoding="utf-8").splitlines():
        if line.startswith("## "):
            section, event = sections.setdefault(line[3:], Section()), _DOCUMENT
        elif line.startswith("### "):
            event = line[4:].strip("`")
        elif found := re.match(r"\| `([^`]+)` \| ([^|]+) \|", line):
            types = set(found[2].split(" or "))
            assert types <= TYPES, line
            table = section.tables.setdefault(event, {})
            table[found[1]] = types
            if other := re.search(r"as the document of \[([^]]+)\]", line):
                for key, its in sections[other[1]].tables[_DOCUMENT].items():
                    table[f"{found[1]}.{key}"] = its
            if other := re.search(r"as `([^`]+)` of \[([^]]+)\]", line):
                for key, its in sections[other[2]].tables[_DOCUMENT].items():
                    if key.startswith((f"{other[1]}.", f"{other[1]}[")):
                        table[found[1] + key.removeprefix(other[1])] = its
    return sections


def verb_of(arguments: Sequence[str]) -> str | None:
    """Return the verb of a command line, as the page calls it; None: there is none."""
    words = [word for word in arguments if not word.startswith("-")]
    for count in (2, 1):
        if (name := " ".join(words[:count])) in page():
            return name
    return None


def check_output(arguments: Sequence[str], stdout: str) -> None:
    """Check what a command with --json has printed: JSON alone, every key of it documented."""
    verb = verb_of(arguments)
    for found in objects_in(stdout):
        check_object(verb, found)


def objects_in(stdout: str) -> list[Any]:
    """Return the one document, or the objects of the lines."""
    try:
        return [json.loads(stdout)] if stdout else []
    except ValueError:
        return [json.loads(line) for line in stdout.splitlines()]


def check_object(verb: str | None, found: Any) -> None:
    """Check one object: it carries the version, and every key of it is documented with its type."""
    keys = known_keys(verb, found.get("event", _DOCUMENT))
    for path, value in leaves(found):
        known = next((types for key, types in keys.items() if _fits(key, path)), None)
        assert known is not None, f"{verb}: docs/json.md does not know {path}"
        assert type_of(value) & known, f"{verb}: {path} is {value!r}, not {known}"


def known_keys(verb: str | None, event: str) -> dict[str, set[str]]:
    """Return the types of the keys that an object may have."""
    known = page()[EVERY].tables[_DOCUMENT] | ({"event": {"text"}} if event else {})
    if event == "failed":
        return known | page()[FAILED].tables[_DOCUMENT]
    assert verb is not None
    tables = page()[verb].tables
    assert event in tables, f"{verb}: docs/json.md does not know the event {event!r}"
    return known | tables[event]


def leaves(value: Any, path: str = "") -> Iterator[tuple[str, Any]]:
    """Yield every value that is no plain container with its path, and every container too."""
    if path:
        yield path, value
    if isinstance(value, dict):
        for key, inner in value.items():
            yield from leaves(inner, f"{path}.{key}" if path else key)
    elif isinstance(value, list):
        for inner in value:
            yield from leaves(inner, f"{path}[]")


def type_of(value: Any) -> set[str]:
    """Return the types that a value may be documented with."""
    if isinstance(value, bool):
        return {"boolean"}
    names = {type(None): "null", int: "integer", float: "number", str: "text", list: "list"}
    return {names.get(type(value), "object"), *({"number"} if isinstance(value, int) else ())}


def _fits(key: str, path: str) -> bool:
    return re.fullmatch(re.escape(key).replace(r"\*", r"[^.\[\]]+"), path) is not None
