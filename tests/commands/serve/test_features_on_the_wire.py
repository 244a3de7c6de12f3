"""Tools, reasoning, choices, log-probabilities in answers, whole and streamed, and in the SDK."""

from __future__ import annotations

import json
from typing import Any

import httpx
import openai
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from openai.lib.streaming.chat import ChatCompletionStreamState
from openai.types.chat import ChatCompletionChunk
from pydantic import BaseModel

from core.engine.events import Position, ReasoningDelta, TextDelta, TokenLogprob, ToolCallDelta
from core.engine.parsing import Piece
from core.engine.request import ChatPrompt, GrammarSpec, Thinking
from core.errors import EngineFailed, QueueFull
from tests.commands.serve.fake_engine import FakeEngine, Script
from tests.commands.serve.live import wait_until

CHAT = "/v1/chat/completions"
GOOD: dict[str, Any] = {"messages": [{"role": "user", "content": "hi"}]}
TOOLS: Any = [{"type": "function", "function": {"name": "weather", "parameters": {}}}]
CALL = (
    ToolCallDelta(index=0, id="call_1", name="weather"),
    ToolCallDelta(index=0, arguments='{"city": '),
    ToolCallDelta(index=0, arguments='"Rome"}'),
)
CALLED = {
    "id": "call_1",
    "type": "function",
    "function": {"name": "weather", "arguments": '{"city": "Rome"}'},
}


def _chunks(client: httpx.Client, **fields: Any) -> list[dict[str, Any]]:
    answer = client.post(CHAT, json={**GOOD, "stream": True, **fields})
    lines = [line for line in answer.text.split("\n\n") if line.startswith("data: {")]
    assert answer.text.endswith("data: [DONE]\n\n")
    return [json.loads(line.removeprefix("data: ")) for line in lines]


def _message(client: httpx.Client, **fields: Any) -> dict[str, Any]:
    choice = client.post(CHAT, json={**GOOD, **fields}).json()["choices"][0]
    message: dict[str, Any] = choice["message"]
    return message


# Tools


def test_an_answer_of_calls_only_has_no_content(client: httpx.Client, engine: FakeEngine) -> None:
    engine.script = Script(pieces=CALL, reason="tool_calls")
    choice = client.post(CHAT, json={**GOOD, "tools": TOOLS}).json()["choices"][0]
    assert choice["message"] == {
        "role": "assistant",
        "content": None,
        "refusal": None,
        "tool_calls": [CALLED],
    }
    assert choice["finish_reason"] == "tool_calls"


def test_content_before_a_call_is_kept(client: httpx.Client, engine: FakeEngine) -> None:
    engine.script = Script(pieces=("Let me see.", *CALL), reason="tool_calls")
    message = _message(client)
    assert message["content"] == "Let me see."
    assert message["tool_calls"] == [CALLED]


def test_a_call_is_streamed_piece_by_piece(client: httpx.Client, engine: FakeEngine) -> None:
    engine.script = Script(pieces=("Hm.", *CALL), reason="tool_calls")
    chunks = _chunks(client, tools=TOOLS)
    deltas = [chunk["choices"][0]["delta"] for chunk in chunks]
    assert deltas == [
        {"role": "assistant", "content": ""},
        {"content": "Hm."},
        {
            "tool_calls": [
                {
                    "index": 0,
                    "id": "call_1",
                    "type": "function",
                    "function": {"name": "weather", "arguments": ""},
                }
            ]
        },
        {"tool_calls": [{"index": 0, "function": {"arguments": '{"city": '}}]},
        {"tool_calls": [{"index": 0, "function": {"arguments": '"Rome"}'}}]},
        {},
    ]
    assert chunks[-1]["choices"][0]["finish_reason"] == "tool_calls"


def test_repairs_are_listed_whole_and_streamed(client: httpx.Client, engine: FakeEngine) -> None:
    engine.script = Script(pieces=CALL, reason="tool_calls", repairs=("quotes", "trailing_comma"))
    for fields in ({}, {"n": 3}):
        usage = client.post(CHAT, json={**GOOD, **fields, "tools": TOOLS}).json()["usage"]
        assert usage["repairs"] == ["quotes", "trailing_comma"]
        *others, last = _chunks(client, tools=TOOLS, **fields)
        assert last["usage"]["repairs"] == ["quotes", "trailing_comma"]
        assert not any("usage" in chunk for chunk in others)
    engine.script = Script(pieces=CALL, reason="tool_calls")
    assert "repairs" not in client.post(CHAT, json={**GOOD, "tools": TOOLS}).json()["usage"]
    assert "repairs" not in _chunks(client, tools=TOOLS)[-1]["usage"]


def test_damaged_arguments_are_passed_on(client: httpx.Client, engine: FakeEngine) -> None:
    damaged = '{"cmd":"rm -rf "/srv/a b""}'
    pieces = (
        ToolCallDelta(index=0, id="call_1", name="run"),
        ToolCallDelta(index=0, arguments=damaged),
    )
    engine.script = Script(pieces=pieces, reason="tool_calls")
    (call,) = _message(client, tools=TOOLS)["tool_calls"]
    assert call["function"]["arguments"] == damaged
    result = {"role": "tool", "tool_call_id": "call_1", "content": "not JSON"}
    back = [*GOOD["messages"], {"role": "assistant", "content": None, "tool_calls": [call]}, result]
    assert client.post(CHAT, json={"messages": back}).status_code == 200
    sent = engine.requests[-1].prompt
    assert isinstance(sent, ChatPrompt)
    assert sent.messages[1]["tool_calls"][0]["function"]["arguments"] == damaged


def test_a_long_call_is_bridged_with_comments(client: httpx.Client, engine: FakeEngine) -> None:
    engine.script = Script(pieces=CALL, delay=0.25, reason="tool_calls")
    text = client.post(CHAT, json={**GOOD, "stream": True}).text
    assert text.count(": keep-alive\n\n") >= 3


# Reasoning


def test_reasoning_has_two_names(client: httpx.Client, engine: FakeEngine) -> None:
    thought = (ReasoningDelta(text="Let "), ReasoningDelta(text="me."), "Hi")
    engine.script = Script(pieces=thought, reasoning_tokens=2)
    body = client.post(CHAT, json=GOOD).json()
    assert body["choices"][0]["message"] == {
        "role": "assistant",
        "content": "Hi",
        "refusal": None,
        "reasoning": "Let me.",
        "reasoning_content": "Let me.",
    }
    assert body["usage"]["completion_tokens_details"] == {"reasoning_tokens": 2}
    deltas = [chunk["choices"][0]["delta"] for chunk in _chunks(client)]
    assert deltas[1] == {"reasoning": "Let ", "reasoning_content": "Let "}
    assert deltas[3] == {"content": "Hi"}


def test_without_reasoning_there_is_no_word_of_it(client: httpx.Client) -> None:
    assert set(_message(client)) == {"role", "content", "refusal"}


def test_an_answer_that_ends_while_it_reasons_has_an_empty_content(
    client: httpx.Client, engine: FakeEngine
) -> None:
    engine.script = Script(pieces=(ReasoningDelta(text="Hm"),), reason="length")
    assert _message(client)["content"] == ""


# Choices


def test_choices_have_their_number_and_one_usage(client: httpx.Client, engine: FakeEngine) -> None:
    for path, asked in ((CHAT, GOOD), ("/v1/completions", {"prompt": "a"})):
        body = client.post(path, json={**asked, "n": 3}).json()
        assert [choice["index"] for choice in body["choices"]] == [0, 1, 2]
        assert body["usage"]["prompt_tokens"] == 7
        assert body["usage"]["completion_tokens"] == 12
        assert body["usage"]["total_tokens"] == 19
    assert engine.requests[0].choices == 3


def test_choices_are_streamed_side_by_side(client: httpx.Client, engine: FakeEngine) -> None:
    engine.script = Script(delay=0.05)
    chunks = _chunks(client, n=2)
    numbers = [chunk["choices"][0]["index"] for chunk in chunks]
    assert numbers[:2] == [0, 1]
    assert sorted(numbers) == [0] * 5 + [1] * 5
    assert numbers != sorted(numbers)
    assert [chunk["usage"]["completion_tokens"] for chunk in chunks if "usage" in chunk] == [8]
    assert "usage" in chunks[-1]
    reasons = [chunk["choices"][0]["finish_reason"] for chunk in chunks]
    assert reasons.count("stop") == 2


def test_one_choice_that_fails_ends_all(client: httpx.Client, engine: FakeEngine) -> None:
    scripts = iter([Script(endless=True, delay=0.01), Script(error=EngineFailed("It broke."))] * 2)
    engine.choose = lambda _request: next(scripts)
    answer = client.post(CHAT, json={**GOOD, "n": 2})
    assert (answer.status_code, answer.json()["error"]["message"]) == (500, "It broke.")
    wait_until(lambda: engine.running == 0)
    text = client.post(CHAT, json={**GOOD, "n": 2, "stream": True}).text
    last = text.removesuffix("\n\n").rpartition("\n\n")[2]
    assert json.loads(last.removeprefix("data: "))["error"]["message"] == "It broke."
    wait_until(lambda: engine.running == 0)


def test_a_client_that_leaves_cancels_all_choices(client: httpx.Client, engine: FakeEngine) -> None:
    engine.script = Script(endless=True, delay=0.01)
    with client.stream("POST", CHAT, json={**GOOD, "n": 3, "stream": True}) as answer:
        lines = answer.iter_lines()
        next(lines)
        assert engine.running == 3
    wait_until(lambda: engine.running == 0)


def test_choices_that_are_refused_are_refused_together(
    client: httpx.Client, engine: FakeEngine
) -> None:
    engine.script = Script(refuse=QueueFull("Full."))
    assert client.post(CHAT, json={**GOOD, "n": 2}).status_code == 429


# Log-probabilities


def _logprob(token: int, text: str, value: float) -> TokenLogprob:
    return TokenLogprob(token=token, raw=text.encode(), logprob=value)


def _entry(token: int, text: str, value: float) -> dict[str, Any]:
    return {"id": token, "token": text, "logprob": value, "bytes": list(text.encode())}


HELLO, HI = _logprob(9, " Hello", -0.25), _logprob(8, " Hi", -4.5)


@pytest.mark.parametrize("path", [CHAT, "/v1/completions"])
def test_an_entry_is_the_generated_token(
    client: httpx.Client, engine: FakeEngine, path: str
) -> None:
    body = {**GOOD, "prompt": "a"}
    hello, hi = _entry(9, " Hello", -0.25), _entry(8, " Hi", -4.5)
    engine.script = Script(logprobs=(Position(chosen=HI, top=()),))
    choice = client.post(path, json={**body, "logprobs": True}).json()["choices"][0]
    assert choice["logprobs"]["content"] == [{**hi, "top_logprobs": []}]
    engine.script = Script(logprobs=(Position(chosen=HI, top=(HELLO, HI)),))
    choice = client.post(path, json={**body, "top_logprobs": 2}).json()["choices"][0]
    assert choice["logprobs"]["content"] == [{**hi, "top_logprobs": [hello, hi]}]
    assert [request.logprobs for request in engine.requests] == [0, 2]


def test_part_of_a_character_is_told_in_bytes(client: httpx.Client, engine: FakeEngine) -> None:
    part = TokenLogprob(token=7, raw=b"\xf0\x9f", logprob=-1.0)
    engine.script = Script(logprobs=(Position(chosen=part, top=(part,)),))
    choice = client.post(CHAT, json={**GOOD, "top_logprobs": 1}).json()["choices"][0]
    (entry,) = choice["logprobs"]["content"]
    assert (entry["token"], entry["bytes"]) == ("\ufffd", [0xF0, 0x9F])


def test_what_can_never_come_has_a_number_too(client: httpx.Client, engine: FakeEngine) -> None:
    never, unknown = _logprob(1, "a", -float("inf")), _logprob(2, "b", float("nan"))
    engine.script = Script(logprobs=(Position(chosen=HI, top=(HI, never, unknown)),))
    choice = client.post(CHAT, json={**GOOD, "top_logprobs": 3}).json()["choices"][0]
    told = [top["logprob"] for top in choice["logprobs"]["content"][0]["top_logprobs"]]
    assert told == [-4.5, -9999.0, -9999.0]


def test_chunks_carry_the_log_probabilities_of_their_tokens(
    client: httpx.Client, engine: FakeEngine
) -> None:
    positions = tuple(Position(chosen=_logprob(n, str(n), -1.0), top=()) for n in range(5))
    engine.script = Script(logprobs=positions)
    chunks = _chunks(client, logprobs=True)
    told = [
        [entry["id"] for entry in chunk["choices"][0].get("logprobs", {}).get("content", ())]
        for chunk in chunks
    ]
    assert told == [[], [0], [1], [2], [3, 4]]
    engine.script = Script()
    assert "logprobs" not in json.dumps(_chunks(client))


# Warnings


@pytest.mark.parametrize("stream", [False, True])
def test_what_was_not_done_is_told_in_a_header(
    client: httpx.Client, engine: FakeEngine, stream: bool
) -> None:
    told = "grammar not enforced: line 1\r\nSet-Cookie: x=✓"
    engine.script = Script(warnings=(told, told))
    answer = client.post(CHAT, json={**GOOD, "stream": stream, "n": 2})
    assert answer.status_code == 200
    assert answer.headers["warning"] == "grammar not enforced: line 1  Set-Cookie: x=\\u2713"
    assert "set-cookie" not in answer.headers
    engine.script = Script()
    assert "warning" not in client.post(CHAT, json=GOOD).headers


# A whole answer is the fold of its stream


_PIECES = st.lists(
    st.one_of(
        st.text(min_size=1, max_size=5).map(lambda text: TextDelta(text=text)),
        st.text(min_size=1, max_size=5).map(lambda text: ReasoningDelta(text=text)),
        st.lists(st.sampled_from(['{"a', '": 1}', "{}", "é", " "]), max_size=3),
    ),
    max_size=8,
)


def _with_calls(drawn: list[Any]) -> tuple[Piece, ...]:
    pieces: list[Piece] = []
    calls = 0
    for one in drawn:
        if isinstance(one, list):
            pieces.append(ToolCallDelta(index=calls, id=f"call_{calls}", name="f"))
            pieces += [ToolCallDelta(index=calls, arguments=text) for text in one]
            calls += 1
        else:
            pieces.append(one)
    return tuple(pieces)


def _play_in_order(engine: FakeEngine, scripts: list[Script]) -> None:
    order = iter(scripts)
    engine.choose = lambda _request: next(order)


@settings(
    max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(st.lists(_PIECES, min_size=1, max_size=3))
def test_a_stream_says_what_the_whole_answer_says(
    client: httpx.Client, engine: FakeEngine, drawn: list[list[Any]]
) -> None:
    scripts = [Script(pieces=_with_calls(one)) for one in drawn]
    _play_in_order(engine, scripts)
    whole = client.post(CHAT, json={**GOOD, "n": len(drawn)}).json()
    _play_in_order(engine, scripts)
    state = ChatCompletionStreamState()
    for chunk in _chunks(client, n=len(drawn)):
        state.handle_chunk(ChatCompletionChunk.model_validate(chunk))
    streamed: Any = state.get_final_completion().to_dict()
    for one, other in zip(whole["choices"], streamed["choices"], strict=True):
        message, folded = one["message"], other["message"]
        assert (message["content"] or "") == (folded.get("content") or "")
        assert message.get("reasoning") == folded.get("reasoning")
        assert message.get("reasoning_content") == folded.get("reasoning_content")
        calls = folded.get("tool_calls") or []
        assert [call["function"]["arguments"] for call in calls] == [
            call["function"]["arguments"] for call in message.get("tool_calls", [])
        ]
    assert whole["usage"] == streamed["usage"]


# OpenAI's SDK


ASK: Any = [{"role": "user", "content": "hi"}]


def test_the_sdk_collects_a_streamed_call(sdk: openai.OpenAI, engine: FakeEngine) -> None:
    second = (
        ToolCallDelta(index=1, id="call_2", name="weather", arguments="{"),
        ToolCallDelta(index=1, arguments="}"),
    )
    engine.script = Script(
        pieces=(ReasoningDelta(text="Hm"), "Look", *CALL, *second), reason="tool_calls"
    )
    with sdk.chat.completions.stream(model="x", messages=ASK, tools=TOOLS) as stream:
        kinds = [event.type for event in stream]
        final = stream.get_final_completion()
    assert "tool_calls.function.arguments.delta" in kinds
    assert kinds.count("tool_calls.function.arguments.done") == 2
    message = final.choices[0].message
    assert message.content == "Look"
    assert message.model_extra is not None
    assert message.model_extra["reasoning"] == message.model_extra["reasoning_content"] == "Hm"
    assert message.tool_calls is not None
    assert [call.id for call in message.tool_calls] == ["call_1", "call_2"]
    assert [call.function.arguments for call in message.tool_calls] == ['{"city": "Rome"}', "{}"]
    assert final.choices[0].finish_reason == "tool_calls"


def test_the_sdk_goes_on_after_a_call(sdk: openai.OpenAI, engine: FakeEngine) -> None:
    engine.script = Script(pieces=CALL, reason="tool_calls")
    first = sdk.chat.completions.create(model="x", messages=ASK, tools=TOOLS)
    said = first.choices[0].message
    assert said.tool_calls is not None
    result: Any = {"role": "tool", "tool_call_id": said.tool_calls[0].id, "content": "sunny"}
    engine.script = Script()
    again: Any = [*ASK, said, result]
    assert sdk.chat.completions.create(model="x", messages=again, tools=TOOLS).choices


def test_the_sdk_reads_several_choices(sdk: openai.OpenAI) -> None:
    answer = sdk.chat.completions.create(model="x", messages=ASK, n=2)
    assert [choice.message.content for choice in answer.choices] == ["Hello, world"] * 2
    with sdk.chat.completions.stream(model="x", messages=ASK, n=2) as stream:
        final = stream.get_final_completion()
    assert [choice.message.content for choice in final.choices] == ["Hello, world"] * 2


def test_the_sdk_reads_logprobs(sdk: openai.OpenAI, engine: FakeEngine) -> None:
    engine.script = Script(logprobs=(Position(chosen=HELLO, top=(HELLO, HI)),))
    answer = sdk.chat.completions.create(model="x", messages=ASK, logprobs=True, top_logprobs=2)
    logprobs = answer.choices[0].logprobs
    assert logprobs is not None
    assert logprobs.content is not None
    assert logprobs.content[0].token == " Hello"
    assert logprobs.content[0].bytes == list(b" Hello")
    assert [top.logprob for top in logprobs.content[0].top_logprobs] == [-0.25, -4.5]


class City(BaseModel):
    name: str
    people: int


def test_the_sdk_parses_a_structured_answer(sdk: openai.OpenAI, engine: FakeEngine) -> None:
    engine.script = Script(pieces=('{"name": "Rome", ', '"people": 2}'))
    answer = sdk.chat.completions.parse(model="x", messages=ASK, response_format=City)
    assert answer.choices[0].message.parsed == City(name="Rome", people=2)
    grammar = engine.requests[0].grammar
    assert grammar is not None
    assert grammar == GrammarSpec(kind="json_schema", source=grammar.source)
    assert set(grammar.source["properties"]) == {"name", "people"}


def test_the_sdk_parses_the_arguments_of_a_strict_tool(
    sdk: openai.OpenAI, engine: FakeEngine
) -> None:
    call = ToolCallDelta(index=0, id="call_1", name="City", arguments='{"name":"a","people":1}')
    engine.script = Script(pieces=(call,), reason="tool_calls")
    tool = openai.pydantic_function_tool(City)
    answer = sdk.chat.completions.parse(model="x", messages=ASK, tools=[tool])
    calls = answer.choices[0].message.tool_calls
    assert calls is not None
    assert calls[0].function.parsed_arguments == City(name="a", people=1)


def test_the_sdk_sends_an_effort(sdk: openai.OpenAI, engine: FakeEngine) -> None:
    sdk.chat.completions.create(
        model="x", messages=ASK, reasoning_effort="low", extra_body={"thinking_budget": 5}
    )
    assert engine.requests[0].thinking == Thinking(effort="low", budget=5)
