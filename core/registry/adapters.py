"""Whether an adapter can be used, and on which model: one check for every verb. Imports no arrays.

The check reads the adapter's configuration and the headers of both weight files, so it runs before
a model is loaded. It cannot decide about layers that mlx-lm renames when it loads original files;
the loader then calls `fit_to_layers` with the model itself, before its weights are read.

`I` inputs, `O` outputs, `R` rank, `E` experts.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, NoReturn, cast

from core.errors import BadModelFiles, MlxbunError
from core.registry.files import printable, read_json
from core.registry.resolve import resolve_model
from core.registry.weights import WEIGHTS as MODEL_WEIGHTS
from core.registry.weights import BrokenWeightsError, parse_header, read_header, tensor_bytes

WEIGHTS = "adapters.safetensors"
"""The file with an adapter's matrices."""
CONFIG = "adapter_config.json"
"""The file that says on which layers they belong."""

Kind = Literal["lora", "dora", "full"]
Shape = tuple[int, ...]
Layers = Mapping[str, Shape | None]
"""Layers of a model by their paths, with the shapes of their weights as if they were not packed,
[O, I] or of experts [E, O, I]; None: not known."""

_PARTS: Mapping[str, frozenset[str]] = {
    "lora": frozenset({"lora_a", "lora_b"}),
    "dora": frozenset({"lora_a", "lora_b", "m"}),
}
_FLOATS = ("F32", "F16", "BF16")
_LAYER = re.compile(r"(.*\blayers\.)(\d+)\.")
_SNAPSHOT = re.compile(r"models--([^/]+)/snapshots/[^/]+/*$")
_TRAIN_AGAIN = "Train it again, or delete its folder."


@dataclass(frozen=True, kw_only=True)
class AdapterForm:
    """An adapter that is sound in itself."""

    folder: Path
    """Where it lies."""
    kind: Kind
    """`lora`, `dora`, or `full` for whole weights."""
    base: str | None
    """The model that it was trained on, as its configuration calls it; None: it does not say."""
    rank: int | None
    """Of its matrices; None: it has none."""
    scale: float | None
    """What their product is multiplied by; None: it has none."""
    tensors: Mapping[str, Shape]
    """Shapes by name."""
    size_bytes: int
    """Of its tensors."""

    @property
    def paths(self) -> tuple[str, ...]:
        """The layers that it changes, sorted."""
        return tuple(sorted({name.rpartition(".")[0] for name in self.tensors}))


@dataclass(frozen=True, kw_only=True)
class Fit:
    """The result of comparing an adapter with a model."""

    problem: str | None = None
    """Why it cannot be used with the model, as a sentence; None: it can."""
    note: str | None = None
    """What is worth knowing where it can be used, as a sentence; None: nothing."""
    complete: bool = True
    """Whether every layer could be compared; else only loading the model can tell."""


def check_adapter(folder: Path, *, model: Path, model_id: str, lora: bool = False) -> str | None:
    """Check an adapter, and that it fits a model, as far as their headers tell.

    Args:
        folder: the adapter's, as `find_adapter` returns it.
        model: the model's folder.
        model_id: what users call the model.
        lora: whether it must be plain LoRA (not DoRA or whole weights).

    Returns:
        What is worth knowing, as a sentence; None: nothing.

    Raises:
        BadModelFiles: the adapter is broken, or made for another model.
    """
    form = read_lora_form(folder) if lora else read_form(folder)
    return require_fit(form, fit_to_files(form, model, model_id=model_id))


def require_fit(form: AdapterForm, fit: Fit) -> str | None:
    """Return the note of a comparison.

    Raises:
        BadModelFiles: the adapter does not fit the model.
    """
    if fit.problem is not None:
        where = f"It was trained on {form.base}: use" if form.base else "Use"
        raise BadModelFiles(fit.problem, hint=f"{where} it with the model it was trained on.")
    return fit.note


def read_form(folder: Path) -> AdapterForm:
    """Return what an adapter is, once it is known to be whole.

    Raises:
        BadModelFiles: a file cannot be read, a matrix lacks its other half, a tensor does not
            belong to an adapter, or shapes do not go together.
    """
    config = _read_config(folder)
    kind = _kind(folder, config)
    rank, scale = _rank_and_scale(folder, config) if kind != "full" else (None, None)
    header = _read_tensors(folder)
    tensors = {name: tuple(tensor["shape"]) for name, tensor in header.items()}
    form = AdapterForm(
        folder=folder,
        kind=kind,
        base=_text(config.get("model")),
        rank=rank,
        scale=scale,
        tensors=tensors,
        size_bytes=sum(map(tensor_bytes, header.values())),
    )
    if kind != "full":
        for name, tensor in header.items():
            _refuse_foreign(folder, kind, name, tensor)
        for path in form.paths:
            _refuse_halves(form, path)
            _refuse_odd_shapes(form, path)
    return form


def read_lora_form(folder: Path) -> AdapterForm:
    """Return what an adapter is, where plain matrices are needed: to train on, and to fuse.

    Raises:
        BadModelFiles: as `read_form`; or it is of another kind than LoRA.
    """
    form = read_form(folder)
    if form.kind != "lora":
        raise BadModelFiles(
            f"The adapter in {folder} is {form.kind}, not LoRA.",
            hint="`mlxbun serve MODEL --adapter DIR` takes it.",
        )
    return form


def fit_to_files(form: AdapterForm, model: Path, *, model_id: str) -> Fit:
    """Compare an adapter with a model by the headers of the model's files.

    Args:
        form: the adapter.
        model: the model's folder.
        model_id: what users call the model.

    Raises:
        BadModelFiles: the model's files are broken.
    """
    stored = {
        name: tensor
        for file in sorted(model.glob(MODEL_WEIGHTS))
        for name, tensor in read_header(file).items()
    }
    if form.kind == "full":
        shapes = {name: tuple(tensor["shape"]) for name, tensor in stored.items()}
        problem = _problem_of_whole(form, shapes, model_id=model_id)
        return Fit(problem=problem, note=None if problem else _note(form, model, model_id))
    config = _config_of_model(model)
    layers = {
        path: _stored_shape(path, stored, config)
        for path in form.paths
        if f"{path}.weight" in stored
    }
    missing = [path for path in form.paths if path not in layers and _is_beyond(path, stored)]
    if problem := _problem(form, layers, missing=missing, model_id=model_id):
        return Fit(problem=problem)
    complete = all(layers.get(path) is not None for path in form.paths)
    return Fit(note=_note(form, model, model_id), complete=complete)


def fit_to_own_base(
    folder: Path, *, hub_cache: Path, model_folders: Sequence[str] = ()
) -> Fit | None:
    """Compare an adapter with the model that it names as its base, as `fit_to_files`.

    Args:
        folder: the adapter's.
        hub_cache: the Hugging Face cache.
        model_folders: where models are looked for besides the cache.

    Returns:
        None if that model is not on this disk.
    """
    try:
        form = read_form(folder)
        if form.base is None:
            return None
        base = resolve_model(form.base, hub_cache=hub_cache, model_folders=model_folders)
        if not same_base(form, model=base.folder, model_id=base.model_id):
            return None  # the name is part of another model's
        return fit_to_files(form, base.folder, model_id=base.model_id)
    except MlxbunError:
        return None


def fit_to_layers(form: AdapterForm, layers: Layers, *, model_id: str) -> Fit:
    """Compare an adapter with the layers of a model, all of which are known.

    Args:
        form: the adapter.
        layers: of the model; it has no others.
        model_id: what users call the model.
    """
    missing = [path for path in form.paths if path not in layers]
    return Fit(problem=_problem(form, layers, missing=missing, model_id=model_id))


def same_base(form: AdapterForm, *, model: Path, model_id: str) -> bool:
    """Return whether a model is the one that an adapter names as its base, or it names none.

    Owners and revisions do not count: copies of a model have others.
    """
    names = {bare_name(model_id), bare_name(str(model))}
    return form.base is None or bare_name(form.base) in names


def bare_name(model: str) -> str:
    """Return a model's name without its owner, folder or revision, in lower case.

    Args:
        model: a repository, a folder, or a snapshot in the Hugging Face cache.
    """
    if cached := _SNAPSHOT.search(model):
        return cached[1].rpartition("--")[2].casefold()
    return model.rstrip("/").rpartition("/")[2].partition("@")[0].casefold()


def _problem(form: AdapterForm, layers: Layers, *, missing: list[str], model_id: str) -> str | None:
    if missing:
        more = f" and {len(missing) - 1} more" if len(missing) > 1 else ""
        why = f"the model has no linear layer {printable(missing[0], 120)}{more}"
        return _unfit(form, model_id, f"{why}, which the adapter changes")
    for path in form.paths:
        if (layer := layers.get(path)) and (found := _other_shape(form, path, layer)):
            named = printable(path, 120)
            why = f"its part for {named} has the shape {found}, the layer {layer}"
            return _unfit(form, model_id, why)
    return None


def _problem_of_whole(
    form: AdapterForm, stored: Mapping[str, Shape], *, model_id: str
) -> str | None:
    """Compare whole weights with those that they replace, where these are known."""
    for name, shape in form.tensors.items():
        if stored.get(name, shape) != shape:
            named = printable(name, 120)
            return _unfit(form, model_id, f"its {named} has the shape {shape}, not {stored[name]}")
    return None


def _unfit(form: AdapterForm, model_id: str, why: str) -> str:
    return f"The adapter in {form.folder} does not fit {model_id}: {why}."


def _note(form: AdapterForm, model: Path, model_id: str) -> str | None:
    if same_base(form, model=model, model_id=model_id):
        return None
    return f"The adapter was trained on {printable(str(form.base), 120)}, not on {model_id}."


def _other_shape(form: AdapterForm, path: str, layer: Shape) -> Shape | None:
    """Return the shape of a part that is not that of its layer; None: it fits."""
    a, b = form.tensors[f"{path}.lora_a"], form.tensors[f"{path}.lora_b"]
    if len(a) == 3:
        added: Shape = (a[0], b[1], a[2])
        return None if added == layer else added
    added = (b[1], a[0])
    # An embedding multiplies from the other side, and some files hold a layer transposed.
    return None if layer in (added, added[::-1]) else added


def _stored_shape(path: str, stored: Mapping[str, Any], config: Mapping[str, Any]) -> Shape | None:
    """Return the shape of a layer's weights as if they were not packed; None: it is unknown."""
    weight, scales = stored[f"{path}.weight"], stored.get(f"{path}.scales")
    shape = tuple(weight["shape"])
    if len(shape) not in (2, 3):
        return None
    if scales is None:
        return shape if weight["dtype"] in _FLOATS else None
    inputs = scales["shape"][-1] * quantized_form(config, path)["group_size"]
    bits = 32 * shape[-1] / inputs if inputs else 0
    known = weight["dtype"] == "U32" and bits in (2, 3, 4, 5, 6, 8)
    return (*shape[:-1], inputs) if known else None


def quantized_form(config: Mapping[str, Any], path: str) -> dict[str, Any]:
    """Return `group_size`, `bits` and `mode` of a layer, by the model's config.json."""
    whole = config.get("quantization") or config.get("quantization_config") or {}
    own = whole.get(path)
    said = {**whole, **own} if isinstance(own, dict) else whole
    return {
        "group_size": int(said.get("group_size", 64)),
        "bits": int(said.get("bits", 4)),
        "mode": str(said.get("mode", "affine")),
    }


def _is_beyond(path: str, stored: Mapping[str, Any]) -> bool:
    """Return whether a layer has a number that the model's files do not have."""
    numbered = _LAYER.match(f"{path}.")
    if numbered is None:
        return False
    others = any(name.startswith(numbered[1]) for name in stored)
    return others and not any(name.startswith(numbered[0]) for name in stored)


def _config_of_model(model: Path) -> dict[str, Any]:
    try:
        return read_json(model / "config.json") or {}
    except OSError:
        return {}


def _read_config(folder: Path) -> dict[str, Any]:
    try:
        config = read_json(folder / CONFIG)
    except OSError as problem:
        _refuse(f"{folder / CONFIG} cannot be read: {problem.strerror}.")
    if config is None:
        _refuse(f"{folder / CONFIG} is not a JSON object.")
    return config


def _kind(folder: Path, config: Mapping[str, Any]) -> Kind:
    kind = config.get("fine_tune_type", "lora")
    if kind not in ("lora", "dora", "full"):
        shown = printable(str(kind), 40)
        _refuse(f"The adapter in {folder} is {shown}, not lora, dora or full.")
    return cast(Kind, kind)


def _rank_and_scale(folder: Path, config: Mapping[str, Any]) -> tuple[int, float]:
    """Return the rank and the scale, if everything is there that mlx-lm needs."""
    lora = config.get("lora_parameters")
    if not isinstance(lora, dict):
        _refuse(f"{folder / CONFIG} is not the configuration of a LoRA adapter.")
    rank, scale, dropout = (lora.get(name) for name in ("rank", "scale", "dropout"))
    if not _is_count(rank):
        _refuse(f"The adapter in {folder} does not say its rank.")
    if not _is_number(scale):
        _refuse(f"The adapter in {folder} does not say its scale.")
    if not _is_number(dropout):
        _refuse(f"The adapter in {folder} does not say its dropout.")
    if type(config.get("num_layers")) is not int:
        _refuse(f"The adapter in {folder} does not say its num_layers.")
    return cast(int, rank), float(cast(float, scale))


def _read_tensors(folder: Path) -> dict[str, Any]:
    try:
        header = parse_header(folder / WEIGHTS)
    except BrokenWeightsError as problem:
        _refuse(f"The weights file {folder / WEIGHTS} is broken: {problem}.")
    if not header:
        _refuse(f"{folder / WEIGHTS} holds no tensors.")
    return header


def _refuse_foreign(folder: Path, kind: str, name: str, tensor: Mapping[str, Any]) -> None:
    """Refuse a tensor that does not belong to an adapter of its kind."""
    path, _, part = name.rpartition(".")
    if not path or part not in _PARTS[kind]:
        _refuse(f"{folder / WEIGHTS} holds {printable(name, 120)}, which is not part of {kind}.")
    if tensor["dtype"] not in _FLOATS:
        _refuse(f"{printable(name, 120)} in {folder / WEIGHTS} is {tensor['dtype']}, not float.")


def _refuse_halves(form: AdapterForm, path: str) -> None:
    """Refuse a layer of which a matrix is missing."""
    missing = [part for part in sorted(_PARTS[form.kind]) if f"{path}.{part}" not in form.tensors]
    if missing:
        _refuse(
            f"The adapter in {form.folder} is incomplete: {printable(path, 120)} has no "
            f"{' and no '.join(missing)}."
        )


def _refuse_odd_shapes(form: AdapterForm, path: str) -> None:
    """Refuse matrices whose product does not exist, or is of another rank than is said."""
    a, b = form.tensors[f"{path}.lora_a"], form.tensors[f"{path}.lora_b"]
    plain = len(a) == len(b) == 2 and a[1] == b[0] == form.rank
    experts = len(a) == len(b) == 3 and a[0] == b[0] and a[1] == b[2] == form.rank
    if not (plain or experts):
        _refuse(
            f"The matrices of {printable(path, 120)} in {form.folder} have the shapes {a} and {b}, "
            f"which do not make an adapter of rank {form.rank}."
        )


def _refuse(message: str) -> NoReturn:
    raise BadModelFiles(message, hint=_TRAIN_AGAIN)


def _is_count(value: Any) -> bool:
    return type(value) is int and value > 0


def _is_number(value: Any) -> bool:
    known = isinstance(value, int | float) and not isinstance(value, bool)
    return known and math.isfinite(value)


def _text(value: Any) -> str | None:
    return value if isinstance(value, str) and value else None
