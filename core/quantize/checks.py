"""What can be found wrong with a quantization before anything is loaded. Imports no arrays."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from core.errors import BadModelFiles, UsageProblem
from core.paths import expanded
from core.quantize.calibration import check_calibration
from core.quantize.form import GROUPS
from core.quantize.place import Target, check_target, choose_target
from core.quantize.recipe import Recipe, check_together
from core.registry.facts import read_facts
from core.registry.files import printable, read_json
from core.registry.resolve import ModelRef, resolve_model
from core.registry.storage import read_storage
from core.registry.weights import WEIGHTS, read_headers

if TYPE_CHECKING:
    from core.paths import Paths
    from core.settings import Settings

_LEAST_SHAPE = 2  # dimensions of what can be packed


@dataclass(frozen=True, kw_only=True)
class Outlook:
    """What headers and config.json tell of a quantization."""

    model: ModelRef
    """The model."""
    target: Target
    """Where the result goes."""
    parameters: int | None
    """Its weights; None: the headers do not tell."""
    source_bytes: int | None
    """Bytes of its tensors; None: the headers do not tell."""
    packed_as: str | None
    """How it is packed already: `4-bit g64`; None: it is not."""


def check_quantize(recipe: Recipe, *, settings: Settings, paths: Paths) -> Outlook | None:
    """Refuse a quantization that cannot begin, by what costs next to nothing to read.

    Looks at the recipe, the names, and the headers of the weights; fetches and loads nothing.
    `run_quantize` finds the same errors, but only once the accelerator is free.

    Args:
        recipe: what was chosen.
        settings: the merged settings.
        paths: our folders and the Hugging Face cache.

    Returns:
        What the headers tell; None: the model is the starter, which may have to be fetched.

    Raises:
        MlxbunError: the recipe or the model cannot be used, or the place of the result is taken.
    """
    check_together(recipe)
    require_model(recipe)
    assert recipe.model_id is not None
    if recipe.model_id == "starter":
        return None
    model = resolve_model(
        recipe.model_id, hub_cache=paths.hub_cache, model_folders=settings.model_folders
    )
    return look(recipe, model, hub_cache=paths.hub_cache)


def look(recipe: Recipe, model: ModelRef, *, hub_cache: Path) -> Outlook:
    """Return what the headers of a model tell, once nothing is wrong with them.

    Raises:
        MlxbunError: as `check_quantize`.
    """
    target = choose_target(model, recipe, hub_cache=hub_cache)
    check_target(target, model.folder)
    if recipe.calibrates:
        check_calibration(recipe.calibration_mix)
    headers = read_headers(model.folder)
    storage = read_storage(read_json(model.folder / "config.json") or {}, headers)
    packing = storage.quantization
    packed = packing is not None and packing.mode != "fp8"
    packed_as = packing.label if packing is not None and packed else None
    require_form(model, packed_as, recipe)
    if not packed and not recipe.dequantize:
        _require_groups([tuple(entry["shape"]) for entry in headers.values()], recipe)
    return Outlook(
        model=model,
        target=target,
        parameters=storage.parameters,
        source_bytes=storage.weights_bytes,
        packed_as=packed_as,
    )


def require_model(recipe: Recipe) -> None:
    """Refuse a recipe without a model, and a GGUF file, which has a verb of its own.

    Raises:
        UsageProblem: no model is named.
        BadModelFiles: it is a GGUF file, or a folder that holds nothing else.
    """
    if recipe.model_id is None:
        raise UsageProblem("A quantization needs a model.", hint="Name one: `mlxbun ls`.")
    path = expanded(recipe.model_id)
    try:
        gguf = [path] if path.is_file() else sorted(path.glob("*.gguf"))
        weights = any(path.glob(WEIGHTS)) if path.is_dir() else False
    except (OSError, ValueError):
        return
    if weights or not gguf or gguf[0].suffix.lower() != ".gguf":
        return
    name = printable(str(gguf[0]), 300)
    raise BadModelFiles(
        f"{name} is a GGUF file; mlxbun quantizes safetensors.",
        hint=f"Import it first: `mlxbun import {name}`.",
    )


def require_form(model: ModelRef, packed_as: str | None, recipe: Recipe) -> None:
    """Refuse a source that is quantized already, or not at all where it is to be unpacked.

    Raises:
        UsageProblem: it is, and that was not accepted.
        BadModelFiles: its kind of weights cannot be unpacked.
    """
    name = printable(model.model_id)
    if packed_as == "bitnet" or (packed_as or "").startswith("bitnet "):
        raise BadModelFiles(
            f"{name} has BitNet weights, which cannot be unpacked.",
            hint="Choose the original model in 16 bits.",
        )
    if recipe.dequantize and packed_as is None:
        raise UsageProblem(f"{name} is not quantized: there is nothing to dequantize.")
    if packed_as is not None and not (recipe.dequantize or recipe.allow_requantize):
        raise UsageProblem(
            f"{name} is quantized already ({packed_as}).",
            hint="Choose the original model, or accept the loss of quantizing twice with "
            "--allow-requantize.",
        )


def require_supported(model: ModelRef) -> None:
    """Refuse an architecture that mlx-lm does not know.

    Raises:
        BadModelFiles: it is one.
    """
    from core.registry.architectures import find_mlx_lm, read_architectures
    from core.registry.support import judge

    verdict = judge(read_facts(model.folder), read_architectures(find_mlx_lm()))
    if not verdict.supported:
        raise BadModelFiles(
            f"{printable(model.model_id)} cannot be quantized: {verdict.reason}.",
            hint="Choose another model: `mlxbun ls` shows which are supported.",
        )


def _require_groups(shapes: list[tuple[int, ...]], recipe: Recipe) -> None:
    """Refuse a group that divides the rows of no matrix."""
    rows = {shape[-1] for shape in shapes if len(shape) >= _LEAST_SHAPE and shape[-1]}
    group = recipe.form.group_size
    if not rows or any(row % group == 0 for row in rows):
        return
    fitting = [g for g in reversed(GROUPS[recipe.mode]) if any(row % g == 0 for row in rows)]
    raise UsageProblem(
        f"The group size {group} divides no layer of this model.",
        hint=f"--group-size {fitting[0]} divides some." if fitting else None,
    )
