"""Which family a model belongs to, by its chat template and its vocabulary. Imports no arrays."""

from __future__ import annotations

from collections.abc import Container
from dataclasses import dataclass
from importlib import import_module

from core.engine.tools.family import Family

FALLBACK = "hermes"
"""Whose markup is read when a model's is not known: the one that most models were shown."""


@dataclass(frozen=True, kw_only=True)
class Sign:
    """What gives a family away."""

    family: str
    """The plug-in's name."""
    template: tuple[str, ...] = ()
    """Texts that the chat template has, all of them; empty: the template tells nothing."""
    vocabulary: tuple[str, ...] = ()
    """Tokens that the vocabulary has, all of them; empty: the vocabulary tells nothing."""


_DSML = "｜DSML｜"  # noqa: RUF001
_DEEPSEEK = ("<｜tool▁calls▁begin｜>",)  # noqa: RUF001
_DEEPSEEK_FENCE = (*_DEEPSEEK, "```json")

SIGNS = (
    Sign(
        family="harmony",
        template=("<|channel|>", "<|message|>", "<|start|>"),
        vocabulary=("<|channel|>", "<|message|>", "<|constrain|>", "<|call|>"),
    ),
    Sign(family="minimax", template=("<minimax:tool_call>",), vocabulary=("<minimax:tool_call>",)),
    Sign(
        family="gemma",
        template=("<|tool_call>", "<tool_call|>"),
        vocabulary=("<|tool_call>", "<tool_call|>"),
    ),
    Sign(
        family="function_gemma",
        template=("<start_function_call>",),
        vocabulary=("<start_function_call>",),
    ),
    Sign(
        family="longcat",
        template=("<longcat_tool_call>",),
        vocabulary=("<longcat_tool_call>",),
    ),
    Sign(family="glm", template=("<arg_key>",), vocabulary=("<arg_key>", "<arg_value>")),
    Sign(
        family="pythonic",
        template=("<|tool_call_start|>",),
        vocabulary=("<|tool_call_start|>", "<|tool_call_end|>"),
    ),
    Sign(family="pythonic", template=("<|tool_list_start|>",)),
    Sign(family="deepseek_v4", template=(_DSML, "tool_calls>")),
    Sign(family="deepseek_dsml", template=(_DSML,), vocabulary=(_DSML,)),
    Sign(family="deepseek_v3", template=_DEEPSEEK_FENCE),
    Sign(family="deepseek", template=_DEEPSEEK, vocabulary=_DEEPSEEK),
    Sign(
        family="kimi",
        template=("<|tool_calls_section_begin|>",),
        vocabulary=("<|tool_calls_section_begin|>",),
    ),
    Sign(family="qwen", template=("<function=", "<parameter=")),
    Sign(family="minicpm", template=('<function name="', '<param name="')),
    Sign(family="muse_spark", template=("<atem:function_calls>",)),
    Sign(family="mistral_args", template=("[TOOL_CALLS]", "[ARGS]")),
    Sign(family="mistral", template=("[TOOL_CALLS]",)),
    Sign(family="hermes", template=("<tool_call>",)),
    Sign(family="llama", template=("<|python_tag|>",)),
    Sign(family="llama", template=("<|python_start|>",)),
    Sign(family="llama", template=('"parameters"', "<|eot_id|>")),
    Sign(family="mistral_args", vocabulary=("[TOOL_CALLS]", "[ARGS]")),
    Sign(family="mistral", vocabulary=("[TOOL_CALLS]",)),
    Sign(family="hermes", vocabulary=("<tool_call>", "</tool_call>")),
    Sign(family="llama", vocabulary=("<|python_tag|>",)),
)
"""In this order, templates first: what a template says counts more than what a vocabulary has."""


def load_family(name: str) -> Family:
    """Return a plug-in by its name."""
    family: Family = import_module(f"core.engine.tools.families.{name}").FAMILY
    return family


def find_family(template: str | None, vocabulary: Container[str]) -> Family | None:
    """Return the family of a model; None: nothing tells.

    Args:
        template: source of its chat template (of all of them, if it has several); None: none.
        vocabulary: texts of its tokens.
    """
    name = _by_template(template or "") or _by_vocabulary(vocabulary)
    return load_family(name) if name else None


def choose_family(template: str | None, vocabulary: Container[str]) -> Family:
    """Return the family of a model, or the one whose markup most models know."""
    return find_family(template, vocabulary) or load_family(FALLBACK)


def _by_template(template: str) -> str | None:
    for sign in SIGNS:
        if sign.template and all(text in template for text in sign.template):
            return sign.family
    return None


def _by_vocabulary(vocabulary: Container[str]) -> str | None:
    for sign in SIGNS:
        if sign.vocabulary and all(token in vocabulary for token in sign.vocabulary):
            return sign.family
    return None
