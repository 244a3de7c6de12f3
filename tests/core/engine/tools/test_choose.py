# ruff: noqa: RUF001 - DeepSeek's markers have a wide bar
"""A model's family, by its template and its vocabulary."""

from __future__ import annotations

import pytest

from core.engine.tools.choose import SIGNS, choose_family, find_family, load_family
from tests.core.engine.tools.folding import FAMILIES

HERMES = '{{- \'<tool_call>\\n{"name": "\' }}{{- tool_call.name }}'
TEMPLATES = {
    "hermes": HERMES,
    "qwen": "<tool_call>\\n<function=example>\\n<parameter=a>",
    "glm": "{{ '\\n<tool_call>' + tc.name }}<arg_key>{{ k }}</arg_key>",
    "minicpm": '<tool_call> <function name="f"><param name="p">',
    "minimax": "<minimax:tool_call>\n<invoke name=",
    "gemma": "<|tool_call>call:' + name + '{'}}<tool_call|>",
    "function_gemma": "<start_function_call>call:",
    "kimi": "<|tool_calls_section_begin|><|tool_call_begin|>",
    "deepseek": "{{'<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>'+ tool['function']['name']",
    "deepseek_v3": "<｜tool▁calls▁begin｜>' + '\\n```json\\n'",
    "deepseek_dsml": "<｜DSML｜function_calls>",
    "deepseek_v4": "<｜DSML｜tool_calls>",
    "llama": '{"name": function name, "parameters": dictionary} <|python_tag|>',
    "pythonic": "<|tool_call_start|>[",
    "mistral": '[TOOL_CALLS][{"name"',
    "mistral_args": "[TOOL_CALLS]' + name + '[ARGS]'",
    "longcat": "<longcat_tool_call>' + name",
    "muse_spark": "<atem:function_calls>",
    "harmony": "<|start|>assistant<|channel|>commentary<|message|>",
}
VOCABULARIES = {
    "hermes": {"<tool_call>", "</tool_call>"},
    "glm": {"<tool_call>", "</tool_call>", "<arg_key>", "<arg_value>"},
    "minimax": {"<minimax:tool_call>"},
    "gemma": {"<|tool_call>", "<tool_call|>"},
    "function_gemma": {"<start_function_call>"},
    "kimi": {"<|tool_calls_section_begin|>"},
    "deepseek": {"<｜tool▁calls▁begin｜>"},
    "deepseek_dsml": {"｜DSML｜"},
    "llama": {"<|python_tag|>"},
    "pythonic": {"<|tool_call_start|>", "<|tool_call_end|>"},
    "mistral": {"[TOOL_CALLS]"},
    "mistral_args": {"[TOOL_CALLS]", "[ARGS]"},
    "harmony": {"<|channel|>", "<|message|>", "<|constrain|>", "<|call|>"},
}


@pytest.mark.parametrize("name", FAMILIES)
def test_by_template(name: str) -> None:
    assert choose_family(TEMPLATES[name], set()).name == name


@pytest.mark.parametrize("name", VOCABULARIES)
def test_by_vocabulary(name: str) -> None:
    assert choose_family(None, VOCABULARIES[name]).name == name


def test_a_template_says_more_than_a_vocabulary() -> None:
    assert choose_family(HERMES, VOCABULARIES["pythonic"]).name == "hermes"


def test_nothing_tells() -> None:
    assert find_family("{{ messages }}", {"a", "b"}) is None
    assert choose_family("{{ messages }}", {"a", "b"}).name == "hermes"
    assert choose_family(None, ()).name == "hermes"


def test_every_sign_names_a_plug_in_that_exists() -> None:
    assert {sign.family for sign in SIGNS} == set(FAMILIES)
    for name in FAMILIES:
        assert load_family(name).name == name


def test_only_harmony_brings_its_reasoning() -> None:
    assert [name for name in FAMILIES if load_family(name).carries_reasoning] == ["harmony"]
