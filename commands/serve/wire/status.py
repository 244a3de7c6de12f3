"""The server's own objects: the API index, health and statistics."""

from __future__ import annotations

from typing import Annotated, Literal

from msgspec import Meta, Struct, field


class ApiIndex(Struct, kw_only=True):
    """What can be asked for here."""

    name: Literal["mlxbun"] = "mlxbun"
    version: str
    model: str
    endpoints: list[str]


class Health(Struct, kw_only=True):
    """The server answers."""

    status: Literal["ok"] = "ok"


class ServerStats(Struct, kw_only=True):
    """The process."""

    owner: Literal["serve"] = "serve"
    model: str
    loaded: Annotated[bool, Meta(description="false: the next request loads the model again")]
    started_at: Annotated[int, Meta(description="Unix milliseconds")]


class ComputeStats(Struct, kw_only=True):
    """How it computes."""

    device: str
    blas: str
    compiler: str
    weights: Annotated[str, Meta(description="the weights' form in memory")]
    notes: list[str]


class AttentionStats(Struct, kw_only=True):
    """How many layers look back how far."""

    global_: Annotated[int, Meta(description="over the whole context")] = field(name="global")
    sliding_window: Annotated[int, Meta(description="over the last tokens only")]


class KvQuantStats(Struct, kw_only=True):
    """How the KV cache is kept; `bf16` means not quantized."""

    mode: Literal["bf16"] = "bf16"
    layers: Annotated[dict[str, int], Meta(description="attention layers by how their KV is kept")]
    attention: AttentionStats


class AdmissionStats(Struct, kw_only=True):
    """What a request may take."""

    max_safe_context: Annotated[int, Meta(description="tokens of prompt and answer")]
    memory_budget_bytes: Annotated[
        int | None, Meta(description="the budget that was asked for; null is the machine's default")
    ]
    usable_bytes: Annotated[int, Meta(description="what weights and caches may take")]
    weights_bytes: int


class BatchStats(Struct, kw_only=True):
    """The rows that are decoded together."""

    configured: int
    mode: Annotated[
        Literal["off", "serial", "batch"],
        Meta(description="off: --batch 1; serial: the model answers one request at a time"),
    ]
    batched: Annotated[bool, Meta(description="whether rows are decoded together")]
    prompts: Annotated[
        Literal["together", "one by one"], Meta(description="how prompts are computed")
    ]
    reason: Annotated[str | None, Meta(description="why the model does not run otherwise")]
    active_rows: int
    pending_rows: int
    submitted_rows: int
    kv_bytes: int
    kv_budget_bytes: Annotated[
        int, Meta(description="--kv-budget; without it what the weights leave of usable_bytes")
    ]


class MemoryStats(Struct, kw_only=True):
    """What MLX holds."""

    active_bytes: int
    peak_bytes: int
    cache_bytes: int


class PromptCacheStats(Struct, kw_only=True):
    """What is kept of prompts that were computed before."""

    entries: int
    bytes: int
    max_bytes: Annotated[int, Meta(description="running rows included; 0 is off")]
    hits: Annotated[int, Meta(description="prompts whose beginning was found")]
    misses: int
    hit_tokens: Annotated[int, Meta(description="prompt tokens that needed no computing")]


class ResponseStoreStats(Struct, kw_only=True):
    """The answers kept for `previous_response_id`: none until there is a Responses API."""

    entries: int = 0
    bytes: int = 0
    max_bytes: int = 32 * 2**20
    ttl_ms: int = 3_600_000


class RequestStats(Struct, kw_only=True):
    """What was asked since the start."""

    submitted: int
    active: int
    waiting: int
    finished: int
    cancelled: int
    failed: int
    prompt_tokens: int
    generated_tokens: int


class Stats(Struct, kw_only=True):
    """The body of `GET /stats`."""

    model: str
    server: ServerStats
    compute: ComputeStats
    prompt_cache: PromptCacheStats
    response_store: ResponseStoreStats
    kv_quant: KvQuantStats
    admission: AdmissionStats
    batch: BatchStats
    memory: MemoryStats
    requests: RequestStats
