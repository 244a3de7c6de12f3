"""What a chat template is told about reasoning. Pure: knows variables, not their rendering."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping

    from core.engine.request import Effort, Thinking

# How deep to reason, in the words of templates that know three levels. Qwen names the third xhigh,
# gpt-oss high.
_DEPTHS = {"minimal": "low", "low": "low", "medium": "medium", "high": "xhigh", "xhigh": "xhigh"}


def template_variables(
    thinking: Thinking, given: Mapping[str, Any], *, server: bool | None, template: str
) -> dict[str, Any]:
    """Return the variables that steer reasoning, without those that the caller gave.

    Args:
        thinking: what the request says.
        given: variables of the request; they win.
        server: what the server says when the request does not; None: it does not, either.
        template: source of the chat templates.
    """
    variables: dict[str, Any] = {}
    enabled = _enabled(thinking, server=server, template=template)
    if enabled is not None:
        variables["enable_thinking"] = enabled
        # DeepSeek's and Granite's ask for this one. A template that is code of mlx-lm's is told
        # in its own words by mlx-lm, and stumbles over any other.
        if template:
            variables["thinking"] = enabled
    if thinking.effort not in (None, "none") and "reasoning_effort" in template:
        variables["reasoning_effort"] = _depth(thinking.effort, template)
    return {name: value for name, value in variables.items() if name not in given}


def _enabled(thinking: Thinking, *, server: bool | None, template: str) -> bool | None:
    """Return whether the channel is on; None: as the template has it."""
    if thinking.enabled is not None:
        return thinking.enabled
    if thinking.effort is not None:
        return thinking.effort != "none"
    if server is not None:
        return server
    return False if _answers_directly(template) else None


def _answers_directly(template: str) -> bool:
    """Return whether a model is best asked without reasoning unless somebody wants it.

    GLM-5.2, whose template asks for the greatest effort otherwise, and MiniCPM5.
    """
    minicpm = '<function name="' in template and "enable_thinking" in template
    return minicpm or "Reasoning Effort: Max" in template


def _depth(effort: Effort | None, template: str) -> str | None:
    depth = _DEPTHS.get(effort or "")
    return "high" if depth == "xhigh" and "xhigh" not in template else depth
