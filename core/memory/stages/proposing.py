"""How the stages ask a model, and how they show it facts. Pure.

A fact in a question's data (`FACT` in the stages' docstrings):

    {
        "id": "…",                     # of this fact, the same in every run
        "subject": "Ana", "kind": "person",
        "property": "home city", "value": "Porto", "exclusive": true,
        "sentence": "Ana lives in Porto.",
        "quote": "Ana lives in Porto now",
        "source": "chatgpt:6f1c", "message": "m12",
        "date": "2026-03-01",          # or null
    }
"""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from core.errors import ContextTooLong
from core.memory.asking import Question
from core.memory.stages.types import Refusal

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from core.memory.asking import Model
    from core.memory.stages.types import Fact, Stage

LONGEST_EXCERPT = 500
"""Characters of refused text that are kept."""


def shown(fact: Fact) -> dict[str, Any]:
    """Return a fact as questions show it."""
    return asdict(fact)


def text_schema(longest: int) -> dict[str, Any]:
    """Return the schema of a string of at most that many characters."""
    return {"type": "string", "maxLength": longest}


def object_schema(**properties: Mapping[str, Any]) -> dict[str, Any]:
    """Return the schema of an object with exactly these properties."""
    return {
        "type": "object",
        "properties": dict(properties),
        "required": list(properties),
        "additionalProperties": False,
    }


def list_schema(item: Mapping[str, Any], longest: int) -> dict[str, Any]:
    """Return the schema of a list of at most that many items."""
    return {"type": "array", "items": dict(item), "maxItems": longest}


def excerpt(text: object) -> str:
    """Return the beginning of what a model said, on one line."""
    return " ".join(str(text)[: 4 * LONGEST_EXCERPT].split())[:LONGEST_EXCERPT]


def refusal(stage: Stage, article: str, reason: str, text: object = "") -> Refusal:
    """Return a refusal with a bounded excerpt."""
    return Refusal(stage=stage, article=article, reason=reason, text=excerpt(text))


def proposal(
    model: Model, question: Question, article: str, *, cancelled: Callable[[], bool]
) -> tuple[Mapping[str, Any], tuple[Refusal, ...]]:
    """Ask, and return the answer, or an empty one and the refusal that says why there is none.

    Raises:
        Cancelled: the run was cancelled.
        MlxbunError: the model fails, other than by a question that it has no room for.
    """
    try:
        answer: object = model.answer(question, cancelled=cancelled)
    except ContextTooLong as failure:
        reason = f"The model gave no answer: {failure.message}"
        return {}, (refusal(question.stage, article, reason),)
    if not isinstance(answer, dict):
        return {}, (refusal(question.stage, article, "The answer is not an object.", answer),)
    return answer, ()


def strings(raw: object, longest: int) -> list[str]:
    """Return the strings of a list, at most that many; anything else is an empty list."""
    if not isinstance(raw, list | tuple):
        return []
    return [item for item in raw[:longest] if isinstance(item, str)]


def text_of(answer: Mapping[str, Any], key: str) -> str:
    """Return a string of an answer; an empty one if there is none."""
    value = answer.get(key)
    return value if isinstance(value, str) else ""
