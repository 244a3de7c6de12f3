"""Tools for models whose chat template knows nothing of them: told in the system message.

The form is Hermes' (NousResearch, "Hermes Function Calling"): signatures between `<tools>` tags,
calls as JSON between `<tool_call>` tags, results between `<tool_response>` tags. It is the one that
most models have seen. Pure: messages in, messages out.
"""

from __future__ import annotations

import json
import re
from dataclasses import replace
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from core.engine.request import ChatPrompt
    from core.engine.tools.family import WriteCalls

    Message = Mapping[str, Any]

_WORD = re.compile(r"\w+")
_FIRST_CALL = re.compile(r"""tool_calls(['"]\])?\s*(\[0\]|\|\s*first)""")
_EACH_CALL = re.compile(r"for\s+\w+\s+in\s+[^%]*tool_calls")
_HOW = (
    "You may call functions. Their signatures, one JSON object a line:\n"
    "<tools>\n{tools}\n</tools>\n"
    "To call one, write its name and arguments as JSON between tags:\n"
    '<tool_call>\n{{"name": "function", "arguments": {{"argument": "value"}}}}\n</tool_call>'
)


def knows_tools(template: str) -> bool:
    """Return whether a chat template tells its model of tools."""
    return ("name", "tools") in _words(template)


def shows_calls(template: str) -> bool:
    """Return whether a chat template shows its model the calls of earlier answers."""
    return any(word == "tool_calls" for _, word in _words(template))


def shows_one_call(template: str) -> bool:
    """Return whether a chat template shows the first call of a message and no other."""
    return bool(_FIRST_CALL.search(template)) and not _EACH_CALL.search(template)


def _words(template: str) -> frozenset[tuple[str, str]]:
    """Return the names and texts of a Jinja program; comments and what it prints are neither."""
    from jinja2 import Environment, TemplateSyntaxError

    try:
        tokens = [*Environment().lex(template)]
    except TemplateSyntaxError:
        return frozenset(("name", word) for word in _WORD.findall(template))
    return frozenset((kind, word.strip("'\"")) for _, kind, word in tokens)


def tell_of_tools(prompt: ChatPrompt) -> ChatPrompt:
    """Return a conversation in which tools, calls and results are words of messages."""
    messages = tuple(_joined([_in_words(message) for message in prompt.messages]))
    told = replace(prompt, messages=messages, tools=())
    if not prompt.tools:
        return told
    return with_system(told, _instruction(prompt.tools))


def with_system(prompt: ChatPrompt, text: str) -> ChatPrompt:
    """Return a conversation whose system message ends with a text; it gets one if it has none.

    Args:
        prompt: the conversation.
        text: what the model is to be told.
    """
    first, *rest = prompt.messages or ({},)
    told = first.get("content") or ""
    if first.get("role") == "system":
        system = {**first, "content": f"{told}\n\n{text}".strip()}
        return replace(prompt, messages=(system, *rest))
    return replace(prompt, messages=({"role": "system", "content": text}, *prompt.messages))


def with_written_calls(messages: Iterable[Message], write: WriteCalls | None) -> list[Message]:
    """Put the calls of earlier answers into their contents: the template shows nothing else.

    Args:
        messages: arguments are objects.
        write: returns calls as the model writes them; None: in Hermes' form.
    """
    return [_with_written_calls(message, write or _calls) for message in messages]


def _with_written_calls(message: Message, write: WriteCalls) -> Message:
    calls = message.get("tool_calls")
    if not calls:
        return message
    words = (message.get("content") or "", write([call["function"] for call in calls]))
    rest = {key: value for key, value in message.items() if key != "tool_calls"}
    return {**rest, "content": "\n".join(word for word in words if word)}


def _instruction(tools: Sequence[Message]) -> str:
    lines = (json.dumps(tool, ensure_ascii=False) for tool in tools)
    return _HOW.format(tools="\n".join(lines))


def _in_words(message: Message) -> Message:
    if message["role"] == "tool":
        content = f"<tool_response>\n{message.get('content') or ''}\n</tool_response>"
        return {"role": "user", "content": content}
    return _with_written_calls(message, _calls)


def _calls(functions: Sequence[Message]) -> str:
    return "\n".join(_call(function) for function in functions)


def _call(function: Message) -> str:
    arguments = function.get("arguments") or {}
    if not isinstance(arguments, str):  # else they are not JSON, and stay as they were written
        arguments = json.dumps(arguments, ensure_ascii=False)
    name = json.dumps(function["name"], ensure_ascii=False)
    return f'<tool_call>\n{{"name": {name}, "arguments": {arguments}}}\n</tool_call>'


def _joined(messages: Sequence[Message]) -> list[Message]:
    """Join results that follow each other: many templates want roles in turns."""
    runs: list[list[Message]] = []
    for message in messages:
        if runs and _is_result(runs[-1][0]) and message["role"] == "user":
            runs[-1].append(message)
        else:
            runs.append([message])
    return [
        {**run[0], "content": "\n".join(str(one["content"]) for one in run)} if run[1:] else run[0]
        for run in runs
    ]


def _is_result(message: Message) -> bool:
    content = message.get("content")
    return (
        message["role"] == "user"
        and isinstance(content, str)
        and content.startswith("<tool_response>")
    )
