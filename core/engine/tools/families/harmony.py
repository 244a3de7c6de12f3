"""Harmony, the format of gpt-oss: an answer is a number of messages, each in a channel.

    <|channel|>analysis<|message|>Need the weather.<|end|>
    <|start|>assistant<|channel|>commentary to=functions.get_weather <|constrain|>json<|message|>
    {"city": "Paris"}<|call|>

in one line. `analysis` is reasoning, what is addressed to a function calls it, all else is content.
Several messages of one kind are shown with an empty line between them.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

from core.engine.events import ReasoningDelta, TextDelta
from core.engine.parsing import AnswerParser
from core.engine.request import Tool, ToolUse
from core.engine.tools import formats
from core.engine.tools.answer import Content, SteppedParser
from core.engine.tools.arguments import read_arguments
from core.engine.tools.calls import Calls, NewId, Reading, Steps
from core.engine.tools.family import Family, Format, Message
from core.engine.tools.history import with_objects
from core.engine.tools.source import Source, Stops

START, CHANNEL, MESSAGE = "<|start|>", "<|channel|>", "<|message|>"
END, RETURN, CALL, CONSTRAIN = "<|end|>", "<|return|>", "<|call|>", "<|constrain|>"
_ENDS = (END, RETURN, CALL)
_SPECIAL = (START, CHANNEL, MESSAGE, CONSTRAIN, *_ENDS)
_BETWEEN_MARKS = (START, CHANNEL, *_ENDS)
_BETWEEN = Stops(_BETWEEN_MARKS)
_WITHIN_HEADER = Stops(_SPECIAL)
_RECIPIENT = re.compile(r"to=([^\s<]+)")
_CHANNEL_NAME = re.compile(re.escape(CHANNEL) + r"\s*(\w+)")
_LONGEST_HEADER = 400
"""Characters between the beginning of a message and its text."""


def make_parser(tools: ToolUse, new_id: NewId) -> AnswerParser:
    """Return a parser for one answer; it tells channels apart even where no tool may be called."""
    source = Source()
    may_call = bool(tools.tools) and tools.mode != "none"
    answer = _Answer(Reading(source, Calls(tools, new_id)), may_call=may_call)
    return SteppedParser(source, answer.read())


class _Answer:
    def __init__(self, reading: Reading, *, may_call: bool) -> None:
        self._reading = reading
        self._source = reading.source
        self._may_call = may_call
        self._content = Content()
        self._thought = False
        self._break = False

    def read(self) -> Steps[None]:
        if (yield from self._source.starts(" to=")):
            yield from self._message()
        while not (yield from self._source.ended()):
            text = yield from self._source.until(_BETWEEN)
            if text:
                yield from self._say(text)
            elif not (yield from self._end()):
                yield from self._message()
        rest = self._content.end(called=self._reading.calls.count > 0)
        if rest:
            yield TextDelta(text=rest)

    def _end(self) -> Steps[bool]:
        """Read the end of a message."""
        for mark in _ENDS:
            if (yield from self._source.skip(mark)):
                return True
        return False

    def _message(self) -> Steps[None]:
        self._source.hold()
        header = yield from self._header()
        if header is None:
            yield from self._say(self._source.unsettled())
            return
        self._source.release()
        recipient = _RECIPIENT.search(header)
        # The last one: a budget of reasoning may cut a header and open the answer's channel.
        channels = _CHANNEL_NAME.findall(header)
        self._break = True
        if recipient and self._calls(recipient[1]):
            yield from self._call(recipient[1].removeprefix("functions."))
        else:
            yield from self._body(thought=channels[-1:] == ["analysis"])

    def _header(self) -> Steps[str | None]:
        """Read up to the text of a message; None: there is none."""
        header = ""
        for mark in (START, CHANNEL):
            if (yield from self._source.skip(mark)):
                header = mark
                break
        while len(header) <= _LONGEST_HEADER:
            header += yield from self._source.until(_WITHIN_HEADER)
            if (yield from self._source.skip(MESSAGE)):
                return header
            for mark in (CHANNEL, CONSTRAIN):
                if (yield from self._source.skip(mark)):
                    header += mark
                    break
            else:
                if (yield from self._at_mark()) or (yield from self._source.ended()):
                    return None
        return None

    def _at_mark(self) -> Steps[bool]:
        for mark in _SPECIAL:
            if (yield from self._source.starts(mark)):
                return True
        return False

    def _calls(self, recipient: str) -> bool:
        name = recipient.removeprefix("functions.")
        return self._may_call and (name != recipient or self._reading.calls.known(name))

    def _call(self, name: str) -> Steps[None]:
        reading = self._reading
        reading.start(*_BETWEEN_MARKS)
        yield from reading.announce(name)
        reading.begin()
        good = yield from reading.stream(read_arguments(reading, optional=True))
        yield from reading.finish(good=good)

    def _body(self, *, thought: bool) -> Steps[None]:
        while text := (yield from self._source.until(_BETWEEN)):
            yield from self._think(text) if thought else self._say(text)

    def _think(self, text: str) -> Steps[None]:
        if self._break and self._thought:
            text = f"\n\n{text}"
        self._break = False
        self._thought = True
        yield ReasoningDelta(text=text)

    def _say(self, text: str) -> Steps[None]:
        called = self._reading.calls.count > 0
        if self._break and self._content.said:
            text = f"\n\n{text}"
        self._break = False
        shown = self._content.say(text, called=called)
        if shown:
            yield TextDelta(text=shown)


def call_format(tools: ToolUse) -> Format:
    """Return what stands for a call, after as much analysis as the model likes.

    One call: its end is an end of sequence for the model.
    """
    analysis = formats.tag(
        f"{CHANNEL}analysis{MESSAGE}", {"type": "any_text"}, f"{END}{START}assistant"
    )
    calls = [_format(tool) for tool in formats.callable_tools(tools)]
    return formats.sequence(
        formats.star(analysis), formats.either(calls), formats.optional(formats.text(CALL))
    )


def _format(tool: Tool) -> Format:
    begin = f"{CHANNEL}commentary to=functions.{tool.name} {CONSTRAIN}json{MESSAGE}"
    return formats.tag(begin, formats.arguments(tool), "")


def prepare_history(messages: Iterable[Message]) -> list[Message]:
    """Give arguments as objects, and the reasoning before a call under the template's name."""
    return [_with_thinking(message) for message in with_objects(messages)]


def _with_thinking(message: Message) -> Message:
    thinking = message.get("reasoning_content") or message.get("reasoning")
    if not thinking or not message.get("tool_calls") or "thinking" in message:
        return message
    # The template refuses a message that has both, and shows the content as analysis.
    return message if message.get("content") else {**message, "thinking": thinking}


FAMILY = Family(
    name="harmony",
    make_parser=make_parser,
    call_format=call_format,
    special_tokens=_SPECIAL,
    carries_reasoning=True,
    prepare_history=prepare_history,
)
