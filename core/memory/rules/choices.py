"""What the rule-based model chooses in the stages other than `extract`.

Where a stage has a deterministic way of its own, the answer is that way: no text is rewritten.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from core.memory.names import name_key

if TYPE_CHECKING:
    from collections.abc import Mapping

_TURNS_PER_SEGMENT = 12
_LEAD = 3
_HEADINGS = {
    "Work": frozenset({"employer", "role", "project", "manager", "studies"}),
    "Life": frozenset(
        {"home city", "pet", "spouse", "relation", "birthday", "origin", "diet", "allergy", "likes"}
        | {"dislikes", "languages", "plays", "preference", "childhood home"}
    ),
    "Technology": frozenset(
        {"uses", "database", "language", "hosting", "framework", "runs on", "ci", "editor"}
        | {"chat tool", "issue tracker", "storage", "port", "version"}
    ),
    "Schedule": frozenset(
        {"schedule", "deadline", "deploy day", "release", "launch", "meetings", "end", "milestone"}
    ),
    "Decisions": frozenset({"decision", "plan", "dropped", "retired"}),
}


def segment(data: Mapping[str, Any]) -> Mapping[str, Any]:
    """Cut before a user turn, every dozen turns."""
    turns = data["turns"]
    starts = [0]
    for number, turn in enumerate(turns):
        if turn["role"] == "user" and number - starts[-1] >= _TURNS_PER_SEGMENT:
            starts.append(number)
    ends = [*(start - 1 for start in starts[1:]), len(turns) - 1]
    return {
        "segments": [
            {"first": turns[start]["id"], "last": turns[end]["id"], "title": data["title"]}
            for start, end in zip(starts, ends, strict=True)
        ][:16]
    }


def route(data: Mapping[str, Any]) -> Mapping[str, Any]:
    """Take the candidate of the same name, or the one that there is evidence for."""
    subject = name_key(data["subject"])
    for candidate in data["candidates"]:
        names = {name_key(name) for name in (candidate["article"], *candidate["aliases"])}
        same_kind = candidate["kind"] == data["kind"]
        if candidate["evidence"] and (subject in names or same_kind):
            return {"article": candidate["article"], "qualifier": ""}
    for candidate in data["candidates"]:
        if name_key(candidate["article"]) == subject and data["kind"] != "person":
            return {"article": candidate["article"], "qualifier": ""}
    return {"article": "", "qualifier": ""}


def create(data: Mapping[str, Any]) -> Mapping[str, Any]:
    """Lead with what the thing is, else with the first facts."""
    facts = data["facts"]
    first = [fact for fact in facts if fact["property"] in ("role", "is", "relation")]
    rest = [fact for fact in facts if fact not in first]
    role = next((fact["value"] for fact in first), "")
    lead = [fact["id"] for fact in (*first, *rest)]
    short = role if len(role.split()) <= 4 else ""
    return {"type": short, "aliases": [], "lead": lead[:_LEAD]}


def section_route(data: Mapping[str, Any]) -> Mapping[str, Any]:
    """Put facts under a heading by their property."""
    anchors = {name_key(section["heading"]): section["anchor"] for section in data["sections"]}
    places = []
    for fact in data["facts"]:
        heading = _heading(fact["property"])
        anchor = anchors.get(name_key(heading), "")
        places.append({"fact": fact["id"], "anchor": anchor, "heading": "" if anchor else heading})
    return {"places": places}


def _heading(property_name: str) -> str:
    for heading, names in _HEADINGS.items():
        if property_name in names:
            return heading
    return "Details"


def patch(data: Mapping[str, Any]) -> Mapping[str, Any]:
    """Take the facts' own sentences."""
    return {"text": data["draft"]}


def link(data: Mapping[str, Any]) -> Mapping[str, Any]:
    """Link every candidate."""
    keys = ("target", "anchor", "words")
    return {"links": [{key: found[key] for key in keys} for found in data["candidates"]]}


def wikify(data: Mapping[str, Any]) -> Mapping[str, Any]:
    """Keep the order, and name what is related."""
    return {"order": [], "see_also": [found["article"] for found in data["related"]]}
