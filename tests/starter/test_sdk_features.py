"""What OpenAI's SDK does beyond plain answers, against the real starter: choices, probabilities,
forms and calls.
"""

from __future__ import annotations

import json
from typing import Any, Literal

import openai
import pytest
from openai.types.chat import ChatCompletion
from pydantic import BaseModel, ConfigDict

from tests.processes import Server

pytestmark = pytest.mark.starter

MODEL = "mlxbun/SmolLM2-135M-Instruct-4bit"
FRANCE: Any = [{"role": "user", "content": "What is the capital of France?"}]
WEATHER: Any = [
    {
        "type": "function",
        "function": {
            "name": "get_weather",
            "description": "The weather of a city.",
            "parameters": {
                "type": "object",
                "properties": {
                    "city": {"type": "string", "enum": ["Paris", "Rome"]},
                    "unit": {"type": "string", "enum": ["C", "F"]},
                },
                "required": ["city", "unit"],
                "additionalProperties": False,
            },
        },
    }
]
NAMED: Any = {"type": "function", "function": {"name": "get_weather"}}


class Review(BaseModel):
    model_config = ConfigDict(extra="forbid")

    stars: Literal[1, 2, 3, 4, 5]
    good: bool


def _ask(client: openai.OpenAI, **options: Any) -> ChatCompletion:
    options = {"temperature": 0, "max_tokens": 16, "messages": FRANCE, **options}
    answer = client.chat.completions.create(model=MODEL, **options)
    assert isinstance(answer, ChatCompletion)
    return answer


def _texts(answer: ChatCompletion) -> list[str | None]:
    return [choice.message.content for choice in answer.choices]


# Choices


def test_several_greedy_answers_are_the_one_answer(client: openai.OpenAI) -> None:
    several, one = _ask(client, n=3), _ask(client)
    assert _texts(several) == _texts(one) * 3
    assert several.usage is not None
    assert one.usage is not None
    assert several.usage.completion_tokens == 3 * one.usage.completion_tokens
    assert several.usage.prompt_tokens == one.usage.prompt_tokens


def test_several_answers_to_a_seed_differ_and_come_again(client: openai.OpenAI) -> None:
    asked: dict[str, Any] = {"n": 4, "temperature": 1.2, "seed": 11}
    first = _texts(_ask(client, **asked))
    assert len(set(first)) > 1
    assert _texts(_ask(client, **asked)) == first


def test_several_answers_are_streamed_side_by_side(client: openai.OpenAI) -> None:
    asked: Any = {"n": 2, "temperature": 1.2, "seed": 5, "max_tokens": 16, "messages": FRANCE}
    with client.chat.completions.stream(model=MODEL, **asked) as stream:
        list(stream)
        collected = stream.current_completion_snapshot
    streamed = [choice.message.content for choice in collected.choices]
    assert streamed == _texts(_ask(client, **asked))


# Probabilities


def test_every_token_has_its_probability(client: openai.OpenAI) -> None:
    answer = _ask(client, logprobs=True, top_logprobs=3)
    logprobs = answer.choices[0].logprobs
    assert logprobs is not None
    assert logprobs.content is not None
    assert answer.usage is not None
    assert len(logprobs.content) == answer.usage.completion_tokens
    for position in logprobs.content:
        likeliest = [top.logprob for top in position.top_logprobs]
        assert len(likeliest) == 3
        assert likeliest == sorted(likeliest, reverse=True)
        assert position.logprob == likeliest[0] <= 0


def test_a_streamed_answer_has_the_probabilities_of_the_whole_one(client: openai.OpenAI) -> None:
    asked: dict[str, Any] = {"temperature": 0, "max_tokens": 16, "messages": FRANCE}
    whole = _ask(client, logprobs=True, top_logprobs=2).choices[0].logprobs
    with client.chat.completions.stream(
        model=MODEL, logprobs=True, top_logprobs=2, **asked
    ) as stream:
        streamed = stream.get_final_completion().choices[0].logprobs
    assert whole is not None
    assert whole.content is not None
    assert streamed is not None
    assert streamed.content is not None
    assert [entry.token for entry in streamed.content] == [entry.token for entry in whole.content]
    assert "Paris" in "".join(entry.token for entry in whole.content)


def test_several_texts_are_continued_with_arrays(client: openai.OpenAI) -> None:
    prompts = ["The capital of France is", "The capital of Italy is"]
    answer = client.completions.create(
        model=MODEL, prompt=prompts, temperature=0, max_tokens=4, logprobs=2, echo=True
    )
    assert [choice.index for choice in answer.choices] == [0, 1]
    for prompt, city, choice in zip(prompts, ("Paris", "Rome"), answer.choices, strict=True):
        assert choice.text.startswith(f"{prompt} {city}")
        arrays = choice.logprobs
        assert arrays is not None
        assert arrays.tokens is not None
        assert arrays.text_offset is not None
        assert arrays.tokens[0] == f" {city}"
        assert choice.text[arrays.text_offset[0] :] == "".join(arrays.tokens)
    assert answer.usage is not None
    assert answer.usage.completion_tokens == 8


def test_a_bias_forbids_a_token(client: openai.OpenAI) -> None:
    logprobs = _ask(client, logprobs=True, top_logprobs=1).choices[0].logprobs
    assert logprobs is not None
    assert logprobs.content is not None
    assert logprobs.content[0].model_extra is not None
    first = logprobs.content[0].model_extra["id"]
    banned = _ask(client, logprobs=True, logit_bias={str(first): -100}).choices[0].logprobs
    assert banned is not None
    assert banned.content is not None
    assert all((position.model_extra or {})["id"] != first for position in banned.content)
    with pytest.raises(openai.BadRequestError, match="49152"):
        _ask(client, logit_bias={"49152": 1})


# Forms


def test_a_parsed_answer_is_what_its_class_says(client: openai.OpenAI) -> None:
    answer = client.chat.completions.parse(
        model=MODEL,
        messages=[{"role": "user", "content": "Review the film Alien."}],
        response_format=Review,
        temperature=1,
        seed=3,
        max_tokens=60,
    )
    assert isinstance(answer.choices[0].message.parsed, Review)
    assert answer.choices[0].finish_reason == "stop"


@pytest.mark.parametrize(
    ("field", "form", "allowed"),
    [
        ("guided_choice", ["yes", "no"], {"yes", "no"}),
        ("guided_regex", "[0-9]{3}", {f"{number:03}" for number in range(1000)}),
        ("guided_grammar", 'root ::= "Paris" | "Rome"', {"Paris", "Rome"}),
    ],
)
def test_an_answer_has_the_form_that_was_asked_for(
    client: openai.OpenAI, field: str, form: Any, allowed: set[str]
) -> None:
    answer = _ask(client, temperature=1, seed=1, extra_body={field: form})
    assert answer.choices[0].message.content in allowed
    assert answer.choices[0].finish_reason == "stop"


def test_a_form_that_nobody_can_read_is_told_in_a_header(client: openai.OpenAI) -> None:
    asked = client.chat.completions.with_raw_response.create(
        model=MODEL, messages=FRANCE, max_tokens=4, extra_body={"guided_regex": "(("}
    )
    assert asked.headers["warning"].startswith("grammar not enforced: ")
    assert asked.status_code == 200


# Calls


@pytest.mark.parametrize("choice", ["required", NAMED])
def test_a_call_that_must_be_made_is_made(client: openai.OpenAI, choice: Any) -> None:
    answer = _ask(
        client, tools=WEATHER, tool_choice=choice, parallel_tool_calls=False, max_tokens=100
    )
    calls = answer.choices[0].message.tool_calls
    assert calls is not None
    (call,) = calls
    assert call.type == "function"
    assert call.function.name == "get_weather"
    arguments = json.loads(call.function.arguments)
    assert set(arguments) == {"city", "unit"}
    assert arguments["city"] in ("Paris", "Rome")
    assert answer.choices[0].finish_reason == "tool_calls"
    assert answer.choices[0].message.content is None


def test_a_streamed_call_is_the_whole_call(client: openai.OpenAI) -> None:
    asked: dict[str, Any] = {"tools": WEATHER, "tool_choice": NAMED, "max_tokens": 100}
    whole = _ask(client, **asked).choices[0].message.tool_calls
    with client.chat.completions.stream(
        model=MODEL, messages=FRANCE, temperature=0, **asked
    ) as stream:
        pieces = [
            event.arguments_delta
            for event in stream
            if event.type == "tool_calls.function.arguments.delta"
        ]
        streamed = stream.get_final_completion().choices[0].message.tool_calls
    assert whole is not None
    assert streamed is not None
    assert whole[0].type == "function"
    assert [call.function.arguments for call in streamed] == [whole[0].function.arguments]
    assert len([piece for piece in pieces if piece]) > 1


def test_a_conversation_goes_on_after_a_call(client: openai.OpenAI) -> None:
    asked: dict[str, Any] = {"tools": WEATHER, "max_tokens": 100}
    said = _ask(client, tool_choice=NAMED, **asked).choices[0].message
    assert said.tool_calls is not None
    results = [
        {"role": "tool", "tool_call_id": call.id, "content": "sunny"} for call in said.tool_calls
    ]
    again = _ask(client, messages=[*FRANCE, said, *results], **asked)
    assert again.usage is not None
    assert again.usage.completion_tokens > 0


# What can be asked


def test_the_table_says_what_was_tried_here(client: openai.OpenAI, server: Server) -> None:
    rows = {row["feature"]: row for row in server.get("/v1/capabilities")["features"]}
    together = rows["structured_output"]["with"]
    assert rows["forced_tools"]["lane"] == rows["choices"]["lane"] == "batched"
    assert together["logprobs"] == together["choices"] == {"lane": "batched"}
    assert rows["adapter"]["lane"] == "refused"
