"""Forms of weights that mlx-lm does not load, each with its reason in words. Pure functions.

Source: `mlx_lm.utils.load_model` and what it calls, mlx-lm 0.32.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from core.registry.files import printable
from core.registry.storage import foreign_settings

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

FP8 = "fp8"

_READY = ("mxfp4", "mxfp8", "bitnet")
_COMPRESSED = ("nvfp4-pack-quantized", "mxfp4-pack-quantized", "pack-quantized")
_SENTENCES = ("modules.json", "config_sentence_transformers.json", "1_Pooling")
_EMBEDS = "it is an embedding model, not one that generates text"
_CLASSIFIES = "it is a classifier, not a model that generates text"
_CLASSIFIERS = (
    "ForSequenceClassification",
    "ForTokenClassification",
    "ForQuestionAnswering",
    "ForMultipleChoice",
    "ForImageClassification",
    "ForAudioClassification",
)


@dataclass(frozen=True, kw_only=True)
class Form:
    """What mlx-lm makes of a form of weights."""

    refusal: str | None = None
    """Why it does not load them, as a clause; None: it does."""
    needs: str | None = None
    """What the architecture's module must be able to do: `fp8`, or None."""
    note: str | None = None
    """What is worth knowing, as a clause."""


def read_form(config: Mapping[str, Any], tensors: Iterable[str]) -> Form:
    """Return what mlx-lm makes of a model's weights.

    Args:
        config: config.json.
        tensors: the names of all tensors.
    """
    if config.get("model_file") is not None:
        return Form(refusal="it asks to run Python code of its own (model_file)")
    if (own := config.get("quantization")) is not None:
        return Form() if _is_complete(own) else _refuse("config.json's quantization is malformed")
    settings = foreign_settings(config)
    if not settings:
        return Form()
    method = settings.get("quant_method")
    if not isinstance(method, str):
        return _refuse("config.json's quantization_config names no quant_method")
    return _foreign(method.lower(), settings, tensors)


def kind_of_folder(names: Iterable[str], classes: Iterable[str]) -> str | None:
    """Return what a folder is instead of a language model, as a clause, or None.

    Args:
        names: of its files and folders.
        classes: that its config names.
    """
    if not set(_SENTENCES).isdisjoint(names):
        return _EMBEDS
    kinds = {_kind_of_class(name) for name in classes}
    return next(iter(kinds - {None}), None) if None not in kinds else None


def _kind_of_class(name: str) -> str | None:
    if name.endswith(_CLASSIFIERS):
        return _CLASSIFIES
    # `MistralModel` is a body without a head; `GPT2LMHeadModel`, `ChatGLMModel` have one.
    if name.endswith("Model") and not name.endswith(("LMHeadModel", "ChatModel", "GLMModel")):
        return _EMBEDS
    return None


def _foreign(method: str, settings: Mapping[str, Any], tensors: Iterable[str]) -> Form:
    """Return what becomes of weights that something else than MLX has packed."""
    if method in _READY:
        return Form()
    if method in _LOOKED_INTO and not any(name.endswith(".g_idx") for name in tensors):
        return _LOOKED_INTO[method](settings)
    name = _NAMES.get(method, printable(method, 40))
    return _refuse(f"its weights are packed by {name}, which mlx-lm does not load")


def _awq(settings: Mapping[str, Any]) -> Form:
    if settings.get("bits", 4) != 4:
        return _refuse("its AWQ weights do not have 4 bits, which mlx-lm asks for")
    return Form(note="AWQ weights, packed anew when they are loaded")


def _fp8(settings: Mapping[str, Any]) -> Form:
    block = settings.get("weight_block_size")
    if settings.get("scale_fmt") == "ue8m0" and block in ([32, 32], (32, 32)):
        return Form()
    return Form(needs=FP8)


def _compressed(settings: Mapping[str, Any]) -> Form:
    kind = settings.get("format")
    if kind in _COMPRESSED:
        return Form()
    shown = printable(kind, 40) if isinstance(kind, str) else "without a name"
    return _refuse(f"its weights have the compressed-tensors format {shown}")


def _modelopt(settings: Mapping[str, Any]) -> Form:
    inner = settings.get("quantization")
    algorithm = (inner if isinstance(inner, dict) else settings).get("quant_algo")
    if algorithm == "NVFP4":
        return Form()
    return _refuse("its weights are packed by ModelOpt, of which mlx-lm loads NVFP4 only")


_LOOKED_INTO: dict[str, Callable[[Mapping[str, Any]], Form]] = {
    "awq": _awq,
    "fp8": _fp8,
    "compressed-tensors": _compressed,
    "modelopt": _modelopt,
}
_NAMES = {"awq": "AWQ with group indices", "gptq": "GPTQ"}


def _is_complete(settings: Any) -> bool:
    return isinstance(settings, dict) and all(
        type(settings.get(key)) is int for key in ("bits", "group_size")
    )


def _refuse(reason: str) -> Form:
    return Form(refusal=reason)
