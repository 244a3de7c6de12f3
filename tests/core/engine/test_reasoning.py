"""Reasoning is told from content, however the text is cut."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from core.engine.events import ReasoningDelta, TextDelta
from core.engine.reasoning import (
    Channel,
    FormAfterMark,
    PlainText,
    ReasoningSplitter,
    find_channel,
)
from tests.core.engine.tools.folding import fold, parse, parser

THINK = Channel(opening="<think>", closing="</think>")

# text, whether the prompt ended inside the channel, reasoning, content
CASES = [
    ("<think>\nTwo and two.\n</think>\n\nFour.", False, "Two and two.", "Four."),
    ("Two and two.\n</think>\n\nFour.", True, "Two and two.", "Four."),
    ("<think>\n\n</think>\n\nFour.", False, "", "Four."),
    ("Still thinking and the budget is gone", True, "Still thinking and the budget is gone", ""),
    (
        "No channel, but I mention </think> here.",
        False,
        "",
        "No channel, but I mention </think> here.",
    ),
    ("<think>a</think>b<think>c</think>d", False, "ac", "bd"),
    ("x < think > y", False, "", "x < think > y"),
    ("<thin", False, "", "<thin"),
    ("\n <think>a</think>", False, "a", ""),
    ("\n  indented", False, "", "\n  indented"),
    ("<think>a\n\nb  </think>c  ", False, "a\n\nb", "c  "),
    ("a <think>b</think> c", False, "b", "a c"),
    ("a\n", True, "a", ""),
    ("a </thin", True, "a </thin", ""),
    ("<think><think>a</think>b", False, "<think>a", "b"),
    ("  ", False, "", "  "),
    ("", True, "", ""),
]


def split(pieces: list[str], *, inside: bool) -> tuple[str, str]:
    splitter = ReasoningSplitter(THINK, PlainText(), inside=inside)
    events = [event for piece in pieces for event in splitter.push(piece)]
    events.extend(splitter.flush())
    assert all(getattr(event, "text", "") for event in events), "no event is empty"
    reasoning = "".join(e.text for e in events if isinstance(e, ReasoningDelta))
    content = "".join(e.text for e in events if isinstance(e, TextDelta))
    return reasoning, content


@pytest.mark.parametrize(("text", "inside", "reasoning", "content"), CASES)
def test_splits(text: str, inside: bool, reasoning: str, content: str) -> None:
    assert split([text], inside=inside) == (reasoning, content)


@pytest.mark.parametrize(("text", "inside", "reasoning", "content"), CASES)
def test_splits_the_same_at_every_cut(
    text: str, inside: bool, reasoning: str, content: str
) -> None:
    for at in range(len(text) + 1):
        assert split([text[:at], text[at:]], inside=inside) == (reasoning, content)
    assert split(list(text), inside=inside) == (reasoning, content)


@given(
    st.lists(st.sampled_from(["<think>", "</think>", "<", "think", ">", "/", " ", "\n", "a", "b"])),
    st.booleans(),
    st.data(),
)
def test_any_text_splits_the_same_however_it_is_cut(
    words: list[str], inside: bool, data: st.DataObject
) -> None:
    text = "".join(words)
    cuts = sorted(data.draw(st.lists(st.integers(0, len(text)), max_size=5)))
    pieces = [text[a:b] for a, b in zip([0, *cuts], [*cuts, len(text)], strict=True)]
    assert split(pieces, inside=inside) == split([text], inside=inside)


@given(st.text(), st.booleans())
def test_text_without_marks_passes_whole(text: str, inside: bool) -> None:
    reasoning, content = split([text], inside=inside)
    if "think>" not in text:
        assert (reasoning, content) == (text.strip(), "") if inside else ("", text)


def test_long_text_takes_linear_time() -> None:
    text = "<thin" * 100_000
    assert split([text[n : n + 7] for n in range(0, len(text), 7)], inside=False) == ("", text)


def test_finds_the_channel_by_tokens_or_template() -> None:
    assert find_channel({"<think>", "</think>"}, "") == THINK
    assert find_channel(set(), "... '<think>\\n' ... '</think>' ...") == THINK
    assert find_channel({"<think>"}, "") is None
    gemma = find_channel({"<|channel>", "<channel|>"}, "")
    assert gemma is not None
    assert gemma.opening == "<|channel>thought"


@pytest.mark.parametrize(
    ("prompt", "inside"),
    [
        ("<|im_start|>assistant\n<think>\n", True),
        ("<|im_start|>assistant\n<think>\n\n</think>\n\n", False),
        ("<|im_start|>assistant\n", False),
        ("I say <think> here<|im_end|>\n<|im_start|>assistant\n", False),
    ],
)
def test_tells_whether_a_prompt_leaves_it_open(prompt: str, inside: bool) -> None:
    assert THINK.is_open(prompt) is inside


def test_tells_whether_a_prompt_has_closed_it() -> None:
    assert THINK.is_closed("<|im_start|>assistant\n<think>\n\n</think>\n\n")
    assert not THINK.is_closed("<|im_start|>assistant\n<think>\n")
    assert not THINK.is_closed("<|im_start|>assistant\n")


# text, whether the prompt ended inside, whether it never opens, reasoning, content
FORMED = [
    ('{"a": "<think>b</think>"}', False, False, "", '{"a": "<think>b</think>"}'),
    ("<think>a</think>\n<think>b", False, False, "a", "<think>b"),
    ("a</think>b<think>c</think>", True, False, "a", "b<think>c</think>"),
    ("<think>", False, True, "", "<think>"),
    ("</think>x", False, True, "", "</think>x"),
    ("a</think>b", True, True, "a", "b"),
    (" x", False, True, "", " x"),
]


@pytest.mark.parametrize(("text", "inside", "shut", "reasoning", "content"), FORMED)
def test_a_form_may_hold_marks(
    text: str, inside: bool, shut: bool, reasoning: str, content: str
) -> None:
    for at in range(len(text) + 1):
        splitter = ReasoningSplitter(THINK, PlainText(), inside=inside, formed=True, shut=shut)
        events = [*splitter.push(text[:at]), *splitter.push(text[at:]), *splitter.flush()]
        assert "".join(e.text for e in events if isinstance(e, ReasoningDelta)) == reasoning
        assert "".join(e.text for e in events if isinstance(e, TextDelta)) == content


def test_a_call_may_hold_marks() -> None:
    text = (
        "<think>a <tool_call></think>\n<tool_call>\n"
        '{"name": "edit", "arguments": {"path": "<think>", "text": "<think>b</think>"}}\n'
        "</tool_call>\n<think>c</think>"
    )
    for at in range(len(text) + 1):
        splitter = ReasoningSplitter(THINK, parser("hermes"), inside=False)
        answer = fold([*splitter.push(text[:at]), *splitter.push(text[at:]), *splitter.flush()])
        assert answer.reasoning == "a <tool_call>c"
        assert answer.names == ["edit"]
        assert json.loads(answer.arguments[0]) == {"path": "<think>", "text": "<think>b</think>"}
        assert answer.content == ""


HARMONY = [
    ("<|channel|>analysis<|message|>a<|end|><|start|>assistant", "a", "{}"),
    ("<|channel|>commentary<|message|>I look.<|end|><|start|>assistant", "I look.", "{}"),
    ("stray", "stray", "<|channel|>"),
    ("<|channel|>analysis", "", "x"),
    ("", "", "x"),
]


@pytest.mark.parametrize(("before", "reasoning", "form"), HARMONY)
def test_only_the_last_channel_has_a_form(before: str, reasoning: str, form: str) -> None:
    mark = "<|channel|>final<|message|>"
    text = before + mark + form
    for at in range(len(text) + 1):
        reader = FormAfterMark(parser("harmony"), mark)
        answer = fold([*reader.push(text[:at]), *reader.push(text[at:]), *reader.flush()])
        assert (answer.reasoning, answer.content) == (reasoning, form)
    cut = FormAfterMark(parser("harmony"), mark)
    assert fold([*cut.push(before + mark[:4]), *cut.flush()]).content == ""


def test_a_budget_may_cut_the_header_of_a_channel() -> None:
    answer = parse("harmony", "<|channel|>analysis<|channel|>final<|message|>It is so.")
    assert (answer.reasoning, answer.content) == ("", "It is so.")
