"""The decoder: what the engine is asked for, and that no JSON value breaks it."""

from __future__ import annotations

import contextlib
import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from commands.serve.wire.openai.decode import Call, decode_chat, decode_completion
from commands.serve.wire.openai.schema import ChatRequest, CompletionRequest
from core.engine.request import (
    ChatPrompt,
    GenerationRequest,
    GrammarSpec,
    SamplingParams,
    TextPrompt,
    Thinking,
    ToneCurve,
    Tool,
    ToolUse,
)
from core.errors import BadRequest

_HALF = '{"messages":[{"role":"user","content":"cut %s emoji"}]%s}'
_HI = [{"role": "user", "content": "hi"}]
_JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats()
    | st.text(max_size=20)
    | st.sampled_from(["user", "tool", "text", "function", "auto", "none", "x" * 5000]),
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.dictionaries(
            st.sampled_from(["role", "content", "type", "text", "function", "name", "id", "a"]),
            inner,
            max_size=5,
        )
    ),
    max_leaves=12,
)
_FIELDS = st.sampled_from(
    (*ChatRequest.__struct_fields__, *CompletionRequest.__struct_fields__, "unknown")
)


def _chat(**fields: Any) -> Call:
    return decode_chat(json.dumps({"messages": _HI, **fields}).encode())


@given(st.dictionaries(_FIELDS, _JSON, max_size=6), st.booleans(), st.booleans())
def test_any_object_is_a_request_or_a_bad_one(
    fields: dict[str, Any], good: bool, ascii_only: bool
) -> None:
    body = {**fields, "messages": _HI, "prompt": "a"} if good else fields
    raw = json.dumps(body, ensure_ascii=ascii_only).encode("utf-8", "surrogatepass")
    for decode in (decode_chat, decode_completion):
        with contextlib.suppress(BadRequest):
            assert isinstance(decode(raw), Call)


@given(st.binary(max_size=60) | _JSON.map(lambda value: json.dumps(value).encode()))
def test_any_bytes_are_a_request_or_a_bad_one(raw: bytes) -> None:
    for decode in (decode_chat, decode_completion):
        with contextlib.suppress(BadRequest):
            decode(raw)


SAMPLING: dict[str, Any] = {
    "temperature": 0.5,
    "top_p": 0.9,
    "top_k": 40,
    "min_p": 0.1,
    "seed": 7,
    "xtc_probability": 0.5,
    "xtc_threshold": 0.1,
    "repetition_penalty": 1.1,
    "repetition_context_size": 0,
    "presence_penalty": 0.2,
    "presence_context_size": 30,
    "frequency_penalty": -0.3,
    "frequency_context_size": 40,
}
PARAMETERS = {"type": "object", "properties": {"x": {"type": "integer"}}}


def _tool(name: str, **more: Any) -> dict[str, Any]:
    return {"type": "function", "function": {"name": name, **more}}


def _chat_prompt(call: Call) -> ChatPrompt:
    assert isinstance(call.request.prompt, ChatPrompt)
    return call.request.prompt


def test_every_field_reaches_the_engine() -> None:
    call = _chat(
        **SAMPLING,
        logit_bias={"12": -1, "5": 1e300},
        hlg={"enabled": True, "width": 4, "shoulder": 3, "toe": 6.5, "pivot_offset": 0},
        stop=["a", "b"],
        max_tokens=5,
        max_completion_tokens=6,
        n=3,
        stream=True,
        chat_template_kwargs={"enable_thinking": False},
        reasoning_effort="high",
        thinking_budget=9,
    )
    assert call.stream
    curve = ToneCurve(enabled=True, width=4.0, shoulder=3.0, toe=6.5, pivot_offset=0.0)
    assert call.request.sampling == SamplingParams(
        **SAMPLING, logit_bias=((5, 1e9), (12, -1.0)), tone_curve=curve
    )
    assert call.request.max_tokens == 6
    assert call.request.stop == ("a", "b")
    assert call.request.choices == 3
    assert call.request.thinking == Thinking(enabled=False, effort="high", budget=9)
    assert _chat_prompt(call).template_kwargs == {"enable_thinking": False}


def test_a_continuation_takes_the_same_fields() -> None:
    body = {"prompt": "a", **SAMPLING, "n": 2, "logprobs": True, "guided_regex": "a+"}
    request = decode_completion(json.dumps(body).encode()).request
    assert request.sampling == SamplingParams(**SAMPLING)
    assert (request.choices, request.logprobs) == (2, 0)
    assert request.grammar == GrammarSpec(kind="regex", source="a+")


@pytest.mark.parametrize(
    ("fields", "wanted"),
    [
        ({}, None),
        ({"logprobs": False, "top_logprobs": -1}, None),
        ({"top_logprobs": 0}, None),
        ({"logprobs": True}, 0),
        ({"logprobs": True, "top_logprobs": 0}, 0),
        ({"logprobs": True, "top_logprobs": 11}, 11),
        ({"logprobs": False, "top_logprobs": 3}, 3),
        ({"logprobs": True, "stream": True}, 0),
    ],
)
def test_top_logprobs_win(fields: dict[str, Any], wanted: int | None) -> None:
    assert _chat(**fields).request.logprobs == wanted


def test_tools_reach_the_parser_and_the_template() -> None:
    call = _chat(
        tools=[
            _tool("f", description="Does f.", parameters=PARAMETERS, strict=True),
            _tool("mcp__a.b:c/d-1", description=None),
        ]
    )
    nothing = {"type": "object", "properties": {}}
    assert call.request.tools == ToolUse(
        tools=(
            Tool(name="f", parameters=PARAMETERS),
            Tool(name="mcp__a.b:c/d-1", parameters=nothing),
        )
    )
    assert _chat_prompt(call).tools == (
        _tool("f", description="Does f.", parameters=PARAMETERS),
        _tool("mcp__a.b:c/d-1", parameters=nothing),
    )


@pytest.mark.parametrize(
    ("choice", "mode", "name"),
    [
        ("auto", "auto", None),
        (None, "auto", None),
        ("required", "required", None),
        ({"type": "function", "function": {"name": "f"}}, "named", "f"),
    ],
)
def test_a_tool_choice(choice: Any, mode: str, name: str | None) -> None:
    call = _chat(tools=[_tool("f")], tool_choice=choice, parallel_tool_calls=False)
    use = call.request.tools
    assert (use.mode, use.name, use.parallel) == (mode, name, False)
    assert len(use.tools) == len(_chat_prompt(call).tools) == 1


def test_a_choice_of_none_tells_the_model_of_no_tools() -> None:
    call = _chat(tools=[_tool("f")], tool_choice="none")
    assert call.request.tools == ToolUse(mode="none")
    assert _chat_prompt(call).tools == ()


_OTHERS = [
    {"type": "web_search"},
    {"type": "custom", "custom": {"name": "shell", "format": {"type": "text"}}},
    {"type": "text_editor_20250728", "name": "edit"},
]
_LEFT_OUT = (
    'tools left out, only functions can be called: "web_search", "custom" "shell", '
    '"text_editor_20250728" "edit"'
)


def _allow(*names: str, mode: str = "auto") -> dict[str, Any]:
    tools = [{"type": "function", "function": {"name": name}} for name in names]
    return {"type": "allowed_tools", "allowed_tools": {"mode": mode, "tools": tools}}


@pytest.mark.parametrize("choice", ["auto", "required", None, _allow("f")])
def test_tools_that_cannot_be_called_are_left_out_and_named(choice: Any) -> None:
    call = _chat(tools=[*_OTHERS, _tool("f"), *_OTHERS], tool_choice=choice)
    assert [tool.name for tool in call.request.tools.tools] == ["f"]
    assert [tool["function"]["name"] for tool in _chat_prompt(call).tools] == ["f"]
    assert call.warnings == (_LEFT_OUT,)


def test_without_a_function_among_them_there_are_no_tools() -> None:
    call = _chat(tools=_OTHERS)
    assert call.request.tools == ToolUse()
    assert call.warnings == (_LEFT_OUT,)
    assert not _chat(tools=_OTHERS, tool_choice="none").warnings
    for choice in ("required", _allow(mode="required")):
        with pytest.raises(BadRequest, match="none of the tools can be called"):
            _chat(tools=_OTHERS, tool_choice=choice)


@pytest.mark.parametrize("mode", ["auto", "required"])
def test_allowed_tools_are_the_only_ones(mode: str) -> None:
    tools = [_tool("f"), _tool("g"), _tool("h")]
    call = _chat(tools=tools, tool_choice=_allow("h", "f", mode=mode))
    assert [tool.name for tool in call.request.tools.tools] == ["f", "h"]
    assert [tool["function"]["name"] for tool in _chat_prompt(call).tools] == ["f", "h"]
    assert call.request.tools.mode == mode
    assert not call.warnings


def test_an_allowed_tool_that_cannot_be_called_is_named() -> None:
    choice = _allow("f")
    choice["allowed_tools"]["tools"].append({"type": "custom", "custom": {"name": "shell"}})
    call = _chat(tools=[_tool("f")], tool_choice=choice)
    assert call.warnings == ('tools left out, only functions can be called: "custom" "shell"',)


@pytest.mark.parametrize(
    ("choice", "told"),
    [
        (_allow("g"), '"g", which is not among the tools'),
        (_allow(mode="any"), "tool_choice"),
        ({"type": "allowed_tools"}, "tool_choice"),
        ({"type": "custom", "custom": {"name": "shell"}}, "tool_choice"),
        (
            {
                "type": "allowed_tools",
                "allowed_tools": {"mode": "auto", "tools": [{"type": "function"}]},
            },
            r"tool_choice.allowed_tools.tools\[0\].function is required",
        ),
    ],
)
def test_a_choice_that_cannot_be(choice: Any, told: str) -> None:
    with pytest.raises(BadRequest, match=told) as refused:
        _chat(tools=[_tool("f"), *_OTHERS], tool_choice=choice)
    assert refused.value.field == "tool_choice"


_FORMS: list[tuple[dict[str, Any], GrammarSpec | None]] = [
    ({"guided_grammar": "root ::= x"}, GrammarSpec(kind="ebnf", source="root ::= x")),
    (
        {"response_format": {"type": "json_schema", "json_schema": {"schema": {"a": None}}}},
        GrammarSpec(kind="json_schema", source={"a": None}),
    ),
    ({"response_format": {"type": "json_object"}}, GrammarSpec(kind="json")),
    ({"structured_outputs": {"b": 1}}, GrammarSpec(kind="json_schema", source={"b": 1})),
    ({"guided_regex": "a*"}, GrammarSpec(kind="regex", source="a*")),
    ({"guided_choice": ["a", "b"]}, GrammarSpec(kind="choice", source=("a", "b"))),
    ({"response_format": {"type": "text"}}, None),
]


@pytest.mark.parametrize("first", range(len(_FORMS)))
def test_of_several_forms_one_wins(first: int) -> None:
    fields: dict[str, Any] = {}
    for weaker, _ in reversed(_FORMS[first:]):
        fields |= weaker
    wanted = _FORMS[first][1]
    # The last one is a response_format of its own, which would hide the others'.
    if wanted is not None:
        fields |= _FORMS[first][0]
    assert _chat(**fields).request.grammar == wanted


def test_no_choices_are_a_form_that_cannot_be_enforced() -> None:
    nothing = GrammarSpec(kind="choice", source=())
    assert _chat(guided_choice=[]).request.grammar == nothing
    assert _chat(structured_outputs={"choice": []}).request.grammar == nothing


def test_white_space_can_be_forbidden() -> None:
    form = {"name": "a", "schema": {}, "strict": True, "any_whitespace": False}
    grammar = _chat(response_format={"type": "json_schema", "json_schema": form}).request.grammar
    assert grammar == GrammarSpec(kind="json_schema", source={}, any_whitespace=False)


@pytest.mark.parametrize(
    ("wanted", "grammar"),
    [
        ({"json": {"a": 1}}, GrammarSpec(kind="json_schema", source={"a": 1})),
        ({"json_object": True}, GrammarSpec(kind="json")),
        ({"regex": "a+"}, GrammarSpec(kind="regex", source="a+")),
        ({"choice": ["a", "b"]}, GrammarSpec(kind="choice", source=("a", "b"))),
        ({"grammar": "root"}, GrammarSpec(kind="ebnf", source="root")),
        (
            {"json": {}, "disable_any_whitespace": True},
            GrammarSpec(kind="json_schema", source={}, any_whitespace=False),
        ),
        (
            {"type": "object", "json": {}},
            GrammarSpec(kind="json_schema", source={"type": "object", "json": {}}),
        ),
    ],
)
def test_structured_outputs_are_a_schema_or_say_what_they_are(
    wanted: dict[str, Any], grammar: GrammarSpec
) -> None:
    assert _chat(structured_outputs=wanted).request.grammar == grammar


def test_arguments_that_are_nested_too_deeply_stay_as_they_came() -> None:
    text = '{"a":' * 80 + "1" + "}" * 80
    call = {"id": "c1", "function": {"name": "f", "arguments": text}}
    (assistant,) = _history({"role": "assistant", "tool_calls": [call]})
    assert assistant["tool_calls"][0]["function"]["arguments"] == text


def test_a_field_left_out_or_null_is_left_to_the_engine() -> None:
    for call in (_chat(), _chat(temperature=None, seed=None, stop=None, max_tokens=None)):
        assert call.request.sampling == SamplingParams()
        assert call.request.max_tokens is None
        assert call.request.stop == ()
        assert call.request == GenerationRequest(prompt=_chat_prompt(call))
        assert not call.stream


def test_a_stop_text_may_stand_alone() -> None:
    assert _chat(stop="\n\n").request.stop == ("\n\n",)
    assert _chat(stop="").request.stop == ()


def test_minus_one_switches_top_k_off() -> None:
    assert [_chat(top_k=k).request.sampling.top_k for k in (-1, -1.0, 0, None)] == [0, 0, 0, None]


def test_a_point_does_not_make_an_integer_a_fraction() -> None:
    fields = '"n":2e0,"seed":-0.0,"top_k":40.0,"max_tokens":8.0,"thinking_budget":1e30'
    request = decode_chat((_HALF % ("", f",{fields}")).encode()).request
    assert (request.max_tokens, request.choices) == (8, 2)
    assert request.thinking.budget == 2**31 - 1
    assert (request.sampling.seed, request.sampling.top_k) == (0, 40)
    for value in (8.5, "8", True):
        with pytest.raises(BadRequest, match="max_tokens"):
            _chat(max_tokens=value)
    with pytest.raises(BadRequest, match="top_logprobs must be of type int"):
        _chat(top_logprobs=2.0)


@pytest.mark.parametrize("half", [r"\ud83d", r"\uDE00", r"\ude00\ud83d", r"\ud83d\\u", r"\ud83d\n"])
def test_half_a_character_is_replaced_and_told_of(half: str) -> None:
    call = decode_chat((_HALF % (half, "")).encode())
    (message,) = _chat_prompt(call).messages
    assert "\ufffd" in message["content"]
    message["content"].encode()
    assert call.warnings == ("the body holds half of a UTF-16 surrogate pair, replaced by U+FFFD",)


def test_half_a_character_beside_a_number_of_any_size() -> None:
    call = decode_chat((_HALF % (r"\ud83d", ',"max_tokens":1' + "0" * 350)).encode())
    assert call.request.max_tokens == 2**31 - 1


def test_whole_characters_are_left_alone() -> None:
    for whole in (r"\ud83d\ude00", "\U0001f600", r"\\ud83d"):
        call = decode_chat((_HALF % (whole, "")).encode())
        assert not call.warnings
        assert "\ufffd" not in _chat_prompt(call).messages[0]["content"]


def test_half_a_character_in_a_name() -> None:
    call = decode_completion(rb'{"prompt":"a","\ud800":1}')
    assert call.warnings


def test_a_byte_order_mark_is_no_part_of_the_json() -> None:
    for mark in (b"\xef\xbb\xbf", b"\xef\xbb\xbf \n"):
        assert decode_completion(mark + b'{"prompt":"a"}').request.prompt == TextPrompt(text="a")
    for wrong in (
        b"\xef\xbb\xbf",
        b"\xef\xbb\xbf" * 2 + b'{"prompt":"a"}',
        b'{"prompt":"a"}\xef\xbb\xbf',
    ):
        with pytest.raises(BadRequest, match="invalid JSON body"):
            decode_completion(wrong)


def test_minus_zero_is_zero() -> None:
    temperature = _chat(temperature=-0.0).request.sampling.temperature
    assert str(temperature) == "0.0"


@pytest.mark.parametrize("size", [2**31, 10**30, 10**400])
def test_a_huge_limit_is_a_ceiling_not_a_mistake(size: int) -> None:
    assert _chat(max_tokens=size).request.max_tokens == 2**31 - 1


@pytest.mark.parametrize("seed", [0, -1, -(2**63), 2**64 - 1])
def test_seeds_of_64_bits(seed: int) -> None:
    assert _chat(seed=seed).request.sampling.seed == seed


def test_a_text_prompt_is_kept_as_it_is() -> None:
    call = decode_completion(b'{"prompt": " once\\n", "max_tokens": 3}')
    assert call.request.prompt == TextPrompt(text=" once\n")


def _history(*messages: dict[str, Any]) -> tuple[Any, ...]:
    prompt = decode_chat(json.dumps({"messages": messages}).encode()).request.prompt
    assert isinstance(prompt, ChatPrompt)
    return prompt.messages


def test_developer_is_read_as_system() -> None:
    assert _history({"role": "developer", "content": "x"}) == ({"role": "system", "content": "x"},)


def test_text_parts_are_joined() -> None:
    parts = [{"type": "text", "text": "a"}, {"type": "text", "text": "b"}]
    assert _history({"role": "user", "content": parts}) == ({"role": "user", "content": "ab"},)


def test_a_tool_round_trip_is_history() -> None:
    call = {"id": "c1", "type": "function", "function": {"name": "f", "arguments": '{"x": 1}'}}
    user, assistant, tool = _history(
        {"role": "user", "content": "hi"},
        {"role": "assistant", "content": None, "tool_calls": [call]},
        {"role": "tool", "tool_call_id": "c1", "content": "y"},
    )
    assert user["content"] == "hi"
    assert assistant["content"] == ""
    assert assistant["tool_calls"][0]["function"] == {"name": "f", "arguments": {"x": 1}}
    assert tool == {"role": "tool", "tool_call_id": "c1", "content": "y"}


def test_arguments_that_are_no_object_stay_as_they_came() -> None:
    call = {"id": "c1", "function": {"name": "f", "arguments": "not json"}}
    (assistant,) = _history({"role": "assistant", "tool_calls": [call]})
    assert assistant["tool_calls"][0]["function"]["arguments"] == "not json"


_CALLS_F: dict[str, Any] = {"function": {"name": "f", "arguments": {"x": 1}}}
_CALLS_G: dict[str, Any] = {"function": {"name": "g", "arguments": None}}


def test_calls_and_results_without_ids_find_each_other() -> None:
    assistant, *results = _history(
        {"role": "assistant", "content": None, "tool_calls": [_CALLS_F, _CALLS_G, _CALLS_F]},
        {"role": "tool", "content": "g", "name": "g"},
        {"role": "tool", "content": "f"},
        {"role": "tool", "content": None},
    )
    ids = [call["id"] for call in assistant["tool_calls"]]
    assert len(set(ids)) == 3
    assert [call["function"]["arguments"] for call in assistant["tool_calls"]] == [
        {"x": 1},
        {},
        {"x": 1},
    ]
    assert [result["tool_call_id"] for result in results] == [ids[1], ids[0], ids[2]]
    assert [result["content"] for result in results] == ["g", "f", ""]


def test_ids_that_only_results_have_belong_to_calls_without() -> None:
    assistant, first, second = _history(
        {"role": "assistant", "tool_calls": [{**_CALLS_F, "id": ""}, {**_CALLS_G, "id": "given"}]},
        {"role": "tool", "tool_call_id": "mine", "content": "f"},
        {"role": "tool", "tool_call_id": "given", "content": "g"},
    )
    ids = [call["id"] for call in assistant["tool_calls"]]
    assert [first["tool_call_id"], second["tool_call_id"]] == ids
    assert ids[1] == "given"


@pytest.mark.parametrize("role", ["tool", "function"])
def test_a_result_without_a_call_is_refused(role: str) -> None:
    answered: list[dict[str, Any]] = [
        {"role": "assistant", "tool_calls": [_CALLS_F]},
        {"role": "tool", "content": "y"},
    ]
    for before in ([], answered):
        with pytest.raises(BadRequest, match="tool_call_id is required"):
            _history(*before, {"role": role, "name": "f", "content": "y"})
    known = {"role": "assistant", "tool_calls": [{**_CALLS_F, "id": "a"}]}
    with pytest.raises(BadRequest, match='"b" answers no tool call'):
        _history(known, {"role": "tool", "tool_call_id": "b", "content": "y"})


def test_the_older_form_of_calls_is_history_too() -> None:
    assistant, result = _history(
        {"role": "assistant", "content": None, "function_call": {"name": "f", "arguments": "{}"}},
        {"role": "function", "name": "f", "content": "y"},
    )
    (call,) = assistant["tool_calls"]
    assert call["function"] == {"name": "f", "arguments": {}}
    assert result == {"role": "tool", "name": "f", "content": "y", "tool_call_id": call["id"]}


def test_a_custom_call_is_a_call_with_one_argument() -> None:
    custom = {"id": "c", "type": "custom", "custom": {"name": "shell", "input": "ls"}}
    (assistant,) = _history({"role": "assistant", "tool_calls": [custom]})
    assert assistant["tool_calls"][0]["function"] == {
        "name": "shell",
        "arguments": {"input": "ls"},
    }


def test_a_refusal_is_text() -> None:
    part = {"type": "refusal", "refusal": "no"}
    assert _history({"role": "assistant", "content": [part]})[0]["content"] == "no"
    assert _history({"role": "assistant", "refusal": "no"})[0]["content"] == "no"


def test_thinking_parts_are_reasoning() -> None:
    text = {"type": "text", "text": "b"}
    for thinking in ("a", [{"type": "text", "text": "a"}]):
        parts = [{"type": "thinking", "thinking": thinking, "signature": "s"}, text]
        (message,) = _history({"role": "assistant", "content": parts})
        assert (message["content"], message["reasoning_content"]) == ("b", "a")
        (message,) = _history({"role": "assistant", "content": parts, "reasoning": "r"})
        assert message["reasoning_content"] == "r"


@pytest.mark.parametrize("kind", ["refusal", "thinking"])
def test_only_assistants_refuse_and_think(kind: str) -> None:
    with pytest.raises(BadRequest, match=f"only assistant messages can hold {kind} parts"):
        _history({"role": "user", "content": [{"type": kind, kind: "x"}]})


def test_pairing_takes_linear_time() -> None:
    calls, results = [{**_CALLS_F, "id": None}] * 20_000, [{"role": "tool", "content": ""}] * 20_000
    assistant, *answers = _history({"role": "assistant", "tool_calls": calls}, *results)
    ids = [call["id"] for call in assistant["tool_calls"]]
    assert [answer["tool_call_id"] for answer in answers] == ids


def test_reasoning_is_an_alias_that_loses() -> None:
    (first,) = _history({"role": "assistant", "content": "x", "reasoning": "r"})
    assert first["reasoning_content"] == "r"
    (second,) = _history(
        {"role": "assistant", "content": "x", "reasoning": "r", "reasoning_content": ""}
    )
    assert second["reasoning_content"] == ""
