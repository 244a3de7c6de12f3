"""Calls go out as JSON and come back as history: each family's model reads there what it wrote."""

from __future__ import annotations

import json
from functools import cache

import pytest

from tests.core.engine.round_trips.agent import (
    SYSTEM,
    TURNS,
    Message,
    Model,
    calls_of,
    intended,
    results,
    sent_back,
)
from tests.core.engine.round_trips.cases import CASES, Case

of_each_family = pytest.mark.parametrize("case", CASES, ids=str)


@cache
def model_of(case: Case) -> Model:
    return Model(case)


@of_each_family
def test_the_family_is_found(case: Case) -> None:
    assert model_of(case).preparer.family.name == (case.family or case.name)


@of_each_family
def test_an_agent_is_understood_at_every_turn(case: Case) -> None:
    model = model_of(case)
    history: list[Message] = [SYSTEM] if case.system else []
    for number, turn in enumerate(TURNS):
        if turn.asked:
            history.append({"role": "user", "content": turn.asked})
        meant = intended(turn, case, number)
        written = model.writes(history, meant)
        answer = model.reads(history, written)
        wanted = list(turn.calls if case.parallel else turn.calls[:1])
        assert calls_of(answer) == wanted
        assert answer.content.strip() == meant["content"]
        if case.reasons and (wanted or answer.reasoning):
            assert answer.reasoning == turn.thought

        back = sent_back(answer)
        asked, shown = model.prompt(history), model.shown([*history, back])
        again = model.reads(history, model.answer_in(shown, history))
        assert calls_of(again) == wanted
        history += [back, *results(back)]
        # What the model wrote is what it is shown, but for what its template leaves out.
        if wanted and case.keeps:
            assert model.prompt(history)[: len(asked) + len(written) - 1] == [
                *asked,
                *written[:-1],
            ]


DAMAGED = '{"path": "a "b"", <x>'


@of_each_family
def test_damaged_arguments_are_shown_as_text(case: Case) -> None:
    call = {"id": "call_00", "type": "function"}
    function = {"name": "edit", "arguments": DAMAGED}
    told: Message = {
        "role": "assistant",
        "content": "",
        "tool_calls": [call | {"function": function}],
    }
    history: list[Message] = [{"role": "user", "content": "Edit."}, told, *results(told)]
    model = model_of(case)
    shown = bytes(n for n in model.shown(history) if n < 256).decode()
    assert DAMAGED in shown or json.dumps(DAMAGED)[1:-1] in shown
