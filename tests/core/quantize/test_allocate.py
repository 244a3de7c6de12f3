"""The knapsack against all possibilities, and what it refuses."""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from core.errors import UsageProblem
from core.quantize import allocate as module
from core.quantize.allocate import Sizes, allocate, better_of, uniform, uniform_within
from core.quantize.form import Form
from core.quantize.frontier import trace_frontier
from core.quantize.sweep_store import Entry, Sweep, SweepKey

_FORMS = tuple(Form(bits=bits, group_size=64) for bits in (2, 3, 4, 8))
_TWO, _THREE, _FOUR, _EIGHT = _FORMS


def make_sweep(curves: Mapping[str, Mapping[Form, float]]) -> Sweep:
    """Return a sweep with these values."""
    entries = [
        Entry(path=path, form=form, kl=kl, error=None, measured=True, noise=1.0)
        for path, curve in curves.items()
        for form, kl in curve.items()
    ]
    return Sweep(key=SweepKey(weights="w", mix="m"), tokens=8, base_kl=0.0, entries=tuple(entries))


def make_sizes(weights: Mapping[str, int], *, kept: int = 0) -> Sizes:
    """Return sizes of tensors with these numbers of weights."""
    return Sizes(
        options={
            path: {form: int(count * form.bits_per_weight) for form in _FORMS}
            for path, count in weights.items()
        },
        kept_bits=16 * kept,
        weights=sum(weights.values()) + kept,
    )


def _curve(scale: float, power: float = 4.0) -> dict[Form, float]:
    return {form: scale * power**-form.bits for form in _FORMS}


def _example() -> tuple[Sweep, Sizes]:
    counts = {f"layer{at}": 64 * (10 + at) for at in range(12)}
    curves = {path: _curve(10.0 ** (at % 5 - 2)) for at, path in enumerate(counts)}
    return make_sweep(curves), make_sizes(counts, kept=100)


_weights = st.lists(st.integers(1, 40), min_size=1, max_size=4)
_losses = st.lists(
    st.lists(st.floats(0, 10, allow_subnormal=False), min_size=4, max_size=4),
    min_size=4,
    max_size=4,
)


def _all_choices(sweep: Sweep, sizes: Sizes, target: float) -> float:
    """Return the least sum within the target, by trying everything."""
    best = math.inf
    curves = {path: module._repaired(curve) for path, curve in sweep.curves.items()}
    for forms in itertools.product(_FORMS, repeat=len(sizes.options)):
        chosen = dict(zip(sizes.options, forms, strict=True))
        if sizes.bits_of(chosen) <= target * sizes.weights + 1e-6:
            best = min(best, math.fsum(curves[path][form] for path, form in chosen.items()))
    return best


@given(_weights, _losses, st.floats(0, 1))
def test_no_choice_is_better(counts: list[int], losses: list[list[float]], where: float) -> None:
    weights = {str(at): 64 * count for at, count in enumerate(counts)}
    sizes = make_sizes(weights, kept=3)
    curves = {path: dict(zip(_FORMS, losses[int(path)], strict=True)) for path in weights}
    sweep = make_sweep({path: {**curve, _TWO: curve[_TWO] + 1} for path, curve in curves.items()})
    low, high = sizes.reach
    target = low + where * (high - low)
    found = allocate(sweep, sizes, target)
    assert found.bits <= target * sizes.weights + 1e-6
    assert found.kl == pytest.approx(_all_choices(sweep, sizes, target))
    assert found.gap == 0


@given(_weights, _losses, st.floats(0.05, 1))
def test_on_a_coarse_grid_the_gap_is_told(
    counts: list[int], losses: list[list[float]], where: float
) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(module, "_MOST_STEPS", 23)
        weights = {str(at): 64 * count + 2 * at for at, count in enumerate(counts)}
        sizes = make_sizes(weights)
        sweep = make_sweep(
            {
                path: {**dict(zip(_FORMS, losses[int(path)], strict=True)), _TWO: 11}
                for path in weights
            }
        )
        low, high = sizes.reach
        target = low + where * (high - low)
        found = allocate(sweep, sizes, target)
        best = _all_choices(sweep, sizes, target)
    assert found.bits <= target * sizes.weights + 1e-6
    assert best - 1e-9 <= found.kl <= best + found.gap + 1e-9


def test_a_large_model_with_odd_sizes_is_near_the_bound() -> None:
    counts = {f"layer{at}": 2 * (1_000_003 + 7919 * at) for at in range(400)}
    curves = {path: _curve(1 + (at * 37 % 101)) for at, path in enumerate(counts)}
    found = allocate(make_sweep(curves), make_sizes(counts, kept=12345), 4.2)
    assert found.bits_per_weight <= 4.2
    assert found.bits_per_weight > 4.19
    assert 0 < found.gap < 0.001 * found.kl


def test_the_sensitive_get_more_bits_than_uniform_and_lose_less() -> None:
    sweep, sizes = _example()
    target = uniform(sizes, _THREE).bits_per_weight
    found, plain = allocate(sweep, sizes, target), uniform_within(sizes, target, sweep=sweep)
    assert found.bits <= plain.bits
    assert set(plain.forms.values()) == {_THREE}
    assert found.kl < 0.5 * plain.kl
    assert found.forms["layer4"].bits > found.forms["layer0"].bits


def test_a_reversed_sensitivity_is_worse_than_uniform() -> None:
    sweep, sizes = _example()
    ranked = sorted(sweep.curves, key=lambda path: sweep.curve(path)[_THREE])
    partner = dict(zip(ranked, reversed(ranked), strict=True))
    turned = make_sweep({path: sweep.curve(partner[path]) for path in sweep.curves})
    target = uniform(sizes, _THREE).bits_per_weight
    plain, misled = uniform(sizes, _THREE, sweep=sweep), allocate(turned, sizes, target)

    def measure(forms: Mapping[str, Form]) -> float:
        return sum(sweep.curve(path)[form] for path, form in forms.items())

    chosen, losses = better_of([misled, plain], measure)
    assert losses[0] > losses[1]
    assert chosen is plain


def test_noise_does_not_make_a_wide_form_worse_than_a_narrow_one() -> None:
    sweep = make_sweep({"a": {_TWO: 0.5, _THREE: 0.1, _FOUR: 0.2, _EIGHT: 0.05}})
    sizes = make_sizes({"a": 64})
    assert allocate(sweep, sizes, 4.5).forms == {"a": _THREE}
    assert allocate(sweep, sizes, 8.5).forms == {"a": _EIGHT}


def test_least_widths_and_fixed_forms_hold() -> None:
    sweep, sizes = _example()
    options = dict(sizes.options)
    options["layer0"] = {_EIGHT: options["layer0"][_EIGHT]}
    options["layer4"] = {_TWO: options["layer4"][_TWO]}
    options["layer1"] = {f: options["layer1"][f] for f in (_FOUR, _EIGHT)}
    limited = replace(sizes, options=options)
    found = allocate(sweep, limited, 3.6)
    assert found.forms["layer0"] == _EIGHT
    assert found.forms["layer4"] == _TWO
    assert found.forms["layer1"].bits >= 4
    plain = uniform(limited, _THREE)
    assert [plain.forms[f"layer{at}"] for at in (0, 4, 1, 2)] == [_EIGHT, _TWO, _FOUR, _THREE]


def test_a_form_that_only_an_override_has_needs_no_measurement() -> None:
    six = Form(bits=6, group_size=64)
    sizes = make_sizes({"a": 64, "b": 64})
    fixed = replace(sizes, options={**sizes.options, "b": {six: 416}})
    assert allocate(make_sweep({"a": _curve(1), "b": _curve(1)}), fixed, 5.6).forms == {
        "a": _FOUR,
        "b": six,
    }


@pytest.mark.parametrize(("target", "form"), [(3.6, _THREE), (2.5, _TWO), (8.5, _EIGHT)])
def test_what_calibration_did_not_use_is_chosen_by_size(target: float, form: Form) -> None:
    sizes = make_sizes({"a": 6400, "unused": 64, "unknown": 64})
    sweep = make_sweep({"a": _curve(1), "unused": _curve(0)})
    found = allocate(sweep, sizes, target)
    assert found.forms == {"a": form, "unused": form, "unknown": form}


def test_what_is_unknown_gives_way_to_a_small_target() -> None:
    sizes = make_sizes({"a": 64, "unknown": 64}, kept=2)
    found = allocate(make_sweep({"a": _curve(1)}), sizes, sizes.reach[0])
    assert set(found.forms.values()) == {_TWO}


@pytest.mark.parametrize("target", [1.0, 2.49, 9.5])
def test_a_target_out_of_reach_names_the_range(target: float) -> None:
    with pytest.raises(UsageProblem, match="out of reach") as caught:
        allocate(make_sweep({"a": _curve(1)}), make_sizes({"a": 640}), target)
    assert caught.value.hint == "Reachable with these candidates: 2.50 to 8.50."


def test_the_ends_of_the_range_are_reached() -> None:
    sweep, sizes = _example()
    low, high = sizes.reach
    assert set(allocate(sweep, sizes, low).forms.values()) == {_TWO}
    assert set(allocate(sweep, sizes, high).forms.values()) == {_EIGHT}
    for end in allocate(sweep, sizes, math.ceil(100 * low) / 100), uniform_within(sizes, 1.0):
        assert end.bits_per_weight < 2.8


def test_a_frontier_falls_and_lies_below_uniform() -> None:
    sweep, sizes = _example()
    frontier = trace_frontier(sweep, sizes)
    losses = [point.kl for point in frontier.mixed]
    assert losses == sorted(losses, reverse=True)
    assert list(frontier.uniform) == list(_FORMS)
    for plain in frontier.uniform.values():
        assert allocate(sweep, sizes, plain.bits_per_weight).kl <= plain.kl + 1e-12


@pytest.mark.parametrize("weights", [6_057_330_932, 70_000_000_003, 700_000_000_001])
def test_the_ends_of_a_large_models_range_are_reached(weights: int) -> None:
    """The quotient of so many bits, times the weights, is not the same number of bits again."""
    counts = {f"layer{at}": 64 * (weights // 640 + at) for at in range(10)}
    plain = make_sizes(counts)
    sweep = make_sweep({path: _curve(1.0) for path in counts})
    for more in range(40):
        sizes = replace(plain, weights=plain.weights + more, kept_bits=16 * more)
        low, high = sizes.reach
        smallest, largest = allocate(sweep, sizes, low), allocate(sweep, sizes, high)
        assert set(smallest.forms.values()) == {_TWO}
        assert set(largest.forms.values()) == {_EIGHT}
        assert set(uniform_within(sizes, high).forms.values()) == {_EIGHT}
