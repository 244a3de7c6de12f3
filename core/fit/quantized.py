"""What the headers of a model would be once it is quantized: tensors in, tensors out.

The estimates are those of any other model (`core.fit.weights`, `core.fit.assess`); here is only
what its files would hold, and what making them takes. Reads no tensor bytes.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Callable
from dataclasses import dataclass, replace
from math import prod
from typing import TYPE_CHECKING, Any, Protocol

from core.fit.weights import (
    Tensor,
    group_size_of,
    is_left_out,
    quantization_of,
)

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from core.fit.candidate import ModelFiles

_FLOATS = ("F32", "F16", "BF16")
_ROUTER = re.compile(
    r"(^|\.)(gate|router|router\.layer|shared_expert_gate|shared_experts_gate)\.weight$"
)
_CONVOLUTION = re.compile(r"(^|\.|_)conv\w*\.weight$")
_EXPERT = re.compile(r"(^|\.)experts\.\d+\.")
_STACKED = re.compile(r"(^|\.)experts\.\w+$")  # Llama 4 and gpt-oss name no `.weight` there


class Packed(Protocol):
    """A form in which numbers are packed, as `core.quantize.form` has them."""

    @property
    def bits(self) -> float:
        """Bits of a number; a fraction is the mean over tensors of several widths."""
        ...

    @property
    def group_size(self) -> int:
        """Numbers of a row that share a scale."""
        ...

    @property
    def mode(self) -> str:
        """`affine`, with a scale and a bias of 16 bits; the others have a scale of 8 bits."""
        ...


@dataclass(frozen=True, kw_only=True)
class Width:
    """A mean width, for estimates of mixed precision."""

    bits: float
    """Bits of a number."""
    group_size: int
    """Numbers of a row that share a scale."""
    mode: str = "affine"
    """As `Packed.mode`."""


@dataclass(frozen=True, kw_only=True)
class Making:
    """What a quantization itself needs beside the model that it makes."""

    disk_bytes: int
    """The files that are written."""
    memory_bytes: int
    """The widest moment of packing: the largest tensor twice, and packed."""


Choose = Callable[[Tensor], "Packed | None"]
"""Takes a tensor that can be packed and returns its form; None: it stays as it is."""


def is_router(name: str) -> bool:
    """Return whether a weight chooses experts, or gates the shared ones."""
    return _ROUTER.search(name) is not None


def unpacked(files: ModelFiles) -> list[Tensor]:
    """Return the tensors of a model with those that are packed as they were before.

    A packed weight becomes one in the type of its scales, or in bfloat16.
    """
    quantization = quantization_of(files.config)
    by_name = {tensor.name: tensor for tensor in files.tensors}
    return [
        whole
        for tensor in files.tensors
        if (whole := _unpacked(tensor, by_name, quantization)) is not None
    ]


def quantized(files: ModelFiles, choose: Choose, *, called: str) -> ModelFiles:
    """Return what the files of a model would hold once it is quantized.

    Args:
        files: of the model; where it is packed already, it is packed anew.
        choose: returns the form of each tensor that can be packed.
        called: the form, for people: `4-bit`. It becomes part of the name and the revision.
    """
    tensors: list[Tensor] = []
    config = {k: v for k, v in files.config.items() if k != "quantization_config"}
    groups: dict[str, Any] = {"group_size": 64}
    for tensor in unpacked(files):
        form = choose(tensor) if is_packable(tensor) else None
        if form is None or tensor.shape[-1] % form.group_size:
            tensors.append(tensor)
            continue
        tensors += _packed(tensor, form)
        groups[tensor.name.removesuffix(".weight")] = {"group_size": form.group_size}
    return replace(
        files,
        model_id=f"{files.model_id} ({called})",
        revision=f"{files.revision}+{called}",
        folder=None,
        config={**config, "quantization": groups},
        tensors=tensors,
    )


def is_packable(tensor: Tensor) -> bool:
    """Return whether a tensor is a matrix of the text model: a linear layer or an embedding."""
    if is_left_out(tensor.name) or _CONVOLUTION.search(tensor.name):
        return False
    named = tensor.name.endswith(".weight") or _STACKED.search(tensor.name)
    return bool(named) and len(tensor.shape) >= 2 and tensor.dtype in _FLOATS


def making(source: ModelFiles, made: ModelFiles) -> Making:
    """Return what it takes to make a quantized model of another one.

    Args:
        source: the model as it is.
        made: as `quantized` returned it.
    """
    sizes: dict[str, int] = defaultdict(int)
    for tensor in unpacked(source):
        if is_packable(tensor):
            sizes[_stack_of(tensor.name)] += 2 * tensor.nbytes
    for tensor in made.tensors:
        if (stack := _stack_of(tensor.name)) in sizes:
            sizes[stack] += tensor.nbytes
    return Making(
        disk_bytes=sum(tensor.nbytes for tensor in made.tensors),
        memory_bytes=max(sizes.values(), default=0),
    )


def _stack_of(name: str) -> str:
    """Return what a tensor is called once it is loaded: experts are stacked, scales go along."""
    base, _, last = _EXPERT.sub(r"\1experts.", name).rpartition(".")
    return base if last in ("weight", "scales", "biases") else f"{base}.{last}"


def _unpacked(
    tensor: Tensor, by_name: Mapping[str, Tensor], quantization: Mapping[str, Any]
) -> Tensor | None:
    """Return a tensor as it was before it was packed; None: it is the scales of another one."""
    base, _, last = tensor.name.rpartition(".")
    if last in ("scales", "biases") and f"{base}.weight" in by_name:
        return None
    if tensor.name.endswith("_scale_inv"):
        return None
    if tensor.dtype.startswith("F8"):
        return replace(tensor, dtype="BF16", nbytes=2 * prod(tensor.shape))
    scales = by_name.get(f"{base}.scales") if last == "weight" else None
    if scales is None:
        return tensor
    row = scales.shape[-1] * group_size_of(quantization, tensor.name)
    shape = (*scales.shape[:-1], row)
    dtype = scales.dtype if scales.dtype in ("F16", "BF16") else "BF16"
    return Tensor(name=tensor.name, dtype=dtype, shape=shape, nbytes=2 * prod(shape))


def _packed(tensor: Tensor, form: Packed) -> Sequence[Tensor]:
    """Return a weight in a form, with its scales and perhaps biases."""
    base = tensor.name.removesuffix(".weight")
    *rows, columns = tensor.shape
    groups = (*rows, columns // form.group_size)
    words = (*rows, round(columns * form.bits / 32))
    nbytes = round(prod(tensor.shape) * form.bits / 8)
    weight = Tensor(name=f"{base}.weight", dtype="U32", shape=words, nbytes=nbytes)
    if form.mode != "affine":
        scales = Tensor(name=f"{base}.scales", dtype="U8", shape=groups, nbytes=prod(groups))
        return weight, scales
    size = 4 if tensor.dtype == "F32" else 2
    scales = replace(tensor, name=f"{base}.scales", shape=groups, nbytes=size * prod(groups))
    return weight, scales, replace(scales, name=f"{base}.biases")
