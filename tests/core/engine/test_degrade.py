"""Choices that no grammar can be made of: the request is answered, with a warning."""

from __future__ import annotations

import pytest

from core.engine.events import Finished
from core.engine.request import ChatPrompt, GenerationRequest, GrammarSpec, TextPrompt
from tests.core.engine.conftest import OpenEngine

CHAT = ChatPrompt(messages=({"role": "user", "content": "hi"},))


@pytest.mark.parametrize(
    "choices", [(), ("",), ("a", ""), ("\ud800",), tuple(map(str, range(6000)))]
)
@pytest.mark.parametrize("prompt", [TextPrompt(text="a"), CHAT])
def test_choices_that_cannot_be_enforced_are_no_error(
    open_tiny: OpenEngine, choices: tuple[str, ...], prompt: ChatPrompt | TextPrompt
) -> None:
    request = GenerationRequest(
        prompt=prompt, grammar=GrammarSpec(kind="choice", source=choices), max_tokens=2
    )
    generation = open_tiny().submit(request)
    (told,) = generation.warnings
    assert told.startswith("grammar not enforced: ")
    assert isinstance([*generation][-1], Finished)


def test_of_no_choices_the_model_is_told_nothing(open_tiny: OpenEngine) -> None:
    engine = open_tiny()
    plain = engine.submit(GenerationRequest(prompt=CHAT, max_tokens=1)).prompt_tokens
    lengths = [
        engine.submit(
            GenerationRequest(
                prompt=CHAT, grammar=GrammarSpec(kind="choice", source=source), max_tokens=1
            )
        ).prompt_tokens
        for source in ((), ("a", ""))
    ]
    assert lengths[0] == plain < lengths[1]
