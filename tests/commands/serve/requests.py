"""Strategies for whole requests: fields in any combination, most right, some not."""

from __future__ import annotations

import json
from typing import Any

from hypothesis import strategies as st

_WORDS = st.text(max_size=12) | st.sampled_from(["Hello.", "2 + 2?", "<tool_call>", "</think>"])
_NAMES = st.sampled_from(["f", "get_weather", "mcp__a.b", "größe"])

ANYTHING = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(max_size=8),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.sampled_from(["type", "name", "schema", "a"]), inner, max_size=3)
    ),
    max_leaves=6,
)


def _allow(choice: tuple[str, str]) -> dict[str, Any]:
    name, mode = choice
    tools = [{"type": "function", "function": {"name": name}}]
    return {"type": "allowed_tools", "allowed_tools": {"mode": mode, "tools": tools}}


def _schemas() -> st.SearchStrategy[dict[str, Any]]:
    plain = st.sampled_from(["string", "integer", "number", "boolean", "null"]).map(
        lambda kind: {"type": kind}
    )
    choices = st.lists(st.text(max_size=4) | st.integers(), min_size=1, max_size=3).map(
        lambda values: {"enum": values}
    )

    def deeper(inner: st.SearchStrategy[dict[str, Any]]) -> st.SearchStrategy[dict[str, Any]]:
        return st.one_of(
            inner.map(lambda item: {"type": "array", "items": item, "maxItems": 2}),
            st.lists(inner, min_size=1, max_size=2).map(lambda options: {"anyOf": options}),
            st.dictionaries(_NAMES, inner, max_size=2).map(
                lambda fields: {
                    "type": "object",
                    "properties": fields,
                    "required": sorted(fields),
                    "additionalProperties": False,
                }
            ),
        )

    return st.recursive(plain | choices, deeper, max_leaves=4)


SCHEMAS = _schemas() | st.sampled_from(
    [{}, {"type": "nothing"}, {"$ref": "#/none"}, {"pattern": "(", "type": "string"}]
)
TOOLS = st.lists(_NAMES, min_size=1, max_size=3, unique=True).flatmap(
    lambda names: st.tuples(
        *(
            st.fixed_dictionaries(
                {"name": st.just(name)},
                optional={
                    "description": _WORDS,
                    "parameters": SCHEMAS,
                    "strict": st.booleans(),
                },
            ).map(lambda function: {"type": "function", "function": function})
            for name in names
        )
    ).map(list)
)
_FORMS = st.one_of(
    st.just({"type": "text"}),
    st.just({"type": "json_object"}),
    st.fixed_dictionaries(
        {"name": st.just("form"), "schema": SCHEMAS},
        optional={"strict": st.booleans(), "any_whitespace": st.booleans()},
    ).map(lambda form: {"type": "json_schema", "json_schema": form}),
)


def _numbers(low: float, high: float) -> st.SearchStrategy[float]:
    return st.floats(low, high, width=32) | st.sampled_from([low, high])


_SAMPLING: dict[str, st.SearchStrategy[Any]] = {
    "max_tokens": st.integers(1, 6),
    "max_completion_tokens": st.integers(1, 6) | st.just(10**9),
    "temperature": _numbers(0, 2),
    "top_p": _numbers(0, 1),
    "top_k": st.integers(-1, 300) | st.just(4.0),
    "min_p": _numbers(0, 1),
    "seed": st.integers(-(2**63), 2**64 - 1),
    "stop": st.text(min_size=1, max_size=3) | st.lists(st.text(min_size=1, max_size=3), max_size=4),
    "n": st.integers(1, 3),
    "logprobs": st.booleans(),
    "top_logprobs": st.integers(-1, 11),
    "logit_bias": st.dictionaries(st.integers(0, 258).map(str), _numbers(-100, 100), max_size=4),
    "repetition_penalty": _numbers(0, 2),
    "repetition_context_size": st.integers(0, 40),
    "presence_penalty": _numbers(-2, 2),
    "presence_context_size": st.integers(0, 40),
    "frequency_penalty": _numbers(-2, 2),
    "frequency_context_size": st.integers(0, 40),
    "xtc_probability": _numbers(0, 1),
    "xtc_threshold": _numbers(0, 0.5),
    "hlg": st.fixed_dictionaries(
        {"enabled": st.booleans()}, optional={"width": _numbers(0, 9), "toe": _numbers(0, 9)}
    ),
    "response_format": _FORMS,
    "guided_grammar": st.sampled_from(['root ::= "a" | "b"', "root ::= [0-9]+", "no grammar"]),
    "guided_regex": st.sampled_from(["[A-Z][a-z]*", r"\d{2}", "(", "a|b"]),
    "guided_choice": st.lists(st.text(min_size=1, max_size=4), min_size=1, max_size=3),
    "structured_outputs": SCHEMAS,
    "stream": st.booleans(),
    "stream_options": st.just({"include_usage": True}),
    "model": st.just("x"),
    "user": _WORDS,
    "min_tokens": st.integers(0, 5),
    "ignore_eos": st.booleans(),
    "stop_token_ids": st.lists(st.integers(0, 258), max_size=4),
    "guided_json": SCHEMAS | SCHEMAS.map(json.dumps),
    "json_schema": SCHEMAS,
    "format": st.sampled_from(["json", ""]) | SCHEMAS,
    "grammar": st.sampled_from(['root ::= | "b"', "root ::= .", "no grammar"]),
    "best_of": st.integers(1, 3),
}
_TEXT: dict[str, st.SearchStrategy[Any]] = {
    "logprobs": st.booleans() | st.integers(0, 11),
    "echo": st.booleans(),
    "suffix": _WORDS,
}
_CHAT: dict[str, st.SearchStrategy[Any]] = {
    "tools": TOOLS | TOOLS.map(lambda tools: [{"type": "web_search"}, *tools]),
    "tool_choice": st.sampled_from(["auto", "none", "required"])
    | _NAMES.map(lambda name: {"type": "function", "function": {"name": name}})
    | st.tuples(_NAMES, st.sampled_from(["auto", "required"])).map(_allow),
    "parallel_tool_calls": st.booleans(),
    "chat_template_kwargs": st.sampled_from(
        [{}, {"enable_thinking": True}, {"enable_thinking": False}, {"preserve_thinking": True}]
    ),
    "reasoning_effort": st.sampled_from(["none", "minimal", "low", "medium", "high", "xhigh"]),
    "thinking_budget": st.integers(0, 4),
    "reasoning": st.sampled_from([{}, {"effort": "low"}, {"effort": "none", "exclude": True}]),
    "functions": TOOLS.map(lambda tools: [tool["function"] for tool in tools]),
    "function_call": st.sampled_from(["auto", "none"]) | _NAMES.map(lambda name: {"name": name}),
}
_CALL = {"id": "c1", "type": "function", "function": {"name": "f", "arguments": '{"x": [1]}'}}
_UNNAMED_CALL = {"type": "function", "function": {"name": "f", "arguments": {"x": [1]}}}
_OLD_CALL = {"name": "f", "arguments": '["no object"'}
_TURNS = st.lists(
    st.one_of(
        _WORDS.map(lambda text: [{"role": "user", "content": text}]),
        _WORDS.map(lambda text: [{"role": "assistant", "content": text, "reasoning": text}]),
        _WORDS.map(
            lambda text: [
                {"role": "assistant", "content": None, "tool_calls": [_CALL]},
                {"role": "tool", "tool_call_id": "c1", "content": text},
            ]
        ),
        _WORDS.map(
            lambda text: [
                {"role": "assistant", "content": None, "tool_calls": [_UNNAMED_CALL]},
                {"role": "tool", "content": text},
            ]
        ),
        _WORDS.map(
            lambda text: [
                {"role": "assistant", "function_call": _OLD_CALL},
                {"role": "function", "name": "f", "content": text},
                {"role": "system", "content": text},
            ]
        ),
        _WORDS.map(
            lambda text: [
                {
                    "role": "assistant",
                    "content": [
                        {"type": "thinking", "thinking": text},
                        {"type": "refusal", "refusal": text},
                    ],
                }
            ]
        ),
    ),
    max_size=3,
).map(lambda turns: [message for turn in turns for message in turn])
_MESSAGES = _TURNS.map(lambda turns: [{"role": "system", "content": "Be brief."}, *turns])


@st.composite
def _bodies(
    draw: st.DrawFn, needed: str, value: st.SearchStrategy[Any], fields: dict[str, Any]
) -> dict[str, Any]:
    """Draw a body with some of the fields; in one of four, something is not as it should be."""
    names = draw(st.lists(st.sampled_from(sorted(fields)), max_size=8, unique=True))
    body = {needed: draw(value), **{name: draw(fields[name]) for name in names}}
    if draw(st.integers(0, 3)) == 0:
        body[draw(st.sampled_from([needed, *sorted(fields)]))] = draw(ANYTHING)
    return body


CHATS = _bodies("messages", _MESSAGES, _SAMPLING | _CHAT).map(
    lambda body: ("/v1/chat/completions", body)
)
_PROMPTS = st.text(min_size=1, max_size=20)
CONTINUATIONS = _bodies(
    "prompt", _PROMPTS | st.lists(_PROMPTS, min_size=1, max_size=4), _SAMPLING | _TEXT
).map(lambda body: ("/v1/completions", body))
REQUESTS = st.one_of(CHATS, CHATS, CHATS, CONTINUATIONS)
