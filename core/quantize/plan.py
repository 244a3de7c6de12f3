"""What becomes of every layer, and what the whole takes: decided before any weight is read.

Pure: `core.quantize.source` describes a model's layers, this decides, `core.quantize.write` does
it. Imports no arrays.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from fnmatch import fnmatchcase
from math import prod
from typing import Any, Literal

from core.errors import UsageProblem
from core.quantize.form import GROUPS, WIDTHS, Form, checked_form
from core.quantize.recipe import ROUTER_BITS, Recipe

Kind = Literal["linear", "embedding", "experts"]

SAME_SIZE = 0.01
"""Bits per weight within which two models count as of one size."""
_SHOWN = 6  # names in a sentence
_NUMBER = re.compile(r"(?<=\.)\d+(?=\.)")


@dataclass(frozen=True, kw_only=True)
class Layer:
    """A layer that MLX can pack."""

    path: str
    """Its module's: `model.layers.0.mlp.down_proj`."""
    kind: Kind
    """What it is; `experts`: one matrix for each expert."""
    shape: tuple[int, ...]
    """Of its weight; groups lie along the last dimension."""
    item_bytes: int
    """Bytes of a number of its weight, and so of an affine scale."""
    router: bool = False
    """Whether it chooses experts, or weighs a shared one."""
    floor: Form | None = None
    """What the architecture packs it in at least; None: it does not say."""
    fixed: str | None = None
    """Why the architecture cannot have it packed, as a clause; None: it can."""
    takes_mode: bool = True
    """Whether it can be packed in other modes than affine."""

    @property
    def count(self) -> int:
        """Its numbers."""
        return prod(self.shape)

    @property
    def plain_bytes(self) -> int:
        """Bytes of its weight as it is."""
        return self.count * self.item_bytes

    def fits(self, group_size: int) -> bool:
        """Return whether its rows are made of whole groups."""
        return self.shape[-1] % group_size == 0

    def bytes_as(self, form: Form | None) -> int:
        """Return the bytes of its weight with scales and biases, packed in a form or as it is."""
        if form is None:
            return self.plain_bytes
        scales = 2 * self.item_bytes if form.mode == "affine" else 1
        return self.count * form.bits // 8 + self.count // form.group_size * scales


@dataclass(frozen=True, kw_only=True)
class Sums:
    """A whole model, with nothing packed, counted as mlx-lm's `compute_bits_per_weight` does."""

    nbytes: int
    """Bytes of all its arrays."""
    parameters: int
    """Its weights."""


@dataclass(frozen=True, kw_only=True)
class Planned:
    """What becomes of one layer."""

    layer: Layer
    """The layer."""
    form: Form | None
    """What it is packed in; None: it stays as it is."""
    reason: str | None = None
    """Why it stays, or why its form is not that of the others, as a clause."""
    misfit: bool = False
    """Whether it stays because its rows are not made of whole groups."""
    choices: tuple[Form, ...] = ()
    """The forms that mixed precision may give it, the smallest first; none: the form is fixed."""

    @property
    def nbytes(self) -> int:
        """Bytes of its weight as planned."""
        return self.layer.bytes_as(self.form)


@dataclass(frozen=True, kw_only=True)
class Choice:
    """What the forms of a plan were chosen by."""

    sweep: Mapping[str, Any]
    """The sensitivities, as `core.quantize.mixing.Mixed.as_json` writes them."""
    calibration: str
    """Digest of the calibration text."""


@dataclass(frozen=True, kw_only=True)
class Plan:
    """What becomes of a model."""

    layers: tuple[Planned, ...]
    """Every layer that MLX can pack, in the order of the model."""
    sums: Sums
    """The model with nothing packed."""
    default: Form | None
    """The form that config.json names for the whole; None: nothing is packed."""
    target_bpw: float | None = None
    """Bits per weight that mixed precision is to reach; None: the forms are final."""
    choice: Choice | None = None
    """What the forms were chosen by; None: they were not chosen yet, or by hand."""

    @property
    def forms(self) -> dict[str, Form]:
        """The form of every layer that is packed, by path."""
        return {each.layer.path: each.form for each in self.layers if each.form is not None}

    @property
    def kept(self) -> tuple[Planned, ...]:
        """Layers that could be packed and stay as they are."""
        return tuple(each for each in self.layers if each.form is None)

    @property
    def choices(self) -> dict[str, tuple[Form, ...]]:
        """The forms to choose from, by path, of the layers that have a choice."""
        return {each.layer.path: each.choices for each in self.layers if len(each.choices) > 1}

    @property
    def nbytes(self) -> int:
        """Bytes of all arrays of the model as planned."""
        return self.sums.nbytes + sum(each.nbytes - each.layer.plain_bytes for each in self.layers)

    @property
    def bits_per_weight(self) -> float:
        """As mlx-lm's `compute_bits_per_weight` finds it on the result."""
        return 8 * self.nbytes / max(1, self.sums.parameters)

    def reachable(self) -> tuple[float, float]:
        """Return the least and the most bits per weight that the choices allow."""
        low = self.with_forms({path: forms[0] for path, forms in self.choices.items()})
        high = self.with_forms({path: forms[-1] for path, forms in self.choices.items()})
        return low.bits_per_weight, high.bits_per_weight

    def sizes(self) -> dict[str, dict[Form, int]]:
        """Return what each layer with a choice takes in each of its forms, in bytes."""
        return {
            each.layer.path: {form: each.layer.bytes_as(form) for form in each.choices}
            for each in self.layers
            if len(each.choices) > 1
        }

    def with_forms(self, forms: Mapping[str, Form]) -> Plan:
        """Return the plan with some layers in other forms; nothing is left to choose."""
        layers = tuple(
            replace(each, form=forms.get(each.layer.path, each.form), choices=())
            for each in self.layers
        )
        made = replace(self, layers=layers, target_bpw=None)
        return replace(made, default=_most_used(layers) or self.default)

    def config(self) -> dict[str, Any] | None:
        """Return what config.json says under `quantization`; None: nothing is packed."""
        if self.default is None:
            return None
        told: dict[str, Any] = self.default.as_config()
        for each in self.layers:
            if each.form is not None and (each.form != self.default or not each.layer.takes_mode):
                told[each.layer.path] = each.form.as_config()
                if not each.layer.takes_mode:
                    del told[each.layer.path]["mode"]
        return told


def make_plan(layers: Sequence[Layer], sums: Sums, recipe: Recipe) -> Plan:
    """Decide what becomes of every layer.

    Args:
        layers: those that MLX can pack.
        sums: the model with nothing packed.
        recipe: what was chosen.

    Raises:
        UsageProblem: an override matches no layer, the group divides none, a target is out of
            reach, or `strict` is chosen and a layer does not fit.
    """
    if recipe.dequantize:
        kept = tuple(Planned(layer=each, form=None) for each in layers)
        return Plan(layers=kept, sums=sums, default=None)
    _refuse_idle_overrides(layers, recipe)
    planned = tuple(_decide(layer, recipe) for layer in layers)
    _refuse_misfits(planned, recipe)
    plan = Plan(
        layers=planned,
        sums=sums,
        default=recipe.form if recipe.target_bpw is None else _most_used(planned),
        target_bpw=recipe.target_bpw,
    )
    if recipe.target_bpw is not None:
        _refuse_out_of_reach(plan, recipe.target_bpw)
    return plan


def uniform_near(plan: Plan, limit_bpw: float) -> Plan | None:
    """Return the largest uniform affine plan of a size; None: there is none.

    Norms make a uniform model a little larger than its bits say, so `SAME_SIZE` more is allowed.
    What is fixed (routers, overrides, what does not fit) is the same in it.

    Args:
        plan: a plan of mixed precision with its choices.
        limit_bpw: bits per weight of the whole model.
    """
    best: Plan | None = None
    for bits in WIDTHS["affine"]:
        for group in GROUPS["affine"]:
            form = Form(bits=bits, group_size=group)
            free = [each.layer for each in plan.layers if len(each.choices) > 1]
            if not all(layer.fits(group) for layer in free):
                continue
            made = plan.with_forms({layer.path: form for layer in free})
            if made.bits_per_weight > limit_bpw + SAME_SIZE:
                continue
            # Of equal sizes, the one of more bits in larger groups is the better one.
            if best is None or made.bits_per_weight >= best.bits_per_weight - 1e-9:
                best = made
    return best


def describe_kept(plan: Plan) -> list[str]:
    """Return one sentence for each reason for which layers stay as they are, with their names."""
    groups: dict[str, list[str]] = {}
    for each in plan.kept:
        if each.reason:
            groups.setdefault(each.reason, []).append(each.layer.path)
    return [f"{listed(paths)} stay unquantized: {reason}." for reason, paths in groups.items()]


def listed(paths: Iterable[str], most: int | None = None) -> str:
    """Return names as a list in which the layers of a row are one: `model.layers.*.q_proj (30)`."""
    counts = Counter(_NUMBER.sub("*", path) for path in paths)
    names = [f"{name} ({count})" if count > 1 else name for name, count in counts.items()]
    shown = names if most is None else names[:most]
    rest = len(names) - len(shown)
    return ", ".join(shown) + (f" and {rest} more" if rest else "")


def _decide(layer: Layer, recipe: Recipe) -> Planned:
    """Return what becomes of one layer."""
    found, bits = _overridden(layer.path, recipe)
    if found and bits is not None:
        if layer.kind == "embedding" and layer.fixed is not None:
            raise UsageProblem(f"{layer.path} cannot be quantized: {layer.fixed}.")
        return _fixed(layer, _form_of_width(bits, recipe), "an override says so")
    if (reason := _reason_to_stay(layer, recipe, overridden=found)) is not None:
        return Planned(layer=layer, form=None, reason=reason)
    if layer.kind == "embedding" and recipe.embedding_bits is not None:
        form = _form_of_width(recipe.embedding_bits, recipe)
        return _fixed(layer, form, "embedding_bits says so")
    floor = _floor(layer)
    if recipe.target_bpw is not None:
        return _with_choices(layer, recipe, floor)
    if floor is not None and recipe.form.bits < floor.bits:
        why = "routers keep more bits" if layer.router else "mlx-lm gives them more bits"
        return _fixed(layer, floor, why)
    return _fixed(layer, recipe.form, None)


def _reason_to_stay(layer: Layer, recipe: Recipe, *, overridden: bool) -> str | None:
    """Return why a layer is not to be packed, as a clause; None: it is."""
    if overridden:
        return "an override keeps them"
    if layer.fixed is not None:
        return layer.fixed
    if layer.kind == "embedding" and not recipe.quantize_embeddings:
        return "quantize_embeddings is off"
    return None


def _fixed(layer: Layer, form: Form, reason: str | None) -> Planned:
    if form.mode != "affine" and not layer.takes_mode:
        form, reason = checked_form(bits=form.bits, group_size=None), "they support affine only"
    if layer.fits(form.group_size):
        return Planned(layer=layer, form=form, reason=reason)
    told = f"their last dimension, {layer.shape[-1]}, is not a multiple of {form.group_size}"
    return Planned(layer=layer, form=None, reason=told, misfit=True)


def _with_choices(layer: Layer, recipe: Recipe, floor: Form | None) -> Planned:
    """Return a layer with the forms that mixed precision may give it."""
    if layer.router and floor is not None:
        return _fixed(layer, floor, "routers keep more bits")
    least = floor.bits if floor else 0
    group = recipe.form.group_size
    forms = [Form(bits=bits, group_size=group) for bits in recipe.candidates if bits >= least]
    if not forms:
        return _fixed(layer, floor or recipe.form, "mlx-lm gives them more bits")
    planned = _fixed(layer, forms[-1], None)
    return planned if planned.misfit else replace(planned, choices=tuple(forms))


def _overridden(path: str, recipe: Recipe) -> tuple[bool, int | None]:
    """Return whether an override matches a layer, and the width that the last one gives it."""
    found = [bits for pattern, bits in recipe.overrides if fnmatchcase(path, pattern)]
    return bool(found), found[-1] if found else None


def _form_of_width(bits: int, recipe: Recipe) -> Form:
    """Return the recipe's form with another width: affine, where its mode does not have it."""
    if bits in WIDTHS[recipe.mode]:
        return checked_form(bits=bits, group_size=recipe.group_size, mode=recipe.mode)
    return checked_form(bits=bits, group_size=None)


def _floor(layer: Layer) -> Form | None:
    """Return the least form of a layer, in a group that divides its rows where there is one."""
    if layer.floor is None and not layer.router:
        return None
    floor = layer.floor or Form(bits=ROUTER_BITS, group_size=64)
    if layer.fits(floor.group_size) or floor.mode != "affine":
        return floor
    return next((replace(floor, group_size=size) for size in (64, 32) if layer.fits(size)), floor)


def _most_used(layers: Iterable[Planned]) -> Form | None:
    counts = Counter[Form]()
    for each in layers:
        if each.form is not None:
            counts[each.form] += each.layer.count
    return counts.most_common(1)[0][0] if counts else None


def _refuse_idle_overrides(layers: Sequence[Layer], recipe: Recipe) -> None:
    for pattern, _ in recipe.overrides:
        if not any(fnmatchcase(layer.path, pattern) for layer in layers):
            raise UsageProblem(
                f"The override {pattern!r} matches no layer.",
                hint=f"There are {listed((layer.path for layer in layers), _SHOWN)}.",
            )


def _refuse_misfits(planned: Sequence[Planned], recipe: Recipe) -> None:
    misfits = [each.layer for each in planned if each.misfit]
    group = recipe.form.group_size
    if misfits and not any(each.form for each in planned):
        raise UsageProblem(
            f"The group size {group} divides no layer of this model.",
            hint=_smaller(misfits, recipe),
        )
    if not planned:
        raise UsageProblem("This model has no layer that can be quantized.")
    if not any(each.form for each in planned):
        raise UsageProblem("Nothing to quantize: every layer is kept as it is.")
    if recipe.strict and misfits:
        names = listed(layer.path for layer in misfits)
        raise UsageProblem(
            f"The group size {group} does not divide {names}.", hint=_smaller(misfits, recipe)
        )


def _smaller(misfits: Sequence[Layer], recipe: Recipe) -> str:
    """Return what to do about layers that do not fit a group."""
    sizes = [
        size
        for size in reversed(GROUPS[recipe.mode])
        if size < recipe.form.group_size and all(layer.fits(size) for layer in misfits)
    ]
    if sizes:
        return f"--group-size {sizes[0]} fits them all."
    return "No group size of this mode fits them all."


def _refuse_out_of_reach(plan: Plan, target: float) -> None:
    low, high = plan.reachable()
    if not low - 0.0005 <= target <= high + 0.0005:
        raise UsageProblem(
            f"target_bpw {target:g} is out of reach: this model takes {low:.3f} to {high:.3f} bits "
            "per weight with these candidates.",
            hint="Choose a target in that range, or other candidate_bits.",
        )
