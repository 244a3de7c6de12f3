"""The seam between the text of an answer and its events. Imports no arrays.

What reads an answer is a chain: the stop matcher lets text through, the reasoning splitter tells
the reasoning channel from the content, the tool parser finds calls in the content. Families whose
markup carries both (harmony) have one parser for all.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from core.engine.events import CallEnd, ReasoningDelta, TextDelta, ToolCallDelta

if TYPE_CHECKING:
    from collections.abc import Iterable

Piece = TextDelta | ReasoningDelta | ToolCallDelta
Found = Piece | CallEnd
"""What a parser yields."""


class AnswerParser(Protocol):
    """Turns the growing text of an answer into events.

    However the text is cut into pieces, the events joined are the same. Text that cannot be decided
    yet is held back. Nothing that a model writes makes it raise.
    """

    @property
    def within_call(self) -> bool:
        """Whether the text so far ends within a call: marks of a channel are part of it."""
        ...

    def push(self, text: str) -> Iterable[Found]:
        """Take more text and return what it decides."""
        ...

    def flush(self, *, cut: bool = False) -> Iterable[Found]:
        """Return what was held back: the answer is over.

        Args:
            cut: whether something else than the model ended it: nothing is completed then.
        """
        ...
