"""Fields of other servers: supported under any of their names, or named in a warning."""

from __future__ import annotations

import json
from typing import Any

import httpx
import pytest

from commands.serve.wire.openai.decode import Call, decode_chat, decode_completion
from commands.serve.wire.openai.unsupported import _EVERYWHERE, _IN_CHATS, _IN_COMPLETIONS
from core.engine.events import ToolCallDelta
from core.engine.request import Ending, GrammarSpec, TextPrompt, Thinking, Tool
from core.errors import BadRequest
from tests.commands.serve.fake_engine import FakeEngine, Script

CHAT = "/v1/chat/completions"
HI = [{"role": "user", "content": "hi"}]
SCHEMA = {"type": "object", "properties": {"a": {"type": "integer"}}}
OTHER = {"type": "string"}
FORM = GrammarSpec(kind="json_schema", source=SCHEMA)


def _chat(**fields: Any) -> Call:
    return decode_chat(json.dumps({"messages": HI, **fields}).encode())


def _text(**fields: Any) -> Call:
    return decode_completion(json.dumps({"prompt": "a", **fields}).encode())


def _refused(**fields: Any) -> BadRequest:
    with pytest.raises(BadRequest) as caught:
        _chat(**fields)
    return caught.value


# Forms


@pytest.mark.parametrize(
    ("fields", "wanted"),
    [
        ({"guided_json": SCHEMA}, FORM),
        ({"guided_json": json.dumps(SCHEMA)}, FORM),
        ({"json_schema": SCHEMA}, FORM),
        ({"format": SCHEMA}, FORM),
        ({"format": "json"}, GrammarSpec(kind="json")),
        ({"format": ""}, None),
        ({"grammar": 'root ::= "a"'}, GrammarSpec(kind="ebnf", source='root ::= "a"')),
        ({"grammar": ""}, None),
        ({"response_format": {"type": "json_object", "schema": SCHEMA}}, FORM),
        ({"response_format": {"type": "json_schema", "schema": SCHEMA}}, FORM),
        ({"response_format": {"type": "json_object", "json_schema": {"schema": SCHEMA}}}, FORM),
        ({"response_format": {"type": "json_object"}, "json_schema": SCHEMA}, FORM),
        ({"format": "json", "guided_json": SCHEMA}, FORM),
        ({"format": SCHEMA, "guided_json": SCHEMA, "json_schema": SCHEMA}, FORM),
    ],
)
def test_a_form_has_several_names(fields: dict[str, Any], wanted: GrammarSpec | None) -> None:
    assert _chat(**fields).request.grammar == wanted
    assert _text(**fields).request.grammar == wanted


@pytest.mark.parametrize(
    ("fields", "named"),
    [
        ({"guided_json": SCHEMA, "json_schema": OTHER}, ("guided_json", "json_schema")),
        ({"format": SCHEMA, "guided_regex": "a"}, ("format", "guided_regex")),
        ({"grammar": "root ::= x", "guided_grammar": "root ::= y"}, ("grammar", "guided_grammar")),
        (
            {"json_schema": OTHER, "response_format": {"type": "json_object", "schema": SCHEMA}},
            ("json_schema", "response_format"),
        ),
        (
            {
                "response_format": {
                    "type": "json_object",
                    "schema": SCHEMA,
                    "json_schema": {"schema": OTHER},
                }
            },
            ("response_format",),
        ),
        ({"response_format": {"type": "text", "schema": SCHEMA}}, ("response_format",)),
        ({"guided_json": "{"}, ("guided_json",)),
        ({"guided_json": "[1]"}, ("guided_json",)),
        ({"format": "yaml"}, ('format must be "json"',)),
        ({"json_schema": [1]}, ("json_schema",)),
        ({"grammar": 1}, ("grammar must be a string",)),
    ],
)
def test_forms_that_contradict_each_other_are_refused_by_name(
    fields: dict[str, Any], named: tuple[str, ...]
) -> None:
    assert all(name in _refused(**fields).message for name in named)


# Ends


def test_the_end_of_an_answer() -> None:
    fields = {"min_tokens": 3, "ignore_eos": True, "stop_token_ids": [7, 5, 7], "max_tokens": 3}
    wanted = Ending(min_tokens=3, ignore_eos=True, stop_tokens=frozenset((5, 7)))
    assert _chat(**fields).request.ending == _text(**fields).request.ending == wanted
    assert _chat(min_tokens=0, ignore_eos=False, stop_token_ids=[]).request.ending == Ending()


@pytest.mark.parametrize(
    ("fields", "named"),
    [
        ({"min_tokens": -1}, "min_tokens"),
        ({"min_tokens": 5, "max_tokens": 4}, "min_tokens"),
        ({"min_tokens": 10**300}, None),
        ({"ignore_eos": "yes"}, "ignore_eos"),
        ({"stop_token_ids": [-1]}, "stop_token_ids"),
        ({"stop_token_ids": ["a"]}, "stop_token_ids"),
        ({"stop_token_ids": [1] * 1025}, "stop_token_ids must be a list of at most 1024"),
    ],
)
def test_ends_that_cannot_be(fields: dict[str, Any], named: str | None) -> None:
    if named is None:
        assert _chat(**fields).request.ending.min_tokens == 2**31 - 1
    else:
        assert named in _refused(**fields).message


def test_a_stop_token_beyond_the_vocabulary_is_refused(client: httpx.Client) -> None:
    answer = client.post(CHAT, json={"messages": HI, "stop_token_ids": [1, 259]})
    assert answer.status_code == 400
    assert answer.json()["error"]["param"] == "stop_token_ids"
    assert "259" in answer.json()["error"]["message"]


# Reasoning


def test_an_effort_has_two_names() -> None:
    assert _chat(reasoning={"effort": "low"}).request.thinking == Thinking(effort="low")
    same = _chat(reasoning={"effort": "low"}, reasoning_effort="low")
    assert same.request.thinking == Thinking(effort="low")
    assert _refused(reasoning={"effort": "low"}, reasoning_effort="high").field == "reasoning"
    assert "reasoning.effort must be one of" in _refused(reasoning={"effort": "huge"}).message
    assert _refused(reasoning="low").field == "reasoning"


# Gaps


def test_a_suffix_reaches_the_prompt() -> None:
    assert _text(suffix="b").request.prompt == TextPrompt(text="a", suffix="b")
    assert _text(suffix="").request.prompt == TextPrompt(text="a")


# Functions

FUNCTION = {"name": "weather", "description": "Of a city.", "parameters": SCHEMA}
TOOL = {"type": "function", "function": FUNCTION}
CALL = (
    ToolCallDelta(index=0, id="call_1", name="weather"),
    ToolCallDelta(index=0, arguments='{"a": '),
    ToolCallDelta(index=0, arguments="1}"),
)


@pytest.mark.parametrize(
    ("choice", "mode", "name"),
    [
        (None, "auto", None),
        ("auto", "auto", None),
        ({"name": "weather"}, "named", "weather"),
    ],
)
def test_functions_are_tools(choice: Any, mode: str, name: str | None) -> None:
    call = _chat(functions=[FUNCTION], function_call=choice)
    tools = call.request.tools
    assert tools.tools == (Tool(name="weather", parameters=SCHEMA),)
    assert (tools.mode, tools.name, tools.parallel) == (mode, name, False)
    assert call.shape.function_call


@pytest.mark.parametrize(
    ("fields", "place"),
    [
        ({"functions": [{"name": "f"}, FUNCTION]}, "functions[1].parameters"),
        ({"tools": [{"type": "web_search"}, TOOL]}, "tools[1].function.parameters"),
        (
            {
                "tools": [{"type": "function", "function": {"name": "f"}}, TOOL],
                "tool_choice": {
                    "type": "allowed_tools",
                    "allowed_tools": {
                        "mode": "auto",
                        "tools": [{"type": "function", "function": {"name": "weather"}}],
                    },
                },
            },
            "tools[1].function.parameters",
        ),
    ],
)
def test_a_tool_knows_where_it_stands_in_the_request(fields: dict[str, Any], place: str) -> None:
    assert _chat(**fields).request.tools.tools[-1].field == place


def test_no_function_can_be_asked_for() -> None:
    assert _chat(functions=[FUNCTION], function_call="none").request.tools.tools == ()


@pytest.mark.parametrize(
    ("fields", "named"),
    [
        ({"functions": [FUNCTION], "tools": []}, "functions and tools cannot be sent"),
        (
            {"functions": [FUNCTION], "tool_choice": "auto", "function_call": "auto"},
            "functions and tool_choice cannot be sent",
        ),
        ({"functions": [FUNCTION], "tool_choice": "required"}, "functions and tool_choice"),
        ({"tools": [TOOL], "function_call": "none"}, "function_call and tools"),
        ({"functions": [FUNCTION], "function_call": {"name": "f"}}, '"f", which is not among'),
        ({"function_call": {"name": "f"}}, '"f", which is not among'),
        ({"functions": [FUNCTION, FUNCTION]}, "functions[1].name"),
        ({"functions": [{"name": "a b"}]}, "functions[0].name"),
        ({"functions": [{"name": 1}]}, "functions[0].name"),
        ({"functions": "weather"}, "functions must be a list of functions"),
        ({"functions": [FUNCTION], "function_call": "required"}, "function_call"),
    ],
)
def test_functions_that_are_wrong_are_named_so(fields: dict[str, Any], named: str) -> None:
    problem = _refused(**fields)
    assert named in problem.message
    assert problem.field in ("functions", "function_call")


def test_a_function_call_has_the_older_form(client: httpx.Client, engine: FakeEngine) -> None:
    engine.script = Script(pieces=CALL, reason="tool_calls")
    body = {"messages": HI, "functions": [FUNCTION]}
    choice = client.post(CHAT, json=body).json()["choices"][0]
    called = {"name": "weather", "arguments": '{"a": 1}'}
    message = {"role": "assistant", "content": None, "refusal": None, "function_call": called}
    assert choice["message"] == message
    assert choice["finish_reason"] == "function_call"
    chunks = _chunks(client, CHAT, body)
    deltas = [chunk["choices"][0]["delta"].get("function_call") for chunk in chunks]
    assert deltas == [
        None,
        {"name": "weather", "arguments": ""},
        {"arguments": '{"a": '},
        {"arguments": "1}"},
        None,
    ]
    assert chunks[-1]["choices"][0]["finish_reason"] == "function_call"


def _chunks(client: httpx.Client, path: str, body: dict[str, Any]) -> list[dict[str, Any]]:
    text = client.post(path, json={**body, "stream": True}).text
    lines = [line for line in text.split("\n\n") if line.startswith("data: {")]
    return [json.loads(line.removeprefix("data: ")) for line in lines]


# What is not done


@pytest.mark.parametrize("name", sorted({**_EVERYWHERE, **_IN_CHATS}))
def test_what_a_chat_cannot_do_is_warned_of(name: str) -> None:
    outer, _, inner = name.partition(".")
    assert _warned(_chat(**{outer: {inner: "x"} if inner else ["x"]})) == [name]


@pytest.mark.parametrize("name", sorted({**_EVERYWHERE, **_IN_COMPLETIONS}))
def test_what_a_continuation_cannot_do_is_warned_of(name: str) -> None:
    value = "low" if name == "reasoning_effort" else ["x"]
    assert _warned(_text(**{name: value})) == [name]


def _warned(call: Call) -> list[str]:
    if not call.warnings:
        return []
    (warning,) = call.warnings
    return warning.removeprefix("not supported and ignored: ").split(", ")


@pytest.mark.parametrize(
    ("fields", "warned"),
    [
        ({"best_of": 1, "n": 1}, []),
        ({"best_of": 4}, ["best_of"]),
        ({"use_beam_search": False, "mirostat": 0, "samplers": []}, []),
        ({"skip_special_tokens": True, "length_penalty": 1.0, "typical_p": 1}, []),
        ({"skip_special_tokens": False}, ["skip_special_tokens"]),
        ({"prompt_logprobs": 0}, ["prompt_logprobs"]),
        ({"top_n_sigma": -1, "n_predict": -1, "repeat_penalty": 1}, []),
        ({"repeat_penalty": 1.1, "mirostat": 2}, ["mirostat", "repeat_penalty"]),
        ({"continue_final_message": True}, ["continue_final_message"]),
        ({"enable_thinking": False}, ["enable_thinking"]),
        ({"web_search_options": {}}, ["web_search_options"]),
        ({"modalities": ["text"], "verbosity": "medium"}, []),
        ({"modalities": ["text", "audio"]}, ["modalities"]),
        ({"echo": True, "suffix": "x"}, ["echo", "suffix"]),
        ({"reasoning": {"effort": "low", "exclude": True}}, ["reasoning.exclude"]),
        ({"user": "me", "metadata": {"a": 1}, "store": True, "service_tier": "flex"}, []),
        ({"prompt_cache_key": "x", "keep_alive": "5m", "cache_prompt": True, "id_slot": 3}, []),
        ({"a_field_of_nobody": 1}, []),
    ],
)
def test_only_what_would_change_the_answer_is_warned_of(
    fields: dict[str, Any], warned: list[str]
) -> None:
    assert _warned(_chat(**fields)) == warned


def test_a_best_of_as_many_as_are_wanted_is_what_is_given() -> None:
    assert _warned(_text(best_of=3, n=3)) == []
    assert _warned(_text(best_of=3, n=2)) == ["best_of"]


@pytest.mark.parametrize("stream", [False, True])
def test_a_warning_reaches_the_header(client: httpx.Client, stream: bool) -> None:
    body = {"messages": HI, "mirostat": 2, "best_of": 3, "stream": stream}
    answer = client.post(CHAT, json=body)
    assert answer.status_code == 200
    assert answer.headers["warning"] == "not supported and ignored: best_of, mirostat"
