"""The models on this disk, for `/library` and `/api/hub/local`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Literal

from msgspec import Meta, Struct

from commands.serve.wire.api import clean

if TYPE_CHECKING:
    from core.registry.library import ModelCard


class ModelAssessment(Struct, kw_only=True):
    """Whether a model fits this machine."""

    fits: Annotated[bool, Meta(description="at 8,192 tokens, or at its window where that is less")]
    max_safe_context: Annotated[int, Meta(description="tokens; 2147483647 is any number")]
    predicted_decode_tps: Annotated[
        float | None, Meta(description="null: this machine's bandwidth is not known")
    ]


class LibraryRow(Struct, kw_only=True):
    """One model."""

    repo_id: str
    model_type: str | None
    size_bytes: int
    quant_bits: Annotated[int | None, Meta(description="null: not quantized")]
    vision: bool
    audio: bool
    supported: bool
    support_tier: Annotated[Literal["generic"] | None, Meta(description="null: not supported")]
    serving: bool
    assessment: Annotated[ModelAssessment | None, Meta(description="null: its files do not tell")]


class Library(Struct, kw_only=True):
    """The body of `GET /library`."""

    models: list[LibraryRow]


class LocalRow(Struct, kw_only=True):
    """One model, for whoever looks for another one."""

    repo_id: str
    model_type: str | None
    size_bytes: int
    quant_bits: int | None
    quant_group_size: int | None
    vision: bool
    supported: bool
    support_tier: Literal["generic"] | None
    assessment: ModelAssessment | None


class LocalModels(Struct, kw_only=True):
    """The body of `GET /api/hub/local`."""

    ok: Literal[True] = True
    models: list[LocalRow]


def library_row(
    card: ModelCard, assessment: ModelAssessment | None, *, serving: bool
) -> LibraryRow:
    """Return the row of a model."""
    return LibraryRow(
        repo_id=clean(card.name),
        model_type=_type(card),
        size_bytes=card.size_bytes,
        quant_bits=card.quantization.bits if card.quantization else None,
        vision=card.vision,
        audio=card.audio,
        supported=card.supported,
        support_tier=_tier(card),
        serving=serving,
        assessment=assessment,
    )


def local_row(card: ModelCard, assessment: ModelAssessment | None) -> LocalRow:
    """Return the row of a model."""
    return LocalRow(
        repo_id=clean(card.name),
        model_type=_type(card),
        size_bytes=card.size_bytes,
        quant_bits=card.quantization.bits if card.quantization else None,
        quant_group_size=card.quantization.group_size if card.quantization else None,
        vision=card.vision,
        supported=card.supported,
        support_tier=_tier(card),
        assessment=assessment,
    )


def _type(card: ModelCard) -> str | None:
    return None if card.model_type is None else clean(card.model_type)


def _tier(card: ModelCard) -> Literal["generic"] | None:
    # mlx-lm runs all of them: none has code of its own here.
    return "generic" if card.supported else None
