"""Widths of keys and values, measured through quantized caches."""

from __future__ import annotations

import json
from itertools import pairwise
from pathlib import Path
from typing import Any

import mlx.core as mx
import pytest
from mlx_lm.models.cache import KVCache, QuantizedKVCache

from core.errors import UsageProblem
from core.quantize.kv_config import KvConfig, measure_kv_config, promotions, write_kv_config
from tests.core.fit.tiny_families import build, tiny_config
from tests.core.quantize.rotate.models import small_model
from tests.tiny import llama_config

_CONFIG = llama_config(num_hidden_layers=3, head_dim=32)
_ROWS = [mx.array([[(11 * row + 29 * at + at * at) % 259 for at in range(48)]]) for row in range(3)]


def _found(model: Any, **more: Any) -> KvConfig:
    found = measure_kv_config(model, _ROWS, **more)
    assert found is not None
    return found


def _shaky() -> Any:
    """Return a model whose output depends on the attention of its middle layer most."""
    model = small_model(_CONFIG)
    for layer in (model.layers[0], model.layers[2]):
        layer.self_attn.o_proj.weight *= 0.02
    return model


def test_the_layer_that_suffers_keeps_more_bits() -> None:
    model = _shaky()
    alone = _found(model).alone
    assert alone[1][4] > 5 * max(alone[0][4], alone[2][4])
    found = _found(model, max_kl=2 * (alone[0][4] + alone[2][4]))
    bits = {entry.layer_idx: entry.bits for entry in found.entries}
    assert bits[0] == bits[2] == 4
    assert bits.get(1, 16) > 4
    assert found.kl <= 2 * (alone[0][4] + alone[2][4])


def test_the_divergence_is_that_of_mlx_lms_own_caches() -> None:
    model = small_model(_CONFIG)
    found = _found(model, max_kl=100)
    assert {(each.layer_idx, each.bits, each.group_size) for each in found.entries} == {
        (layer, 4, 32) for layer in range(3)
    }
    quantized, plain = (
        [_tokenwise(model, row, [make() for _ in range(3)]) for row in _ROWS]
        for make in (lambda: QuantizedKVCache(group_size=32, bits=4), KVCache)
    )
    divergences = [
        mx.sum(mx.exp(exact) * (exact - rough), axis=-1)[20:]
        for exact, rough in zip(plain, quantized, strict=True)
    ]
    assert found.tokens == 28 * len(_ROWS)
    assert found.kl == pytest.approx(mx.mean(mx.stack(divergences)).item(), rel=1e-2)


def _tokenwise(model: Any, row: mx.array, caches: list[Any]) -> mx.array:
    """Return log-probabilities, [T, V], with every token read alone."""
    logits = [model(row[:, at : at + 1], cache=caches)[0] for at in range(row.shape[1])]
    whole = mx.concatenate(logits)
    return whole - mx.logsumexp(whole, axis=-1, keepdims=True)


def test_quantized_values_are_read_back_in_prefill_and_decoding(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    seen: set[tuple[int, int]] = set()
    fetch = QuantizedKVCache.update_and_fetch

    def watched(self: Any, keys: mx.array, values: mx.array) -> Any:
        seen.add((self.offset, keys.shape[2]))
        return fetch(self, keys, values)

    monkeypatch.setattr(QuantizedKVCache, "update_and_fetch", watched)
    _found(small_model(_CONFIG))
    assert seen == {(0, 20), (20, 20), *((at, 1) for at in range(40, 48))}


def test_no_budget_leaves_every_layer_plain() -> None:
    found = _found(small_model(_CONFIG), max_kl=0.0)
    assert found.entries == ()
    assert found.kl == 0.0
    assert set(found.alone) == {0, 1, 2}


def test_sliding_layers_and_odd_heads_are_left_out_and_listed() -> None:
    sliding = build("gemma3_text")
    found = _found(sliding)
    assert found.entries == ()
    assert any("RotatingKVCache" in note for note in found.notes)
    assert any("no group of 32, 64, 128 divides heads of 16" in note for note in found.notes)
    listed = " ".join(found.notes)
    assert all(
        str(layer) in listed for layer in range(tiny_config("gemma3_text")["num_hidden_layers"])
    )


def test_attention_that_takes_no_quantized_cache_is_left_out_and_listed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    model = small_model(_CONFIG)
    attention = type(model.layers[0].self_attn)
    call = attention.__call__

    def refusing(self: Any, x: mx.array, mask: Any = None, cache: Any = None) -> Any:
        if self is model.layers[2].self_attn and hasattr(cache, "bits"):
            raise ValueError("Quantized SDPA does not support attention sinks.")
        return call(self, x, mask, cache)

    monkeypatch.setattr(attention, "__call__", refusing)
    found = _found(model, max_kl=100)
    assert [entry.layer_idx for entry in found.entries] == [0, 1]
    assert "Layers left at 16 bits: 2 " in found.notes[0]
    assert "attention sinks" in found.notes[0]


def test_progress_only_grows_and_ends_at_the_whole() -> None:
    seen: list[tuple[int, int]] = []
    _found(small_model(_CONFIG), on_progress=lambda done, whole: seen.append((done, whole)))
    assert all(one[0] <= two[0] and one[1] == two[1] for one, two in pairwise(seen))
    assert seen[-1][0] == seen[-1][1]


def test_it_can_be_stopped_between_passes() -> None:
    asked: list[None] = []

    def should_stop() -> bool:
        asked.append(None)
        return len(asked) > 5

    assert measure_kv_config(small_model(_CONFIG), _ROWS, should_stop=should_stop) is None
    assert len(asked) == 6


@pytest.mark.parametrize("rows", [[], [mx.zeros((1, 15), dtype=mx.int32)]], ids=["none", "short"])
def test_too_little_text_is_refused(rows: list[mx.array]) -> None:
    with pytest.raises(UsageProblem, match="at least 16 tokens"):
        measure_kv_config(small_model(_CONFIG), rows)


def test_the_file_is_a_list_of_layers(tmp_path: Path) -> None:
    found = _found(small_model(_CONFIG), max_kl=100)
    written = json.loads(write_kv_config(tmp_path, found).read_text())
    assert written[1] == {"layer_idx": 1, "bits": 4, "group_size": 32}
    assert [file.name for file in tmp_path.iterdir()] == ["kv_config.json"]


def test_promotions_go_first_to_where_a_bit_helps_most() -> None:
    path = promotions({0: {4: 0.1, 8: 0.001}, 1: {4: 0.5, 8: 0.002}})
    assert path == [{0: 4, 1: 4}, {0: 4, 1: 8}, {0: 8, 1: 8}, {0: 8}, {}]


def test_a_layer_that_eight_bits_help_little_goes_straight_to_sixteen() -> None:
    assert promotions({5: {4: 0.2, 8: 0.19}}) == [{5: 4}, {}]
