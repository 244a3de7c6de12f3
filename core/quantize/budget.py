"""Which width fits an amount of memory, and what a model takes in a form: by `core.fit` alone.

Imports no arrays: everything comes from config.json and the headers of the weights.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING

from core.errors import DoesNotFit, UsageProblem
from core.fit.assess import Assessor, Question
from core.fit.candidate import candidate_of, read_files
from core.fit.quantized import (
    Width,
    is_router,
    making,
    quantized,
)
from core.fit.weights import is_embedding, weigh
from core.quantize.form import MODES, WIDTHS, Form, checked_form
from core.quantize.inspect import local_model
from core.quantize.recipe import ROUTER_BITS, Recipe
from core.units import format_bytes, parse_bytes

if TYPE_CHECKING:
    from core.fit.assess import Assessment
    from core.fit.candidate import ModelFiles
    from core.fit.host import Host
    from core.fit.quantized import Choose, Making, Packed
    from core.fit.weights import Tensor
    from core.paths import Paths
    from core.settings import Settings

_BITS = re.compile(r"([0-9]{1,2})(?:-?bits?)?(?:-g([0-9]{1,4}))?")
_TARGET = re.compile(r"([0-9]{1,2}(?:\.[0-9]{1,6})?)bpw")
_OUTPUTS = re.compile(r"(self_attn\.o_proj|mlp\.down_proj|^lm_head)\.weight$")
_WIDER = {"granite": _OUTPUTS, "granitemoe": _OUTPUTS}
"""Layers to which mlx-lm gives 8 bits at least, by architecture."""
_NONE = re.compile(r"(?!)")
_MODE = re.compile(r"([a-z0-9]+)(?:-g([0-9]{1,4}))?")


@dataclass(frozen=True, kw_only=True)
class Wanted:
    """What a model is to be packed in: one form, or a mean width of all weights."""

    form: Form
    """The form; of mixed precision its group and mode count."""
    target_bpw: float | None = None
    """Bits per weight of the whole model; None: every weight has the form."""

    def __str__(self) -> str:
        if self.target_bpw is not None:
            return f"{self.target_bpw:g}bpw"
        return f"{self.form.bits}-bit" if self.form.mode == "affine" else self.form.mode


def read_wanted(text: str) -> Wanted:
    """Return what is meant by `4bit`, `4`, `4bit-g32`, `mxfp4` or `4.5bpw`.

    Raises:
        UsageProblem: nothing that there is.
    """
    text = text.strip().lower()
    if (found := _TARGET.fullmatch(text)) is not None:
        return Wanted(form=Form(bits=4, group_size=64), target_bpw=float(found[1]))
    if (found := _BITS.fullmatch(text)) is not None:
        group = int(found[2]) if found[2] else None
        return Wanted(form=checked_form(bits=int(found[1]), group_size=group))
    if (found := _MODE.fullmatch(text)) is not None and found[1] in MODES[1:]:
        group = int(found[2]) if found[2] else None
        return Wanted(form=checked_form(bits=None, group_size=group, mode=found[1]))
    raise UsageProblem(
        f"There is no quantization {text[:40]!r}.",
        hint=f"Use a width such as 4bit or 4bit-g32, a mode ({', '.join(MODES[1:])}), or a mean "
        "width such as 4.5bpw.",
    )


def packed_as(files: ModelFiles, wanted: Wanted, recipe: Recipe | None = None) -> ModelFiles:
    """Return what the files of a model would hold in a form.

    Args:
        files: of the model.
        wanted: the form.
        recipe: what else was chosen: embeddings and overrides count; None: the defaults.

    Raises:
        UsageProblem: the mean width is out of reach.
    """
    recipe = recipe or Recipe()
    form: Packed = wanted.form
    if wanted.target_bpw is not None:
        form = _mean_form(files, wanted, recipe)
    return quantized(files, _choice(files, recipe, form), called=str(wanted))


def making_of(files: ModelFiles, made: ModelFiles, wanted: Wanted) -> Making:
    """Return what it takes to make `made`, which `packed_as` returned, of a model.

    Mixed precision is compared with the uniform model of its size, which takes the same disk.
    """
    found = making(files, made)
    if wanted.target_bpw is None:
        return found
    return replace(found, disk_bytes=2 * found.disk_bytes)


def bits_per_weight(files: ModelFiles) -> float:
    """Return the bits per weight of all tensors that are loaded, scales included."""
    weights = weigh(files.tensors, files.config)
    return 8 * weights.stored_bytes / max(1, weights.parameters)


def reach(files: ModelFiles, recipe: Recipe, group_size: int) -> tuple[float, float]:
    """Return the least and the most bits per weight that the candidate widths allow."""
    least, most = (
        quantized(files, _choice(files, recipe, Width(bits=bits, group_size=group_size)), called="")
        for bits in (recipe.candidates[0], recipe.candidates[-1])
    )
    return bits_per_weight(least), bits_per_weight(most)


def with_width(recipe: Recipe, *, host: Host, settings: Settings, paths: Paths) -> WidthChosen:
    """Return a recipe with the width that `fit` asks for; one without `fit` as it is.

    Args:
        recipe: with `model_id`, where it has `fit`.
        host: the machine; the memory is that of `fit`.
        settings: `model_folders` counts.
        paths: the Hugging Face cache.

    Raises:
        UsageProblem: `fit` is not a size, or does not go with what else was chosen.
        DoesNotFit: no width fits.
        MlxbunError: the model cannot be found or read.
    """
    if recipe.fit is None:
        return WidthChosen(recipe=recipe)
    budget = _budget(recipe)
    files = _local_files(recipe, settings, paths)
    host = replace(host, usable_bytes=budget)
    found: Assessment | None = None
    for bits in sorted(WIDTHS[recipe.mode], reverse=True):
        form = checked_form(bits=bits, group_size=recipe.group_size, mode=recipe.mode)
        candidate = candidate_of(packed_as(files, Wanted(form=form), recipe))
        found = Assessor(candidate).assess(host, Question())
        if found.fits:
            return WidthChosen(recipe=replace(recipe, bits=bits, fit=None), note=_said(found, bits))
    assert found is not None
    raise DoesNotFit(
        f"{files.model_id} fits {format_bytes(budget)} at no width of {recipe.mode}: at {bits} "
        f"bits it needs {format_bytes(found.needed_bytes)} at {found.context:,} tokens.",
        need=found.needed_bytes,
        have=budget,
        hint="Use a larger --fit, or a smaller model.",
    )


@dataclass(frozen=True, kw_only=True)
class WidthChosen:
    """A recipe whose width is decided."""

    recipe: Recipe
    """Without `fit`."""
    note: str | None = None
    """Which width was chosen and why, in one sentence; None: there was nothing to choose."""


def _budget(recipe: Recipe) -> int:
    """Return the bytes that a model is to fit."""
    text = str(recipe.fit)
    try:
        if not text.strip()[-1:].isalpha():  # 6 could be meant as GB, as --memory-budget takes it
            raise ValueError("there is no unit")
        return parse_bytes(text)
    except ValueError:
        raise UsageProblem(f"fit must be a size such as 6GB, not {text[:40]!r}.") from None


def _local_files(recipe: Recipe, settings: Settings, paths: Paths) -> ModelFiles:
    if recipe.model_id is None:
        raise UsageProblem("A quantization needs model_id.")
    return read_files(local_model(recipe.model_id, paths=paths, settings=settings))


def _said(found: Assessment, bits: int) -> str:
    need, have = format_bytes(found.needed_bytes), format_bytes(found.host.usable_bytes)
    return f"{bits} bits fit {have}: it needs {need} at {found.context:,} tokens."


def _choice(files: ModelFiles, recipe: Recipe, form: Packed) -> Choose:
    """Return what chooses the form of a tensor."""
    overrides = recipe.overrides
    wider = _WIDER.get(str(files.config.get("model_type")), _NONE)

    def choose(tensor: Tensor) -> Packed | None:
        path = tensor.name.removesuffix(".weight")
        for pattern, bits in reversed(overrides):
            if fnmatchcase(path, pattern):
                return None if bits is None else _of_width(bits, form)
        if form.bits < ROUTER_BITS and (is_router(tensor.name) or wider.search(tensor.name)):
            return Form(bits=ROUTER_BITS, group_size=64)
        if not is_embedding(tensor.name):
            return form
        if not recipe.quantize_embeddings:
            return None
        if recipe.embedding_bits is None:
            return form
        return _of_width(recipe.embedding_bits, form)

    return choose


def _of_width(bits: int, form: Packed) -> Form:
    """Return a form with another width: affine, where its mode does not have it."""
    if bits in WIDTHS[form.mode]:
        return checked_form(bits=bits, group_size=form.group_size, mode=form.mode)
    return checked_form(bits=bits, group_size=None)


def _mean_form(files: ModelFiles, wanted: Wanted, recipe: Recipe) -> Width:
    """Return the mean width of packed numbers with which the whole model has a target.

    Sizes are linear in it: two of them tell.
    """
    group, target = wanted.form.group_size, wanted.target_bpw or 0.0
    least, most = recipe.candidates[0], recipe.candidates[-1]
    low, high = reach(files, recipe, group)
    if not low <= target <= high:
        raise UsageProblem(
            f"{target:g} bits per weight are out of reach: with widths of {least} to {most} bits, "
            f"{files.model_id} can have {low:.2f} to {high:.2f}."
        )
    share = (target - low) / max(high - low, 1e-9)
    return Width(bits=least + share * (most - least), group_size=group)
