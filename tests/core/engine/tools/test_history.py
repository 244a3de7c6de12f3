"""Earlier calls, as each family's template expects them."""

from __future__ import annotations

import copy
import json
import re
from typing import Any

import pytest

from core.engine.tools.choose import load_family
from core.engine.tools.history import one_call_each
from tests.core.engine.tools.folding import FAMILIES

HISTORY: list[dict[str, Any]] = [
    {"role": "user", "content": "Weather?"},
    {
        "role": "assistant",
        "content": None,
        "reasoning_content": "Look it up.",
        "tool_calls": [
            {
                "id": "call_0123456789abcdef",
                "type": "function",
                "function": {"name": "get_weather", "arguments": '{"city": "Paris"}'},
            }
        ],
    },
    {"role": "tool", "tool_call_id": "call_0123456789abcdef", "content": "Sun."},
]


def prepared(family: str, arguments: Any = '{"city": "Paris"}') -> list[Any]:
    history = copy.deepcopy(HISTORY)
    history[1]["tool_calls"][0]["function"]["arguments"] = arguments
    before = copy.deepcopy(history)
    after = list(load_family(family).prepare_history(history))
    assert history == before
    return after[-3:]  # some begin with a system message now


@pytest.mark.parametrize("family", FAMILIES)
def test_arguments(family: str) -> None:
    found = prepared(family)[1]["tool_calls"][0]["function"]["arguments"]
    if family.startswith("deepseek"):
        assert json.loads(found) == {"city": "Paris"}
    else:
        assert found == {"city": "Paris"}
    for damaged in ("{'a': 1,}", '{"cmd": "a "b""}', "[1]", "Paris"):
        call = prepared(family, damaged)[1]["tool_calls"][0]
        assert call["function"]["arguments"] == damaged


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        ("", {}),
        (None, {}),
        ("{}", {}),
        ({"a": 1}, {"a": 1}),
        ("{'a': 1", "{'a': 1"),
        ("{'a': 1,}", "{'a': 1,}"),
        ("[1]", "[1]"),
        ("Paris", "Paris"),
        ('{"a": "\\ud83d"}', '{"a": "\\ud83d"}'),
        ("[" * 100_000, "[" * 100_000),
    ],
)
def test_what_is_no_object_stays_text(arguments: Any, expected: Any) -> None:
    call = prepared("hermes", arguments)[1]["tool_calls"][0]
    assert call["function"]["arguments"] == expected


def test_texts_for_deepseek() -> None:
    for arguments, expected in (({"a": "é"}, '{"a": "é"}'), (None, "{}"), ("", "{}")):
        call = prepared("deepseek", arguments)[1]["tool_calls"][0]
        assert call["function"]["arguments"] == expected


@pytest.mark.parametrize("family", ["mistral", "mistral_args"])
def test_mistral_has_short_ids(family: str) -> None:
    _, assistant, result = prepared(family)
    identity = assistant["tool_calls"][0]["id"]
    assert re.fullmatch("[a-zA-Z0-9]{9}", identity)
    assert result["tool_call_id"] == identity
    again = list(load_family(family).prepare_history([assistant, result]))
    assert again == [assistant, result]


def test_kimi_has_its_own_ids() -> None:
    prepare = load_family("kimi").prepare_history
    second = copy.deepcopy(HISTORY[1:])
    second[0]["tool_calls"][0]["id"] = second[1]["tool_call_id"] = "call_2"
    second[0]["tool_calls"][0]["function"]["name"] = "ping"
    _, first, result, then, last = prepare([*HISTORY, *second])
    assert first["tool_calls"][0]["id"] == result["tool_call_id"] == "functions.get_weather:0"
    assert then["tool_calls"][0]["id"] == last["tool_call_id"] == "functions.ping:1"
    assert prepare([first, result, then, last]) == [first, result, then, last]


def test_harmony_thinks_before_it_calls() -> None:
    assert prepared("harmony")[1]["thinking"] == "Look it up."
    said = {**HISTORY[1], "content": "I look."}
    assert "thinking" not in load_family("harmony").prepare_history([said])[0]


@pytest.mark.parametrize("family", FAMILIES)
def test_odd_messages_pass(family: str) -> None:
    odd: list[dict[str, Any]] = [
        {"role": "assistant", "tool_calls": [None, {}, {"function": 3}]},
        {"tool_calls": "x"},
    ]
    assert list(load_family(family).prepare_history(odd))[-2:] == odd or family.startswith(
        "mistral"
    )


@pytest.mark.parametrize("family", ["gemma", "function_gemma"])
def test_results_get_the_names_that_templates_show(family: str) -> None:
    result = prepared(family)[2]
    assert result == {**HISTORY[2], "name": "get_weather"}
    named = {**HISTORY[2], "name": "mine"}
    assert load_family(family).prepare_history([*HISTORY[:2], named])[2] == named


def test_templates_of_code_tell_of_tools_in_the_system_message() -> None:
    first, *_ = load_family("deepseek_dsml").prepare_history(HISTORY)
    assert first == {"role": "system", "content": ""}
    again = load_family("deepseek_dsml").prepare_history([first, *HISTORY])
    assert [message["role"] for message in again] == ["system", "user", "assistant", "tool"]


def test_one_call_in_each_message() -> None:
    calls = [{"id": n, "function": {"name": f"f{n}", "arguments": {}}} for n in "abc"]
    answer = {"role": "assistant", "content": "I look.", "tool_calls": calls}
    later = [{"role": "tool", "tool_call_id": n, "content": n} for n in "cax"]
    user = {"role": "user", "content": "?"}
    split = one_call_each([user, answer, *later, user])
    assert [
        (one["role"], one.get("content"), [c["id"] for c in one.get("tool_calls", ())])
        for one in split
    ] == [
        ("user", "?", []),
        ("assistant", "I look.", ["a"]),
        ("tool", "a", []),
        ("assistant", "", ["b"]),
        ("assistant", "", ["c"]),
        ("tool", "c", []),
        ("tool", "x", []),
        ("user", "?", []),
    ]
    assert one_call_each(HISTORY) == HISTORY
