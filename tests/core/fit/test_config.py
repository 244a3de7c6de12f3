"""Fields of a stranger's config.json, and architectures read from hostile ones."""

from __future__ import annotations

import copy
import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from core.errors import BadModelFiles
from core.fit.config import Fields, text_fields
from core.fit.families import read_shape
from core.fit.families.table import _READERS
from core.fit.kv import KvShape
from core.fit.shapes import KvFormat, ModelShape
from tests.tiny import llama_config

_DATA = json.loads(Path(__file__).with_name("families.json").read_text(encoding="utf-8"))

HOSTILE: tuple[Any, ...] = (
    0, -1, -(2**70), 2**31, 10**30, 1.5, float("nan"), float("inf"), True, None, "", "64",
    "\x1b[2J", [], [None], [-1], [10**30] * 3, ["full_attention"], {}, {"a": {}},
)  # fmt: skip


def test_the_first_name_that_is_there_counts() -> None:
    fields = Fields({"n_layer": 3, "layers": None})
    assert fields.whole("num_hidden_layers", "layers", "n_layer") == 3
    assert fields.whole("heads", default=7) == 7


@pytest.mark.parametrize(
    "value", [0, -1, True, 1.0, "4", [4], 10**30, pytest.param(10**5000, id="5001 digits")]
)
def test_a_whole_number_is_one_within_its_range(value: Any) -> None:
    with pytest.raises(BadModelFiles, match=r"config\.json's layers is .{1,60}, and has to be"):
        Fields({"layers": value}).whole("layers", high=100)


def test_a_missing_field_is_named() -> None:
    with pytest.raises(BadModelFiles, match=r"config\.json has no attn_config\.heads"):
        Fields({"attn_config": {}}).inner("attn_config").whole("heads")


def test_messages_hold_nothing_that_moves_the_cursor() -> None:
    with pytest.raises(BadModelFiles) as caught:
        Fields({"layers": "\x1b[2J\n"}).whole("layers")
    assert caught.value.message.isprintable()


def test_lists_have_their_kind_and_length() -> None:
    fields = Fields({"types": ["a", "b"], "sizes": [1, 2]})
    assert fields.words("types", count=2) == ["a", "b"]
    assert fields.numbers("sizes") == [1, 2]
    assert fields.words("nothing") is None
    with pytest.raises(BadModelFiles, match="has 2 entries instead of 3"):
        fields.words("types", count=3)
    with pytest.raises(BadModelFiles, match="a list of whole numbers"):
        fields.numbers("types")


def test_the_inner_config_lies_over_the_outer_one() -> None:
    fields = text_fields({"vocab_size": 5, "hidden_size": 1, "text_config": {"hidden_size": 2}})
    assert fields.whole("vocab_size") == 5
    assert fields.whole("hidden_size") == 2


@pytest.mark.parametrize(
    ("changes", "told"),
    [
        ({"num_hidden_layers": 0}, "num_hidden_layers"),
        ({"num_hidden_layers": 10**9}, "num_hidden_layers"),
        ({"hidden_size": -64}, "hidden_size"),
        ({"num_attention_heads": "four"}, "num_attention_heads"),
        ({"head_dim": 10**12}, "head_dim"),
        ({"num_key_value_heads": 1.5}, "num_key_value_heads"),
        ({"vocab_size": [1]}, "vocab_size"),
        ({"layer_types": "sliding_attention", "sliding_window": 4}, "layer_types"),
        ({"intermediate_size": -1}, "intermediate_size"),
    ],
)
def test_absurd_fields_are_refused_by_name(changes: dict[str, Any], told: str) -> None:
    with pytest.raises(BadModelFiles, match=told):
        read_shape(llama_config(**changes))


def test_more_kinds_of_layers_than_any_model_has_are_refused() -> None:
    heads = list(range(1, 1001))
    config = _DATA["special"]["openelm"] | {
        "model_type": "openelm",
        "vocab_size": 300,
        "num_transformer_layers": 1000,
        "num_query_heads": heads,
        "num_kv_heads": heads,
        "ffn_multipliers": [1.0] * 1000,
    }
    with pytest.raises(BadModelFiles, match="1,000 different layers"):
        read_shape(config)


@st.composite
def hostile_configs(draw: st.DrawFn) -> dict[str, Any]:
    """Configs of every architecture, some fields of which are hostile."""
    kind = draw(st.sampled_from(sorted(_READERS)))
    config = copy.deepcopy({**_DATA["text"], **_DATA["usual"], **_DATA["special"].get(kind, {})})
    config["model_type"] = kind
    scopes = [config, *(value for value in config.values() if isinstance(value, dict))]
    for _ in range(draw(st.integers(1, 3))):
        scope = draw(st.sampled_from(scopes))
        if scope:
            name = draw(st.sampled_from(sorted(scope)))
            scope[name] = draw(st.sampled_from(HOSTILE))
    return config


def read_or_refuse(config: dict[str, Any]) -> ModelShape | BadModelFiles:
    """Return what becomes of a config; anything else that is raised fails the test."""
    try:
        return read_shape(config)
    except BadModelFiles as refused:
        return refused


@settings(max_examples=400, deadline=None)
@given(hostile_configs())
def test_hostile_configs_are_read_or_refused(config: dict[str, Any]) -> None:
    read = read_or_refuse(config)
    if isinstance(read, BadModelFiles):
        assert read.message.isprintable()
        return
    kept = KvShape(layers=tuple(m.kept(KvFormat(float_bytes=2)) for m in read.mixers()))
    assert 0 < len(read.layers) <= 10_000
    assert kept.row_bytes(1000) >= 0


@settings(max_examples=30, deadline=None)
@given(
    st.dictionaries(
        st.text(max_size=12) | st.sampled_from(["model_type", "text_config", "hidden_size"]),
        st.recursive(st.none() | st.booleans() | st.integers() | st.floats() | st.text(), st.lists),
    )
)
def test_nonsense_is_read_or_refused(config: dict[str, Any]) -> None:
    read = read_or_refuse(config)
    assert not isinstance(read, BadModelFiles) or read.message.isprintable()
