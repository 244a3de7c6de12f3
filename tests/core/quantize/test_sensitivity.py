"""The sweep against full forwards of the model itself."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from statistics import median
from typing import Any

import mlx.core as mx
import numpy as np
import pytest
from mlx import nn
from mlx.utils import tree_flatten

from core.engine.blocks import Blocks
from core.evals.streams import StoppedError, Watch
from core.progress import Progress
from core.quantize.form import Form
from core.quantize.sensitivity import (
    measure_sensitivity,
    measure_together,
    module_at,
)
from core.quantize.sweep_store import Record, SweepKey, SweepStore
from tests.core.fit.tiny_families import build

_FORMS = tuple(Form(bits=bits, group_size=32) for bits in (2, 3, 4, 8))
_ROWS = [mx.array([[1, 2, 3, 5, 8, 9], [9, 8, 7, 6, 5, 4]]), mx.array([[4, 4, 2, 1]])]
_KEY = SweepKey(weights="tiny", mix="six")


def _model(family: str) -> Any:
    mx.random.seed(7)
    model = build(family)
    model.set_dtype(mx.float32)
    mx.eval(model.parameters())
    return model


def _paths(model: Any) -> list[str]:
    return [
        path
        for path, module in tree_flatten(model.leaf_modules(), is_leaf=nn.Module.is_module)
        if hasattr(module, "to_quantized") and module.weight.shape[-1] % 32 == 0
    ]


def _logps(model: Any) -> list[Any]:
    found = []
    for tokens in _ROWS:
        logits = np.array(model(tokens).astype(mx.float32)).astype(np.float64)
        logits -= logits.max(-1, keepdims=True)
        found.append(logits - np.log(np.exp(logits).sum(-1, keepdims=True)))
    return found


def _kl(before: Sequence[Any], after: Sequence[Any]) -> float:
    pairs = zip(before, after, strict=True)
    values = [(np.exp(p) * (p - q)).sum(-1).ravel() for p, q in pairs]
    return float(np.concatenate(values).mean())


def _set(model: Any, forms: Iterable[tuple[str, Form]]) -> None:
    for path, form in forms:
        module, how = module_at(model, path), form.as_config()
        module.weight = mx.dequantize(*mx.quantize(module.weight, **how), **how)


def _by_full_forward(model: Any, path: str, form: Form) -> float:
    before, weight = _logps(model), module_at(model, path).weight
    _set(model, [(path, form)])
    after = _logps(model)
    module_at(model, path).weight = weight
    return _kl(before, after)


@pytest.mark.parametrize("family", ["llama", "gemma2", "qwen3_moe", "mamba"])
def test_measured_values_are_those_of_full_forwards(family: str) -> None:
    model = _model(family)
    paths = _paths(model)
    assert paths
    candidates = dict.fromkeys(paths, _FORMS[:2])
    sweep = measure_sensitivity(model, Blocks(model), candidates, _ROWS, key=_KEY, share=None)
    assert sweep.tokens == 16
    assert [entry.measured for entry in sweep.entries] == [True] * (2 * len(paths))
    for entry in sweep.entries:
        expected = _by_full_forward(model, entry.path, entry.form)
        assert entry.kl == pytest.approx(expected, rel=1e-4, abs=3e-7), entry.path


def test_a_model_that_is_no_row_is_measured_by_full_forwards() -> None:
    model, notes = _model("gemma3n"), list[str]()
    paths = _paths(model)[:3]
    sweep = measure_sensitivity(
        model,
        None,
        dict.fromkeys(paths, _FORMS[:2]),
        _ROWS,
        key=_KEY,
        share=None,
        watch=Watch(on_note=notes.append),
    )
    for entry in sweep.entries:
        expected = _by_full_forward(model, entry.path, entry.form)
        assert entry.kl == pytest.approx(expected, rel=1e-4, abs=3e-7)
    assert len(notes) == 1
    assert "full forwards" in notes[0]


@pytest.mark.parametrize("family", ["llama", "gemma2"])
def test_a_uniform_reference_is_the_state_of_the_other_tensors(family: str) -> None:
    model, base = _model(family), _FORMS[2]
    paths = _paths(model)
    key = SweepKey(weights="tiny", mix="six", reference=base)
    candidates = dict.fromkeys(paths, (_FORMS[0], _FORMS[3]))
    sweep = measure_sensitivity(model, Blocks(model), candidates, _ROWS, key=key, share=None)
    before = _logps(model)
    weights = {path: module_at(model, path).weight for path in paths}
    _set(model, [(path, base) for path in paths])
    assert sweep.base_kl == pytest.approx(_kl(before, _logps(model)), rel=1e-4)
    assert sweep.curve(paths[0])[base] == 0
    for path in paths:
        module, packed = module_at(model, path), module_at(model, path).weight
        module.weight = weights[path]
        _set(model, [(path, _FORMS[0])])
        expected = _kl(before, _logps(model)) - sweep.base_kl
        module.weight = packed
        assert sweep.curve(path)[_FORMS[0]] == pytest.approx(expected, rel=1e-3, abs=1e-6)


def test_several_tensors_are_measured_together() -> None:
    model = _model("llama")
    forms = {path: _FORMS[at % 3] for at, path in enumerate(_paths(model))}
    found = measure_together(model, Blocks(model), forms, _ROWS)
    before = _logps(model)
    _set(model, forms.items())
    assert found.kl == pytest.approx(_kl(before, _logps(model)), rel=1e-4)
    assert found.error is not None
    assert found.error > 0


def test_arrays_are_the_same_afterwards() -> None:
    model = _model("llama")
    model.set_dtype(mx.bfloat16)
    before = dict(tree_flatten(model.parameters()))
    candidates = dict.fromkeys(_paths(model), _FORMS)
    measure_sensitivity(model, Blocks(model), candidates, _ROWS, key=_KEY)
    after = dict(tree_flatten(model.parameters()))
    assert before.keys() == after.keys()
    assert all(before[path] is after[path] for path in before)


def test_what_is_not_measured_is_scaled_and_says_so() -> None:
    model = _model("llama")
    candidates = dict.fromkeys(_paths(model), _FORMS)
    exact = measure_sensitivity(model, Blocks(model), candidates, _ROWS, key=_KEY, share=None)
    quick = measure_sensitivity(model, Blocks(model), candidates, _ROWS, key=_KEY)
    spots = [(entry.path, entry.form) for entry in quick.entries]
    assert spots == [(entry.path, entry.form) for entry in exact.entries]
    ratios = []
    for found, known in zip(quick.entries, exact.entries, strict=True):
        if found.measured:
            assert found == known
        elif known.kl > 1e-5:
            assert found.error is None
            ratios.append(found.kl / known.kl)
    assert 0.5 < median(ratios) < 2
    assert {entry.path for entry in quick.entries if entry.measured} == set(candidates)
    assert not all(entry.measured for entry in quick.entries)


def test_a_stopped_sweep_continues_where_it_was(tmp_path: Path) -> None:
    model, store, count = _model("llama"), SweepStore(tmp_path), 0
    candidates = dict.fromkeys(_paths(model), _FORMS)

    def stop() -> bool:
        nonlocal count
        count += 1
        return count > 9

    whole = measure_sensitivity(model, Blocks(model), candidates, _ROWS, key=_KEY)
    record, _ = store.open(_KEY)
    with pytest.raises(StoppedError):
        measure_sensitivity(
            model, Blocks(model), candidates, _ROWS, key=_KEY, record=record,
            watch=Watch(should_stop=stop),
        )  # fmt: skip
    record, notes = store.open(_KEY)
    assert (len(record.facts), notes) == (9, [])
    reports: list[Progress] = []
    again = measure_sensitivity(
        model, Blocks(model), candidates, _ROWS, key=_KEY, record=record,
        watch=Watch(on_progress=reports.append),
    )  # fmt: skip
    assert again == whole
    assert 0 < len(reports) < sum(entry.measured for entry in whole.entries)
    assert reports[-1].done == reports[-1].total
    assert [report.done for report in reports] == sorted(report.done for report in reports)
    kept = measure_sensitivity(model, None, candidates, [], key=_KEY, record=store.open(_KEY)[0])
    assert {e.path for e in kept.entries} == set(candidates)


def test_other_sweeps_of_a_model_do_not_change_what_a_recipe_chooses() -> None:
    model, record = _model("llama"), Record()
    blocks = Blocks(model)
    candidates = dict.fromkeys(_paths(model), _FORMS)
    alone = measure_sensitivity(model, blocks, candidates, _ROWS, key=_KEY)
    measure_sensitivity(model, blocks, candidates, _ROWS, key=_KEY, record=record, share=None)
    assert measure_sensitivity(model, blocks, candidates, [], key=_KEY, record=record) == alone


def test_a_known_sweep_computes_nothing() -> None:
    model, record = _model("llama"), Record()
    blocks = Blocks(model)
    candidates = dict.fromkeys(_paths(model), _FORMS)
    first = measure_sensitivity(model, blocks, candidates, _ROWS, key=_KEY, record=record)

    def never() -> bool:
        raise AssertionError("something is measured")

    watch = Watch(should_stop=never)
    more = {path: (*_FORMS, Form(bits=5, group_size=32)) for path in candidates}
    again = measure_sensitivity(
        model, blocks, candidates, _ROWS, key=_KEY, record=record, watch=watch
    )
    assert again == first
    with pytest.raises(AssertionError, match="measured"):
        measure_sensitivity(model, blocks, more, _ROWS, key=_KEY, record=record, watch=watch)
