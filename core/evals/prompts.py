"""What models are asked when their answers are compared: our own words, in no training set.

Imports no arrays.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

QUESTIONS = (
    "Explain in three sentences why bread rises.",
    "Write a short letter to a neighbour whose dog barks at night.",
    "List five things to check before a long bicycle tour.",
    "What is the difference between a stack and a queue? Give an example of each.",
    "Write a Python function that returns the longest word of a sentence.",
    "Tell the story of a lighthouse keeper who receives a parcel, in about eighty words.",
)
"""Answered greedily; what counts is where two models part."""


@dataclass(frozen=True, kw_only=True)
class JsonTask:
    """A question whose answer is to be a JSON object."""

    question: str
    """What is asked."""
    keys: tuple[str, ...]
    """Keys that the object must have."""


@dataclass(frozen=True, kw_only=True)
class CallTask:
    """A question that is to be answered by a call of a tool."""

    question: str
    """What is asked."""
    tool: str
    """The tool that fits."""


JSON_TASKS = (
    JsonTask(
        question="A train leaves Basel at 8:05 and arrives in Bern at 9:01. Answer with a JSON "
        'object with the keys "from", "to" and "minutes", and with nothing else.',
        keys=("from", "to", "minutes"),
    ),
    JsonTask(
        question='Describe a cat as a JSON object with the keys "name" (a string), "age" (a '
        'number) and "colors" (a list of strings). Print only the object.',
        keys=("name", "age", "colors"),
    ),
    JsonTask(
        question="Classify the review 'The soup was cold and the waiter rude.' Answer only with a "
        'JSON object: {"sentiment": "positive" or "negative", "topics": [strings]}.',
        keys=("sentiment", "topics"),
    ),
    JsonTask(
        question='Convert to JSON with the keys "item", "count" and "unit", and print nothing '
        "else: three kilograms of potatoes.",
        keys=("item", "count", "unit"),
    ),
    JsonTask(
        question="Give the three primary colors as a JSON object that maps each name to a "
        'hexadecimal code: {"red": ..., "yellow": ..., "blue": ...}. Only JSON, please.',
        keys=("red", "yellow", "blue"),
    ),
    JsonTask(
        question='Return a JSON object {"ok": true, "errors": []} if 17 is a prime number, else '
        'with "ok": false. Return only the object.',
        keys=("ok", "errors"),
    ),
)

CALL_TASKS = (
    CallTask(question="What is the weather like in Oslo right now?", tool="get_weather"),
    CallTask(question="Is it raining in Porto? Use celsius.", tool="get_weather"),
    CallTask(question="Set a timer for twelve minutes for the eggs.", tool="set_timer"),
    CallTask(question="Wake me from my nap in 25 minutes.", tool="set_timer"),
    CallTask(question="Find me three books about beekeeping.", tool="search_books"),
    CallTask(question="Which novels by Lem do you have? At most five.", tool="search_books"),
)


def _tool(name: str, description: str, properties: Mapping[str, Any], *required: str) -> Any:
    parameters = {"type": "object", "properties": properties, "required": list(required)}
    function = {"name": name, "description": description, "parameters": parameters}
    return {"type": "function", "function": function}


TOOLS: tuple[Mapping[str, Any], ...] = (
    _tool(
        "get_weather",
        "Get the current weather of a place.",
        {
            "city": {"type": "string", "description": "Name of the city"},
            "unit": {"type": "string", "enum": ["celsius", "fahrenheit"]},
        },
        "city",
    ),
    _tool(
        "set_timer",
        "Start a timer.",
        {
            "minutes": {"type": "number", "description": "How long"},
            "label": {"type": "string", "description": "What it is for"},
        },
        "minutes",
    ),
    _tool(
        "search_books",
        "Search the library's catalogue.",
        {
            "query": {"type": "string", "description": "Words to search for"},
            "limit": {"type": "integer", "description": "Most results"},
        },
        "query",
    ),
)
"""Offered with every task, in OpenAI's form."""
