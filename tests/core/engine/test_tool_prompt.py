"""Tools in the words of messages, for templates that know nothing of them."""

from __future__ import annotations

import json
from typing import Any

from core.engine.request import ChatPrompt
from core.engine.tool_prompt import (
    knows_tools,
    shows_calls,
    shows_one_call,
    tell_of_tools,
    with_system,
    with_written_calls,
)
from core.engine.tools.choose import load_family

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
    assert not knows_tools("{# no tools #}{{ 'You have no tools' }}{{ messages[0]['tools'] }}")
    assert knows_tools("{% if tools is broken {{")


def test_templates_that_show_calls_name_them() -> None:
    assert shows_calls("{% for call in message.tool_calls %}")
    assert shows_calls("{% if message['tool_calls'] %}")
    assert not shows_calls("{% if tools %}{# tool_calls #}{{ message.content }}")


def test_templates_that_show_one_call_take_the_first() -> None:
    assert shows_one_call("{% set call = message.tool_calls[0].function %}")
    assert shows_one_call("{% set call = message['tool_calls'][0] %}")
    every = "{% for call in message['tool_calls'] %}"
    assert not shows_one_call(every)
    assert not shows_one_call("{% if message.tool_calls[0] %}" + every)


def test_a_conversation_without_a_system_message_gets_one() -> None:
    prompt = ChatPrompt(messages=({"role": "user", "content": "Hi."},))
    assert with_system(prompt, "Do.").messages[0] == {"role": "system", "content": "Do."}


def test_calls_are_written_into_contents() -> None:
    call = {"name": "f", "arguments": {"a": [1, True, None, {"b": "é\n"}]}}
    message = {"role": "assistant", "content": "Hm.", "tool_calls": [{"function": call}] * 2}
    write = load_family("pythonic").write_calls
    written = 'f(a=[1, True, None, {"b": "é\\n"}])'
    assert with_written_calls([message], write) == [
        {
            "role": "assistant",
            "content": f"Hm.\n<|tool_call_start|>[{written}, {written}]<|tool_call_end|>",
        }
    ]
    (hermes,) = with_written_calls([message], None)
    assert hermes["content"].count("<tool_call>") == 2


def test_damaged_arguments_are_written_as_they_are() -> None:
    call = {"name": "f", "arguments": '{"cmd": "a "b""}'}
    message = {"role": "assistant", "content": "", "tool_calls": [{"function": call}]}
    (hermes,) = with_written_calls([message], None)
    assert '"arguments": {"cmd": "a "b""}}' in hermes["content"]
    (pythonic,) = with_written_calls([message], load_family("pythonic").write_calls)
    assert '[f({"cmd": "a "b""})]' in pythonic["content"]
