"""Tools for models whose chat template knows nothing of them: told in the system message.

The form is Hermes' (NousResearch, "Hermes Function Calling"): signatures between `<tools>` tags,
calls as JSON between `<tool_call>` tags, results between `<tool_response>` tags. It is the one that
most models have seen. Pure: messages in, messages out.
"""

from __future__ import annotations

import json
from dataclasses import replace
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from core.engine.request import ChatPrompt

    Message = Mapping[str, Any]

_HOW = (
    "You may call functions. Their signatures, one JSON object a line:\n"
    "<tools>\n{tools}\n</tools>\n"
    "To call one, write its name and arguments as JSON between tags:\n"
    '<tool_call>\n{{"name": "function", "arguments": {{"argument": "value"}}}}\n</tool_call>'
)


def knows_tools(template: str) -> bool:
    """Return whether a chat template tells its model of tools."""
    return "tools" in template


def tell_of_tools(prompt: ChatPrompt) -> ChatPrompt:
    """Return a conversation in which tools, calls and results are words of messages."""
    messages = tuple(_joined([_in_words(message) for message in prompt.messages]))
    told = replace(prompt, messages=messages, tools=())
    return with_system(told, _instruction(prompt.tools)) if prompt.tools else told


def with_system(prompt: ChatPrompt, text: str) -> ChatPrompt:
    """Return a conversation whose system message ends with a text; it gets one if it has none."""
    first, *rest = prompt.messages or ({},)
    if first.get("role") == "system":
        system = {**first, "content": f"{first.get('content') or ''}\n\n{text}".strip()}
        return replace(prompt, messages=(system, *rest))
    return replace(prompt, messages=({"role": "system", "content": text}, *prompt.messages))


def _instruction(tools: Sequence[Message]) -> str:
    lines = (json.dumps(tool, ensure_ascii=False) for tool in tools)
    return _HOW.format(tools="\n".join(lines))


def _in_words(message: Message) -> Message:
    if message["role"] == "tool":
        content = f"<tool_response>\n{message.get('content') or ''}\n</tool_response>"
        return {"role": "user", "content": content}
    calls = message.get("tool_calls")
    if not calls:
        return message
    words = [message.get("content") or "", *(_call(call["function"]) for call in calls)]
    rest = {key: value for key, value in message.items() if key != "tool_calls"}
    return {**rest, "content": "\n".join(word for word in words if word)}


def _call(function: Message) -> str:
    called = {"name": function["name"], "arguments": function.get("arguments") or {}}
    return f"<tool_call>\n{json.dumps(called, ensure_ascii=False)}\n</tool_call>"


def _joined(messages: Sequence[Message]) -> list[Message]:
    """Join results that follow each other: many templates want roles in turns."""
    joined: list[Message] = []
    for message in messages:
        before = joined[-1] if joined else None
        if before and _is_result(before) and message["role"] == "user":
            joined[-1] = {**before, "content": f"{before['content']}\n{message['content']}"}
        else:
            joined.append(message)
    return joined


def _is_result(message: Message) -> bool:
    content = message.get("content")
    return (
        message["role"] == "user"
        and isinstance(content, str)
        and content.startswith("<tool_response>")
    )
