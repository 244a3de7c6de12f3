"""What is said where a form is not enforced: to the model and to the caller. Pure."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from core.engine.grammar.plan import NotEnforced
    from core.engine.request import GrammarSpec

_MOST_CHARACTERS = 20_000


def instruction(spec: GrammarSpec) -> str:
    """Return a system message that asks a model for a form.

    It is put before a conversation where the form cannot be enforced. A form that would fill the
    context is cut short; of no choices at all there is nothing to say.
    """
    if spec.kind == "choice" and not spec.source:
        return ""
    if spec.kind == "json":
        return "Answer with valid JSON only: no other text and no code fence around it."
    asks = {
        "json_schema": "Answer only with JSON that is valid under this JSON Schema; write no other "
        "text and no code fence around it.",
        "ebnf": "Answer only with a text that this grammar generates from its rule `root`.",
        "regex": "Answer only with a text that this regular expression matches as a whole.",
        "choice": "Answer with exactly one of these texts and nothing else.",
    }
    shown = _shown(spec)[:_MOST_CHARACTERS].encode("utf-8", "replace").decode()
    return f"{asks[spec.kind]}\n\n{shown}"


def _shown(spec: GrammarSpec) -> str:
    if spec.kind == "json_schema":
        return _json(spec.source)
    if spec.kind == "choice" and isinstance(spec.source, list | tuple):
        return "\n".join(_json(choice) for choice in spec.source)
    return _text(spec.source)


def _json(value: object) -> str:
    try:
        return json.dumps(value, ensure_ascii=False)
    except (ValueError, TypeError, RecursionError):
        return _text(value)


def _text(value: object) -> str:
    """Return what was sent as text, unless it is nested beyond measure."""
    try:
        return str(value)
    except RecursionError:
        return "(it is nested too deeply to be shown)"


def shortfall(keywords: tuple[str, ...]) -> str:
    """Return what is said of keywords that are not enforced; "": there are none."""
    if not keywords:
        return ""
    return f"the schema's {', '.join(keywords)} (the rest of it is enforced)"


def warning(problem: NotEnforced) -> str:
    """Return the value of the `Warning` header: ASCII, one line."""
    text = "grammar not enforced: " + " ".join(problem.reason.split())
    return text.encode("ascii", "replace").decode()[:300]
