# ruff: noqa: RUF001 - DeepSeek's markers have a wide bar
"""Whatever a model writes: nothing raises, nothing is lost, and nothing is made up."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from core.engine.request import Tool, ToolUse
from tests.core.engine.tools.folding import FAMILIES, TOOLS, events, fold, is_json, parse
from tests.core.engine.tools.samples import SAMPLES

MARKS = (
    "<tool_call>", "</tool_call>", "<function=", "<parameter=", "</parameter>", "</function>",
    "get_weather", "edit", "ping", "launch", "name", "arguments", "parameters", '"', "'", "\\",
    "\\u00e9", "\\ud83d", "{", "}", "[", "]", "(", ")", ":", ",", "=", "\n", " ", ">", "<", "```",
    "json", "1", "-", "0.5e", "true", "None", "ü😀", "city", "days", "path", "edits", "NaN", ";",
    "<function name=", "<param name=", "</param>", "<![CDATA[", "]]>", "<arg_key>", "</arg_key>",
    "<arg_value>", "</arg_value>", "[TOOL_CALLS]", "[ARGS]", "[CALL_ID]", "<|python_tag|>",
    "<|tool_call_start|>", "<|tool_call_end|>", "<|tool_call>", "<tool_call|>", '<|"|>', "call:",
    "<start_function_call>", "<end_function_call>", "<escape>", "<|tool_calls_section_begin|>",
    "<|tool_calls_section_end|>", "<|tool_call_begin|>", "<|tool_call_end|>", "functions.",
    "<|tool_call_argument_begin|>", "<｜tool▁calls▁begin｜>", "<｜tool▁calls▁end｜>",
    "<｜tool▁call▁begin｜>", "<｜tool▁call▁end｜>", "<｜tool▁sep｜>", "<minimax:tool_call>",
    "</minimax:tool_call>", "<invoke name=", "</invoke>", "<parameter name=",
    "<｜DSML｜invoke name=",
    "<｜DSML｜function_calls>", "</｜DSML｜invoke>", "<｜DSML｜parameter name=", "string=",
    "<|channel|>", "<|message|>", "<|end|>", "<|start|>", "<|call|>", "<|constrain|>", "to=",
    "<longcat_tool_call>", "<longcat_arg_key>", "<atem:function_calls>", "<atem:invoke name=",
    "<|python_start|>", "analysis", "commentary", "final",
)  # fmt: skip
TEXTS = st.lists(st.sampled_from(MARKS) | st.text(max_size=3), max_size=30).map("".join)
HARMONY_MARKS = [mark for mark in MARKS if mark.startswith("<|")]


@st.composite
def damaged(draw: st.DrawFn) -> tuple[str, str]:
    """A sample with some of it left out, doubled or replaced."""
    sample = draw(st.sampled_from(SAMPLES))
    start = draw(st.integers(0, len(sample.text)))
    end = draw(st.integers(start, min(start + 12, len(sample.text))))
    middle = draw(st.sampled_from(["", sample.text[start:end] * 2]) | TEXTS)
    return sample.family, sample.text[:start] + middle + sample.text[end:]


@st.composite
def cut(draw: st.DrawFn, text: str) -> list[str]:
    bounds = sorted(draw(st.lists(st.integers(0, len(text)), max_size=8)))
    return [text[a:b] for a, b in zip([0, *bounds], [*bounds, len(text)], strict=True)]


def check(family: str, text: str, data: st.DataObject) -> None:
    limit = data.draw(st.booleans())
    whole = parse(family, text, cut=limit)
    assert parse(family, list(text), cut=limit) == whole
    assert parse(family, data.draw(cut(text)), cut=limit) == whole
    assert len(whole.complete) == len(whole.names)
    assert limit or all(whole.complete)
    for arguments, complete in zip(whole.arguments, whole.complete, strict=True):
        assert complete or not is_json(arguments) or arguments in text
    marked = family == "harmony" and any(mark in text for mark in HARMONY_MARKS)
    if not whole.names and not marked and not text.startswith(" to="):
        assert whole.content == text


@pytest.mark.parametrize("family", FAMILIES)
@settings(max_examples=60, deadline=None)
@given(text=TEXTS, data=st.data())
def test_any_text(family: str, text: str, data: st.DataObject) -> None:
    check(family, text, data)


@settings(max_examples=400, deadline=None)
@given(case=damaged(), data=st.data())
def test_damaged_markup(case: tuple[str, str], data: st.DataObject) -> None:
    check(*case, data)


CALLS = {
    "hermes": ('<tool_call>{"name":"edit","arguments":', "}</tool_call>"),
    "mistral": ('[TOOL_CALLS][{"name":"edit","arguments":', "}]"),
    "mistral_args": ("[TOOL_CALLS]edit[ARGS]", ""),
    "llama": ('{"name": "edit", "parameters": ', "}"),
    "kimi": (
        "<|tool_call_begin|>functions.edit:0<|tool_call_argument_begin|>",
        "<|tool_call_end|>",
    ),
    "deepseek": ("<｜tool▁call▁begin｜>edit<｜tool▁sep｜>", "<｜tool▁call▁end｜>"),
    "deepseek_v3": (
        "<｜tool▁call▁begin｜>function<｜tool▁sep｜>edit\n```json\n",
        "\n```<｜tool▁call▁end｜>",
    ),
    "harmony": ("<|channel|>commentary to=functions.edit<|message|>", "<|call|>"),
    "qwen": ("<tool_call>\n<function=edit>\n", "\n</function>\n</tool_call>"),
}
"""What stands before and behind arguments that are JSON."""
WRITTEN = (
    '{"cmd":"rm -rf /srv/a","path":"a, b"}',
    '{"text": "if (a[0] == {}): say(1)", "edits": [{"a": [1, 2]}, true, null]}',
    "{'path': 'a', 'edits': [True, None,],}",
    '{"path": "a\\n\\"b\\" \\\\", "days": 3}',
)
SLIPS = st.sampled_from(
    ['"', "'", "\\", "{", "}", "[", "]", ",", ":", '",', '":', "'}", '"}', "}}", "\n", "\\n", " ",
     "a", '"a"', "'a'", "1", "True", "-", ";", "(", ")", "="]
)  # fmt: skip
LETTERS = "acdefghijklmpqrsvwxyz"
"""But for those of escapes and literals."""


@st.composite
def slipped(draw: st.DrawFn) -> str:
    """Arguments in which a model has slipped up to three times."""
    text = draw(st.sampled_from(WRITTEN))
    for _ in range(draw(st.integers(1, 3))):
        start = draw(st.integers(0, len(text)))
        end = draw(st.sampled_from([start, start + 1, start + 2]))
        text = text[:start] + draw(SLIPS | st.just("")) + text[end:]
    return text


@pytest.mark.parametrize("family", CALLS)
@settings(max_examples=150, deadline=None)
@given(written=slipped(), data=st.data())
def test_arguments_are_right_or_as_they_were_written(
    family: str, written: str, data: st.DataObject
) -> None:
    before, behind = CALLS[family]
    text = before + written + behind
    limit = data.draw(st.booleans())
    folded = parse(family, text, cut=limit)
    assert parse(family, list(text), cut=limit) == folded
    if not folded.names:
        assert family in {"hermes", "mistral", "llama", "qwen"}
        return
    (arguments,) = folded.arguments
    if is_json(written) and isinstance(json.loads(written), dict):
        assert (arguments, folded.repairs) == (written.strip(), set())
    elif folded.repairs:
        assert is_json(arguments)
        assert letters(arguments) == letters(written)
    elif arguments in text:
        assert written.strip(" \n`}]") in arguments
    else:
        assert written.strip()[0] in {'"', "'"}
        assert letters(arguments) == letters(written)


def letters(text: str) -> list[str]:
    return [c for c in text.replace("None", "null").lower() if c in LETTERS]


ROUND = {
    "hermes": lambda args: '<tool_call>{"name":"edit","arguments":' + args + "}</tool_call>",
    "mistral_args": lambda args: "[TOOL_CALLS]edit[ARGS]" + args,
    "llama": lambda args: '{"name": "edit", "parameters": ' + args + "}",
    "kimi": lambda args: "<|tool_call_begin|>functions.edit:0<|tool_call_argument_begin|>" + args,
    "deepseek": lambda args: "<｜tool▁call▁begin｜>edit<｜tool▁sep｜>" + args,
}
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=12,
)  # fmt: skip


@pytest.mark.parametrize("family", ROUND)
@pytest.mark.parametrize("ascii_only", [True, False])
@settings(max_examples=40, deadline=None)
@given(value=st.dictionaries(st.text(), VALUES, max_size=5))
def test_json_comes_out_as_it_went_in(family: str, ascii_only: bool, value: Any) -> None:
    text = ROUND[family](json.dumps(value, ensure_ascii=ascii_only))
    folded = parse(family, list(text))
    assert [json.loads(arguments) for arguments in folded.arguments] == [value]
    assert folded.content == ""


@pytest.mark.parametrize("family", FAMILIES)
def test_without_tools_text_passes(family: str) -> None:
    none = ToolUse(tools=TOOLS.tools, mode="none")
    for sample in SAMPLES:
        if sample.family == family != "harmony":
            assert parse(family, list(sample.text), none).content == sample.text
            assert parse(family, sample.text, ToolUse()).content == sample.text


def test_without_tools_harmony_has_channels_still() -> None:
    text = (
        "<|channel|>analysis<|message|>Hm.<|end|><|start|>assistant<|channel|>commentary "
        "to=functions.ping <|constrain|>json<|message|>{}<|call|>"
    )
    folded = parse("harmony", list(text), ToolUse())
    assert (folded.reasoning, folded.content, folded.names) == ("Hm.", "{}", [])


@pytest.mark.parametrize("family", FAMILIES)
def test_only_the_first_call_counts(family: str) -> None:
    one = ToolUse(tools=TOOLS.tools, parallel=False)
    for sample in SAMPLES:
        if sample.family == family:
            folded = parse(family, list(sample.text), one)
            assert folded.names == [name for name, _ in sample.calls[:1]]
            assert folded.content == sample.content


LARGE = 10_000_000


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("fill", ["<", " ", "x\n", "{", "[", "<tool_call>", '"'])
def test_millions_of_characters(family: str, fill: str) -> None:
    text = fill * ((LARGE if fill == "<" else LARGE // 40) // len(fill))
    parts = (text[at : at + 65_536] for at in range(0, len(text), 65_536))
    folded = fold(events(family, [*parts]))
    assert (folded.names, folded.content == text) == ([], True)


BEGINNINGS = {
    sample.family: sample.text[: sample.text.index("Paris") + 2]
    for sample in reversed(SAMPLES)
    if sample.calls and "Paris" in sample.text
}


@pytest.mark.parametrize("family", BEGINNINGS)
def test_ten_million_characters_of_an_argument(family: str) -> None:
    folded = parse(family, [BEGINNINGS[family], "<" * LARGE])
    (arguments,) = folded.arguments
    assert "Pa" + "<" * LARGE in arguments
    assert not is_json(arguments)


@pytest.mark.parametrize("family", ["hermes", "llama"])
@pytest.mark.parametrize("fill", ["'a',", '"', "}", "{}", "\\n", "\n", '\\"', ",", "`", "{'a':1},"])
def test_millions_of_characters_of_damage(family: str, fill: str) -> None:
    filled = "['" + fill * (LARGE // 20 // len(fill))
    folded = parse(family, ROUND[family]('{"edits":' + filled))
    (arguments,) = folded.arguments
    assert arguments.startswith('{"edits":[')
    assert not is_json(arguments)


@pytest.mark.parametrize("family", ROUND)
@pytest.mark.parametrize("opening", ["[", '{"a":'])
def test_ten_thousand_deep(family: str, opening: str) -> None:
    folded = parse(family, ROUND[family]('{"edits":' + opening * 10_000))
    (arguments,) = folded.arguments
    written = '{"edits":' + opening * 10_000
    assert arguments == written
    assert not is_json(arguments)


def test_deep_values_between_tags() -> None:
    tools = ToolUse(tools=(Tool(name="edit"),))
    text = "<tool_call>\n<function=edit>\n<parameter=a>\n" + "[" * 10_000 + "]" * 10_000
    folded = parse("qwen", text + "\n</parameter>\n</function>\n</tool_call>", tools)
    assert json.loads(folded.arguments[0]) == {"a": "[" * 10_000 + "]" * 10_000}
