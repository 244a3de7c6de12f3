"""From a request's fields to what its answer may call, and how it reasons."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, cast

from commands.serve.wire.openai.nesting import check_nesting
from commands.serve.wire.openai.sampling import capped
from commands.serve.wire.openai.schema import ToolChoice
from commands.serve.wire.openai.sentences import quoted
from core.engine.request import Thinking, Tool, ToolUse
from core.errors import BadRequest

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from commands.serve.wire.openai.schema import ChatRequest, FunctionSpec
    from core.engine.request import Effort

# A name stands inside the markup of calls and inside grammars, so it holds no character of theirs.
_NAME = re.compile(r"[\w.:/-]{1,128}")
_NO_ARGUMENTS = {"type": "object", "properties": {}}


def decode_tools(call: ChatRequest) -> ToolUse:
    """Return which functions the answer may or must call; with `none` it is told of none.

    Raises:
        BadRequest: a name is bad or taken, or the choice is not among the tools.
    """
    functions = [tool.function for tool in call.tools or ()]
    _check_functions(functions)
    choice = call.tool_choice
    _check_choice(choice, {function.name for function in functions})
    if not functions or choice == "none":
        return ToolUse(mode="none" if choice == "none" else "auto")
    named = choice.function.name if isinstance(choice, ToolChoice) else None
    return ToolUse(
        tools=tuple(Tool(name=one.name, parameters=_parameters(one)) for one in functions),
        mode="named" if named else "required" if choice == "required" else "auto",
        name=named,
        parallel=call.parallel_tool_calls is not False,
    )


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
    return tuple(
        {"type": "function", "function": {**_written(one), "parameters": dict(tool.parameters)}}
        for one, tool in zip(raw, use.tools, strict=True)
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


def _check_functions(functions: Sequence[FunctionSpec]) -> None:
    names: set[str] = set()
    for number, function in enumerate(functions):
        place = f"tools[{number}].function"
        if not _NAME.fullmatch(function.name):
            raise BadRequest(
                f"{place}.name must consist of letters, digits and _ . : / - only.", field="tools"
            )
        if function.name in names:
            raise BadRequest(
                f"{place}.name {quoted(function.name)} is taken by another tool.", field="tools"
            )
        names.add(function.name)
        check_nesting(function.parameters, "tools")


def _check_choice(choice: str | ToolChoice | None, names: set[str]) -> None:
    if isinstance(choice, ToolChoice) and (wanted := choice.function.name) not in names:
        raise BadRequest(
            f"tool_choice names the function {quoted(wanted)}, which is not among the tools.",
            field="tool_choice",
        )
    if choice == "required" and not names:
        raise BadRequest("tool_choice is 'required', but there are no tools.", field="tool_choice")


def _parameters(function: FunctionSpec) -> dict[str, Any]:
    return function.parameters or _NO_ARGUMENTS


def _written(tool: Mapping[str, Any]) -> dict[str, Any]:
    """Return the function as templates know it: neither nulls nor what only APIs understand."""
    known = ("name", "description")
    return {key: tool["function"][key] for key in known if tool["function"].get(key) is not None}
