"""`functions` and `function_call`, the older form of `tools` and `tool_choice`."""

from __future__ import annotations

from contextlib import contextmanager
from itertools import product
from typing import TYPE_CHECKING, Any

from commands.serve.wire.openai.sentences import quoted
from core.errors import BadRequest

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from commands.serve.wire.openai.schema import ChatRequest


def check_functions(call: ChatRequest) -> None:
    """Check that functions do not contradict tools and that the one to call is among them.

    Raises:
        BadRequest: naming the field.
    """
    for old, new in product(("functions", "function_call"), ("tools", "tool_choice")):
        if getattr(call, old) is not None and getattr(call, new) is not None:
            raise BadRequest(
                f"{old} and {new} cannot be sent together: functions and function_call are the "
                "older form of tools and tool_choice.",
                field=old,
            )
    wanted = call.function_call
    if wanted is None or isinstance(wanted, str):
        return
    if wanted.name not in {function.name for function in call.functions or ()}:
        raise BadRequest(
            f"function_call names the function {quoted(wanted.name)}, which is not among the "
            "functions.",
            field="function_call",
        )


def as_tools(raw: Mapping[str, Any]) -> dict[str, Any]:
    """Return a request's fields, already checked, with its functions as tools.

    One call at most is allowed, as an answer has one `function_call`.
    """
    named = raw.get("function_call", "auto")
    choice = {"type": "function", "function": named} if isinstance(named, dict) else named
    tools = [{"type": "function", "function": function} for function in raw["functions"]]
    return {**raw, "tools": tools, "tool_choice": choice, "parallel_tool_calls": False}


@contextmanager
def named_as_functions() -> Iterator[None]:
    """Report errors in tools that were sent as functions with the names of functions."""
    try:
        yield
    except BadRequest as problem:
        if problem.field != "tools":
            raise
        message = problem.message.replace("tools[", "functions[").replace("].function", "]")
        raise BadRequest(
            message.replace("tools is", "functions is").replace("another tool", "another function"),
            field="functions",
        ) from None
