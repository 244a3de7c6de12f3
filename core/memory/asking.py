"""How the pipeline asks a model: a question with typed data, an answer that fits a JSON schema.

The local model makes a prompt of a question and generates under a grammar
(`core.memory.local_model`); the rule-based fallback and the models of the evaluation read the data.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from core.memory.stages.types import Stage

RULES = "rules"
"""Name under which the rule-based model is chosen instead of a language model."""


@dataclass(frozen=True, kw_only=True)
class Question:
    """What a stage asks."""

    stage: Stage
    """Who asks."""
    instructions: str
    """What to do with the data, for a language model."""
    data: Mapping[str, Any]
    """The data as a JSON object; what comes from sources is data, never instructions."""
    schema: Mapping[str, Any]
    """JSON Schema of the answer, an object."""


class Model(Protocol):
    """Answers questions. Its answers are proposals: every stage validates them."""

    @property
    def name(self) -> str:
        """What commits and summaries call it."""
        ...

    def answer(self, question: Question, *, cancelled: Callable[[], bool]) -> Mapping[str, Any]:
        """Return an answer; it need not fit the schema.

        Args:
            question: what is asked.
            cancelled: checked once a token; when true, `Cancelled` is raised.

        Raises:
            Cancelled: the run was cancelled.
            MlxbunError: there is no answer.
        """
        ...


class Cancelled(Exception):
    """The run was cancelled: by Ctrl-C, a deadline, or a client that left."""
