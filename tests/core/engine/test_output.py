"""Tokens become events through one pipeline."""

from __future__ import annotations

import pytest

from core.engine.events import ReasoningDelta, TextDelta, ToolCallDelta
from core.engine.output import OutputPipeline
from core.engine.reasoning import Channel, PlainText, ReasoningSplitter
from tests.core.engine.tools.folding import parser

THINK = Channel(opening="<think>", closing="</think>")


def pipeline(*stops: str, inside: bool = False) -> OutputPipeline:
    return OutputPipeline(
        decode=lambda tokens: bytes(tokens).decode(errors="replace"),
        stops=stops,
        parser=ReasoningSplitter(THINK, PlainText(), inside=inside),
    )


def run(output: OutputPipeline, text: str) -> tuple[str, str]:
    events: list[object] = []
    for token in text.encode():
        events.extend(output.push(token))
        if output.stopped:
            break
    events.extend(output.flush())
    reasoning = "".join(e.text for e in events if isinstance(e, ReasoningDelta))
    return reasoning, "".join(e.text for e in events if isinstance(e, TextDelta))


def test_reads_reasoning_and_content() -> None:
    output = pipeline()
    assert run(output, "<think>Hm, né?</think>Yes.") == ("Hm, né?", "Yes.")
    assert not output.called


def test_counts_the_tokens_of_an_open_channel() -> None:
    output = pipeline()
    run(output, "<think> a </think>bcd")
    assert output.reasoning_tokens == len(" a </think>")
    output = pipeline(inside=True)
    run(output, "ab")
    assert output.reasoning_tokens == 2


def test_a_stop_text_ends_reasoning_too_and_is_not_shown() -> None:
    output = pipeline("END")
    assert run(output, "<think>one ENDtwo</think>three") == ("one", "")
    assert output.stopped


def test_what_was_held_back_comes_with_the_end() -> None:
    assert run(pipeline("STOP"), "a <thi ST") == ("", "a <thi ST")


@pytest.mark.parametrize(
    ("text", "ended", "arguments", "cut"),
    [
        ("{'city': 'Rome'", True, '{"city": "Rome"}', False),
        ("{'city': 'Rome'", False, "{'city': 'Rome'", True),
        ("{'city': 'Rome'}}", False, '{"city": "Rome"}', False),
        ("{'city': 'RomeEND", True, "{'city': 'Rome", True),
        ('{"city": "Rome"}}END', True, '{"city": "Rome"}', False),
    ],
)
def test_a_call_is_completed_only_if_the_model_ended_it(
    text: str, ended: bool, arguments: str, cut: bool
) -> None:
    output = OutputPipeline(
        decode=lambda tokens: bytes(tokens).decode(errors="replace"),
        stops=["END"],
        parser=ReasoningSplitter(THINK, parser("hermes"), inside=False),
    )
    pieces: list[object] = []
    for token in f'<tool_call>{{"name": "get_weather", "arguments": {text}'.encode():
        pieces.extend(output.push(token))
    pieces.extend(output.flush(ended=ended))
    assert "".join(p.arguments for p in pieces if isinstance(p, ToolCallDelta)) == arguments
    assert (output.called, output.cut) == (True, cut)
    assert output.repairs == (set() if cut or "'" not in text else output.repairs | {"quotes"})
