"""What the OpenAI protocol says of models, as it stands on the wire."""

from __future__ import annotations

from typing import Annotated, Literal

from msgspec import UNSET, Meta, Struct, UnsetType


class GenerationDefaults(Struct, kw_only=True):
    """What applies when a request leaves a field out."""

    temperature: float
    top_p: float
    top_k: int


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
    owned_by: Literal["mlxbun"] | UnsetType = UNSET
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
