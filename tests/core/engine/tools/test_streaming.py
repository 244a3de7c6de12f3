"""When things go out."""

from __future__ import annotations

import pytest

from core.engine.events import CallEnd, ReasoningDelta, TextDelta, ToolCallDelta
from core.engine.parsing import Found
from tests.core.engine.tools.folding import parser
from tests.core.engine.tools.samples import SAMPLES, Sample


def pushed(family: str, *parts: str) -> list[list[Found]]:
    reader = parser(family)
    return [*(list(reader.push(part)) for part in parts), list(reader.flush())]


def ended(*repairs: str) -> CallEnd:
    return CallEnd(complete=True, repairs=repairs)


def opened(index: int, name: str) -> ToolCallDelta:
    return ToolCallDelta(index=index, id=f"call_{index:x}", name=name)


def more(arguments: str, index: int = 0) -> ToolCallDelta:
    return ToolCallDelta(index=index, arguments=arguments)


def test_a_name_goes_out_at_once_and_strings_as_they_grow() -> None:
    assert pushed(
        "hermes",
        'Look.\n<tool_call>{"name": "get_weather"',
        ', "arguments": {"city": "P',
        "ar",
        'is", "da',
        'ys": 1',
        "2",
        "}}</tool_call>",
    ) == [
        [TextDelta(text="Look."), opened(0, "get_weather")],
        [more('{"city": "P')],
        [more("ar")],
        [more('is"')],
        [],
        [],
        [more(', "days": 12}'), ended()],
        [],
    ]


def test_from_the_first_repair_on_arguments_wait_for_the_end_of_the_call() -> None:
    assert pushed(
        "hermes",
        '<tool_call>{"name": "edit", "arguments": {"path": "a", ',
        "'text': 'b",
        "c', }}",
        "</tool_call>",
    ) == [
        [opened(0, "edit"), more('{"path": "a"')],
        [],
        [],
        [more(', "text": "bc" }'), ended("quotes", "trailing_comma")],
        [],
    ]


def test_damaged_arguments_go_on_as_they_were_written() -> None:
    assert pushed(
        "hermes",
        '<tool_call>{"name": "edit", "arguments": {"path": "a',
        '"b", ',
        '"text": "c"}}',
        "</tool_call>",
    ) == [
        [opened(0, "edit"), more('{"path": "a')],
        [more('"')],
        [],
        [more('b", "text": "c"}'), ended()],
        [],
    ]


def test_values_between_tags_go_out_as_they_grow() -> None:
    assert pushed(
        "qwen",
        "<tool_call>\n<function=edit>",
        "\n<parameter=text>\nline",
        "\n",
        'a "b"',
        "</par",
        "ameter>\n</function>\n</tool_call>",
    ) == [
        [opened(0, "edit")],
        [more('{"text":"line')],
        [],
        [more('\\na \\"b\\"')],
        [],
        [more('"}'), ended()],
        [],
    ]


def test_arguments_wait_for_the_name() -> None:
    assert pushed(
        "hermes", '<tool_call>{"arguments": {"city": "Paris"}', ', "name": "get_weather"}'
    ) == [[], [opened(0, "get_weather"), more('{"city": "Paris"}')], [ended()]]


def test_text_goes_out_at_once_but_for_what_may_be_markup() -> None:
    assert pushed("hermes", "a < b <too", "l", "_call", " c") == [
        [TextDelta(text="a < b")],
        [],
        [],
        [TextDelta(text=" <tool_call c")],
        [],
    ]


def test_prose_after_a_marker_is_held_no_longer_than_a_sentence() -> None:
    first, second, *_ = pushed("hermes", "See <tool_call> ", "and so on " * 30)
    assert first == [TextDelta(text="See")]
    assert second == [TextDelta(text=" <tool_call> " + ("and so on " * 30).rstrip())]


def test_text_after_a_call_goes_out() -> None:
    last = pushed("hermes", '<tool_call>{"name": "ping"}</tool_call>', "\nDone", ".")
    assert last[1:] == [[TextDelta(text="Done")], [TextDelta(text=".")], []]


def test_reasoning_goes_out_as_it_grows() -> None:
    assert pushed("harmony", "<|channel|>analysis<|mess", "age|>Hm", ", well<|e", "nd|>") == [
        [],
        [ReasoningDelta(text="Hm")],
        [ReasoningDelta(text=", well")],
        [],
        [],
    ]


@pytest.mark.parametrize("sample", [s for s in SAMPLES if s.calls], ids=str)
def test_calls_come_one_after_the_other(sample: Sample) -> None:
    reader = parser(sample.family)
    pieces = [*reader.push(sample.text), *reader.flush()]
    calls = [piece for piece in pieces if isinstance(piece, ToolCallDelta)]
    assert [call.index for call in calls] == sorted(call.index for call in calls)
    assert [call.name for call in calls if call.id] == [name for name, _ in sample.calls]
