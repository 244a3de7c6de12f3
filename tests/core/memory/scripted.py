"""A model whose answers are written down, and conversations in a line or two."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

from core.memory.asking import Cancelled, Question
from core.memory.stages.types import Passage
from core.memory.turns import Role, SourceConversation, Turn

Answers = Callable[[Question], Mapping[str, Any]]


class ScriptedModel:
    """Answers with a function, and remembers what it was asked."""

    def __init__(self, answers: Answers, name: str = "scripted") -> None:
        self.answers = answers
        self.name = name
        self.asked: list[Question] = []

    def answer(self, question: Question, *, cancelled: Callable[[], bool]) -> Mapping[str, Any]:
        if cancelled():
            raise Cancelled
        self.asked.append(question)
        return self.answers(question)


def conversation(
    *texts: str,
    roles: Sequence[Role] = ("user",),
    source: str = "session:one",
    day: datetime = datetime(2026, 3, 1, tzinfo=UTC),
) -> SourceConversation:
    """Return a conversation with turns `m1`, `m2`, …; the roles repeat."""
    turns = tuple(
        Turn(
            id=f"m{number + 1}",
            role=roles[number % len(roles)],
            text=text,
            at=day + timedelta(minutes=number),
        )
        for number, text in enumerate(texts)
    )
    kind = source.partition(":")[0]
    return SourceConversation(
        id=source,
        kind=kind,  # type: ignore[arg-type]
        title="A chat",
        turns=turns,
        digest=f"digest of {texts}",
        at=day,
    )


def whole(found: SourceConversation) -> Passage:
    """Return the passage that holds all turns."""
    messages = tuple(turn.id for turn in found.turns)
    return Passage(id=f"{found.id}#all", source=found.id, messages=messages, title="")


def never() -> bool:
    """Return that nothing was cancelled."""
    return False


def fact(**changes: Any) -> dict[str, Any]:
    """Return a proposal that fits "My sister Ana lives in Porto."; changes override."""
    return {
        "message": "m1",
        "quote": "My sister Ana lives in Porto",
        "subject": "Ana",
        "kind": "person",
        "property": "home city",
        "value": "Porto",
        "exclusive": True,
        "sentence": "Ana, the user's sister, lives in Porto.",
    } | changes
