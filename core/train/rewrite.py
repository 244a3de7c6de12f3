"""A model with an adapter in its weights, written anew in the layout that mlx-lm computes in."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from mlx import nn
from mlx_lm.models.switch_layers import QuantizedSwitchLinear, SwitchLinear
from mlx_lm.utils import load_model, save_config, save_model

from core.engine.blame import blaming_files
from core.engine.loader import layers_of
from core.errors import BadModelFiles
from core.registry.adapters import fit_to_layers, read_form, require_fit
from core.train.update import PARTS, Update, grown

_PLAIN = (nn.Linear, SwitchLinear)
_QUANTIZED = (nn.QuantizedLinear, QuantizedSwitchLinear)


def rewrite(base: Path, update: Update, made: Path, *, on_layer: Callable[[], None]) -> None:
    """Write a model's weights and its config.json, with an adapter in them.

    Args:
        base: the model's folder.
        update: the adapter.
        made: the folder to write into, where the model's other files are already.
        on_layer: hears of each layer.

    Raises:
        BadModelFiles: the model cannot be read, or has not the layers that the adapter changes.
        OSError: the folder cannot be written, or the disk is full.
    """
    with blaming_files(base):
        model, config = load_model(base, lazy=True)
    # Before anything is computed: their headers could not tell what their layers become.
    form = read_form(update.folder)
    require_fit(form, fit_to_layers(form, layers_of(model), model_id=base.name))
    modules = dict(model.named_modules())
    for path in update.paths:
        module = modules.get(path)
        if not isinstance(module, _PLAIN + _QUANTIZED):
            raise BadModelFiles(
                f"The model in {base} has no linear layer {path}, which the adapter changes.",
                hint="Fuse it with the model that it was trained on.",
            )
        _grow(path, module, update)
        on_layer()
    try:
        save_model(made, model, donate_model=True)
    except RuntimeError as problem:  # what MLX raises where a file cannot be written
        raise OSError(" ".join(str(problem).split())) from problem
    save_config(config, made / "config.json")


def _grow(path: str, module: Any, update: Update) -> None:
    if module.get("global_scale") is not None:
        raise BadModelFiles(
            f"{path} is stored with a scale for each tensor, in which fuse does not write.",
            hint="Serve the adapter instead: mlxbun serve MODEL --adapter DIR",
        )
    parts = {part: module.get(part) for part in PARTS}
    names = ("group_size", "bits", "mode") if isinstance(module, _QUANTIZED) else ()
    form = {name: getattr(module, name) for name in names}
    for part, array in grown(path, parts, update, form).items():
        module[part] = array
