"""One answer: asked for, shown as it comes, stopped by Ctrl-C. Knows no conversation file."""

from __future__ import annotations

import time
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from core.engine.events import Finished, ReasoningDelta, TextDelta, ToolCallDelta
from core.errors import EngineFailed
from core.sessions.conversation import Call
from core.sessions.text import clean

if TYPE_CHECKING:
    from collections.abc import Callable

    from commands.chat.interrupts import Interrupts
    from commands.chat.screen import Screen
    from core.engine.engine import Engine
    from core.engine.events import Usage
    from core.engine.generation import Generation
    from core.engine.request import GenerationRequest


@dataclass(frozen=True, kw_only=True)
class Answer:
    """What came of a question."""

    text: str
    """The answer, as far as it went."""
    reasoning: str
    """What was thought before it; empty: nothing."""
    finish: str
    """`stop`, `length`, `tool_calls`, or `cut`: by Ctrl-C or by a failure."""
    usage: Usage | None
    """What it took; None when it was cut."""
    seconds: float
    """From the question to the end."""
    failure: EngineFailed | None
    """Why it could not go on, if it could not."""
    calls: tuple[Call, ...] = ()
    """The tools that it calls; only of an answer that ended with `tool_calls`."""


class _Stop:
    """Ctrl-C during an answer, which may come before the engine has taken the question."""

    def __init__(self) -> None:
        self._pressed = False
        self._generation: Generation | None = None

    def press(self) -> None:
        self._pressed = True
        if self._generation:
            self._generation.cancel()

    def watch(self, generation: Generation) -> None:
        self._generation = generation
        if self._pressed:
            generation.cancel()


def ask(
    engine: Engine,
    request: GenerationRequest,
    *,
    screen: Screen,
    interrupts: Interrupts,
    on_accepted: Callable[[], object],
    on_reasoning: Callable[[str], object],
) -> Answer:
    """Ask the engine, show the answer as it comes, and return it.

    Args:
        engine: the model.
        request: the conversation, with a question at its end.
        screen: where the answer appears.
        interrupts: Ctrl-C stops the answer.
        on_accepted: called once the engine has taken the question, before the answer.
        on_reasoning: shows more of the reasoning.

    Raises:
        MlxbunError: the engine did not take the question.
    """
    stop = _Stop()
    began = time.monotonic()
    with interrupts.calling(stop.press):
        generation = engine.submit(request)
        on_accepted()
        stop.watch(generation)
        return _take(generation, screen, began, on_reasoning)


def _take(
    generation: Generation,
    screen: Screen,
    began: float,
    on_reasoning: Callable[[str], object],
) -> Answer:
    texts: list[str] = []
    thoughts: list[str] = []
    calls: dict[int, Call] = {}
    end: Finished | None = None
    failure: EngineFailed | None = None
    try:
        for event in generation:
            if isinstance(event, TextDelta) and (text := clean(event.text)):
                if thoughts and not texts:
                    on_reasoning("\n\n")
                texts.append(text)
                screen.push(text)
            elif isinstance(event, ReasoningDelta) and (thought := clean(event.text)):
                thoughts.append(thought)
                on_reasoning(thought)
            elif isinstance(event, ToolCallDelta):
                calls[event.index] = _grown(calls.get(event.index), event)
            elif isinstance(event, Finished):
                end = event
    except EngineFailed as problem:
        failure = problem
    if thoughts and not texts:
        on_reasoning("\n")
    screen.finish()
    return Answer(
        text="".join(texts),
        reasoning="".join(thoughts),
        finish=end.reason if end else "cut",
        usage=end.usage if end else None,
        seconds=time.monotonic() - began,
        failure=failure,
        calls=tuple(calls.values()) if end and end.reason == "tool_calls" else (),
    )


def _grown(call: Call | None, delta: ToolCallDelta) -> Call:
    """Return a call with more of its arguments."""
    before = call or Call(id=delta.id or "", name=clean(delta.name or ""), arguments="")
    return replace(before, arguments=before.arguments + clean(delta.arguments))
