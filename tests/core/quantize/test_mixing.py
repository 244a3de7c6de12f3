"""From a plan with choices to the forms of its layers, on a tiny model."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import mlx.core as mx
import pytest
from mlx import nn
from mlx_lm.utils import compute_bits_per_weight, load_model

from core.errors import BadModelFiles, NotFound
from core.evals.record import FILE, read_record
from core.evals.streams import Watch
from core.jobs.stop import Cancelled
from core.quantize import mixing
from core.quantize.mixing import batches, mix_forms, read_mixed, sizes_of
from core.quantize.plan import Plan, make_plan
from core.quantize.plot import write_record_plot
from core.quantize.recipe import make_recipe
from core.quantize.sensitivity import measure_sensitivity, measure_together, module_at
from core.quantize.source import describe
from core.quantize.sweep_store import Sweep, SweepKey, SweepStore
from tests.core.quantize.box import Box
from tests.tiny import llama_config, make_model

_KEY = SweepKey(weights="tiny", mix="sixteen")
_ROWS = [mx.arange(64).reshape(2, 32) * 3]


def _opened(tmp_path: Path, target: float = 4.6, **changes: Any) -> tuple[Any, Plan]:
    config = llama_config(num_hidden_layers=4, **changes)
    folder = make_model(tmp_path / "model", config=config)
    model, _ = load_model(folder)
    recipe = make_recipe({"model_id": str(folder), "target_bpw": target, "group_size": 32})
    layers, sums = describe(model)
    return model, make_plan(layers, sums, recipe)


def test_a_plan_is_filled_within_its_target_and_better_than_uniform(tmp_path: Path) -> None:
    model, plan = _opened(tmp_path, target=5.5)
    found = mix_forms(plan, model, _ROWS, key=_KEY, store=SweepStore(tmp_path))
    assert found.plan.bits_per_weight == pytest.approx(found.chosen.bits_per_weight)
    assert 5.3 < found.plan.bits_per_weight <= 5.5
    assert found.kl <= found.uniform_kl
    again = measure_together(model, None, found.chosen.forms, _ROWS)
    assert found.kl == pytest.approx(again.kl, rel=1e-3)
    assert found.plan.target_bpw is None
    assert not found.plan.choices


def test_sizes_are_those_of_mlx_lm(tmp_path: Path) -> None:
    model, plan = _opened(tmp_path)
    forms = {path: choices[at % 3] for at, (path, choices) in enumerate(plan.choices.items())}
    sizes = sizes_of(plan)
    every = plan.with_forms(forms).forms
    assert sizes.bits_of(forms) == 8 * plan.with_forms(forms).nbytes
    nn.quantize(
        model,
        class_predicate=lambda path, _: path in every and every[path].as_config(),
    )
    assert sizes.bits_of(forms) / sizes.weights == pytest.approx(compute_bits_per_weight(model))


def test_one_sweep_serves_every_target(tmp_path: Path) -> None:
    model, plan = _opened(tmp_path)
    store = SweepStore(tmp_path)
    first = mix_forms(plan, model, _ROWS, key=_KEY, store=store)
    before = store.place(_KEY).read_bytes()
    later = replace(plan, target_bpw=6.0)
    second = mix_forms(later, model, _ROWS, key=_KEY, store=store)
    assert store.place(_KEY).read_bytes() == before
    assert second.sweep == first.sweep
    assert second.plan.bits_per_weight > first.plan.bits_per_weight
    assert second.kl < first.kl


def test_a_reversed_sensitivity_gives_way_to_the_uniform(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    model, plan = _opened(tmp_path, target=5.0)
    layers = model.model.layers
    for at, layer in enumerate(layers):  # the first layers do much, the last ones nearly nothing
        layer.mlp.down_proj.weight = layer.mlp.down_proj.weight * (10.0 if at < 2 else 0.01)
        layer.self_attn.o_proj.weight = layer.self_attn.o_proj.weight * (10.0 if at < 2 else 0.01)
    honest = measure_sensitivity

    def reversed_one(*args: Any, **more: Any) -> Sweep:
        sweep = honest(*args, **more)
        most: dict[str, float] = {}
        for entry in sweep.entries:
            most[entry.path] = max(most.get(entry.path, 0.0), entry.kl)
        ranked = sorted(most, key=most.__getitem__)
        partner = dict(zip(ranked, reversed(ranked), strict=True))
        values = {(entry.path, entry.form): entry.kl for entry in sweep.entries}
        entries = [replace(e, kl=values[partner[e.path], e.form]) for e in sweep.entries]
        return replace(sweep, entries=tuple(entries))

    good = mix_forms(plan, model, _ROWS, key=_KEY, store=SweepStore(tmp_path))
    monkeypatch.setattr(mixing, "measure_sensitivity", reversed_one)
    notes: list[str] = []
    found = mix_forms(
        plan,
        model,
        _ROWS,
        key=_KEY,
        store=SweepStore(tmp_path),
        watch=Watch(on_note=notes.append),
    )
    assert good.kl < good.uniform_kl
    assert found.kl == found.uniform_kl
    assert len(set(found.chosen.forms.values())) == 1
    assert "the uniform one is taken" in notes[-1]
    assert module_at(model, "model.layers.0.mlp.down_proj").weight.dtype == mx.float32


def test_a_damaged_sweep_is_measured_again_with_a_note(tmp_path: Path) -> None:
    model, plan = _opened(tmp_path)
    store, notes = SweepStore(tmp_path), list[str]()
    first = mix_forms(plan, model, _ROWS, key=_KEY, store=store)
    place = store.place(_KEY)
    place.write_bytes(place.read_bytes()[: place.stat().st_size // 2])
    watch = Watch(on_note=notes.append)
    again = mix_forms(plan, model, _ROWS, key=_KEY, store=store, watch=watch)
    assert again.sweep == first.sweep
    assert "damaged" in notes[0]


@pytest.mark.slow  # whole runs with sweeps of a text in bytes
def test_a_run_leaves_its_sweep_beside_the_model_to_draw(tmp_path: Path) -> None:
    box = Box(tmp_path)
    source = box.model(num_hidden_layers=3)
    result = box.quantize(source, bits=None, target_bpw=5.5)
    assert 5.0 < result.bits_per_weight <= 5.5
    record = read_record(result.folder)
    assert record is not None
    assert record.sweep is not None
    assert record.calibration is not None
    sweep, sizes, chosen = read_mixed(record.sweep)
    assert sweep.tokens == 1024
    assert chosen.bits_per_weight == pytest.approx(result.bits_per_weight)
    assert sizes.bits_of(chosen.forms) == chosen.bits
    write_record_plot(tmp_path / "sweep.svg", result.folder)
    assert "Sensitivity" in (tmp_path / "sweep.svg").read_text()
    assert len(list((box.paths.cache / "sweeps").iterdir())) == 1


def test_a_uniform_model_has_no_sweep_to_draw(tmp_path: Path) -> None:
    box = Box(tmp_path)
    result = box.quantize(box.model())
    with pytest.raises(NotFound, match="no sweep"):
        write_record_plot(tmp_path / "sweep.svg", result.folder)
    file = result.folder / FILE
    content = json.loads(file.read_text())
    cases: list[dict[str, Any]] = [{}, {"entries": 1}, {"entries": [], "key": {}}]
    for damaged in cases:
        file.unlink()
        file.write_text(json.dumps(content | {"sweep": damaged}))
        with pytest.raises(BadModelFiles, match="cannot be read"):
            write_record_plot(tmp_path / "sweep.svg", result.folder)


@pytest.mark.slow
def test_a_cancelled_run_continues_its_sweep(tmp_path: Path) -> None:
    box, count = Box(tmp_path), 0
    source = box.model(num_hidden_layers=3)

    def stop() -> bool:
        nonlocal count
        count += 1
        return count > 10

    with pytest.raises(Cancelled):
        box.quantize(source, bits=None, target_bpw=5.0, should_stop=stop)
    (kept,) = (box.paths.cache / "sweeps").iterdir()
    before = kept.read_text()
    assert before.count('"noise"') > 3
    assert box.quantize(source, bits=None, target_bpw=5.0).bits_per_weight <= 5.0
    assert kept.read_text().startswith(before)


def test_rows_of_one_length_are_computed_together_eight_at_most() -> None:
    rows = [(at,) * (5 if at == 3 else 4) for at in range(10)]
    found = batches(rows)
    assert [tuple(batch.shape) for batch in found] == [(8, 4), (1, 4), (1, 5)]
    assert mx.concatenate([batch[:, 0] for batch in found]).tolist() == [
        0,
        1,
        2,
        4,
        5,
        6,
        7,
        8,
        9,
        3,
    ]
