# ruff: noqa: RUF001 - DeepSeek's markers have a wide bar
"""Conversations as one template shows them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from core.engine.request import ChatPrompt
from core.engine.retelling import Retelling
from core.engine.tokenizer import Tokenizer
from tests.tiny import make_model

ARGUMENTS = {"path": "a b", "n": [1, None]}
DAMAGED = '{"path": "a "b""'
WRITTEN = json.dumps(ARGUMENTS)
EXPRESSIONS = {
    "joined": ("call.function.name + ' ' + call.function.arguments", WRITTEN, DAMAGED),
    "printed": ("call.function.name ~ ' ' ~ call.function.arguments", WRITTEN, DAMAGED),
    "as JSON": ("call.function.arguments | tojson", WRITTEN, json.dumps(DAMAGED)),
    "either": (
        "call.function.arguments if call.function.arguments is string "
        "else call.function.arguments | tojson",
        WRITTEN,
        DAMAGED,
    ),
    "one by one": (
        "call.function.arguments.items() | list | tojson",
        json.dumps([list(pair) for pair in ARGUMENTS.items()]),
        json.dumps([["arguments", DAMAGED]]),
    ),
}


@pytest.mark.parametrize("bare", [False, True], ids=["hermes", "deepseek"])
@pytest.mark.parametrize("how", EXPRESSIONS)
def test_arguments_have_the_form_that_the_template_shows(
    how: str, bare: bool, tmp_path: Path
) -> None:
    expression, whole, damaged = EXPRESSIONS[how]
    mark = "<｜tool▁calls▁begin｜>" if bare else "<tool_call>"
    template = (
        "{% if tools %}" + mark + "{% endif %}{% for message in messages %}"
        "[{{ message.role }}] {{ message.content }}{% for call in message.tool_calls or [] %}"
        "{{ " + expression + " }}{% endfor %}\n{% endfor %}"
    )
    folder = make_model(tmp_path / "model", chat_template=template)
    tokenizer = Tokenizer.load(folder, eos_ids=256, shelf=None)
    retelling = Retelling(tokenizer)
    assert retelling.family.name == ("deepseek" if bare else "hermes")
    for arguments, expected in ((ARGUMENTS, whole), (WRITTEN, whole), (DAMAGED, damaged)):
        assert expected in tokenizer.render(retelling.retell(_conversation(arguments)))


def _conversation(arguments: Any) -> ChatPrompt:
    call = {"id": "1", "type": "function", "function": {"name": "f", "arguments": arguments}}
    return ChatPrompt(
        messages=(
            {"role": "user", "content": "u"},
            {"role": "assistant", "content": "", "tool_calls": [call]},
            {"role": "tool", "tool_call_id": "1", "content": "t"},
        )
    )
