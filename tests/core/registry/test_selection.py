"""Filters and sorting over cards."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from core.errors import UsageProblem
from core.registry.library import ModelCard
from core.registry.selection import SortKey, Wanted, arrange, quantization_test, select
from core.registry.storage import Quantization


def _card(name: str, **changes: Any) -> ModelCard:
    fields: dict[str, Any] = {
        "folder": Path(name), "in_cache": True, "commit": None, "refs": (),
        "model_type": "llama", "architectures": (), "parameters": 1, "quantization": None,
        "dtype": "bf16", "weights_bytes": 1, "size_bytes": 1, "modified": 1.0, "context": 1,
        "vision": False, "audio": False, "chat": True, "tools": False, "thinking": False,
        "problem": None, "supported": True, "reason": None, "note": None, "blobs": {},
    }  # fmt: skip
    return ModelCard(name=name, **(fields | changes))


def _packed(bits: int, mode: str = "affine", *, mixed: bool = False) -> Quantization:
    return Quantization(bits=bits, group_size=64, mode=mode, mixed=mixed)


CARDS = [
    _card("org/Llama-4bit", quantization=_packed(4), size_bytes=100, context=None, tools=True),
    _card("org/qwen-8bit", quantization=_packed(8, mixed=True), size_bytes=300, modified=9.0),
    _card("org/Plain", model_type="qwen3_moe", size_bytes=200, parameters=None, thinking=True),
    _card("half", dtype="fp16", model_type="qwen3", size_bytes=200, vision=True, context=7),
    _card("GPT", quantization=_packed(4, "mxfp4"), parameters=50, audio=True, model_type=None),
]


@pytest.mark.parametrize(
    ("wanted", "names"),
    [
        ({}, ["org/Llama-4bit", "org/qwen-8bit", "org/Plain", "half", "GPT"]),
        ({"part": "ORG/"}, ["org/Llama-4bit", "org/qwen-8bit", "org/Plain"]),
        ({"part": "nothing"}, []),
        ({"min_bytes": 200}, ["org/qwen-8bit", "org/Plain", "half"]),
        ({"max_bytes": 200, "min_bytes": 100}, ["org/Llama-4bit", "org/Plain", "half"]),
        ({"max_bytes": 0}, []),
        ({"model_type": "LLAMA"}, ["org/Llama-4bit", "org/qwen-8bit"]),
        ({"model_type": "qwen3"}, ["half"]),
        ({"model_type": "qwen*"}, ["org/Plain", "half"]),
        ({"vision": True}, ["half"]),
        ({"audio": True}, ["GPT"]),
        ({"tools": True}, ["org/Llama-4bit"]),
        ({"thinking": True, "part": "a"}, ["org/Plain"]),
        ({"quant": "4"}, ["org/Llama-4bit", "GPT"]),
        ({"quant": "4bit"}, ["org/Llama-4bit", "GPT"]),
        ({"quant": "8-bit"}, ["org/qwen-8bit"]),
        ({"quant": "8-bits"}, ["org/qwen-8bit"]),
        ({"quant": "mixed"}, ["org/qwen-8bit"]),
        ({"quant": "none"}, ["org/Plain", "half"]),
        ({"quant": "BF16"}, ["org/Plain"]),
        ({"quant": "float16"}, ["half"]),
        ({"quant": "16"}, ["org/Plain", "half"]),
        ({"quant": "fp32"}, []),
        ({"quant": "mxfp4"}, ["GPT"]),
        ({"quant": "awq"}, []),
    ],
)
def test_what_is_meant(wanted: dict[str, Any], names: list[str]) -> None:
    assert [card.name for card in select(CARDS, Wanted(**wanted))] == names


@pytest.mark.parametrize("text", ["", "four", "4 bits", "40", "0", "-4", "4.5", "٤", "bit", "q"])
def test_a_quantization_that_is_none(text: str) -> None:
    with pytest.raises(UsageProblem, match="There is no quantization"):
        quantization_test(text)


@pytest.mark.parametrize(
    ("key", "names"),
    [
        (SortKey.NAME, ["GPT", "half", "org/Llama-4bit", "org/Plain", "org/qwen-8bit"]),
        (SortKey.SIZE, ["org/qwen-8bit", "org/Plain", "half", "org/Llama-4bit", "GPT"]),
        (SortKey.DATE, ["org/qwen-8bit", "org/Llama-4bit", "org/Plain", "half", "GPT"]),
        (SortKey.PARAMS, ["GPT", "org/Llama-4bit", "org/qwen-8bit", "half", "org/Plain"]),
        (SortKey.CONTEXT, ["half", "org/qwen-8bit", "org/Plain", "GPT", "org/Llama-4bit"]),
    ],
)
def test_orders(key: SortKey, names: list[str]) -> None:
    assert [card.name for card in arrange(CARDS, key)] == names


@given(st.sampled_from(SortKey), st.permutations(CARDS))
def test_backwards_leaves_those_that_do_not_tell_at_the_end(
    key: SortKey, cards: list[ModelCard]
) -> None:
    def silent(card: ModelCard) -> bool:
        return (key is SortKey.PARAMS and card.parameters is None) or (
            key is SortKey.CONTEXT and card.context is None
        )

    for backwards in (False, True):
        found = arrange(cards, key, backwards=backwards)
        assert sorted(card.name for card in found) == sorted(card.name for card in cards)
        assert [silent(card) for card in found] == sorted(map(silent, found))
