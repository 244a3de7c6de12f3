"""Which models are meant, and in which order: filters and sorting over cards. Pure functions."""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import StrEnum
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING

from core.errors import UsageProblem

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from core.registry.library import ModelCard

ABILITIES = ("vision", "audio", "tools", "thinking")

_DTYPES = {
    **dict.fromkeys(("bf16", "bfloat16"), ("bf16",)),
    **dict.fromkeys(("fp16", "f16", "float16", "half"), ("fp16",)),
    **dict.fromkeys(("fp32", "f32", "float32"), ("fp32",)),
    **dict.fromkeys(("16", "16bit", "16-bit"), ("bf16", "fp16")),
    **dict.fromkeys(("32", "32bit", "32-bit"), ("fp32",)),
}
_MODES = ("affine", "mxfp4", "nvfp4", "mxfp8", "fp8", "awq", "gptq", "bitnet")
_WIDTH = re.compile(r"([1-8])(?:-?bits?)?", re.ASCII)


class SortKey(StrEnum):
    """What models are sorted by."""

    NAME = "name"
    SIZE = "size"
    PARAMS = "params"
    DATE = "date"
    CONTEXT = "context"


@dataclass(frozen=True, kw_only=True)
class Wanted:
    """What a model must be; what is None or False does not matter."""

    part: str = ""
    """A part of its name, in any case."""
    min_bytes: int | None = None
    """Least bytes on disk."""
    max_bytes: int | None = None
    """Most bytes on disk."""
    quant: str | None = None
    """Its quantization, as `quantization_test` takes it."""
    model_type: str | None = None
    """Its type, or a pattern with `*` and `?`, in any case."""
    vision: bool = False
    """It sees."""
    audio: bool = False
    """It hears."""
    tools: bool = False
    """It calls tools."""
    thinking: bool = False
    """It reasons before it answers."""


def select(cards: Iterable[ModelCard], wanted: Wanted) -> list[ModelCard]:
    """Return the models that are meant, in their order.

    Raises:
        UsageProblem: a quantization that is none.
    """
    tests = _tests(wanted)
    return [card for card in cards if all(test(card) for test in tests)]


def arrange(
    cards: Iterable[ModelCard], key: SortKey, *, backwards: bool = False
) -> list[ModelCard]:
    """Return models sorted: names from A on, numbers from the largest, dates from the newest.

    A model that does not tell what is sorted by comes last, either way. Equal ones keep their
    order.
    """
    value = _VALUES[key]
    told = [card for card in cards if value(card) is not None]
    silent = [card for card in cards if value(card) is None]
    downwards = (key is not SortKey.NAME) != backwards
    return [*sorted(told, key=value, reverse=downwards), *silent]  # type: ignore[arg-type]


def quantization_test(text: str) -> Callable[[ModelCard], bool]:
    """Return a test for a quantization: `4`, `4bit`, `8-bit`, `mixed`, `none`, `bf16`, `mxfp4`.

    Raises:
        UsageProblem: it is none of these.
    """
    word = text.strip().lower()
    if found := _WIDTH.fullmatch(word):
        bits = int(found[1])
        return lambda card: card.quantization is not None and card.quantization.bits == bits
    if word == "mixed":
        return lambda card: card.quantization is not None and card.quantization.mixed
    if word == "none":
        return lambda card: card.quantization is None
    if word in _DTYPES:
        return lambda card: card.quantization is None and card.dtype in _DTYPES[word]
    if word in _MODES:
        return lambda card: card.quantization is not None and card.quantization.mode == word
    raise UsageProblem(
        f"There is no quantization {text!r}.",
        hint=f"There are 4, 8-bit and other widths, mixed, none, bf16, fp16, {', '.join(_MODES)}.",
    )


def _tests(wanted: Wanted) -> list[Callable[[ModelCard], bool]]:
    tests: list[Callable[[ModelCard], bool]] = []
    if wanted.part:
        tests.append(lambda card: wanted.part.lower() in card.name.lower())
    if (least := wanted.min_bytes) is not None:
        tests.append(lambda card: card.size_bytes >= least)
    if (most := wanted.max_bytes) is not None:
        tests.append(lambda card: card.size_bytes <= most)
    if wanted.quant is not None:
        tests.append(quantization_test(wanted.quant))
    if (kind := wanted.model_type) is not None:
        tests.append(lambda card: fnmatchcase((card.model_type or "").lower(), kind.lower()))
    abilities = (name for name in ABILITIES if getattr(wanted, name))
    return [*tests, *map(_has, abilities)]


def _has(ability: str) -> Callable[[ModelCard], bool]:
    return lambda card: bool(getattr(card, ability))


_VALUES: dict[SortKey, Callable[[ModelCard], str | float | None]] = {
    SortKey.NAME: lambda card: card.name.casefold(),
    SortKey.SIZE: lambda card: card.size_bytes,
    SortKey.PARAMS: lambda card: card.parameters,
    SortKey.DATE: lambda card: card.modified,
    SortKey.CONTEXT: lambda card: card.context,
}
