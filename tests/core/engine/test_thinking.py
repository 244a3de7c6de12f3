"""What templates are told about reasoning."""

from __future__ import annotations

from typing import Any

import pytest

from core.engine.request import Thinking
from core.engine.thinking import template_variables

ON = {"enable_thinking": True, "thinking": True}
OFF = {"enable_thinking": False, "thinking": False}


def told(
    thinking: Thinking, *, server: bool | None = None, template: str = "jinja"
) -> dict[str, Any]:
    return template_variables(thinking, {}, server=server, template=template)


def test_the_template_decides_when_nobody_else_does() -> None:
    assert told(Thinking()) == {}


@pytest.mark.parametrize(
    ("thinking", "server", "expected"),
    [
        (Thinking(enabled=False, effort="high"), True, OFF),
        (Thinking(enabled=True, effort="none"), False, ON),
        (Thinking(effort="none"), True, OFF),
        (Thinking(effort="minimal"), False, ON),
        (Thinking(), True, ON),
        (Thinking(), False, OFF),
    ],
)
def test_the_switch_goes_before_the_effort_and_both_before_the_server(
    thinking: Thinking, server: bool | None, expected: dict[str, Any]
) -> None:
    assert told(thinking, server=server) == expected


@pytest.mark.parametrize(
    ("effort", "qwen", "gpt_oss"),
    [
        ("minimal", "low", "low"),
        ("low", "low", "low"),
        ("medium", "medium", "medium"),
        ("high", "xhigh", "high"),
        ("xhigh", "xhigh", "high"),
    ],
)
def test_the_effort_in_the_words_of_the_template(effort: Any, qwen: str, gpt_oss: str) -> None:
    for template, depth in (
        ("{{ reasoning_effort }} 'xhigh'", qwen),
        ("{{ reasoning_effort }}", gpt_oss),
    ):
        assert told(Thinking(effort=effort), template=template)["reasoning_effort"] == depth
    assert "reasoning_effort" not in told(Thinking(effort=effort), template="other")


def test_what_the_caller_gives_stays() -> None:
    given = {"enable_thinking": "yes", "reasoning_effort": "odd"}
    template = "reasoning_effort"
    thinking = Thinking(effort="high")
    variables = template_variables(thinking, given, server=None, template=template)
    assert variables == {"thinking": True}


def test_a_template_of_code_is_told_in_one_word() -> None:
    assert told(Thinking(enabled=True), template="") == {"enable_thinking": True}


@pytest.mark.parametrize(
    "template",
    ["... Reasoning Effort: Max ...", '<function name="f"> {% if enable_thinking %}'],
)
def test_some_models_answer_directly_unless_asked(template: str) -> None:
    assert told(Thinking(), template=template) == OFF
    assert told(Thinking(), template=template, server=True) == ON
    assert told(Thinking(effort="low"), template=template) == ON
