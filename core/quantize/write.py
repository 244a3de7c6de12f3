"""A quantized model's files, written tensor by tensor, and read back.

What is written is what mlx-lm's module holds, under its names; the tensors that mlx-lm leaves out
go into files that it does not load (`extras*.safetensors`), because some architectures read their
own weights differently when they see them.
"""

from __future__ import annotations

import hashlib
import json
import shutil
from collections import deque
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path
from types import TracebackType
from typing import Any

import mlx.core as mx
from mlx.utils import tree_flatten, tree_unflatten
from mlx_lm.utils import compute_bits_per_weight, load_model

from core.errors import BadModelFiles, MlxbunError
from core.quantize.pack import bytes_of, dtype_name, is_finite, packed_shapes, plain_fit
from core.quantize.plan import Plan
from core.quantize.resume import Stage
from core.quantize.source import EXTRAS, Extra, Source
from core.registry.snapshot import INDEX
from core.registry.tensorfile import Slot, TensorFile, index_of, shards

Packed = tuple[str, dict[str, mx.array]]
"""A layer's path with its packed arrays."""
OnBytes = Callable[[int, int], None]
"""Hears the bytes that are done, and those of all."""

_WAITING = 4  # tensors that may wait to be written: as many as a layer's packed parts and one
_METADATA = {"format": "mlx"}
_PARTS = ("weight", "scales", "biases")
# Not copied: weights of any kind and what lists them, other people's records of a quantization, and
# what the result gets anew.
_NOT_COPIED = (
    "*.safetensors", "*.bin", "*.pt", "*.pth", "*.gguf", "*.npz", "*.onnx", "*.onnx_data", "*.h5",
    "*.msgpack", "*.ckpt", "*.tflite", "*.ot", "*.index.json", "config.json", "kv_config.json",
    "mlxbun.json", "quant*.json", "*quant_config.json", "optiq*.json",
)  # fmt: skip
# The keys of config.json that belong to what `text_only` leaves out.
_TOWER_KEYS = (
    "vision_*", "audio_*", "image_*", "video_*", "speech_*", "visual*", "mm_*", "multi_modal_*",
    "multimodal_*", "projector_*", "boi_token*", "eoi_token*", "boa_token*", "eoa_token*",
    "num_nextn_predict_layers", "mtp_*", "num_mtp_*",
)  # fmt: skip


@dataclass(frozen=True, kw_only=True)
class Layout:
    """The files of weights that are to be written."""

    files: Mapping[str, tuple[Slot, ...]]
    """Those that mlx-lm loads, by name."""
    extras: Mapping[str, tuple[Slot, ...]]
    """Those that it does not."""

    @property
    def nbytes(self) -> int:
        """Bytes of all tensors."""
        parts = (*self.files.values(), *self.extras.values())
        return sum(slot.nbytes for slots in parts for slot in slots)


def lay_out(model: Any, plan: Plan, extras: Iterable[Extra]) -> Layout:
    """Return the files of weights of a plan: every tensor's type and shape are known beforehand."""
    forms = plan.forms
    slots: list[Slot] = []
    for name, array in tree_flatten(model.parameters()):
        path, _, last = name.rpartition(".")
        shape, dtype = tuple(array.shape), dtype_name(array.dtype)
        if path in forms and last == "weight":
            parts = packed_shapes(shape, dtype, forms[path])
            slots += [Slot(name=f"{path}.{p}", dtype=d, shape=s) for p, (d, s) in parts.items()]
        else:
            slots.append(Slot(name=name, dtype=dtype, shape=shape))
    beside = [Slot(name=each.name, dtype=each.dtype, shape=each.shape) for each in extras]
    return Layout(
        files={name: tuple(part) for name, part in shards(slots).items()},
        extras={n: tuple(p) for n, p in shards(beside, stem=EXTRAS).items()} if beside else {},
    )


def remove_strays(folder: Path, layout: Layout) -> None:
    """Delete files of weights that a layout does not have: those of an interrupted other plan.

    Raises:
        OSError: one cannot be deleted.
    """
    for path in folder.glob("*.safetensors"):
        if path.name not in layout.files and path.name not in layout.extras:
            path.unlink()


class Writer:
    """Writes the tensors of a layout, and knows what it has written. For one `with` block.

    A thread of its own hashes and writes while the next tensor is computed; it touches bytes only.
    """

    def __init__(self, layout: Layout, stage: Stage, *, on_bytes: OnBytes) -> None:
        """Take a layout and the folder to write it to."""
        self._stage = stage
        self._on_bytes = on_bytes
        self._total = layout.nbytes
        self._done = 0
        self._homes: dict[str, TensorFile] = {}
        self._sizes: dict[str, int] = {}
        self._files = [
            self._file(name, slots) for name, slots in {**layout.files, **layout.extras}.items()
        ]
        self._exits = ExitStack()
        self._pending: deque[Future[None]] = deque()

    def __enter__(self) -> Writer:
        """Open the files.

        Raises:
            OSError: they cannot be written, or the disk is full.
        """
        with ExitStack() as opened:
            for file in self._files:
                opened.enter_context(file)
            self._thread = opened.enter_context(ThreadPoolExecutor(1))
            self._exits = opened.pop_all()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Bring the files to the disk, unless an error is passing through.

        Raises:
            OSError: the disk is full.
        """
        try:
            if error is None:
                self._wait(0)
        except BaseException as problem:
            kind, error, trace = type(problem), problem, problem.__traceback__
            raise
        finally:
            self._exits.__exit__(kind, error, trace)

    def has(self, *names: str) -> bool:
        """Return whether tensors were written before, and count them as done."""
        found = all(self._is_written(name) for name in names)
        if found:
            for name in names:
                self._count(name)
        return found

    def put(self, name: str, data: memoryview) -> None:
        """Write a tensor, by and by.

        Raises:
            OSError: the disk is full; this may be said of an earlier tensor.
        """
        self._wait(_WAITING)
        self._pending.append(self._thread.submit(self._write, name, data))
        self._count(name)

    def _write(self, name: str, data: memoryview) -> None:
        digest = hashlib.sha256(data).hexdigest()
        self._homes[name].put(name, data)
        self._stage.note(name, digest)

    def _wait(self, most: int) -> None:
        """Wait until at most some tensors are left to write."""
        while len(self._pending) > most:
            self._pending.popleft().result()

    def _is_written(self, name: str) -> bool:
        digest = self._stage.written.get(name)
        if digest is None:
            return False
        return hashlib.sha256(self._homes[name].read(name)).hexdigest() == digest

    def _count(self, name: str) -> None:
        self._done += self._sizes[name]
        self._on_bytes(self._done, self._total)

    def _file(self, name: str, slots: tuple[Slot, ...]) -> TensorFile:
        file = TensorFile(self._stage.files / name, slots, metadata=_METADATA)
        self._homes |= dict.fromkeys((slot.name for slot in slots), file)
        self._sizes |= {slot.name: slot.nbytes for slot in slots}
        return file


def write_plain(model: Any, plan: Plan, writer: Writer, *, check: Callable[[], None]) -> None:
    """Write a module, its layers packed by plain rounding, and let go of every tensor at once.

    Args:
        model: mlx-lm's module; its arrays are gone afterwards.
        plan: the form of each layer.
        writer: takes the tensors.
        check: called before every tensor; raises to end the run.

    Raises:
        BadModelFiles: a weight is infinite or not a number.
        OSError: the disk is full.
    """
    forms = plan.forms
    release = _Release(model)
    for name in [name for name, _ in tree_flatten(model.parameters())]:
        check()
        path, _, last = name.rpartition(".")
        form = forms.get(path) if last == "weight" else None
        names = [f"{path}.{part}" for part in part_names(form)] if form else [name]
        if not writer.has(*names):
            array = release.array(name)
            require_finite(name, array)
            parts = plain_fit(array, form) if form else {last: array}
            put_parts(writer, path, parts)
            del array, parts
        release(name)


def write_fitted(
    model: Any, plan: Plan, packs: Iterable[Packed], writer: Writer, *, check: Callable[[], None]
) -> None:
    """Write a module whose packed layers come from elsewhere, in any order.

    Args:
        model: mlx-lm's module: what is not packed is taken from it first.
        plan: the form of each layer.
        packs: every packed layer's arrays.
        writer: takes the tensors.
        check: called before every tensor; raises to end the run.

    Raises:
        BadModelFiles: a weight is infinite or not a number.
        OSError: the disk is full.
    """
    forms = plan.forms
    for name, array in tree_flatten(model.parameters()):
        path, _, last = name.rpartition(".")
        if (path in forms and last == "weight") or writer.has(name):
            continue
        check()
        require_finite(name, array)
        writer.put(name, bytes_of(array))
    left = set(forms)
    for path, parts in packs:
        check()
        put_parts(writer, path, parts)
        left.discard(path)
    if left:
        raise MlxbunError(f"Some layers were not packed: {', '.join(sorted(left)[:3])}.")


def part_names(form: Any) -> tuple[str, ...]:
    """Return the parts that a packed layer has in a form."""
    return _PARTS if form.mode == "affine" else _PARTS[:2]


def put_parts(writer: Writer, path: str, parts: Mapping[str, mx.array]) -> None:
    """Compute the arrays of one layer together, and write them."""
    mx.eval(list(parts.values()))
    for part, array in parts.items():
        writer.put(f"{path}.{part}" if path else part, bytes_of(array))


def require_finite(name: str, array: mx.array) -> None:
    """Refuse a weight that holds something else than numbers.

    Raises:
        BadModelFiles: it does.
    """
    if not is_finite(array):
        raise BadModelFiles(
            f"{name} holds values that are infinite or not a number.",
            hint="The model is damaged; download it again or choose another one.",
        )


def write_extras(extras: Iterable[Extra], writer: Writer, *, check: Callable[[], None]) -> None:
    """Write the tensors that mlx-lm does not load, byte for byte as they are.

    Raises:
        OSError: the disk is full.
    """
    for extra in extras:
        check()
        if writer.has(extra.name):
            continue
        with extra.file.open("rb") as file:
            file.seek(extra.offset)
            writer.put(extra.name, memoryview(file.read(extra.nbytes)))


def write_beside(
    source: Source, plan: Plan, layout: Layout, folder: Path, *, text_only: bool
) -> None:
    """Write config.json and the index of the weights, and copy every file that is not weights.

    Raises:
        OSError: the disk is full.
    """
    for path in files_to_copy(source.folder):
        copy = folder / path.relative_to(source.folder)
        copy.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(path, copy)
    _write_json(folder / "config.json", new_config(source.config, plan, text_only=text_only))
    _write_json(folder / INDEX, index_of(layout.files, parameters=plan.sums.parameters))


def files_to_copy(folder: Path) -> list[Path]:
    """Return the files of a model that are not weights; hidden ones are not the model's."""
    found = []
    for path in sorted(folder.rglob("*")):
        inside = path.relative_to(folder)
        hidden = any(part.startswith(".") for part in inside.parts)
        name = path.name if path.parent != folder else inside.as_posix()
        if path.is_file() and not hidden and not any(fnmatchcase(name, e) for e in _NOT_COPIED):
            found.append(path)
    return found


def new_config(config: Mapping[str, Any], plan: Plan, *, text_only: bool = False) -> dict[str, Any]:
    """Return the config.json of a result: the source's, with the new quantization.

    Args:
        config: the source's.
        plan: the form of each layer.
        text_only: whether the keys of vision, audio and speculation go, too.
    """
    made = _without_records(config)
    if isinstance(made.get("text_config"), dict):
        made["text_config"] = _without_records(made["text_config"])
    if text_only:
        made = _without_towers(made)
    if (told := plan.config()) is not None:
        made |= {"quantization": told, "quantization_config": told}
    return made


def read_back(folder: Path, stage: Stage, layout: Layout, *, check: Callable[[], None]) -> float:
    """Load what was written as mlx-lm does, and compare every tensor with what was meant.

    Returns:
        The bits per weight that mlx-lm's `compute_bits_per_weight` finds.

    Raises:
        MlxbunError: something else is read.
    """
    try:
        model, _ = load_model(folder, lazy=True)
    except Exception as problem:  # foreign code, on files of ours
        reason = " ".join(str(problem).split())[:300]
        raise MlxbunError(f"mlx-lm does not load what was written: {reason}") from problem
    meant = {slot.name: stage.written[slot.name] for s in layout.files.values() for slot in s}
    found = float(compute_bits_per_weight(model))
    release = _Release(model)
    for name in [name for name, _ in tree_flatten(model.parameters())]:
        check()
        digest = hashlib.sha256(bytes_of(release.array(name))).hexdigest()
        if meant.pop(name, None) != digest:
            raise MlxbunError(_differs(name))
        release(name)
    if meant:
        raise MlxbunError(f"{next(iter(meant))} was written, but mlx-lm does not read it.")
    with Writer(layout, stage, on_bytes=lambda _done, _total: None) as writer:
        for slots in layout.extras.values():
            for slot in slots:
                if not writer.has(slot.name):
                    raise MlxbunError(
                        f"{slot.name} is read back differently from what was written."
                    )
    return found


def _differs(name: str) -> str:
    return f"{name} is read back differently from what was written."


def bits_per_weight(folder: Path) -> float:
    """Return what mlx-lm's `compute_bits_per_weight` finds on a folder; no weight is read."""
    return float(compute_bits_per_weight(load_model(folder, lazy=True)[0]))


class _Release:
    """Lets go of a module's arrays, one by one; what lies in two places waits for the last one."""

    def __init__(self, model: Any) -> None:
        self._model = model
        homes: dict[int, list[str]] = {}
        for name, array in tree_flatten(model.parameters()):
            homes.setdefault(id(array), []).append(name)
        self._last = {name: names[-1] for names in homes.values() for name in names}

    def array(self, name: str) -> mx.array:
        """Return an array by its name."""
        found: Any = self._model
        for part in name.split("."):
            found = found[int(part) if isinstance(found, list | tuple) else part]
        array: mx.array = found
        return array

    def __call__(self, name: str) -> None:
        """Put an empty array in the place of one, unless it is still needed elsewhere."""
        if self._last[name] == name:
            self._model.update(tree_unflatten([(name, mx.zeros((0,)))]))


def _without_records(config: Mapping[str, Any]) -> dict[str, Any]:
    return {k: v for k, v in config.items() if k not in ("quantization", "quantization_config")}


def _without_towers(config: Mapping[str, Any]) -> dict[str, Any]:
    made = {k: v for k, v in config.items() if not any(fnmatchcase(k, e) for e in _TOWER_KEYS)}
    text = made.get("text_config")
    return made | {"text_config": _without_towers(text)} if isinstance(text, dict) else made


def _write_json(path: Path, content: Mapping[str, Any]) -> None:
    path.write_text(json.dumps(content, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")
