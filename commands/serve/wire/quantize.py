"""Quantizations: what starts one, and whether a model can be quantized."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any, Literal

from msgspec import UNSET, Meta, Struct, UnsetType

from commands.serve.wire.api import clean, text_in
from core.errors import BadRequest

if TYPE_CHECKING:
    from core.quantize.inspect import Inspection

MISSING = "model_id required"

_GB = 1e9


class QuantizeSubmit(Struct, kw_only=True):
    """What `POST /api/quantize/submit` takes: the options of `mlxbun quantize`.

    What is wrong with them is answered with 400, before there is a job.
    """

    model_id: Annotated[str, Meta(description="a folder, a repo id, or a part of one")]
    bits: int | UnsetType = UNSET
    group_size: int | UnsetType = UNSET
    mode: Literal["affine", "mxfp4", "nvfp4", "mxfp8"] | UnsetType = UNSET
    target_bpw: Annotated[float | UnsetType, Meta(description="mixed precision")] = UNSET
    candidate_bits: list[int] | UnsetType = UNSET
    reference: Annotated[str | UnsetType, Meta(description="bf16, or a uniform width")] = UNSET
    calibration_mix: Annotated[str | UnsetType, Meta(description="a mix, or a file")] = UNSET
    n_calibration: Annotated[int | UnsetType, Meta(description="rows; 0: the default")] = UNSET
    rotate_weights: bool | UnsetType = UNSET
    rotation_seed: int | UnsetType = UNSET
    rotation_form: Literal["residual", "values"] | UnsetType = UNSET
    embeddings: Annotated[bool | UnsetType, Meta(description="as quantize_embeddings")] = UNSET
    quantize_embeddings: bool | UnsetType = UNSET
    embedding_bits: int | UnsetType = UNSET
    override: Annotated[list[str] | UnsetType, Meta(description="PATTERN=BITS or PATTERN=keep")] = (
        UNSET
    )
    fit: Annotated[str | UnsetType, Meta(description="memory, such as 6GB")] = UNSET
    dequantize: bool | UnsetType = UNSET
    allow_requantize: bool | UnsetType = UNSET
    text_only: bool | UnsetType = UNSET
    strict: bool | UnsetType = UNSET
    kv_config: bool | UnsetType = UNSET
    proof: bool | UnsetType = UNSET
    min_agreement: float | UnsetType = UNSET
    max_kl: float | UnsetType = UNSET
    output: Annotated[str | UnsetType, Meta(description="a folder; else the cache")] = UNSET


class QuantizeStarted(Struct, kw_only=True):
    """A quantization waits or runs."""

    ok: Literal[True] = True
    job_id: str
    output_dir: str


class QuantizeQuestion(Struct, kw_only=True):
    """What `POST /api/quantize/inspect` takes."""

    model_id: Annotated[str, Meta(description="a folder, a repo id, or a part of one")]


class QuantizeFacts(Struct, kw_only=True):
    """Whether a model can be quantized."""

    ok: Annotated[bool, Meta(description="false: it cannot be, or is not here")]
    model_id: str
    arch: Annotated[str | None, Meta(description="config.json's model_type")] = None
    support: bool = False
    size_gb: Annotated[float, Meta(description="of its files, in GB of 10^9 bytes")] = 0.0
    error: Annotated[str | UnsetType, Meta(description="when `ok` is false")] = UNSET


def submitted(fields: dict[str, Any]) -> dict[str, Any] | None:
    """Return the fields of a recipe; None: it is not said of what.

    Raises:
        BadRequest: one thing is said twice.
    """
    if not text_in(fields, "model_id"):
        return None
    if "embeddings" not in fields:
        return fields
    if "quantize_embeddings" in fields:
        raise BadRequest("embeddings and quantize_embeddings mean the same: send one of them.")
    return {("quantize_embeddings" if k == "embeddings" else k): v for k, v in fields.items()}


def facts_body(found: Inspection) -> QuantizeFacts:
    """Return the body that describes a model."""
    return QuantizeFacts(
        ok=found.problem is None,
        model_id=clean(found.model_id),
        arch=None if found.architecture is None else clean(found.architecture),
        support=found.problem is None,
        size_gb=round(found.size_bytes / _GB, 3),
        error=UNSET if found.problem is None else clean(found.problem),
    )


def no_facts_body(model_id: str, error: str) -> QuantizeFacts:
    """Return the body for a model that cannot be inspected, with the reason."""
    return QuantizeFacts(ok=False, model_id=clean(model_id), error=clean(error))
