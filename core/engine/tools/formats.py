"""Pieces of xgrammar structural tags (0.2.9), from which families build `call_format`.

What stands for a call is text: markers that are single tokens are matched by their text too.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Literal

from core.engine.grammar.schema import object_variants
from core.engine.request import Tool, ToolUse
from core.engine.tools.schema import EVERY, kinds, property_kinds

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


Kinds = Literal["all", "text", "others"]


def schema(
    value: Any,
    root: Mapping[str, Any] | None = None,
    *,
    kinds: Kinds = "all",
    excludes: Sequence[str] = (),
    quote: str = "",
    avoid: Sequence[str] = (),
) -> Format:
    """Return a value valid under a JSON Schema; `core.engine.grammar` writes its grammar.

    Args:
        value: the schema.
        root: the schema in which its references are looked up; None: itself.
        kinds: `all`; `text`: its strings alone, as raw text; `others`: all but its strings.
        excludes: texts that no string may hold, because they would end the value. Each begins
            with `<`.
        quote: what stands around strings that have no escapes, beside bare keys; empty: JSON.
        avoid: regular expressions; no raw text matches one as a whole.
    """
    return {
        "type": "json_schema",
        "json_schema": value,
        "root": value if root is None else root,
        "kinds": kinds,
        "excludes": list(excludes),
        "quote": quote,
        "avoid": list(avoid),
    }


def arguments(tool: Tool, excludes: Sequence[str] = (), quote: str = "") -> Format:
    """Return a tool's arguments: an object, valid under its schema."""
    return schema(object_schema(tool.parameters), tool.parameters, excludes=excludes, quote=quote)


Member = Callable[[str, Any], Format]
"""Returns what stands for a parameter, given its name and its schema."""


def members(tool: Tool, one: Member, free: Format) -> Format:
    """Return a tool's parameters one after the other, in the order of its schema.

    Args:
        tool: which.
        one: a parameter.
        free: any parameter, for a tool whose schema names none.

    Raises:
        NotPossible: its schema is malformed or has too many forms.
    """

    def each(properties: Mapping[str, Any], required: frozenset[str]) -> Format:
        parts = [
            one(key, value) if key in required else optional(one(key, value))
            for key, value in properties.items()
        ]
        return sequence(*parts) if parts else star(free)

    return _variants(tool, each)


def listed(tool: Tool, one: Member, free: Format, separator: str) -> Format:
    """Return a tool's parameters with a separator between them, the required ones first.

    Where none is required, they come in any order.

    Raises:
        NotPossible: as `members`.
    """

    def each(properties: Mapping[str, Any], required: frozenset[str]) -> Format:
        parts = {key: one(key, value) for key, value in properties.items()}
        if not required:
            return optional(_joined(either(list(parts.values())) if parts else free, separator))
        first, *rest = [parts[key] for key in parts if key in required]
        return sequence(
            first,
            *(sequence(text(separator), other) for other in rest),
            *(
                optional(sequence(text(separator), parts[key]))
                for key in parts
                if key not in required
            ),
        )

    return _variants(tool, each)


def _variants(tool: Tool, each: Callable[[Mapping[str, Any], frozenset[str]], Format]) -> Format:
    """Return any of the forms that a tool's parameters may have, each by its properties."""
    variants, lost = object_variants(object_schema(tool.parameters), tool.parameters)
    made = []
    for variant in variants:
        lost = lost | (_UNLIKE & variant.keys())
        required = variant.get("required", [])
        rest = variant.get("additionalProperties", {})
        named = {**variant.get("properties", {}), **dict.fromkeys(required, rest)}
        named |= variant.get("properties", {})
        allowed = {key: value for key, value in named.items() if value is not False}
        made.append(each(allowed, frozenset(required)))
    return {**sequence(either(made)), "unenforced": sorted(lost)}


_UNLIKE = frozenset({"minProperties", "maxProperties", "patternProperties", "propertyNames"})
"""Limits on all parameters together, which tags one after the other do not express."""


def _joined(content: Format, separator: str) -> Format:
    return sequence(content, star(sequence(text(separator), content)))


def within(tool: Tool, value: Any, excludes: Sequence[str] = ()) -> Format:
    """Return a parameter's value as JSON, valid under its schema within the tool's."""
    return schema(value, tool.parameters, excludes=excludes)


def plain_text(
    tool: Tool, value: Any, excludes: Sequence[str], avoid: Sequence[str] = ()
) -> Format:
    """Return the strings of a parameter as raw text."""
    return schema(value, tool.parameters, kinds="text", excludes=excludes, avoid=avoid)


def others(tool: Tool, value: Any, excludes: Sequence[str]) -> Format:
    """Return all values of a parameter but its strings, as JSON."""
    return schema(value, tool.parameters, kinds="others", excludes=excludes)


def raw_value(
    tool: Tool, key: str, value: Any, excludes: Sequence[str], avoid: Sequence[str] = ()
) -> Format:
    """Return a parameter's value as the readers of raw text take it.

    Strings are raw text, all else is JSON. No text may look like what it is not: a reader that may
    expect an array takes `[` for one.

    Args:
        tool: whose parameter it is.
        key: its name.
        value: its schema.
        excludes: texts that no value holds.
        avoid: regular expressions; no string matches one as a whole.
    """
    allowed, expected = kinds(value, tool.parameters), property_kinds(key, tool.parameters)
    if "string" not in allowed:
        return within(tool, value, excludes)
    looks = [_LOOKS[kind] for kind in sorted(expected - _free_kinds(value))]
    texts = plain_text(tool, value, excludes, [*avoid, *dict.fromkeys(filter(None, looks))])
    return texts if allowed == {"string"} else either([texts, others(tool, value, excludes)])


ANY = r"[\0-\u{10ffff}]"
"""Any character, in a regular expression."""
SPACE = r"[\s\x1c-\x1f\x85\xa0\u1680\u2000-\u200a\u2028\u2029\u202f\u205f\u3000]"
"""White space of any script, in a regular expression."""
_DIGITS = rf"{SPACE}*[+-]?\d*(\.\d*)?([eE][+-]?\d+)?{SPACE}*"
_LOOKS = {
    "array": rf"{SPACE}*\[{ANY}*",
    "boolean": rf"{SPACE}*([Tt][Rr][Uu][Ee]|[Ff][Aa][Ll][Ss][Ee]){SPACE}*",
    "integer": _DIGITS,
    "null": rf"{SPACE}*([Nn][Uu][Ll][Ll]|[Nn][Oo][Nn][Ee]|[Nn][Aa][Nn]|[+-]?[Ii]nfinity){SPACE}*",
    "number": _DIGITS,
    "object": rf"{SPACE}*\{{{ANY}*",
    "string": "",
}
"""Raw texts that readers take for a value of a kind, where it may be of that kind."""


def _free_kinds(value: Any) -> frozenset[str]:
    """Return the kinds that a schema allows whatever the value is: a text may look like them."""
    if value in ({}, True):
        return EVERY - {"array", "object"}
    branches = [value]
    if isinstance(value, Mapping) and set(value) - _REMARKS in ({"anyOf"}, {"oneOf"}):
        branches = value.get("anyOf", value.get("oneOf"))
    found: set[str] = set()
    for branch in branches if isinstance(branches, list) else ():
        types = branch.get("type") if isinstance(branch, Mapping) else None
        if types and not set(branch) - {"type"} - _REMARKS:
            listed_ = types if isinstance(types, list) else [types]
            found |= {one for one in listed_ if isinstance(one, str)}
    return frozenset(found) - {"array", "object"}


_REMARKS = frozenset({"title", "description", "default", "examples"})


def raw_members(
    tool: Tool,
    begin: Callable[[str], Format],
    end: Format,
    value: Member | None = None,
    mark: str = "",
) -> Format:
    """Return a tool's parameters one after the other, each between tags.

    Args:
        tool: which.
        begin: returns what opens a parameter, given its name.
        end: what closes it.
        value: returns what stands for a value; None: `raw_value` without `mark`.
        mark: the tag in `end`; no value holds it.
    """
    written: Member = value or (lambda key, one: raw_value(tool, key, one, (mark,)))

    def one(key: str, wanted: Any) -> Format:
        return sequence(begin(key), written(key, wanted), end)

    before, after = _split(begin("\0"), "\0")
    free = sequence(*before, regex(r"\w{1,60}"), *after, written("", {}), end)
    return members(tool, one, free)


def _split(opening: Format, name: str) -> tuple[list[Format], list[Format]]:
    """Return what stands before and behind the name in what opens a parameter."""
    parts = opening["elements"] if opening["type"] == "sequence" else [opening]
    before, after = parts[0]["value"].split(name)
    return [text(before)], [text(after), *parts[1:]]


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
