"""What the OpenAI protocol says of models, as it stands on the wire."""

from __future__ import annotations

from typing import Annotated, Literal

import msgspec
from msgspec import UNSET, Meta, Struct, UnsetType

from commands.serve.wire.openai.schema import ErrorBody, ErrorDetail

_LONGEST_ID = 200


class GenerationDefaults(Struct, kw_only=True):
    """What the server or the model's authors set; null: the built-in default applies."""

    temperature: float | None
    top_p: float | None
    top_k: int | None


class Capabilities(Struct, kw_only=True):
    """What a client can ask of the served model here."""

    chat_completions: bool
    text_completions: bool = True
    anthropic_messages: bool = False
    responses: bool = False
    streaming: bool = True
    tools: bool = False
    structured_output: bool = False
    logprobs: bool = False
    embeddings: bool = False
    vision: bool = False
    audio: bool = False
    adapters: bool = False
    training: bool = False


class ModelRow(Struct, kw_only=True):
    """A model: the served one, with what can be asked of it, or another one in the cache."""

    id: str
    object: Literal["model"] = "model"
    created: int
    vision: bool = False
    tier: Annotated[
        Literal["generic"] | UnsetType, Meta(description="of the models that are not served")
    ] = UNSET
    owned_by: Literal["mlxbun"] = "mlxbun"
    serving: Annotated[bool, Meta(description="whether requests are answered by it")] = False
    context_window: int | UnsetType = UNSET
    batch_mode: Annotated[
        Literal["off", "serial", "batch"] | UnsetType,
        Meta(description="off: --batch 1; serial: the model answers one request at a time"),
    ] = UNSET
    gen_defaults: GenerationDefaults | UnsetType = UNSET
    capabilities: Capabilities | UnsetType = UNSET
    reasoning: bool | UnsetType = UNSET
    audio: bool | UnsetType = UNSET
    tools: bool | UnsetType = UNSET
    structured_output: bool | UnsetType = UNSET
    embeddings: bool | UnsetType = UNSET
    adapters: bool | UnsetType = UNSET
    training: bool | UnsetType = UNSET
    mtp: bool | UnsetType = UNSET


class ModelList(Struct, kw_only=True):
    """The models that can be asked for; the served one comes first."""

    object: Literal["list"] = "list"
    data: list[ModelRow]


class FoundModel(ModelRow, kw_only=True):
    """A list of one model that can be read as the model itself: `object` says `list`."""

    object: Literal["list"] = "list"  # type: ignore[assignment]
    data: list[ModelRow]


def unknown_model(model_id: str) -> bytes:
    """Return OpenAI's error body for a model that does not exist."""
    shown = model_id.encode("utf-8", "replace").decode()[:_LONGEST_ID]
    detail = ErrorDetail(
        message=f"The model '{shown}' does not exist.",
        type="invalid_request_error",
        code="model_not_found",
        param="model",
    )
    return msgspec.json.encode(ErrorBody(error=detail))
