"""Fine-tuning: what starts one, and what a data set is."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any, Literal

from msgspec import UNSET, Meta, Struct, UnsetType

from commands.serve.wire.api import clean, text_in

if TYPE_CHECKING:
    from pathlib import Path

    from core.train.data import Inspection

MISSING = "model_dir and data_dir required"

_Schedule = Literal["constant", "cosine"]


class FinetuneSubmit(Struct, kw_only=True):
    """What `POST /api/finetune/submit` takes; the other options of `mlxbun train`, too.

    What is wrong with their values is the job's error; most of it is found before the job waits.
    """

    model_dir: str
    data_dir: Annotated[str, Meta(description="train.jsonl, and perhaps valid.jsonl, in a folder")]
    adapter_path: Annotated[str | UnsetType, Meta(description="where the adapter goes")] = UNSET
    method: Literal["sft", "dpo", "orpo"] | UnsetType = UNSET
    rank: int | UnsetType = UNSET
    scale: float | UnsetType = UNSET
    rank_scaling: str | UnsetType = UNSET
    target_modules: list[str] | UnsetType = UNSET
    num_layers: int | UnsetType = UNSET
    iters: int | UnsetType = UNSET
    learning_rate: float | UnsetType = UNSET
    max_seq_length: int | UnsetType = UNSET
    batch_size: int | UnsetType = UNSET
    grad_accumulation_steps: int | UnsetType = UNSET
    seed: int | UnsetType = UNSET
    steps_per_report: int | UnsetType = UNSET
    steps_per_eval: int | UnsetType = UNSET
    weight_decay: float | UnsetType = UNSET
    lora_dropout: float | UnsetType = UNSET
    rs_lora: bool | UnsetType = UNSET
    lora_plus_ratio: float | UnsetType = UNSET
    grad_checkpoint: bool | UnsetType = UNSET
    mlp_split: bool | UnsetType = UNSET
    segment_size: int | UnsetType = UNSET
    save_checkpoints: bool | UnsetType = UNSET
    grad_clip_norm: float | UnsetType = UNSET
    val_max_examples: int | UnsetType = UNSET
    dpo_beta: float | UnsetType = UNSET
    dpo_warmup_iters: int | UnsetType = UNSET
    dpo_lr_schedule: _Schedule | UnsetType = UNSET
    orpo_lambda: float | UnsetType = UNSET
    orpo_warmup_iters: int | UnsetType = UNSET
    orpo_lr_schedule: _Schedule | UnsetType = UNSET
    orpo_chunk_size: int | UnsetType = UNSET
    orpo_fused_ce: bool | UnsetType = UNSET
    orpo_flash_ce: bool | UnsetType = UNSET
    orpo_prefix_shared: bool | UnsetType = UNSET
    sft_scope: Literal["full", "response"] | UnsetType = UNSET
    warm_start_adapter: str | UnsetType = UNSET


class FinetuneStarted(Struct, kw_only=True):
    """A fine-tuning waits or runs."""

    ok: Literal[True] = True
    job_id: str
    adapter_path: str


class DatasetQuestion(Struct, kw_only=True):
    """What `POST /api/finetune/inspect-dataset` takes."""

    path: str


class DatasetFacts(Struct, kw_only=True):
    """What a data set is."""

    ok: Annotated[bool, Meta(description="false: it cannot be read")]
    n_train: int = 0
    n_valid: int = 0
    format: Literal["messages", "prompt-completion", "text", "dpo", "unknown"] = "unknown"
    error: Annotated[str | UnsetType, Meta(description="when `ok` is false")] = UNSET


def submitted(fields: dict[str, Any], adapters: Path, moment: int) -> dict[str, Any] | None:
    """Return what a fine-tuning is to be told; None: it is not said of what.

    Args:
        fields: the body's.
        adapters: the folder for adapters whose place was not named.
        moment: milliseconds since 1970, that no other one has.
    """
    if not (text_in(fields, "model_dir") and text_in(fields, "data_dir")):
        return None
    if fields.get("adapter_path") in (None, ""):
        return fields | {"adapter_path": str(adapters / f"adapter-{moment}")}
    return fields


def facts_body(inspection: Inspection) -> DatasetFacts:
    """Return the body that tells of a data set."""
    return DatasetFacts(
        ok=True,
        n_train=inspection.n_train,
        n_valid=inspection.n_valid,
        format=inspection.format,  # type: ignore[arg-type]
    )


def no_facts_body(error: str) -> DatasetFacts:
    """Return the body that tells why a data set cannot be read."""
    return DatasetFacts(ok=False, error=clean(error))
