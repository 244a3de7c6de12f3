"""What the protocol offers and this server cannot do yet: refused with a reason, never ignored.

A value that asks for nothing (`n: 1`, an empty `tools`) passes.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from commands.serve.wire.openai.schema import ChatRequest, SamplingFields, Tool, ToolChoice
from commands.serve.wire.openai.sentences import quoted
from core.errors import BadRequest

if TYPE_CHECKING:
    from collections.abc import Mapping


def refuse_unsupported(call: SamplingFields, raw: Mapping[str, Any]) -> None:
    """Raise for the first field that asks for something that is not there yet.

    Args:
        call: the decoded request.
        raw: its fields as they came, for `logit_bias`, which `call` does not carry.

    Raises:
        BadRequest: naming the field.
    """
    if isinstance(call, ChatRequest):
        _refuse_tools(call.tools or [], call.tool_choice)
        if call.reasoning_effort not in (None, "none"):
            raise _not_yet("reasoning_effort", "leave it out or send 'none'")
    if call.adapter is not None and call.adapter != "none":
        raise BadRequest(
            f"adapter {quoted(call.adapter)} is unknown: adapters are not supported yet.",
            field="adapter",
        )
    for field, asked, instead in _asked(call, raw):
        if asked:
            raise _not_yet(field, instead)


def _asked(call: SamplingFields, raw: Mapping[str, Any]) -> tuple[tuple[str, bool, str], ...]:
    """Return each field, whether it asks for something, and what to do instead."""
    form = call.response_format
    leave = "leave it out"
    return (
        ("n", (call.n or 1) > 1, "send as many requests"),
        ("logprobs", bool(call.logprobs), leave),
        ("top_logprobs", (call.top_logprobs or 0) > 0, leave),
        ("logit_bias", bool(raw.get("logit_bias")), leave),
        ("repetition_penalty", call.repetition_penalty not in (None, 0, 1), leave),
        ("presence_penalty", bool(call.presence_penalty), leave),
        ("frequency_penalty", bool(call.frequency_penalty), leave),
        ("xtc_probability", bool(call.xtc_probability), leave),
        ("response_format", form is not None and form.type != "text", leave),
        ("guided_grammar", call.guided_grammar is not None, leave),
        ("guided_regex", call.guided_regex is not None, leave),
        ("guided_choice", call.guided_choice is not None, leave),
        ("structured_outputs", call.structured_outputs is not None, leave),
        ("hlg", call.hlg is not None and bool(call.hlg.enabled), leave),
    )


def _refuse_tools(tools: list[Tool], choice: str | ToolChoice | None) -> None:
    names = {tool.function.name for tool in tools}
    if isinstance(choice, ToolChoice) and (wanted := choice.function.name) not in names:
        raise BadRequest(
            f"tool_choice names the function {quoted(wanted)}, which is not among the tools.",
            field="tool_choice",
        )
    if choice == "required" and not tools:
        raise BadRequest("tool_choice is 'required', but there are no tools.", field="tool_choice")
    if tools and choice != "none":
        raise _not_yet("tools", "leave them out or send a tool_choice of 'none'")


def _not_yet(field: str, instead: str) -> BadRequest:
    return BadRequest(f"{field} is not supported yet, {instead}.", field=field)
