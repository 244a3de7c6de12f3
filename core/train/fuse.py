"""An adapter made part of its model: a new folder, in which nothing but the adapted layers differs.

A layer keeps its form: its data type, and where it is quantized its bits and groups. So the files
keep their headers, and each is the base's file with the bytes of those layers put in place; every
other tensor is the same to the last byte.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import mlx.core as mx
import numpy as np

from core.errors import BadModelFiles, UsageProblem
from core.progress import OnProgress, Progress, ignore_progress
from core.registry.files import read_json
from core.registry.weights import read_header
from core.train.adapter import read_adapter

_PARTS = ("weight", "scales", "biases")


@dataclass(frozen=True, kw_only=True)
class Fused:
    """What was written."""

    folder: Path
    """The new model's."""
    layers: int
    """Layers that the adapter changed."""
    tensors_kept: int
    """Tensors that are the same as in the base."""


def fuse(
    base: Path, adapter: Path, target: Path, *, on_progress: OnProgress = ignore_progress
) -> Fused:
    """Write a model with an adapter in its weights.

    Args:
        base: the model's folder.
        adapter: the adapter's folder.
        target: a folder that is not there yet; it appears whole or not at all.
        on_progress: hears of each layer.

    Raises:
        UsageProblem: the target is there already.
        BadModelFiles: the adapter does not fit the model, or files cannot be read.
        OSError: the target cannot be written, or the disk is full.
    """
    if target.exists():
        raise UsageProblem(f"{target} is there already.", hint="Name a folder that is not.")
    arrays, scale = read_adapter(adapter)
    paths = sorted({name.rsplit(".", 1)[0] for name in arrays})
    files = {path: read_header(path) for path in sorted(base.glob("*.safetensors"))}
    _refuse_strangers(paths, files, base)
    config = read_json(base / "config.json") or {}
    target.parent.mkdir(parents=True, exist_ok=True)
    made = target.with_name(f".{target.name}.fusing")
    shutil.rmtree(made, ignore_errors=True)
    done = 0

    def count(_path: str) -> None:
        nonlocal done
        done += 1
        on_progress(Progress(task="fusing", done=done, total=len(paths), unit="layers"))

    try:
        made.mkdir()
        _copy_others(base, made)
        for file, header in files.items():
            _write_file(file, header, made / file.name, (arrays, scale, config), count)
        made.replace(target)
    finally:
        shutil.rmtree(made, ignore_errors=True)
    names = [name for header in files.values() for name in header]
    changed = {f"{path}.{part}" for path in paths for part in _PARTS}
    return Fused(
        folder=target,
        layers=len(paths),
        tensors_kept=sum(name not in changed for name in names),
    )


def _write_file(
    file: Path,
    header: Mapping[str, Any],
    target: Path,
    adapter: tuple[Mapping[str, Any], float, Mapping[str, Any]],
    on_layer: Callable[[str], None],
) -> None:
    """Copy one file of weights, and put the adapted layers in place."""
    arrays, scale, config = adapter
    shutil.copyfile(file, target)
    loaded: Any = mx.load(str(file))
    paths = sorted({name.rsplit(".", 1)[0] for name in arrays})
    with target.open("r+b") as out:
        for path in (path for path in paths if f"{path}.weight" in header):
            _put(out, header, file, _fused(path, loaded, arrays, scale, _form(config, path)))
            on_layer(path)
        out.flush()
        os.fsync(out.fileno())


def _fused(
    path: str,
    loaded: Mapping[str, Any],
    arrays: Mapping[str, Any],
    scale: float,
    form: Mapping[str, Any],
) -> dict[str, Any]:
    """Return a layer's tensors with the adapter in them, by name."""
    weight = loaded[f"{path}.weight"]
    a, b = (mx.array(arrays[f"{path}.{name}"]) for name in ("lora_a", "lora_b"))
    # Of experts [E, R, I] and [E, O, R], else [I, R] and [R, O].
    update = scale * ((b @ a) if a.ndim == 3 else (a @ b).T)
    scales = loaded.get(f"{path}.scales")
    if scales is None:
        _refuse_shape(path, weight.shape, update.shape)
        return {f"{path}.weight": (weight.astype(mx.float32) + update).astype(weight.dtype)}
    biases = loaded.get(f"{path}.biases")
    floats = scales.dtype in (mx.float32, mx.float16, mx.bfloat16)
    wide: list[Any] = [
        None if s is None else s.astype(mx.float32) if floats else s for s in (scales, biases)
    ]
    plain = mx.dequantize(weight, *wide, **form).astype(mx.float32)
    _refuse_shape(path, plain.shape, update.shape)
    packed = mx.quantize(plain + update, **form)
    kinds = (weight.dtype, scales.dtype, biases.dtype if biases is not None else None)
    return {
        f"{path}.{part}": array.astype(kind)
        for part, array, kind in zip(_PARTS, packed, kinds, strict=False)
    }


def _form(config: Mapping[str, Any], path: str) -> dict[str, Any]:
    """Return how a layer is quantized: what is said of it, else of all."""
    whole = config.get("quantization") or config.get("quantization_config") or {}
    own = whole.get(path)
    said = {**whole, **own} if isinstance(own, dict) else whole
    return {
        "group_size": int(said.get("group_size", 64)),
        "bits": int(said.get("bits", 4)),
        "mode": str(said.get("mode", "affine")),
    }


def _put(out: Any, header: Mapping[str, Any], file: Path, tensors: Mapping[str, Any]) -> None:
    """Put tensors where the header says that they lie."""
    with file.open("rb") as source:
        begin = 8 + int.from_bytes(source.read(8), "little")
    for name, array in tensors.items():
        first, last = header[name]["data_offsets"]
        data = _bytes(array)
        if len(data) != last - first or list(array.shape) != header[name]["shape"]:
            raise BadModelFiles(
                f"{name} in {file.name} is stored in a form that is not known here."
            )
        out.seek(begin + first)
        out.write(data)


def _bytes(array: Any) -> bytes:
    """Return an array as safetensors store it."""
    if array.dtype == mx.bfloat16:
        array = array.view(mx.uint16)
    return np.array(array).tobytes()


def _refuse_strangers(paths: list[str], files: Mapping[Path, Any], base: Path) -> None:
    stored = {name for header in files.values() for name in header}
    missing = [path for path in paths if f"{path}.weight" not in stored]
    if missing:
        raise BadModelFiles(
            f"The model in {base} stores no {missing[0]}.weight, which the adapter changes.",
            hint="Fuse it with the model that it was trained on.",
        )


def _refuse_shape(path: str, weight: tuple[int, ...], update: tuple[int, ...]) -> None:
    if tuple(weight) != tuple(update):
        raise BadModelFiles(
            f"The adapter's part for {path} has the shape {tuple(update)}, the layer "
            f"{tuple(weight)}.",
            hint="Fuse it with the model that it was trained on.",
        )


def _copy_others(base: Path, made: Path) -> None:
    """Copy what belongs to the model beside its weights."""
    for file in sorted(base.iterdir()):
        if file.is_file() and file.suffix != ".safetensors" and file.name != "mlxbun.json":
            shutil.copyfile(file, made / file.name)
