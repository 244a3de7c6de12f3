"""Pieces of xgrammar structural tags (0.2.9), from which families build `call_format`.

What stands for a call is text: markers that are single tokens are matched by their text too.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from core.engine.request import Tool, ToolUse
from core.engine.tools.schema import choices, kinds, kinds_map

Format = dict[str, Any]


def text(value: str) -> Format:
    """Return this text."""
    return {"type": "const_string", "value": value}


def regex(pattern: str) -> Format:
    """Return text that matches."""
    return {"type": "regex", "pattern": pattern}


def sequence(*elements: Format) -> Format:
    """Return one after the other."""
    return {"type": "sequence", "elements": list(elements)}


def tag(begin: str, content: Format, end: str) -> Format:
    """Return content between two texts."""
    return {"type": "tag", "begin": begin, "content": content, "end": end}


def either(elements: Sequence[Format]) -> Format:
    """Return one of them."""
    return elements[0] if len(elements) == 1 else {"type": "or", "elements": list(elements)}


def optional(content: Format) -> Format:
    """Return it, or nothing."""
    return {"type": "optional", "content": content}


def star(content: Format) -> Format:
    """Return it any number of times."""
    return {"type": "star", "content": content}


def schema(
    parameters: Mapping[str, Any] | bool, style: str = "json", excludes: Sequence[str] = ()
) -> Format:
    """Return a value valid under a JSON Schema.

    Args:
        parameters: the schema.
        style: how xgrammar is to write it.
        excludes: texts that no string may hold, because they would end the value. Where the schema
            bounds the length of strings they may after all: xgrammar can only do one of the two.
    """
    value = parameters if isinstance(parameters, bool) else dict(parameters)
    made: Format = {"type": "json_schema", "json_schema": value, "style": style}
    bounded = any(word in json.dumps(value) for word in ('"minLength"', '"maxLength"'))
    return made if bounded or not excludes else made | {"excludes": list(excludes)}


def arguments(tool: Tool, style: str = "json", excludes: Sequence[str] = ()) -> Format:
    """Return a tool's arguments: an object, valid under its schema."""
    return schema(object_schema(tool.parameters), style, excludes)


Member = Callable[[str, Any], Format]
"""Returns what stands for a parameter, given its name and its schema."""


def members(parameters: Mapping[str, Any], one: Member, free: Format) -> Format:
    """Return a tool's parameters one after the other, in the order of its schema.

    Args:
        parameters: the tool's schema.
        one: a parameter.
        free: any parameter, for a tool whose schema names none.
    """
    required = _required(parameters)
    each = [
        one(key, value) if key in required else optional(one(key, value))
        for key, value in kinds_map(parameters).items()
    ]
    return sequence(*each) if each else star(free)


def listed(parameters: Mapping[str, Any], one: Member, free: Format, separator: str) -> Format:
    """Return a tool's parameters with a separator between them, the required ones first.

    Where none is required, they come in any order.
    """
    properties = kinds_map(parameters)
    required = [key for key in properties if key in _required(parameters)]
    if not required:
        any_of = [one(key, value) for key, value in properties.items()]
        return optional(_joined(either(any_of) if any_of else free, separator))
    first, *others = (one(key, properties[key]) for key in required)
    rest = [one(key, value) for key, value in properties.items() if key not in required]
    return sequence(
        first,
        *(sequence(text(separator), other) for other in others),
        *(optional(sequence(text(separator), other)) for other in rest),
    )


def _joined(content: Format, separator: str) -> Format:
    return sequence(content, star(sequence(text(separator), content)))


def _required(parameters: Mapping[str, Any]) -> Sequence[str]:
    found = parameters.get("required")
    return found if isinstance(found, list | tuple) else ()


def within(parameters: Mapping[str, Any], value: Any, excludes: Sequence[str] = ()) -> Format:
    """Return a parameter's value as JSON, valid under its schema within the tool's."""
    if not isinstance(value, Mapping):
        return schema(True, excludes=excludes)
    shared = {word: parameters[word] for word in ("$defs", "definitions") if word in parameters}
    return schema({**shared, **value}, excludes=excludes)


def plain_text(parameters: Mapping[str, Any], value: Any, free: str) -> Format:
    """Return a string parameter's value as raw text: one of its choices, or what matches `free`."""
    found = choices(value, parameters)
    return either([text(choice) for choice in found]) if found else regex(free)


def raw_members(tool: Tool, begin: Callable[[str], str], end: str, string: str) -> Format:
    """Return a tool's parameters one after the other, each between tags.

    Args:
        tool: which.
        begin: returns the tag that opens a parameter, given its name.
        end: closes it.
        string: what a string may be; all else is written as JSON.
    """
    within_tags = (end.strip(),)

    def one(key: str, value: Any) -> Format:
        if kinds(value, tool.parameters) == {"string"}:
            return tag(begin(key), plain_text(tool.parameters, value, string), end)
        return tag(begin(key), within(tool.parameters, value, within_tags), end)

    before, after = begin("\0").split("\0")
    value = schema(True, excludes=within_tags)
    free = sequence(text(before), regex(r"\w{1,60}"), text(after), value, text(end))
    return members(tool.parameters, one, free)


def object_schema(parameters: Mapping[str, Any]) -> dict[str, Any]:
    """Return the schema of a tool's arguments: an object, even if it says otherwise or nothing."""
    kind = parameters.get("type", "object")
    if kind == "object" or (isinstance(kind, list | tuple) and "object" in kind):
        return {**parameters, "type": "object"}
    return {"type": "object"}


def callable_tools(tools: ToolUse) -> Sequence[Tool]:
    """Return the tools that may be called now."""
    if tools.mode == "named":
        return [tool for tool in tools.tools if tool.name == tools.name]
    return tools.tools


def single(tools: ToolUse) -> bool:
    """Tell whether exactly one call is wanted."""
    return tools.mode == "named" or not tools.parallel


def calls(tools: ToolUse, one: Callable[[Tool], Format], separator: str = "") -> Format:
    """Return calls with a separator between them.

    Args:
        tools: which of them, and how many calls.
        one: returns the `tag` of a call.
        separator: stands between two calls.
    """
    return {
        "type": "tags_with_separator",
        "tags": [one(tool) for tool in callable_tools(tools)],
        "separator": separator,
        "at_least_one": True,
        "stop_after_first": single(tools),
    }
