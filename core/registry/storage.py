"""How a model's numbers are stored: how many there are, and packed how. From headers and config.

Packed weights hold several numbers in one element: `U32` with 4 bits holds eight. Scales, biases of
groups, zero points and other things that packing needs are no parameters of the model.

Sources: MLX's `nn.quantize` (`weight` with `scales` and, if affine, `biases`; per-layer settings in
config.json's `quantization`), AutoAWQ and GPTQ (`qweight`, `qzeros`, `scales`, `g_idx`),
compressed-tensors (`weight_packed`, `weight_scale`), bitsandbytes (`weight.quant_state.*`),
gpt-oss (`*_blocks`, `*_scales`), BitNet (four numbers in a byte).
"""

from __future__ import annotations

import math
from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from core.registry.weights import tensor_bytes

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    Headers = Mapping[str, Mapping[str, Any]]

_Way = tuple[int, int, str]  # bits, group size, mode

_AFFINE_BITS = (4, 8, 6, 5, 3, 2)
_AFFINE_GROUPS = (64, 32, 128, 16)
# What only packing needs, by the last part of the name.
_HELPERS = frozenset(
    ("global_scale", "input_scale", "input_global_scale", "k_scale", "v_scale", "weight_scale",
     "weight_scale_inv", "weight_scale_2", "weight_global_scale", "weight_zero_point",
     "weight_shape", "weight_g_idx", "weight_format", "qzeros", "g_idx", "inv_freq", "SCB")
)  # fmt: skip
_DTYPES = {"BF16": "bf16", "F16": "fp16", "F32": "fp32", "F64": "fp64"}
_CONFIG_DTYPES = {"bfloat16": "bf16", "float16": "fp16", "float32": "fp32", "float64": "fp64"}


@dataclass(frozen=True, kw_only=True)
class Quantization:
    """How weights are packed, as far as most of them go."""

    bits: int | None
    """Bits of each number; None: not told."""
    group_size: int | None
    """Numbers that share a scale; None: not told."""
    mode: str
    """MLX's `affine`, `mxfp4`, `nvfp4`, `mxfp8`, or a foreign method: `awq`, `gptq`, `fp8`."""
    widths: tuple[int, ...] = ()
    """All widths in use, in bits, the one that holds most of the model first."""
    mixed: bool = False
    """Whether layers are packed in different ways."""

    @property
    def label(self) -> str:
        """The quantization in a word or two: `4-bit g64`, `4+6-bit g64`, `mxfp4`, `awq 4-bit`."""
        widths = "+".join(map(str, self.widths or filter(None, (self.bits,))))
        if self.mode == "affine":
            return f"{widths}-bit" + (f" g{self.group_size}" if self.group_size else "")
        if self.mode in _BLOCK_MODES:
            others = "".join(f"+{width}-bit" for width in self.widths[1:])
            return self.mode + others
        told = self.mode[-1:].isdigit() or not widths  # `fp8` says it already
        return self.mode if told else f"{self.mode} {widths}-bit"


@dataclass(frozen=True, kw_only=True)
class Storage:
    """The numbers of a model and their form. None: not told."""

    parameters: int | None = None
    """How many there are."""
    weights_bytes: int | None = None
    """Bytes of all tensors."""
    dtype: str | None = None
    """Type of most numbers that are not packed: `bf16`, `fp16`, `fp32`."""
    quantization: Quantization | None = None
    """How the rest is packed; None: nothing is."""


# Modes of MLX with one width and one group size each (mlx.nn.layers.quantized).
_BLOCK_MODES = {"mxfp4": (4, 32), "nvfp4": (4, 16), "mxfp8": (8, 32)}


def read_storage(config: Mapping[str, Any], headers: Headers | None) -> Storage:
    """Return how a model's numbers are stored.

    Args:
        config: config.json.
        headers: all tensors by name, as `core.registry.weights.parse_header` returns them; None
            where they cannot be read: then config.json is believed.
    """
    packing = _packing(config, headers or {})
    if not headers:
        return Storage(dtype=_config_dtype(config), quantization=packing.summary())
    kinds = Counter[str]()
    for name, tensor in headers.items():
        kinds[tensor["dtype"]] += packing.count(name)
    plain = [kind for kind, _ in kinds.most_common() if kind in _DTYPES]
    return Storage(
        parameters=kinds.total(),
        weights_bytes=sum(map(tensor_bytes, headers.values())),
        dtype=_DTYPES[plain[0]] if plain else _config_dtype(config),
        quantization=packing.summary(),
    )


def foreign_settings(config: Mapping[str, Any]) -> Mapping[str, Any] | None:
    """Return the settings of a quantization that MLX has not made, where mlx-lm finds them."""
    if config.get("quantization") is not None:
        return None
    inner = config.get("text_config")
    for scope in (config, inner if isinstance(inner, dict) else {}):
        if isinstance(scope.get("quantization_config"), dict):
            found: Mapping[str, Any] = scope["quantization_config"]
            return found
    return None


class _Plain:
    """Nothing is packed."""

    def __init__(self, headers: Headers) -> None:
        self._headers = headers

    def count(self, name: str) -> int:
        """Return how many parameters a tensor holds."""
        return 0 if _is_helper(name, self._headers) else math.prod(self._headers[name]["shape"])

    def summary(self) -> Quantization | None:
        """Return how most of the model is packed; None: nothing is."""
        return None


class _Mlx(_Plain):
    """Packed by MLX, each layer in the way that is written down for it, or that its shapes tell."""

    def __init__(self, settings: Mapping[str, Any], headers: Headers) -> None:
        super().__init__(headers)
        self._default = _way(settings, {}) or (4, 64, "affine")
        self._layers = {
            layer: way
            for layer, own in settings.items()
            if isinstance(own, dict) and (way := _way(own, settings))
        }
        self._found: dict[str, _Way] = {}

    def count(self, name: str) -> int:
        path = self._packed_path(name)
        if path is None:
            return super().count(name)
        bits, _, _ = self._way_of(path)
        return math.prod(self._headers[name]["shape"]) * 32 // bits

    def summary(self) -> Quantization | None:
        if not self._headers:
            return _summary(Counter([self._default, *self._layers.values()]), self._default)
        ways = Counter[_Way]()
        for name in self._headers:
            if (path := self._packed_path(name)) is not None:
                ways[self._way_of(path)] += self.count(name)
        return _summary(ways, ways.most_common(1)[0][0]) if ways else None

    def _packed_path(self, name: str) -> str | None:
        """Return the layer whose packed weight a tensor is, or None."""
        path = name.removesuffix(".weight")
        return path if path != name and f"{path}.scales" in self._headers else None

    def _way_of(self, path: str) -> _Way:
        """Return how one layer is packed: as told, where its shapes agree, else as they tell."""
        if (way := self._found.get(path)) is None:
            way = self._found[path] = self._find_way(path)
        return way

    def _find_way(self, path: str) -> _Way:
        scales = self._headers[f"{path}.scales"]
        held = math.prod(self._headers[f"{path}.weight"]["shape"]) * 32
        groups = math.prod(scales["shape"])
        for way in self._candidates(path, scales["dtype"]):
            bits, group, _ = way
            if groups * group * bits == held:
                return way
        return self._default

    def _candidates(self, path: str, kind: str) -> Iterable[_Way]:
        if path in self._layers:
            yield self._layers[path]
        yield self._default
        if kind == "U8":  # only the block modes have scales of a byte
            yield from ((*way, mode) for mode, way in _BLOCK_MODES.items())
            return
        for group in dict.fromkeys((self._default[1], *_AFFINE_GROUPS)):
            yield from ((bits, group, "affine") for bits in _AFFINE_BITS)


class _Foreign(_Plain):
    """Packed by something else than MLX."""

    def __init__(self, settings: Mapping[str, Any], headers: Headers) -> None:
        super().__init__(headers)
        method = settings.get("quant_method")
        self._method = method.lower() if isinstance(method, str) and len(method) < 40 else "unknown"
        usual = _BLOCK_MODES.get(self._method, (None, None))
        self._bits = _small(settings.get("bits")) or _nested_bits(settings) or usual[0] or 4
        if self._method == "fp8" or settings.get("load_in_8bit") is True:
            self._bits = 8
        self._group = _small(settings.get("group_size"), 4096) or usual[1]

    def count(self, name: str) -> int:
        return super().count(name) * self._per_element(name)

    def summary(self) -> Quantization:
        return Quantization(bits=self._bits, group_size=self._group, mode=self._method)

    def _per_element(self, name: str) -> int:
        """Return how many numbers one element of a tensor holds."""
        stem, _, last = name.rpartition(".")
        kind = self._headers[name]["dtype"]
        if last in ("qweight", "weight_packed"):
            return max((32 if kind in ("I32", "U32") else 8) // self._bits, 1)
        if last.endswith("_blocks"):
            return 2
        if last == "weight" and kind == "U8":
            return self._per_byte(stem)
        return 1

    def _per_byte(self, stem: str) -> int:
        if self._method == "bitnet":
            return 4 if f"{stem}.weight_scale" in self._headers else 1
        helpers = (f"{stem}.weight.absmax", f"{stem}.weight_scale")
        return 1 if self._headers.keys().isdisjoint(helpers) else 2


def _packing(config: Mapping[str, Any], headers: Headers) -> _Plain:
    """Return how config.json says that the model is packed."""
    own = config.get("quantization")
    if isinstance(own, dict):
        return _Mlx(own, headers)
    foreign = foreign_settings(config)
    if not foreign:
        return _Plain(headers)
    # Older conversions by MLX wrote its settings there alone.
    return (_Foreign if "quant_method" in foreign else _Mlx)(foreign, headers)


def _way(settings: Mapping[str, Any], default: Mapping[str, Any]) -> _Way | None:
    mode = settings.get("mode", default.get("mode", "affine"))
    if not isinstance(mode, str) or len(mode) > 40:
        return None
    usual = _BLOCK_MODES.get(mode, (None, None))
    bits = _small(settings.get("bits", usual[0]))
    group = _small(settings.get("group_size", usual[1]), 4096)
    return (bits, group, mode) if bits and group else None


def _summary(ways: Counter[_Way], main: _Way) -> Quantization:
    widths = dict.fromkeys((main[0], *(bits for (bits, _, _), _ in ways.most_common())))
    return Quantization(
        bits=main[0],
        group_size=main[1],
        mode=main[2],
        widths=tuple(widths),
        mixed=len(ways) > 1,
    )


def _is_helper(name: str, headers: Headers) -> bool:
    """Return whether a tensor serves the packing of another one."""
    stem, _, last = name.rpartition(".")
    if last in _HELPERS:
        return True
    if last in ("scales", "biases"):
        packed = f"{stem}.weight" in headers or f"{stem}.qweight" in headers
        return packed and f"{stem}.scales" in headers
    if last.endswith("_scales"):
        return f"{name.removesuffix('_scales')}_blocks" in headers
    return ".weight." in name and name.partition(".weight.")[0] + ".weight" in headers


def _nested_bits(settings: Mapping[str, Any]) -> int | None:
    """Return the bits that compressed-tensors writes down for its first group of layers."""
    groups = settings.get("config_groups")
    first = next(iter(groups.values()), None) if isinstance(groups, dict) else None
    weights = first.get("weights") if isinstance(first, dict) else None
    return _small(weights.get("num_bits")) if isinstance(weights, dict) else None


def _small(value: Any, most: int = 32) -> int | None:
    """Return a whole number from 1 to `most`, or None for anything else."""
    return value if type(value) is int and 1 <= value <= most else None


def _config_dtype(config: Mapping[str, Any]) -> str | None:
    inner = config.get("text_config")
    for scope in (config, inner if isinstance(inner, dict) else {}):
        for key in ("dtype", "torch_dtype"):
            if isinstance(kind := scope.get(key), str):
                return _CONFIG_DTYPES.get(kind.removeprefix("torch."))
    return None
