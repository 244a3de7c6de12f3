"""An adapter made part of its model: a new folder, in which nothing but the adapted layers differs.

A layer keeps its form: its data type, and where it is quantized its bits and groups. So the files
keep their headers, and each is the base's file with the bytes of those layers put in place; every
other tensor is the same to the last byte. Files that hold the layers in another layout than mlx-lm
computes with, as originals do that keep each expert apart, are written anew in mlx-lm's.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from fnmatch import fnmatch
from pathlib import Path
from typing import Any

import mlx.core as mx
import numpy as np

from core.download.space import check_free_space
from core.errors import BadModelFiles, UsageProblem
from core.progress import OnProgress, Progress, ignore_progress
from core.registry.adapters import check_adapter, quantized_form
from core.registry.files import read_json, refuse_special_files
from core.registry.weights import WEIGHTS, check_weights, read_header
from core.train.rewrite import rewrite
from core.train.update import PARTS, Update, grown, read_update

_NOT_COPIED = (WEIGHTS, "consolidated*.safetensors", "mlxbun.json")

Headers = Mapping[Path, Mapping[str, Any]]
"""Files of weights with their tensors."""
OnLayer = Callable[[], None]
"""Hears that one more layer is done."""


@dataclass(frozen=True, kw_only=True)
class Fused:
    """What was written."""

    folder: Path
    """The new model's."""
    layers: int
    """Layers that the adapter changed."""
    tensors_kept: int
    """Tensors that are the same as in the base."""
    anew: bool
    """Whether the files are in another layout than the base's: mlx-lm's own."""


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
        DoesNotFit: the disk has no room for the weights.
        OSError: the target cannot be written, or the disk is full.
    """
    if target.exists():
        raise UsageProblem(f"{target} exists already.", hint="Choose a new folder.")
    refuse_special_files(base)
    check_free_space({target: check_weights(base)}, what="The fused model")
    check_adapter(adapter, model=base, model_id=base.name, lora=True)
    update = read_update(adapter)
    files = {path: read_header(path) for path in sorted(base.glob(WEIGHTS))}
    config = read_json(base / "config.json") or {}
    anew = not _has_layout(files, update, config)
    on_layer = _counting(on_progress, len(update.paths))
    with _appearing(target) as made:
        _copy_others(base, made)
        if anew:
            rewrite(base, update, made, on_layer=on_layer)
        else:
            _put_in_place(files, update, config, made, on_layer)
        kept = _count_others(made, update)
    return Fused(folder=target, layers=len(update.paths), tensors_kept=kept, anew=anew)


def _has_layout(files: Headers, update: Update, config: Mapping[str, Any]) -> bool:
    """Return whether files hold the layers by the names and in the forms that they compute in."""
    stored = {name: tensor for header in files.values() for name, tensor in header.items()}
    return all(
        f"{path}.weight" in stored and _has_form(path, stored, quantized_form(config, path))
        for path in update.paths
    )


def _has_form(path: str, stored: Mapping[str, Any], form: Mapping[str, Any]) -> bool:
    scales = stored.get(f"{path}.scales")
    if scales is None:
        return stored[f"{path}.weight"]["dtype"] in ("F32", "F16", "BF16")
    width = stored[f"{path}.weight"]["shape"][-1]
    in_words = stored[f"{path}.weight"]["dtype"] == "U32"
    alone = f"{path}.global_scale" not in stored
    return (
        alone and in_words and width * 32 == scales["shape"][-1] * form["group_size"] * form["bits"]
    )


def _put_in_place(
    files: Headers, update: Update, config: Mapping[str, Any], made: Path, on_layer: OnLayer
) -> None:
    """Copy the files of weights, and put the adapted layers where they lie in them."""
    loaded: dict[str, Any] = {}  # a layer's tensors may lie in two files
    for file in files:
        shutil.copyfile(file, made / file.name)
        tensors: Any = mx.load(str(file))
        loaded |= tensors
    homes = {name: file for file, header in files.items() for name in header}
    for path in update.paths:
        parts = {part: loaded.get(f"{path}.{part}") for part in PARTS}
        for part, array in grown(path, parts, update, quantized_form(config, path)).items():
            file = homes[f"{path}.{part}"]
            _put(made / file.name, f"{path}.{part}", files[file], array)
        on_layer()
    for file in files:
        with (made / file.name).open("r+b") as written:
            os.fsync(written.fileno())


def _put(file: Path, name: str, header: Mapping[str, Any], array: Any) -> None:
    """Put a tensor where a file's header says that it lies."""
    first, last = header[name]["data_offsets"]
    data = _bytes(array)
    if len(data) != last - first or list(array.shape) != header[name]["shape"]:
        raise BadModelFiles(f"{name} in {file.name} is stored in a form that is not known here.")
    with file.open("r+b") as out:
        begin = 8 + int.from_bytes(out.read(8), "little")
        out.seek(begin + first)
        out.write(data)


def _bytes(array: Any) -> bytes:
    """Return an array as safetensors store it."""
    if array.dtype == mx.bfloat16:
        array = array.view(mx.uint16)
    return np.array(array).tobytes()


@contextmanager
def _appearing(target: Path) -> Iterator[Path]:
    """Give a folder that takes the target's name when all went well, and is gone if not."""
    target.parent.mkdir(parents=True, exist_ok=True)
    made = target.with_name(f".{target.name}.fusing")
    shutil.rmtree(made, ignore_errors=True)
    try:
        made.mkdir()
        yield made
        made.replace(target)
    finally:
        shutil.rmtree(made, ignore_errors=True)


def _counting(on_progress: OnProgress, total: int) -> OnLayer:
    done = 0

    def count() -> None:
        nonlocal done
        done += 1
        on_progress(Progress(task="fusing", done=done, total=total, unit="layers"))

    return count


def _count_others(made: Path, update: Update) -> int:
    """Return how many tensors are none of the adapted layers'."""
    changed = {f"{path}.{part}" for path in update.paths for part in PARTS}
    names = [name for file in made.glob(WEIGHTS) for name in read_header(file)]
    return sum(name not in changed for name in names)


def _copy_others(base: Path, made: Path) -> None:
    """Copy what belongs to the model beside its weights, and not a second copy of those."""
    for file in sorted(base.iterdir()):
        if file.is_file() and not any(fnmatch(file.name, each) for each in _NOT_COPIED):
            shutil.copyfile(file, made / file.name)
