"""What a config and a chat template tell; what they do not tell is not guessed."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from core.registry.abilities import (
    Abilities,
    architectures_of,
    model_type_of,
    read_abilities,
    template_in,
)


@pytest.mark.parametrize(
    ("config", "abilities"),
    [
        ({}, Abilities()),
        ({"max_position_embeddings": 8192}, Abilities(context=8192)),
        ({"n_positions": 1024}, Abilities(context=1024)),
        ({"text_config": {"max_position_embeddings": 99}}, Abilities(context=99)),
        (
            {"max_position_embeddings": 10, "text_config": {"max_position_embeddings": 99}},
            Abilities(context=10),
        ),
        ({"max_position_embeddings": True}, Abilities()),
        ({"max_position_embeddings": "many"}, Abilities()),
        ({"max_position_embeddings": -1}, Abilities()),
        ({"max_position_embeddings": 1e6}, Abilities()),
        ({"vision_config": {"hidden_size": 3}}, Abilities(vision=True)),
        ({"vision_config": None, "image_token_id": None}, Abilities()),
        ({"vision_config": {}}, Abilities()),
        ({"image_token_index": 7}, Abilities(vision=True)),
        ({"audio_config": {"a": 1}, "vision_config": {"a": 1}}, Abilities(vision=True, audio=True)),
        (
            {"thinker_config": {"audio_config": {"a": 1}, "text_config": {"n_ctx": 5}}},
            Abilities(audio=True, context=5),
        ),
        ({"text_config": [], "thinker_config": "no"}, Abilities()),
    ],
)
def test_a_config(config: dict[str, Any], abilities: Abilities) -> None:
    assert read_abilities(config, None) == abilities


@pytest.mark.parametrize(
    ("template", "tools", "thinking"),
    [
        ("{% for m in messages %}{{ m.content }}{% endfor %}", False, False),
        ("{%- if tools %}{{ tools | tojson }}{% endif %}", True, False),
        ("{% if not tools is none %}", True, False),
        ("{{ toolset }}", False, False),
        ("{% if enable_thinking is defined %}", False, True),
        ("{% set content = content.split('</think>')[-1] %}", False, True),
        ("{{ message.reasoning_content }}", False, True),
        ("Reasoning: {{ reasoning_effort }}", False, True),
        ("<|channel|>analysis", False, True),
        ("<|channel>thought", False, True),
        ("[THINK]", False, True),
        ("{% if thinking %}", False, True),
        ("unthinkingly", False, False),
    ],
)
def test_a_template(template: str, tools: bool, thinking: bool) -> None:
    found = read_abilities({}, template)
    assert (found.chat, found.tools, found.thinking) == (True, tools, thinking)


@pytest.mark.parametrize(
    ("settings", "template"),
    [
        ({}, None),
        ({"chat_template": "a"}, "a"),
        (
            {
                "chat_template": [
                    {"name": "default", "template": "a"},
                    {"name": "tool_use", "template": "b"},
                    {"name": "no"},
                    3,
                ]
            },
            "a\nb",
        ),
        ({"chat_template": None}, None),
        ({"chat_template": []}, None),
        ({"chat_template": {"a": 1}}, None),
    ],
)
def test_where_a_template_stands(settings: dict[str, Any], template: str | None) -> None:
    assert template_in(settings) == template


@pytest.mark.parametrize(
    ("value", "word"),
    [("llama", "llama"), (3, None), ("", None), ("x" * 200, None), ("a\x1b[2J", None), ([], None)],
)
def test_only_a_word_is_a_type(value: object, word: str | None) -> None:
    assert model_type_of({"model_type": value}) == word
    assert architectures_of({"architectures": [value]}) == ((word,) if word else ())


def test_one_architecture_may_stand_alone() -> None:
    assert architectures_of({"architectures": "A"}) == ("A",)
    assert architectures_of({"architectures": {"A": 1}}) == ()


_ANY = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=8,
)
_KEYS = st.sampled_from(
    ["model_type", "architectures", "text_config", "thinker_config", "vision_config", "n_ctx",
     "image_token_id", "audio_config", "max_position_embeddings", "chat_template"]
)  # fmt: skip


@given(st.dictionaries(_KEYS, st.dictionaries(_KEYS, _ANY) | _ANY), st.none() | st.text())
def test_any_config_is_read(config: dict[str, Any], template: str | None) -> None:
    found = read_abilities(config, template)
    assert found.context is None or found.context > 0
    assert found.chat == (template is not None)
    assert all(word.isprintable() for word in architectures_of(config))
    assert template_in(config) is None or isinstance(template_in(config), str)
    assert model_type_of(config) is None or isinstance(model_type_of(config), str)
