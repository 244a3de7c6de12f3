"""A model's weights as the headers of its safetensors files tell them. Reads no tensor bytes.

What mlx-lm leaves out when it loads a model is left out here too; what its `sanitize` only renames
or stacks takes the same bytes.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from math import prod
from typing import TYPE_CHECKING, Any, Literal

from core.errors import BadModelFiles
from core.fit.config import Fields, text_fields
from core.fit.shapes import Traits
from core.registry.weights import read_header

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping
    from pathlib import Path

Storage = Literal["stored", "unpacked", "widened"]
"""How weights lie in memory: as on disk, all in float32, or packed with float32 scales."""

# Bytes of one element; the safetensors format's own names.
_SIZES = {
    "F64": 8, "F32": 4, "F16": 2, "BF16": 2, "I64": 8, "I32": 4, "I16": 2, "I8": 1,
    "U64": 8, "U32": 4, "U16": 2, "U8": 1, "BOOL": 1, "F8_E4M3": 1, "F8_E5M2": 1, "F8_E8M0": 1,
}  # fmt: skip
_FLOATS = ("F64", "F32", "F16", "BF16")
_MOST_TENSORS = 10_000_000

# Towers and heads that a text engine does not load (the `sanitize` of mlx-lm's model files).
_LEFT_OUT = re.compile(
    r"rotary_emb\.inv_freq$|(^|\.)(vision_tower|vision_model|vision_embed_tokens|visual"
    r"|multi_modal_projector|mm_projector|audio_tower|embed_vision|embed_audio|vision_encoder"
    r"|vision_language_adapter|image_newline|patch_merger|mtp|mtp_layers)(\.|$)"
)
# Architectures that leave an output head in the files out when config.json says that it is the
# embedding; the others load it.
_TIED = frozenset((
    "afmoe", "apertus", "bailing_hybrid", "bailing_moe", "bailing_moe_linear", "bailing_moe_v3",
    "bitnet", "dots1", "exaone_moe", "gear", "glm", "granite", "granitemoe", "granitemoehybrid",
    "hunyuan_v1_dense", "iquestcoder", "jamba", "kimi_k3", "kimi_linear", "laguna", "llama",
    "mellum", "mimo", "ministral3", "mistral", "mixtral", "nemotron-nas", "olmo_hybrid", "plamo3",
    "qwen2", "qwen3", "qwen3_5", "qwen3_5_moe", "qwen3_moe", "qwen3_next", "seed_oss", "smollm3",
    "spark2_5", "xverse", "youtu_llm",
))  # fmt: skip
_LAYER = re.compile(r"(?:^|\.)(?:layers|h|blocks)\.(\d+)\.")
_EMBEDDING = re.compile(
    r"(^|\.)(embed_tokens|wte|embeddings?|word_embeddings|tok_embeddings|embed_in)\.weight$"
)
# Looked up, never multiplied: one row a token.
_LOOKED_UP = re.compile(r"embed_tokens_per_layer|ngram_embeddings|(^|\.)wpe\.")
_HEAD = re.compile(r"(^|\.)(lm_head|embed_out|output)\.")
_EXPERT = re.compile(r"(?:^|\.)experts\.(\d+)\.")
_READ_SUMS = ("always_parameters", "expert_parameters", "always_bytes", "expert_bytes")
_STACKED = re.compile(r"(^|\.)(switch_mlp|experts)\.")


@dataclass(frozen=True, kw_only=True)
class Tensor:
    """One tensor of a header."""

    name: str
    """Its full name."""
    dtype: str
    """`F16`, `U32` and so on."""
    shape: tuple[int, ...]
    """Its shape as stored."""
    nbytes: int
    """Its bytes as stored."""


@dataclass(frozen=True, kw_only=True)
class Weights:
    """Sums over all tensors that are loaded."""

    files_bytes: int
    """Bytes on disk, those included that are not loaded."""
    stored_bytes: int
    """Bytes as on disk."""
    widened_bytes: int
    """Bytes with every half-precision number in float32 and packed ones packed."""
    unpacked_bytes: int
    """Bytes with every weight in float32."""
    parameters: int
    """Weights, counted unpacked."""
    always_parameters: int
    """Those that every token is multiplied with."""
    expert_parameters: int
    """Those of all experts."""
    always_bytes: int
    """Bytes as on disk of what every token is multiplied with."""
    expert_bytes: int
    """Those of all experts."""
    chosen_share: float
    """The part of the experts that computes one token; 1 without experts."""
    float_bytes: int
    """Bytes of a number in the type that the model computes in, as stored."""
    vocabulary: int | None
    """Rows of the token embedding; None: none was found."""
    packed: bool
    """Whether there are packed weights."""
    largest_unpacking_bytes: int
    """Bytes that unpacking the largest matrix needs beside its result."""
    tensors: int
    """How many there are, those included that are not loaded."""
    traits: Traits = field(default=Traits())
    """What the names of the weights tell."""
    notes: tuple[str, ...] = field(default=())
    """What is not exact, one sentence each."""

    def bytes_in(self, storage: Storage) -> int:
        """Return what the weights take in memory."""
        if storage == "unpacked":
            return self.unpacked_bytes
        return self.widened_bytes if storage == "widened" else self.stored_bytes

    @property
    def active_parameters(self) -> int:
        """Weights that one token is multiplied with."""
        return self.always_parameters + int(self.chosen_share * self.expert_parameters)

    def read_bytes(self, storage: Storage, rows: int) -> int:
        """Return what decoding one token of each row reads of them.

        Rows choose their experts independently: together they read more of them than one alone.
        """
        share = 1 - (1 - self.chosen_share) ** rows
        read = self.always_bytes + share * self.expert_bytes
        return int(read * self.bytes_in(storage) / max(1, self.stored_bytes))

    def float_bytes_in(self, storage: Storage) -> int:
        """Return the bytes of a number in the type that the model computes in."""
        return self.float_bytes if storage == "stored" else 4


def local_tensors(folder: Path, *, needed: bool = True) -> list[Tensor]:
    """Return the tensors of a model folder: of the files that mlx-lm loads.

    Args:
        folder: the model's.
        needed: whether there must be some.

    Raises:
        BadModelFiles: there are none, or a file that is missing, broken or cut short.
    """
    files = sorted(folder.glob("model*.safetensors"))
    if not files and needed:
        raise BadModelFiles(
            f"There are no weights (model*.safetensors) in {folder}.",
            hint="Download the model again, or name a folder that holds one.",
        )
    return [tensor for file in files for tensor in parse_header(read_header(file), str(file))]


def is_left_out(name: str) -> bool:
    """Return whether a tensor belongs to a tower or head that a text engine does not load."""
    return _LEFT_OUT.search(name) is not None


def is_embedding(name: str) -> bool:
    """Return whether a tensor is the weight of a token embedding."""
    return _EMBEDDING.search(name) is not None


def vocabulary_rows(tensors: Iterable[Tensor]) -> int | None:
    """Return how many token ids a model has rows for; None: no embedding was found.

    The embedding and the output head always have as many rows as each other. Models that also
    write or hear speech have smaller ones beside them.
    """
    rows = [
        tensor.shape[0]
        for tensor in tensors
        if tensor.shape
        and not (_LAYER.search(tensor.name) or _LEFT_OUT.search(tensor.name))
        and _EMBEDDING.search(tensor.name)
    ]
    return max(rows, default=None)


def parse_header(header: Mapping[str, Any], source: str) -> Iterator[Tensor]:
    """Yield the tensors of one header.

    Args:
        header: as parsed, without `__metadata__`.
        source: what to call the file in an error.

    Raises:
        BadModelFiles: an entry that contradicts itself.
    """
    if len(header) > _MOST_TENSORS:
        raise _broken(source, "its header names too many tensors")
    for name, entry in header.items():
        try:
            dtype, shape = entry["dtype"], entry["shape"]
            start, end = entry["data_offsets"]
        except (TypeError, KeyError, ValueError) as problem:
            raise _broken(source, "an entry of its header is incomplete") from problem
        numbers = [*shape, start, end] if isinstance(shape, list) else [None]
        if not all(isinstance(n, int) and not isinstance(n, bool) and n >= 0 for n in numbers):
            raise _broken(source, "its header holds shapes that are none")
        size = _SIZES.get(dtype) if isinstance(dtype, str) else None
        if end < start or (size is not None and size * prod(shape) != end - start):
            raise _broken(source, "a tensor's shape contradicts its size")
        yield Tensor(name=name, dtype=str(dtype), shape=tuple(shape), nbytes=end - start)


def weigh(tensors: Iterable[Tensor], config: Mapping[str, Any]) -> Weights:
    """Add up the tensors of a model.

    Args:
        tensors: of all its files.
        config: its config.json.

    Raises:
        BadModelFiles: config.json promises more layers than there are tensors.
    """
    return _Scales(list(tensors), config).result()


class _Scales:
    """The sums under way."""

    def __init__(self, tensors: list[Tensor], config: Mapping[str, Any]) -> None:
        fields = text_fields(config)
        self._count = len(tensors)
        self._files_bytes = sum(tensor.nbytes for tensor in tensors)
        self._layers = _promised_layers(config, self._count)
        kinds = {fields.text("model_type"), Fields(config).text("model_type")}
        tied = fields.flag("tie_word_embeddings") and bool(kinds & _TIED)
        self._tensors = [t for t in tensors if self._is_loaded(t.name, tied)]
        self._names = {t.name: t for t in self._tensors}
        self._head = any(_HEAD.search(name) for name in self._names)
        self._quantization = quantization_of(config)
        self._chosen = _chosen(config)
        self._experts = self._count_experts()
        self._notes: dict[str, None] = {}
        self._sums = dict.fromkeys(("stored", "widened", "unpacked", "parameters", *_READ_SUMS), 0)
        self._largest = 0

    def result(self) -> Weights:
        for tensor in self._tensors:
            self._add(tensor)
        embedding = next((t for t in self._tensors if _EMBEDDING.search(t.name)), None)
        sums = self._sums
        return Weights(
            files_bytes=self._files_bytes,
            stored_bytes=sums["stored"],
            widened_bytes=sums["widened"],
            unpacked_bytes=sums["unpacked"],
            parameters=sums["parameters"],
            always_parameters=sums["always_parameters"],
            expert_parameters=sums["expert_parameters"],
            always_bytes=sums["always_bytes"],
            expert_bytes=sums["expert_bytes"],
            chosen_share=min(1.0, self._chosen / self._experts) if self._experts else 1.0,
            float_bytes=self._float_bytes(embedding),
            vocabulary=embedding.shape[0] if embedding and embedding.shape else None,
            packed=any(self._scales_of(t) is not None for t in self._tensors),
            largest_unpacking_bytes=self._largest,
            tensors=self._count,
            traits=_traits(self._names),
            notes=tuple(self._notes),
        )

    def _add(self, tensor: Tensor) -> None:
        elements, stored, widened, unpacked = self._measure(tensor)
        self._sums["stored"] += stored
        self._sums["widened"] += widened
        self._sums["unpacked"] += unpacked
        self._sums["parameters"] += elements
        if (kind := self._read_by(tensor)) is not None:
            self._sums[f"{kind}_parameters"] += elements
            self._sums[f"{kind}_bytes"] += stored

    def _measure(self, tensor: Tensor) -> tuple[int, int, int, int]:
        """Return weights, and bytes as stored, widened and unpacked."""
        count = prod(tensor.shape)
        if self._is_scale(tensor):
            wide = count * 4 if tensor.dtype in _FLOATS else tensor.nbytes
            return 0, tensor.nbytes, wide, 0
        if (scales := self._scales_of(tensor)) is not None:
            elements = prod(scales.shape) * group_size_of(self._quantization, tensor.name)
            # MLX on a CPU spreads the packed numbers into one array of 32 bits for each, and
            # concatenates those; scales and biases are there as stored and in float32.
            scaling = 2 * (scales.nbytes + 4 * prod(scales.shape))
            self._largest = max(self._largest, tensor.nbytes + 4 * elements + scaling)
            return elements, tensor.nbytes, tensor.nbytes, 4 * elements
        if tensor.name.endswith("_blocks") and tensor.dtype == "U8":  # two numbers a byte
            return 2 * count, tensor.nbytes, tensor.nbytes, 8 * count
        if tensor.dtype.startswith("F8") and count:
            self._notes["Weights in FP8 become bfloat16 when they are loaded."] = None
            return count, 2 * count, 4 * count, 4 * count
        if tensor.dtype in _FLOATS:
            return count, tensor.nbytes, 4 * count, 4 * count
        return count, tensor.nbytes, tensor.nbytes, tensor.nbytes

    def _is_loaded(self, name: str, tied: bool) -> bool:
        if _LEFT_OUT.search(name) or (tied and _HEAD.search(name)):
            return False
        layer = _LAYER.search(name)
        return layer is None or self._layers is None or int(layer[1][:9]) < self._layers

    def _is_scale(self, tensor: Tensor) -> bool:
        base, _, last = tensor.name.rpartition(".")
        if last in ("scales", "biases"):
            return f"{base}.weight" in self._names
        return tensor.name.endswith(("_scale_inv", "_scales", "qzeros"))

    def _scales_of(self, tensor: Tensor) -> Tensor | None:
        base, _, last = tensor.name.rpartition(".")
        return self._names.get(f"{base}.scales") if last == "weight" else None

    def _read_by(self, tensor: Tensor) -> Literal["always", "expert"] | None:
        """Return by which tokens a tensor is read; None: it is looked up, not multiplied with."""
        if _LOOKED_UP.search(tensor.name):
            return None
        if self._head and _EMBEDDING.search(_weight_name(tensor.name)):
            return None
        return "expert" if self._is_expert(tensor) else "always"

    def _is_expert(self, tensor: Tensor) -> bool:
        if _EXPERT.search(tensor.name):
            return True
        return bool(_STACKED.search(tensor.name)) and len(tensor.shape) > 1

    def _count_experts(self) -> int:
        numbered = [int(m[1][:9]) for name in self._names if (m := _EXPERT.search(name))]
        stacked = [t.shape[0] for t in self._tensors if self._is_expert(t) and len(t.shape) == 3]
        return max([number + 1 for number in numbered] + stacked, default=0)

    def _float_bytes(self, embedding: Tensor | None) -> int:
        """Return the bytes of a number as the embedding gives it: it decides what follows."""
        if embedding is not None:
            source = self._scales_of(embedding) or embedding
            return 4 if source.dtype == "F32" else 2
        sizes = {t.dtype: t.nbytes for t in self._tensors if t.dtype in _FLOATS}
        return 4 if sizes and max(sizes, key=sizes.__getitem__) == "F32" else 2


def _traits(names: Iterable[str]) -> Traits:
    found = {part for name in names for part in name.split(".")}
    return Traits(
        query_norm=bool(found & {"q_norm", "q_layernorm", "query_layernorm"}),
        post_norms=bool(found & {"post_feedforward_layernorm", "post_mlp_norm"}),
        joined_heads=bool(found & {"qkv_proj", "query_key_value", "wqkv", "Wqkv", "W_pack"}),
        joined_gate=bool(found & {"gate_up_proj", "input_linear"}),
        sinks="sinks" in found,
    )


def _weight_name(name: str) -> str:
    base, _, last = name.rpartition(".")
    return f"{base}.weight" if last in ("scales", "biases") else name


def _promised_layers(config: Mapping[str, Any], tensors: int) -> int | None:
    """Return `num_hidden_layers`, refused as the engine refuses it when it cannot be."""
    inner = config.get("text_config")
    scope = inner if isinstance(inner, dict) else config
    layers = scope.get("num_hidden_layers")
    if isinstance(layers, bool) or not isinstance(layers, int):
        return None
    if layers > tensors:
        raise BadModelFiles(
            f"config.json promises {layers if layers < 10**9 else 'too many'} layers, but there "
            f"are {tensors} tensors.",
            hint="Download the model again, or check that mlx-lm can load it.",
        )
    return layers


def quantization_of(config: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return how config.json says that weights are packed; empty: they are not."""
    for name in ("quantization", "quantization_config"):
        found = config.get(name)
        if isinstance(found, dict):
            return found
    return {}


def group_size_of(quantization: Mapping[str, Any], name: str) -> int:
    """Return how many numbers of a packed weight share a scale.

    Args:
        quantization: as `quantization_of` returns it.
        name: of the tensor.
    """
    own = quantization.get(name.removesuffix(".weight"))
    for source in (own, quantization):
        size = source.get("group_size") if isinstance(source, dict) else None
        if isinstance(size, int) and 0 < size <= 4096:
            return size
    return 64


def _chosen(config: Mapping[str, Any]) -> int:
    """Return how many experts compute a token."""
    from core.fit.families.feeds import chosen_experts

    return chosen_experts(text_fields(config))


def _broken(source: str, reason: str) -> BadModelFiles:
    return BadModelFiles(
        f"The weights file {source} is broken: {reason}.", hint="Download the model again."
    )
