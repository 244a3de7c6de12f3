"""Answers questions by rules."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from core.memory.asking import Cancelled, Question
from core.memory.rules.choices import (
    create,
    link,
    patch,
    route,
    section_route,
    segment,
    wikify,
)
from core.memory.rules.clauses import clauses
from core.memory.rules.english import statements
from core.memory.rules.statement import Scope, Statement, plain
from core.memory.rules.subjects import find_project
from core.memory.rules.tongues import foreign_statements
from core.memory.stages.extract import MOST_FACTS
from core.memory.stages.orders import is_order
from core.memory.stages.wording import without_pasted

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

_LONGEST_SENTENCE = 290
_EMPTY = frozenset({"it", "this", "that", "them", "so", "doing", "done", "again", "one", "ones"})
"""Words of a value that says nothing without what stands before."""


class RulesModel:
    """A `core.memory.asking.Model` that needs no language model."""

    @property
    def name(self) -> str:
        """What commits and summaries call it."""
        return "rules"

    def answer(self, question: Question, *, cancelled: Callable[[], bool]) -> Mapping[str, Any]:
        """Return the answer that the rules give.

        Raises:
            Cancelled: the run was cancelled.
        """
        if cancelled():
            raise Cancelled
        return _ANSWERS[question.stage](question.data)


def extract(data: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the facts that the user turns of a passage state."""
    users = [turn for turn in data["turns"] if turn["role"] == "user"]
    scope = Scope(project=find_project("\n".join(turn["text"] for turn in users)))
    facts: list[dict[str, Any]] = []
    for turn in users:
        text = turn["text"] if data["source"].startswith("note:") else without_pasted(turn["text"])
        facts += [_fact(found, turn["id"]) for found in _found(text, scope)]
    return {"facts": facts[:MOST_FACTS]}


def _found(text: str, scope: Scope) -> Iterator[Statement]:
    for clause in clauses(text):
        if is_order(clause.text):
            continue
        found = foreign_statements(clause)
        for statement in statements(clause, scope) if found is None else found:
            says = any(plain(word) not in _EMPTY for word in statement.value.split())
            if says and len(statement.sentence) <= _LONGEST_SENTENCE:
                yield statement


def _fact(statement: Statement, message: str) -> dict[str, Any]:
    stop = "。" if statement.sentence[-1:] > "\u2e80" else "."
    return asdict(statement) | {"message": message, "sentence": f"{statement.sentence}{stop}"}


_ANSWERS: dict[str, Callable[[Mapping[str, Any]], Mapping[str, Any]]] = {
    "segment": segment,
    "extract": extract,
    "route": route,
    "create": create,
    "section-route": section_route,
    "patch": patch,
    "link": link,
    "wikify": wikify,
}
