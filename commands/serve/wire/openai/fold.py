"""A whole answer is the fold of its stream: the same events, collected."""

from __future__ import annotations

from dataclasses import dataclass, field

from core.engine.events import Event, Finished, ReasoningDelta, TextDelta, ToolCallDelta


@dataclass(kw_only=True)
class FoldedCall:
    """A call, complete or as far as it came."""

    id: str
    """`call_…`."""
    name: str
    """The function."""
    pieces: list[str] = field(default_factory=list)
    """Of the arguments."""

    @property
    def arguments(self) -> str:
        """A JSON object, or what the model wrote instead of one."""
        return "".join(self.pieces)


class Fold:
    """Collects the events of one answer.

    Attributes:
        calls: in the order in which they came.
        finished: how it ended; None: it has not.
    """

    def __init__(self) -> None:
        self.calls: list[FoldedCall] = []
        self.finished: Finished | None = None
        self._text: list[str] = []
        self._reasoning: list[str] = []

    @property
    def text(self) -> str:
        """The content."""
        return "".join(self._text)

    @property
    def reasoning(self) -> str:
        """The reasoning channel."""
        return "".join(self._reasoning)

    def add(self, event: Event) -> None:
        """Take the next event."""
        if isinstance(event, TextDelta):
            self._text.append(event.text)
        elif isinstance(event, ReasoningDelta):
            self._reasoning.append(event.text)
        elif isinstance(event, ToolCallDelta):
            self._call(event)
        elif isinstance(event, Finished):
            self.finished = event

    def _call(self, delta: ToolCallDelta) -> None:
        if delta.index >= len(self.calls):
            self.calls.append(FoldedCall(id=delta.id or "", name=delta.name or ""))
        self.calls[delta.index].pieces.append(delta.arguments)
