"""System messages for templates that refuse them, drop them, or show only one."""

from __future__ import annotations

from typing import Any

import pytest
from jinja2 import TemplateError

from core.engine.request import ChatPrompt
from core.engine.system_prompt import SystemSupport, probe_support, show_system
from core.engine.template import ChatTemplate

_TURNS = "{% for m in messages %}{{ m.role }}: {{ m.content }}\n{% endfor %}"
TEMPLATES = {
    "all": _TURNS,
    "gemma refuses": "{% for m in messages %}{% if m.role == 'system' %}"
    "{{ raise_exception('System role not supported') }}{% endif %}{% endfor %}" + _TURNS,
    "loses": "{% for m in messages %}{% if m.role != 'system' %}{{ m.content }}{% endif %}"
    "{% endfor %}",
    "first only": "{% if messages[0].role == 'system' %}{{ messages[0].content }}"
    "{% set messages = messages[1:] %}{% endif %}{% for m in messages %}"
    "{% if m.role not in ('user', 'assistant') %}{{ raise_exception('roles') }}{% endif %}"
    "{{ m.content }}{% endfor %}",
    "last wins": "{% set ns = namespace(s='') %}{% for m in messages %}{% if m.role == 'system' %}"
    "{% set ns.s = m.content %}{% endif %}{% endfor %}{{ ns.s }}{% for m in messages %}"
    "{% if m.role != 'system' %}{{ m.content }}{% endif %}{% endfor %}",
    "beginning": "{% for m in messages %}{% if m.role == 'system' and loop.index0 > 1 %}"
    "{{ raise_exception('late') }}{% endif %}{{ m.content }}{% endfor %}",
}
WANTED = {
    "all": (True, True, True),
    "gemma refuses": (False, False, False),
    "loses": (False, False, False),
    "first only": (True, False, False),
    "last wins": (True, False, False),
    "beginning": (True, True, False),
}


def _turn(role: str, content: str) -> dict[str, Any]:
    return {"role": role, "content": content}


S1, S2, S3 = (_turn("system", text) for text in ("Be kind.", "Be brief.", "Be odd."))
U1, U2, A1 = _turn("user", "Hi."), _turn("user", "And?"), _turn("assistant", "Hello.")
NONE = SystemSupport(first=False, several=False, later=False)
ONE = SystemSupport(first=True, several=False, later=False)


@pytest.mark.parametrize("name", TEMPLATES)
def test_what_templates_show_is_tried(name: str) -> None:
    template = ChatTemplate({"default": TEMPLATES[name]}, {}, thinking=False)

    def render(prompt: ChatPrompt) -> str | None:
        try:
            return template.render(prompt.messages)
        except TemplateError:
            return None

    first, several, later = WANTED[name]
    support = probe_support(render)
    assert support == SystemSupport(first=first, several=several, later=later)
    for messages in ([S1, U1], [S1, S2, U1], [S1, U1, A1, S2, U2], [U1, S1], [S1], [U1, A1, S1]):
        text = render(ChatPrompt(messages=tuple(show_system(messages, support))))
        assert text
        assert all(message["content"] in text for message in messages)


def test_what_is_shown_stays_as_it_is() -> None:
    messages = [S1, S2, U1, A1, S3, U2]
    everything = SystemSupport(first=True, several=True, later=True)
    assert show_system(messages, everything) == messages
    assert show_system([S1, U1, A1], ONE) == [S1, U1, A1]


def test_the_first_question_begins_with_it() -> None:
    assert show_system([S1, S2, U1, A1], NONE) == [
        _turn("user", "Be kind.\n\nBe brief.\n\nHi."),
        A1,
    ]
    named = {**U1, "name": "Ada"}
    assert show_system([S1, named], NONE) == [{**named, "content": "Be kind.\n\nHi."}]


def test_several_become_one_where_one_is_shown() -> None:
    assert show_system([S1, S2, U1], ONE) == [_turn("system", "Be kind.\n\nBe brief."), U1]


@pytest.mark.parametrize(
    ("messages", "told"),
    [
        ([U1, A1, S1, U2], [U1, A1, _turn("user", "Be kind.\n\nAnd?")]),
        ([U1, S1], [_turn("user", "Hi.\n\nBe kind.")]),
        ([U1, S1, U2], [_turn("user", "Hi.\n\nBe kind.\n\nAnd?")]),
        ([U1, A1, S1, S2], [U1, A1, _turn("user", "Be kind.\n\nBe brief.")]),
        ([U1, U2, A1], [U1, U2, A1]),
        ([S1, A1, U1], [_turn("user", "Be kind."), A1, U1]),
    ],
)
def test_one_in_the_middle_joins_the_user_beside_it(messages: Any, told: Any) -> None:
    assert show_system(messages, NONE) == told


def test_joining_takes_linear_time() -> None:
    (told,) = show_system([_turn("system", "x" * 100)] * 100_000, NONE)
    assert len(told["content"]) == 102 * 100_000 - 2
