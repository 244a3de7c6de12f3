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
from core.engine.request import ChatPrompt, SamplingParams, TextPrompt
from core.errors import BadRequest

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


def test_every_field_reaches_the_engine() -> None:
    call = _chat(
        temperature=0.5,
        top_p=0.9,
        top_k=40,
        min_p=0.1,
        seed=7,
        stop=["a", "b"],
        max_tokens=5,
        max_completion_tokens=6,
        stream=True,
        chat_template_kwargs={"enable_thinking": False},
    )
    assert call.stream
    assert call.request.sampling == SamplingParams(
        temperature=0.5, top_p=0.9, top_k=40, min_p=0.1, seed=7
    )
    assert call.request.max_tokens == 6
    assert call.request.stop == ("a", "b")
    assert isinstance(call.request.prompt, ChatPrompt)
    assert call.request.prompt.template_kwargs == {"enable_thinking": False}


def test_a_field_left_out_or_null_is_left_to_the_engine() -> None:
    for call in (_chat(), _chat(temperature=None, seed=None, stop=None, max_tokens=None)):
        assert call.request.sampling == SamplingParams()
        assert call.request.max_tokens is None
        assert call.request.stop == ()
        assert not call.stream


def test_a_stop_text_may_stand_alone() -> None:
    assert _chat(stop="\n\n").request.stop == ("\n\n",)


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


def test_reasoning_is_an_alias_that_loses() -> None:
    (first,) = _history({"role": "assistant", "content": "x", "reasoning": "r"})
    assert first["reasoning_content"] == "r"
    (second,) = _history(
        {"role": "assistant", "content": "x", "reasoning": "r", "reasoning_content": ""}
    )
    assert second["reasoning_content"] == ""
