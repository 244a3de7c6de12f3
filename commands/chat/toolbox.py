"""What a model may look up in the middle of an answer: the tools of the memory vault."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from core.engine.request import Tool, ToolUse
from core.memory.tools import TOOLS

if TYPE_CHECKING:
    from core.memory.tools import MemoryTools
    from core.sessions.conversation import Call

MOST_ROUNDS = 8
"""Times that a model may call tools before it has to answer."""
MOST_CALLS = 8
"""Calls of one round that are made."""
_LONGEST_NOTE = 120


class Toolbox:
    """The tools of a chat.

    Attributes:
        declared: the tools as the chat template takes them.
        use: the same for the engine, which reads calls out of answers.
    """

    def __init__(self, tools: MemoryTools) -> None:
        self._tools = tools
        self.declared: tuple[dict[str, Any], ...] = tuple(
            {
                "type": "function",
                "function": {
                    "name": tool.name,
                    "description": tool.description,
                    "parameters": dict(tool.parameters),
                },
            }
            for tool in TOOLS
        )
        self.use = ToolUse(
            tools=tuple(Tool(name=tool.name, parameters=tool.parameters) for tool in TOOLS)
        )

    def result(self, call: Call, *, number: int) -> str:
        """Return what a call results in, also one that cannot be made.

        Args:
            call: as the model wrote it.
            number: which call of its round it is, from 1.
        """
        if number > MOST_CALLS:
            return f"This call was not made: at most {MOST_CALLS} calls at once are allowed."
        try:
            arguments = json.loads(call.arguments or "{}")
        except (ValueError, RecursionError):
            arguments = None
        if not isinstance(arguments, dict):
            return "The arguments are not a JSON object. Call again with a JSON object."
        return self._tools.call(call.name, arguments)


def call_note(call: Call) -> str:
    """Return a call as a person sees it: `[memory_search {"query": "Lyon"}]`."""
    arguments = " ".join(call.arguments.split())
    shown = f"{call.name} {arguments}".strip()
    return f"[{shown if len(shown) <= _LONGEST_NOTE else f'{shown[:_LONGEST_NOTE]}...'}]"
