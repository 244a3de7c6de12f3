"""Which widths are measured, and what the rest is estimated from."""

from __future__ import annotations

import pytest

from core.quantize.form import Form
from core.quantize.scaling import Unit, coarsest_first, estimated, planned
from core.quantize.sweep_store import Fact

_FORMS = tuple(Form(bits=bits, group_size=64) for bits in (2, 3, 4, 8))
_TWO, _THREE, _FOUR, _EIGHT = _FORMS


def _units(count: int, forms: tuple[Form, ...] = _FORMS) -> list[Unit]:
    return [
        Unit(path=f"layers.{at}.{name}", forms=forms, block=at, cost=(count - at + 5) / (count + 5))
        for at in range(count)
        for name in ("up", "down")
    ]


def _spent(units: list[Unit], plan: dict[str, tuple[Form, ...]]) -> float:
    return sum(unit.cost * len(plan[unit.path]) for unit in units)


@pytest.mark.parametrize("bits", [(2, 3, 4, 8), (2, 3, 4, 5, 6, 8), (3, 4, 8)])
def test_a_plan_keeps_within_its_share(bits: tuple[int, ...]) -> None:
    forms = tuple(Form(bits=each, group_size=64) for each in bits)
    units = _units(30, forms)
    plan = planned(units, share=0.24)
    assert all(forms[1] in chosen for chosen in plan.values())
    assert _spent(units, plan) <= 0.24 * len(units) * len(forms)


def test_what_time_is_left_goes_to_the_coarsest_all_over_the_model() -> None:
    units = _units(30)
    plan = planned(units, share=0.25)
    more = [unit.block or 0 for unit in units if len(plan[unit.path]) > 1]
    assert all(plan[unit.path][1:] in ((), (_TWO,)) for unit in units)
    assert min(more) < 4
    assert max(more) > 25


def test_every_tensor_is_measured_once_whatever_it_takes() -> None:
    units = _units(3, (_FOUR, _EIGHT))
    assert set(planned(units, share=0.0).values()) == {(_FOUR,)}
    assert set(planned(units, share=None).values()) == {(_FOUR, _EIGHT)}
    assert planned([], share=0.2) == {}


def test_the_reference_is_not_measured() -> None:
    units = _units(2)
    assert set(planned(units, share=None, reference=_FOUR).values()) == {(_TWO, _THREE, _EIGHT)}
    assert all(
        _THREE not in chosen for chosen in planned(units, share=9, reference=_THREE).values()
    )


def _estimates(known: dict[Form, float | None], other: dict[Form, float | None]) -> list[float]:
    noise = {_TWO: 0.16, _THREE: 0.04, _FOUR: 0.01, _EIGHT: 0.0001}
    units = [
        Unit(path=path, forms=_FORMS, block=0, cost=1.0) for path in ("layers.0.up", "layers.1.up")
    ]
    facts = {
        (unit.path, form): Fact(noise=noise[form], kl=kls[form])
        for unit, kls in zip(units, (known, other), strict=True)
        for form in _FORMS
    }
    return [entry.kl for entry in estimated(units, facts)]


def test_estimates_follow_the_squared_error() -> None:
    nothing = dict.fromkeys(_FORMS)
    found = _estimates({**nothing, _THREE: 0.4}, {**nothing, _THREE: 0.04})
    assert found == pytest.approx([1.6, 0.4, 0.1, 0.001, 0.16, 0.04, 0.01, 0.0001])


def test_coarse_forms_follow_their_like() -> None:
    nothing = dict.fromkeys(_FORMS)
    found = _estimates({**nothing, _TWO: 0.8, _THREE: 0.4}, {**nothing, _THREE: 0.04})
    assert found == pytest.approx([0.8, 0.4, 0.1, 0.001, 0.08, 0.04, 0.01, 0.0001])


def test_between_two_measured_forms_there_is_a_power_law() -> None:
    nothing = dict.fromkeys(_FORMS)
    found = _estimates({**nothing, _TWO: 1.6, _FOUR: 0.4}, {**nothing, _FOUR: 0.0})
    assert found == pytest.approx([1.6, 0.8, 0.4, 0.004, 0, 0, 0, 0])


def test_with_a_reference_values_are_zero_at_its_form() -> None:
    unit = Unit(path="up", forms=_FORMS, block=0, cost=1.0)
    noise = {_TWO: 0.16, _THREE: 0.04, _FOUR: 0.01, _EIGHT: 0.0}
    facts = {
        ("up", form): Fact(noise=noise[form], kl=0.3 if form == _THREE else None) for form in _FORMS
    }
    found = [entry.kl for entry in estimated([unit], facts, reference=_FOUR)]
    assert found == pytest.approx([1.5, 0.3, 0.0, -0.1])


def test_forms_are_ordered_by_what_they_take() -> None:
    small = Form(bits=3, group_size=32)
    assert coarsest_first([_EIGHT, small, _THREE, _THREE]) == (_THREE, small, _EIGHT)
