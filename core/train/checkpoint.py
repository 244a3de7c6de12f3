"""Checkpoints: all that a training goes on from, in one file that is written whole or not at all.

A file holds the adapter's matrices, the optimizer's moments, and as metadata the step. The order of
the rows and the dropout follow from the seed and the step, so nothing else is random.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import mlx.core as mx
import numpy as np
import safetensors
import safetensors.numpy

from core.errors import NotFound, StoreCorrupt, UsageProblem
from core.paths import atomic_write
from core.train.config import TrainConfig, config_as_json
from core.train.events import Before
from core.train.folder import CHECKPOINTS, checkpoints_in
from core.train.lora import Arrays

_KEPT = 2  # the last ones; older ones go
_SAMPLE = 2**16  # bytes
_BROKEN = (
    OSError, ValueError, TypeError, KeyError, AttributeError, safetensors.SafetensorError,
)  # fmt: skip
# What must be the same for a training to be the same one.
_SAME = (
    "method",
    "rank",
    "scale",
    "rank_scaling",
    "target_modules",
    "num_layers",
    "rs_lora",
    "batch_size",
    "grad_accumulation_steps",
    "max_seq_length",
    "seed",
)


@dataclass(frozen=True, kw_only=True)
class Progress:
    """Where a training is."""

    step: int
    """Steps that were computed."""
    trained_tokens: int
    """Tokens that were learned from."""
    before: Before
    """What was measured before the first step."""
    best_loss: float | None = None
    """The lowest validation loss; None: none was measured."""
    best_step: int = 0
    """The step that it is of."""
    stale: int = 0
    """Validations since then."""


@dataclass(frozen=True, kw_only=True)
class Checkpoint:
    """All that a training goes on from."""

    progress: Progress
    """Where it is."""
    adapter: Arrays
    """A and B by their paths."""
    optimizer: Arrays
    """As `Optimizer.arrays` has them."""


@dataclass(frozen=True, kw_only=True)
class Marks:
    """What must be the same beside the configuration."""

    data: str
    """Tells the rows from others."""
    model: str
    """Tells the model's files from those of others; empty: not known, and not compared."""
    reference: str = ""
    """Identifies the adapter that is DPO's reference; empty: it is the base model, or the method
    has none."""


def mark_of_arrays(arrays: Arrays | None) -> str:
    """Return a mark that identifies arrays; empty: there are none."""
    if arrays is None:
        return ""
    digest = hashlib.sha256()
    for name, array in sorted(arrays.items()):
        digest.update(f"{name}{array.shape}".encode())
        digest.update(np.array(array).tobytes())
    return digest.hexdigest()


def mark_of_model(folder: Path) -> str:
    """Return what tells a model's weights from others: of each file its header, and samples.

    Raises:
        OSError: they cannot be read.
    """
    digest = hashlib.sha256()
    for path in sorted(folder.glob("*.safetensors")):
        with path.open("rb") as file:
            size = file.seek(0, 2)
            digest.update(str(size).encode())
            for place in (0, size // 3, size * 2 // 3, max(0, size - _SAMPLE)):
                file.seek(place)
                digest.update(file.read(_SAMPLE))
    return digest.hexdigest()


def save_checkpoint(
    folder: Path, checkpoint: Checkpoint, config: TrainConfig, *, marks: Marks
) -> Path:
    """Write a checkpoint, then take away those that are older than the last but one.

    Args:
        folder: the adapter's.
        checkpoint: what is kept.
        config: of the training.
        marks: of its data and its model.

    Raises:
        OSError: the folder cannot be written, or the disk is full; older ones are there still.
    """
    arrays = {f"adapter/{name}": np.array(v) for name, v in checkpoint.adapter.items()}
    arrays |= {f"optimizer/{name}": np.array(v) for name, v in checkpoint.optimizer.items()}
    metadata = {
        "progress": json.dumps(asdict(checkpoint.progress)),
        "config": json.dumps(config_as_json(config)),
        "data": marks.data,
        "model": marks.model,
        "reference": marks.reference,
    }
    file = _file(folder, checkpoint.progress.step)
    with atomic_write(file) as out:
        out.write(safetensors.numpy.save(arrays, metadata=metadata))
    for old in checkpoints_in(folder)[:-_KEPT]:
        old.unlink(missing_ok=True)
    return file


def drop_checkpoint(folder: Path, step: int) -> None:
    """Take away the checkpoint of a step, if there is one and the disk lets us."""
    with suppress(OSError):
        _file(folder, step).unlink(missing_ok=True)


def drop_older_checkpoints(folder: Path) -> bool:
    """Take away all checkpoints but the last, and return whether there were any.

    Raises:
        OSError: the folder cannot be written.
    """
    older = checkpoints_in(folder)[:-1]
    for file in older:
        file.unlink(missing_ok=True)
    return bool(older)


def load_checkpoint(folder: Path, config: TrainConfig, *, marks: Marks) -> Checkpoint:
    """Return the last checkpoint.

    Args:
        folder: the adapter's.
        config: of the training that is resumed.
        marks: of its data and its model.

    Raises:
        NotFound: there is none.
        StoreCorrupt: it cannot be read.
        UsageProblem: it is of another training.
    """
    arrays, metadata = _whole(_last(folder))
    _refuse_other(config, json.loads(metadata["config"]))
    _refuse_marks(marks, metadata)
    _refuse_other_reference(marks, metadata)
    return Checkpoint(
        progress=_progress(metadata),
        adapter=_part(arrays, "adapter/"),
        optimizer=_part(arrays, "optimizer/"),
    )


def check_checkpoint(folder: Path, config: TrainConfig, *, marks: Marks) -> None:
    """Refuse what `load_checkpoint` would, as far as that is known before the model is loaded.

    Args:
        folder: the adapter's.
        config: of the training that is resumed.
        marks: of its data and its model; its reference is not looked at.

    Raises:
        NotFound: there is none.
        StoreCorrupt: it cannot be read.
        UsageProblem: it is of another training.
    """
    metadata = _metadata(_last(folder))
    _refuse_other(config, json.loads(metadata["config"]))
    _refuse_marks(marks, metadata)


def _last(folder: Path) -> Path:
    files = checkpoints_in(folder)
    if not files:
        raise NotFound(
            f"There is no checkpoint in {folder} to resume from.",
            hint="Leave --resume out to begin.",
        )
    return files[-1]


def _file(folder: Path, step: int) -> Path:
    return folder / CHECKPOINTS / f"step-{step:08}.safetensors"


def _whole(file: Path) -> tuple[dict[str, Any], dict[str, str]]:
    """Return a checkpoint's arrays and metadata.

    Raises:
        StoreCorrupt: it lacks something, or cannot be read.
    """
    metadata = _metadata(file)
    with _blaming(file):
        return _arrays(file), metadata


def _metadata(file: Path) -> dict[str, str]:
    """Return a checkpoint's metadata alone; raises as `_whole`."""
    with _blaming(file), safetensors.safe_open(str(file), framework="numpy") as content:
        metadata = dict(content.metadata() or {})
        _progress(metadata)
        json.loads(metadata["config"])
    return metadata


@contextmanager
def _blaming(file: Path) -> Iterator[None]:
    try:
        yield
    except _BROKEN as problem:
        raise StoreCorrupt(
            f"The checkpoint {file} cannot be read: {problem}.",
            hint="Take it away to go on from the one before it.",
        ) from problem


def _progress(metadata: Mapping[str, str]) -> Progress:
    told = json.loads(metadata["progress"])
    return Progress(before=Before(**told.pop("before")), **told)


def _arrays(file: Path) -> dict[str, Any]:
    with safetensors.safe_open(str(file), framework="numpy") as content:
        return {name: content.get_tensor(name) for name in content.keys()}  # noqa: SIM118


def _part(arrays: dict[str, Any], prefix: str) -> Arrays:
    return {
        name.removeprefix(prefix): mx.array(array)
        for name, array in arrays.items()
        if name.startswith(prefix)
    }


def _refuse_other(config: TrainConfig, stored: dict[str, Any]) -> None:
    mine = config_as_json(config)
    for name in _SAME:
        if mine[name] != stored.get(name):
            raise UsageProblem(
                f"The checkpoint was trained with {name} {stored.get(name)}, not {mine[name]}.",
                hint="Say the same, or begin in another folder.",
            )


def _refuse_other_reference(marks: Marks, metadata: Mapping[str, str]) -> None:
    before = metadata.get("reference", "")
    if before == marks.reference:
        return
    names = {True: "the adapter that it began from", False: "the base model"}
    was, now = (names[bool(mark)] for mark in (before, marks.reference))
    current = "another adapter" if was == now else now
    raise UsageProblem(
        f"The checkpoint learned preferences against {was}, and the reference is now {current}.",
        hint="Use the same warm_start_adapter, or begin in another folder.",
    )


def _refuse_marks(marks: Marks, metadata: Mapping[str, str]) -> None:
    if marks.model and metadata.get("model", marks.model) != marks.model:
        raise UsageProblem(
            "The model is another one than the checkpoint was trained on.",
            hint="Use the same model, or begin in another folder.",
        )
    if metadata.get("data") != marks.data:
        raise UsageProblem(
            "The data are others than those that the checkpoint has learned from.",
            hint="Use the same data and the same max_seq_length, or begin in another folder.",
        )
