"""Models rounded block by block."""

from __future__ import annotations

from contextlib import suppress
from typing import Any

import mlx.core as mx
import pytest
from mlx import nn
from mlx.utils import tree_flatten, tree_map
from mlx_lm.models.switch_layers import SwitchLinear

from core.engine.blocks import Blocks, NotARowError
from core.errors import BadModelFiles
from core.quantize.form import Form
from core.quantize.pack import plain_fit
from core.quantize.rounding import Packed, unpacked
from core.quantize.walk import fitted
from core.quantize.watch import watched
from tests.core.fit.tiny_families import build, safe_families

_FORM = Form(bits=3, group_size=32)


def _model(family: str, *, seed: int = 0, dtype: mx.Dtype = mx.float16) -> Any:
    mx.random.seed(seed)
    model = build(family)
    model.update(_cast(model, dtype))
    mx.eval(model.parameters())
    return model


def _cast(model: Any, dtype: mx.Dtype) -> Any:
    return tree_map(
        lambda each: each.astype(dtype) if mx.issubdtype(each.dtype, mx.floating) else each,
        model.parameters(),
    )


def _forms(model: Any, form: Form = _FORM) -> dict[str, Form]:
    return {
        path: form
        for path, each in tree_flatten(model.leaf_modules(), is_leaf=nn.Module.is_module)
        if hasattr(each, "to_quantized") and each.weight.shape[-1] % form.group_size == 0
    }


def _rows(model: Any, count: int = 8, length: int = 32) -> mx.array:
    vocabulary = int(model(mx.array([[1]])).shape[-1])
    return mx.random.randint(0, min(vocabulary, 60), (count, length), key=mx.random.key(3))


def _walk(
    model: Any, forms: dict[str, Form], rows: mx.array, notes: list[str]
) -> dict[str, Packed]:
    blocks = Blocks(model)
    return dict(
        fitted(model, blocks, forms, [rows], on_note=notes.append, on_block=lambda *_: None)
    )


def _with(family: str, arrays: dict[str, mx.array]) -> Any:
    model = _model(family, dtype=mx.float16)
    model.update(_cast(model, mx.float32))
    for path, module in model.named_modules():
        if path in arrays:
            module.weight = arrays[path]
    return model


def _divergence(family: str, arrays: dict[str, mx.array], rows: mx.array) -> float:
    """Return the mean KL divergence of a model with other weights from the original."""
    logs = [
        nn.log_softmax(_with(family, each)(rows).astype(mx.float32), axis=-1)
        for each in ({}, arrays)
    ]
    return float((mx.exp(logs[0]) * (logs[0] - logs[1])).sum(-1).mean().item())


@pytest.mark.parametrize("family", ["llama", "qwen2", "gemma2", "mixtral", "qwen3_moe", "mamba2"])
def test_every_layer_comes_in_its_form(family: str) -> None:
    model = _model(family)
    forms = _forms(model)
    weights = {p: each.weight for p, each in model.named_modules() if p in forms}
    found = _walk(model, forms, _rows(model), [])
    assert set(found) == set(forms)
    for path, packed in found.items():
        expected = plain_fit(weights[path], _FORM)
        assert {n: (a.shape, a.dtype) for n, a in packed.items()} == {
            n: (a.shape, a.dtype) for n, a in expected.items()
        }


@pytest.mark.parametrize("family", ["llama", "qwen2"])
def test_the_rounded_model_is_nearer_to_the_original_than_a_plain_one(family: str) -> None:
    model = _model(family)
    forms, rows, other = _forms(model), _rows(model, 32), _rows(model, 8, 24)
    simple = {
        path: unpacked(plain_fit(each.weight, _FORM), _FORM)
        for path, each in model.named_modules()
        if path in forms
    }
    notes: list[str] = []
    ours = {p: unpacked(each, _FORM) for p, each in _walk(model, forms, rows, notes).items()}
    assert _divergence(family, ours, other) < 0.8 * _divergence(family, simple, other)
    assert not notes


def test_the_same_walk_gives_the_same_bytes() -> None:
    runs = []
    for _ in range(2):
        model = _model("llama")
        runs.append(_walk(model, _forms(model), _rows(model), []))
    assert list(runs[0]) == list(runs[1])
    for path, packed in runs[0].items():
        for name, array in packed.items():
            assert mx.array_equal(array, runs[1][path][name]).item()


def test_blocks_come_in_order_and_are_let_go() -> None:
    model = _model("llama")
    blocks, done = Blocks(model), []
    walk = fitted(
        model, blocks, _forms(model), [_rows(model)], on_note=print,
        on_block=lambda index, count: done.append((index, count)),
    )  # fmt: skip
    paths = []
    for path, _ in walk:
        paths.append(path)
        layer = int(path.split(".")[2]) if ".layers." in path else 0
        held = [sum(a.size for _, a in tree_flatten(each.parameters())) for each in blocks.layers]
        assert not any(held[:layer])
    count = len(blocks.layers)
    assert done == [(index + 1, count) for index in range(count)]
    assert paths[0] == "model.embed_tokens"


def test_what_on_block_raises_ends_the_walk() -> None:
    class StoppedError(Exception):
        pass

    def stop(index: int, count: int) -> None:
        raise StoppedError

    model = _model("llama")
    blocks = Blocks(model)
    with pytest.raises(StoppedError):
        list(fitted(model, blocks, _forms(model), [_rows(model)], on_note=print, on_block=stop))


def test_a_tied_head_is_measured_in_a_model_opened_anew() -> None:
    """With and without it the same bytes."""
    runs = []
    for reopen in (None, lambda: _model("llama")):
        model = _model("llama")
        runs.append(
            dict(
                fitted(
                    model, Blocks(model), _forms(model), [_rows(model)], on_note=print,
                    on_block=lambda *_: None, reopen=reopen,
                )
            )
        )  # fmt: skip
    for path, packed in runs[0].items():
        assert mx.array_equal(packed["weight"], runs[1][path]["weight"]).item()


def test_experts_that_see_too_little_are_named() -> None:
    model = _model("mixtral")
    forms = _forms(model)
    notes: list[str] = []
    found = _walk(model, forms, _rows(model, 1, 8), notes)
    switches = [p for p, each in model.named_modules() if isinstance(each, SwitchLinear)]
    assert switches
    assert set(switches) <= set(found)
    for path in switches:
        assert any(path in note and "experts rounded plainly" in note for note in notes)


def test_layers_that_are_no_row_are_rounded_without_calibration() -> None:
    model = _model("llama")
    forms = _forms(model)
    notes: list[str] = []
    found = dict(fitted(model, None, forms, [], on_note=notes.append, on_block=lambda *_: None))
    assert set(found) == set(forms)
    assert len(notes) == 1
    assert "without calibration" in notes[0]


def test_a_layer_that_is_never_called_is_named() -> None:
    model = _model("llama")
    model.model.layers[1].spare = nn.Linear(64, 32, bias=False)
    forms = _forms(model)
    notes: list[str] = []
    found = _walk(model, forms, _rows(model), notes)
    assert "model.layers.1.spare" in found
    assert any("model.layers.1.spare" in note for note in notes)


def test_rows_of_another_length_are_left_out_and_counted() -> None:
    model = _model("llama")
    notes: list[str] = []
    rows = [_rows(model, 4, 32), _rows(model, 1, 16)]
    list(
        fitted(
            model, Blocks(model), _forms(model), rows, on_note=notes.append,
            on_block=lambda *_: None,
        )
    )  # fmt: skip
    assert any("leaves out 1 row" in note for note in notes)


@pytest.mark.parametrize("as_row", [True, False])
def test_weights_that_are_not_finite_end_the_walk(as_row: bool) -> None:
    model = _model("llama")
    model.model.layers[1].mlp.up_proj.weight[3, 5] = mx.inf
    blocks = Blocks(model, tried=1) if as_row else None
    walk = fitted(
        model, blocks, _forms(model), [mx.array([[1, 2, 3]])], on_note=print,
        on_block=lambda *_: None,
    )  # fmt: skip
    with pytest.raises(BadModelFiles, match=r"layers\.1\.mlp\.up_proj"):
        list(walk)


def test_watched_modules_are_themselves_again() -> None:
    linear = nn.Linear(4, 4)
    seen: list[Any] = []
    with watched({"a": linear}, lambda *call: seen.append(call)):
        linear(mx.ones((1, 4)))
        assert isinstance(linear, nn.Linear)
    assert type(linear) is nn.Linear
    linear(mx.ones((1, 4)))
    assert len(seen) == 1


@pytest.mark.slow
@pytest.mark.parametrize("family", safe_families())
def test_every_family_is_rounded(family: str) -> None:  # budget: two minutes for all
    model = _model(family, dtype=mx.float32)
    forms = _forms(model)
    blocks = None
    with suppress(NotARowError):
        blocks = Blocks(model)
    rows = [_rows(model, 2, 16)]
    found = dict(
        fitted(model, blocks, forms, rows, on_note=lambda _: None, on_block=lambda *_: None)
    )
    assert set(found) == set(forms)
