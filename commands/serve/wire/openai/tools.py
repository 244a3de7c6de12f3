"""From a request's fields to what its answer may call, and how it reasons."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, cast

from commands.serve.wire.openai.nesting import check_nesting
from commands.serve.wire.openai.sampling import capped
from commands.serve.wire.openai.schema import AllowedToolsChoice, ToolChoice
from commands.serve.wire.openai.sentences import quoted
from core.engine.request import Thinking, Tool, ToolUse
from core.errors import BadRequest

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from commands.serve.wire.openai.schema import ChatRequest, FunctionSpec
    from commands.serve.wire.openai.schema import Tool as WireTool
    from core.engine.request import Effort

# A name stands inside the markup of calls and inside grammars, so it holds no character of theirs.
_NAME = re.compile(r"[\w.:/-]{1,128}")
_NO_ARGUMENTS = {"type": "object", "properties": {}}


def decode_tools(call: ChatRequest) -> ToolUse:
    """Return which functions the answer may or must call; with `none` it is told of none.

    Raises:
        BadRequest: a name is bad or taken, or the choice is not among the tools.
    """
    functions = _functions(call.tools or ())
    choice = call.tool_choice
    allowed = _allowed(choice, {function.name for function in functions})
    usable = [function for function in functions if allowed is None or function.name in allowed]
    mode = choice.allowed_tools.mode if isinstance(choice, AllowedToolsChoice) else choice
    if mode == "required" and not usable:
        raise BadRequest(_nothing_to_call(call), field="tool_choice")
    if not usable or mode == "none":
        return ToolUse(mode="none" if mode == "none" else "auto")
    named = choice.function.name if isinstance(choice, ToolChoice) else None
    places = _places(call)
    return ToolUse(
        tools=tuple(
            Tool(
                name=one.name,
                parameters=one.parameters or _NO_ARGUMENTS,
                field=f"{places[one.name]}.parameters",
            )
            for one in usable
        ),
        mode="named" if named else "required" if mode == "required" else "auto",
        name=named,
        parallel=call.parallel_tool_calls is not False,
    )


def left_out_tools(call: ChatRequest, raw: Sequence[Mapping[str, Any]]) -> tuple[str, ...]:
    """Return a warning that names the tools that cannot be called here, if there are some.

    Args:
        call: the decoded request.
        raw: its `tools`, as they came.
    """
    if call.tool_choice == "none":
        return ()
    others = [_shown(one) for one in raw if one["type"] != "function"]
    if isinstance(call.tool_choice, AllowedToolsChoice):
        others += [
            _with_name(one.type, one.custom.name if one.custom else None)
            for one in call.tool_choice.allowed_tools.tools
            if one.type != "function"
        ]
    if not others:
        return ()
    return (f"tools left out, only functions can be called: {', '.join(dict.fromkeys(others))}",)


def tools_for_template(
    raw: Sequence[Mapping[str, Any]], use: ToolUse
) -> tuple[dict[str, Any], ...]:
    """Return what the chat template is told of the tools, as the client wrote it.

    Args:
        raw: the request's `tools`, as they came.
        use: what became of them.
    """
    if not use.tools:
        return ()
    written = {one["function"]["name"]: one for one in raw if one["type"] == "function"}
    return tuple(
        {
            "type": "function",
            "function": {**_written(written[tool.name]), "parameters": dict(tool.parameters)},
        }
        for tool in use.tools
    )


def decode_thinking(call: ChatRequest) -> Thinking:
    """Return how the answer reasons. An explicit `enable_thinking` wins over the effort.

    Raises:
        BadRequest: `enable_thinking` is neither true nor false.
    """
    enabled = (call.chat_template_kwargs or {}).get("enable_thinking")
    if not isinstance(enabled, bool | None):
        raise BadRequest(
            "chat_template_kwargs.enable_thinking must be true or false.",
            field="chat_template_kwargs",
        )
    return Thinking(enabled=enabled, effort=_effort(call), budget=capped(call.thinking_budget))


def _effort(call: ChatRequest) -> Effort | None:
    """Return the effort, by whichever of its names it was given; both were checked."""
    nested = call.reasoning.effort if call.reasoning else None
    return call.reasoning_effort or cast("Effort | None", nested)


def _functions(tools: Sequence[WireTool]) -> list[FunctionSpec]:
    """Return the tools that are functions.

    Raises:
        BadRequest: a function is missing, or its name is bad or taken.
    """
    functions: dict[str, FunctionSpec] = {}
    for number, tool in enumerate(tools):
        if tool.type != "function":
            continue
        place, function = f"tools[{number}].function", tool.function
        if function is None:
            raise BadRequest(f"{place} is required.", field="tools")
        if not _NAME.fullmatch(function.name):
            raise BadRequest(
                f"{place}.name must consist of letters, digits and _ . : / - only.", field="tools"
            )
        if function.name in functions:
            raise BadRequest(
                f"{place}.name {quoted(function.name)} is taken by another tool.", field="tools"
            )
        check_nesting(function.parameters, "tools")
        functions[function.name] = function
    return list(functions.values())


def _allowed(
    choice: str | ToolChoice | AllowedToolsChoice | None, names: set[str]
) -> set[str] | None:
    """Return the functions that the choice leaves; None: all of them.

    Raises:
        BadRequest: it names one that is not among the tools.
    """
    if isinstance(choice, ToolChoice):
        wanted = [choice.function.name]
    elif isinstance(choice, AllowedToolsChoice):
        wanted = list(_allowed_names(choice))
    else:
        return None
    for name in wanted:
        if name not in names:
            raise BadRequest(
                f"tool_choice names the function {quoted(name)}, which is not among the tools.",
                field="tool_choice",
            )
    return set(wanted) if isinstance(choice, AllowedToolsChoice) else None


def _allowed_names(choice: AllowedToolsChoice) -> Iterator[str]:
    for number, tool in enumerate(choice.allowed_tools.tools):
        if tool.type == "function":
            if tool.function is None:
                raise BadRequest(
                    f"tool_choice.allowed_tools.tools[{number}].function is required.",
                    field="tool_choice",
                )
            yield tool.function.name


def _nothing_to_call(call: ChatRequest) -> str:
    if not call.tools:
        return "tool_choice is 'required', but there are no tools."
    return "tool_choice is 'required', but none of the tools can be called: only functions can."


def _shown(tool: Mapping[str, Any]) -> str:
    """Return how to name a tool that is not a function: its type and, if it has one, its name."""
    custom = tool.get("custom")
    name = custom.get("name") if isinstance(custom, dict) else tool.get("name")
    return _with_name(tool["type"], name if isinstance(name, str) else None)


def _with_name(kind: str, name: str | None) -> str:
    return f"{quoted(kind)} {quoted(name)}" if name else quoted(kind)


def _places(call: ChatRequest) -> dict[str, str]:
    """Return where each function stands in the request, among `functions` or `tools`."""
    if call.functions:
        return {one.name: f"functions[{number}]" for number, one in enumerate(call.functions)}
    return {
        tool.function.name: f"tools[{number}].function"
        for number, tool in enumerate(call.tools or ())
        if tool.type == "function" and tool.function
    }


def _written(tool: Mapping[str, Any]) -> dict[str, Any]:
    """Return the function as templates know it: neither nulls nor what only APIs understand."""
    known = ("name", "description")
    return {key: tool["function"][key] for key in known if tool["function"].get(key) is not None}
