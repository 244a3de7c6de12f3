"""Tools in the words of messages, for templates that know nothing of them."""

from __future__ import annotations

import json
from typing import Any

from core.engine.request import ChatPrompt
from core.engine.tool_prompt import knows_tools, tell_of_tools

WEATHER: dict[str, Any] = {
    "type": "function",
    "function": {"name": "get_weather", "parameters": {"type": "object"}},
}
ASKED = {"role": "user", "content": "Weather in Örebro?"}
CALL = {
    "role": "assistant",
    "content": "",
    "tool_calls": [
        {
            "id": "call_1",
            "type": "function",
            "function": {"name": "get_weather", "arguments": {"city": "Örebro"}},
        }
    ],
}
RESULT = {"role": "tool", "tool_call_id": "call_1", "content": "sun"}


def test_a_system_message_tells_of_the_tools() -> None:
    told = tell_of_tools(ChatPrompt(messages=(ASKED,), tools=(WEATHER,)))
    system, asked = told.messages
    assert system["role"] == "system"
    assert json.dumps(WEATHER) in system["content"]
    assert asked == ASKED
    assert told.tools == ()


def test_it_stands_behind_what_the_system_says() -> None:
    spoken = {"role": "system", "content": "Be kind."}
    told = tell_of_tools(ChatPrompt(messages=(spoken, ASKED), tools=(WEATHER,)))
    assert [message["role"] for message in told.messages] == ["system", "user"]
    assert told.messages[0]["content"].startswith("Be kind.\n\nYou may call")


def test_calls_and_results_are_words_and_roles_take_turns() -> None:
    messages = (ASKED, CALL, RESULT, RESULT, {"role": "user", "content": "And now?"})
    told = tell_of_tools(ChatPrompt(messages=messages))
    assert [message["role"] for message in told.messages] == ["user", "assistant", "user"]
    assert told.messages[1]["content"] == (
        '<tool_call>\n{"name": "get_weather", "arguments": {"city": "Örebro"}}\n</tool_call>'
    )
    assert told.messages[2]["content"] == (
        "<tool_response>\nsun\n</tool_response>\n" * 2 + "And now?"
    )


def test_without_tools_nothing_changes() -> None:
    prompt = ChatPrompt(messages=(ASKED, {"role": "assistant", "content": "Sun."}))
    assert tell_of_tools(prompt) == prompt


def test_templates_that_know_tools_name_them() -> None:
    assert knows_tools("{% if tools %}")
    assert not knows_tools("{% for message in messages %}")
