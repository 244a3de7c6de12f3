"""A model that is to be quantized: opened without reading its weights.

mlx-lm builds the module and renames, stacks and unpacks what the files hold (`sanitize`), all
lazily. What it leaves out (vision, audio, multi-token prediction) is found by following the arrays
through that, and is kept as it lies in the files.
"""

from __future__ import annotations

import inspect
import io
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import mlx.core as mx
from mlx import nn
from mlx.utils import tree_flatten, tree_reduce, tree_unflatten
from mlx_lm.models.mla import MultiLinear, QuantizedMultiLinear
from mlx_lm.models.switch_layers import QuantizedSwitchLinear, SwitchLinear
from mlx_lm.utils import _get_classes, dequantize_model, get_total_parameters, load_model

from core.engine.blame import blaming_files
from core.engine.loader import refuse_absurd
from core.errors import BadModelFiles
from core.quantize.form import Form
from core.quantize.plan import Layer, Sums
from core.registry.files import read_json
from core.registry.storage import read_storage
from core.registry.weights import WEIGHTS, read_header, read_headers

# How routers and the gates of shared experts are called; `gate_proj` is a part of an MLP.
_ROUTER = re.compile(r"(^|\.)(\w*router|gate|shared_experts?_gate)(\.|$)")
# What an architecture leaves out because it computes it, or has it already: no part of the model.
_USELESS = re.compile(r"(rotary_emb\.inv_freq|_scale|_scales?_inv|_zero_point|_g_idx)$")
_HEAD = re.compile(r"(^|\.)(lm_head|embed_out|output)\.weight$")
EXTRAS = "extras"
"""What the names of files begin with that hold tensors which mlx-lm does not load."""
_MOST_NAMES = 1000  # arguments by name that a function of MLX takes are 1024
_LEADS_NOWHERE = re.compile(r'rank=sink; "t(\d+)"')
_UNPACKABLE = (
    nn.QuantizedLinear,
    nn.QuantizedEmbedding,
    QuantizedSwitchLinear,
    QuantizedMultiLinear,
)


@dataclass(frozen=True, kw_only=True)
class Extra:
    """A tensor of the files that mlx-lm does not load."""

    name: str
    """Its name in the file."""
    file: Path
    """The file."""
    dtype: str
    """`F16`, `BF16` and so on."""
    shape: tuple[int, ...]
    """Its shape as stored."""
    offset: int
    """Where its bytes begin in the file."""
    nbytes: int
    """Its bytes."""


@dataclass(frozen=True, kw_only=True)
class Source:
    """A model that is to be quantized. Its weights are read when they are computed with."""

    folder: Path
    """Its folder."""
    model: Any
    """mlx-lm's module, with lazy weights; packed ones are unpacked, lazily too."""
    config: dict[str, Any]
    """Its config.json."""
    extras: tuple[Extra, ...]
    """Tensors that mlx-lm leaves out: vision, audio, multi-token prediction."""
    useless: tuple[str, ...]
    """Tensors that it leaves out because they repeat others or are computed."""
    packed_as: str | None
    """How the weights were packed: `4-bit g64`; None: they were not."""
    dropped: tuple[Extra, ...] = ()
    """Those of `extras` that the recipe leaves out (`text_only`)."""


def open_source(folder: Path, *, unpack: bool = True) -> Source:
    """Open a model folder; no weight is read.

    Args:
        folder: the model's.
        unpack: whether packed layers are unpacked, lazily.

    Raises:
        BadModelFiles: its files cannot be used, or it is quantized in a way that cannot be undone.
        BackendMissing: a Python package that its architecture needs is missing.
    """
    tracer = _Tracer()
    with blaming_files(folder):
        refuse_absurd(folder)
        model, _ = load_model(folder, lazy=True, get_model_classes=tracer.classes)
    config = read_json(folder / "config.json") or {}
    packed_as = _packing_of(folder, config)
    if unpack and packed_as:
        _unpack(model, folder)
    extras, useless = _left_out(folder, tracer.unused, bool(config.get("tie_word_embeddings")))
    return Source(
        folder=folder,
        model=model,
        config=config,
        extras=extras,
        useless=useless,
        packed_as=packed_as,
    )


def describe(model: Any) -> tuple[list[Layer], Sums]:
    """Return the layers of a module that MLX can pack, in its order, and the sums of the whole.

    Nothing is computed: arrays know their shapes before they are evaluated.
    """
    predicate = getattr(model, "quant_predicate", None)
    layers = [
        _layer(path, module, predicate)
        for path, module in leaf_modules(model)
        if hasattr(module, "to_quantized")
    ]
    if not _takes_packed_embeddings(model):
        why = "mlx-lm reads the numbers of this architecture's embedding itself"
        layers = [replace(x, fixed=why) if x.kind == "embedding" else x for x in layers]
    nbytes = tree_reduce(
        lambda sum_, leaf: sum_ + leaf.nbytes if isinstance(leaf, mx.array) else sum_, model, 0
    )
    return layers, Sums(nbytes=nbytes, parameters=get_total_parameters(model))


def leaf_modules(model: Any) -> list[tuple[str, Any]]:
    """Return the modules that hold arrays and no other modules, by path."""
    return list(tree_flatten(model.leaf_modules(), is_leaf=nn.Module.is_module))


def _layer(path: str, module: Any, predicate: Any) -> Layer:
    asked = True if predicate is None else predicate(path, module)
    floor = None
    if isinstance(asked, dict):
        floor = Form(
            bits=asked.get("bits", 4),
            group_size=asked.get("group_size", 64),
            mode=asked.get("mode", "affine"),
        )
    kind: Any = "linear"
    if isinstance(module, nn.Embedding):
        kind = "embedding"
    elif isinstance(module, SwitchLinear):
        kind = "experts"
    return Layer(
        path=path,
        kind=kind,
        shape=tuple(module.weight.shape),
        item_bytes=module.weight.dtype.size,
        router=kind == "linear" and bool(_ROUTER.search(path)),
        floor=floor,
        fixed=None if asked else "mlx-lm keeps them in this architecture",
        takes_mode="mode" in inspect.signature(module.to_quantized).parameters,
    )


def _takes_packed_embeddings(model: Any) -> bool:
    """Return whether an architecture can be called when its embeddings are packed.

    Some multiply with the embedding's weight where the head is tied. Nothing is computed: MLX
    finds shapes that do not go together as it builds the graph.
    """
    plain = [(p, m) for p, m in leaf_modules(model) if isinstance(m, nn.Embedding)]
    packed = [
        (path, module.to_quantized(group_size=32, bits=4))
        for path, module in plain
        if module.weight.shape[-1] % 32 == 0
    ]
    model.update_modules(tree_unflatten(packed))
    works = _can_be_called(model)
    model.update_modules(tree_unflatten(plain))
    return works or not _can_be_called(model)


def _can_be_called(model: Any) -> bool:
    try:
        model(mx.array([[0, 1]]))
    except Exception:  # foreign code, called in a way it may not know
        return False
    return True


def _packing_of(folder: Path, config: Mapping[str, Any]) -> str | None:
    """Return how a model's weights are packed, as a word; None: they are not.

    FP8 does not count: mlx-lm unpacks it as it loads, and its 8 bits are the original's.

    Raises:
        BadModelFiles: they are packed in a way that MLX cannot unpack.
    """
    packing = read_storage(config, read_headers(folder)).quantization
    if packing is None or packing.mode == "fp8":
        return None
    if packing.mode == "bitnet":
        raise BadModelFiles(
            f"The model in {folder} has BitNet weights, which cannot be quantized again.",
            hint="Choose the original model in 16 bits.",
        )
    return packing.label


def _unpack(model: Any, folder: Path) -> None:
    """Unpack the layers of a module lazily.

    Raises:
        BadModelFiles: a layer is packed in a way that is not known here.
    """
    several: list[tuple[str, Any]] = []
    for path, module in leaf_modules(model):
        if "scales" not in module:
            continue
        if type(module) not in _UNPACKABLE or module.get("global_scale") is not None:
            raise BadModelFiles(
                f"{path} of the model in {folder} is packed in a way that cannot be undone.",
                hint="Choose the original model in 16 bits.",
            )
        if isinstance(module, QuantizedMultiLinear):
            several.append((path, _unpacked_heads(module)))
    model.update_modules(tree_unflatten(several))
    dequantize_model(model)


def _unpacked_heads(module: Any) -> Any:
    weight = mx.dequantize(
        module.weight,
        module.scales,
        module.get("biases"),
        group_size=module.group_size,
        bits=module.bits,
        mode=module.mode,
    )
    heads, rows, columns = weight.shape
    made = MultiLinear(columns, rows, heads)
    made.weight = weight
    return made


class _Tracer:
    """Finds out which tensors an architecture uses, while mlx-lm loads it.

    Attributes:
        unused: the names of those that it does not.
    """

    def __init__(self) -> None:
        self.unused: frozenset[str] = frozenset()

    def classes(self, config: dict[str, Any]) -> Any:
        """Return mlx-lm's model class, made to tell, and the class of its arguments."""
        model_class, args_class = _get_classes(config)

        def build(args: Any) -> Any:
            model = model_class(args)
            if hasattr(model, "sanitize"):
                self._listen(model)
            return model

        return build, args_class

    def _listen(self, model: Any) -> None:
        sanitize = model.sanitize

        def listening(weights: dict[str, Any]) -> Any:
            before = dict(weights)
            after = sanitize(weights)
            self.unused = _unused(before, list(after.values()))
            del model.sanitize  # the class's own stands again
            return after

        model.sanitize = listening


def _unused(before: Mapping[str, mx.array], after: Sequence[mx.array]) -> frozenset[str]:
    """Return the names of arrays that no result is made from, by MLX's own graph of both.

    Every result gets a consumer first, so that one which is an array itself does not count as one
    without use. MLX takes a limited number of names at a time.
    """
    ends = [mx.stop_gradient(array) for array in after]
    kept = {id(array) for array in after}
    names = [name for name, array in before.items() if id(array) not in kept]
    found: set[str] = set()
    for first in range(0, len(names), _MOST_NAMES):
        some = names[first : first + _MOST_NAMES]
        graph = io.StringIO()
        mx.export_to_dot(graph, *ends, **{f"t{at}": before[name] for at, name in enumerate(some)})
        found.update(some[int(each[1])] for each in _LEADS_NOWHERE.finditer(graph.getvalue()))
    return frozenset(found)


def _left_out(
    folder: Path, unused: frozenset[str], tied: bool
) -> tuple[tuple[Extra, ...], tuple[str, ...]]:
    """Return the tensors that are left out: those that are worth keeping, and the names of others.

    Args:
        folder: the model's.
        unused: their names.
        tied: whether the head is the embedding, so that a head of its own repeats it.
    """
    extras: list[Extra] = []
    useless: list[str] = []
    # What an earlier quantization left out lies in files that mlx-lm never reads.
    for file in (*_files(folder), *sorted(folder.glob(f"{EXTRAS}*.safetensors"))):
        begin = _data_begin(file)
        for name, entry in read_header(file).items():
            if name not in unused and file.match(WEIGHTS):
                continue
            if _USELESS.search(name) or (tied and _HEAD.search(name)):
                useless.append(name)
                continue
            first, last = entry["data_offsets"]
            extras.append(
                Extra(
                    name=name,
                    file=file,
                    dtype=entry["dtype"],
                    shape=tuple(entry["shape"]),
                    offset=begin + first,
                    nbytes=last - first,
                )
            )
    return tuple(extras), tuple(useless)


def _data_begin(file: Path) -> int:
    with file.open("rb") as opened:
        return 8 + int.from_bytes(opened.read(8), "little")


def _files(folder: Path) -> list[Path]:
    return sorted(folder.glob(WEIGHTS))
