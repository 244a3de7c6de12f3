"""What an engine tells about itself. Imports no arrays."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

from core.engine.cache.store import PromptCacheStats
from core.engine.events import Shares
from core.engine.request import SamplingParams
from core.fit.batching import Batching
from core.fit.kv import KvShape

_TOGETHER = Batching(mode="padded")


@dataclass(frozen=True, kw_only=True)
class MountedAdapter:
    """An adapter on the model in memory."""

    folder: Path
    """Where its files lie."""
    layers: int
    """Layers that have one; 0: its files replaced the model's own weights."""
    nbytes: int
    """Memory that its matrices take."""


@dataclass(frozen=True, kw_only=True)
class ModelInfo:
    """The model in memory."""

    model_id: str
    """Repo id, or the folder's name."""
    model_type: str
    """The architecture's name in config.json: `llama`."""
    context_window: int
    """Tokens that prompt and answer may take together."""
    parameters: int
    """Weights, counted unpacked."""
    quantization: str
    """As on disk: `4-bit (group 32)`, `float16`."""
    loaded_as: str
    """As in memory: `float32 (unpacked)`, or the same as `quantization`."""
    weights_bytes: int
    """Memory that the weights take as loaded."""
    has_chat_template: bool
    """Whether the tokenizer brings a chat template."""
    defaults: SamplingParams
    """What applies when a request leaves a field out; every field but the seed is set."""
    chosen_defaults: SamplingParams = field(default_factory=SamplingParams)
    """The defaults that the server or the model's authors chose; None: ours applies."""
    kv: KvShape | None = None
    """What its layers keep of a row; None: not known."""
    folder: Path | None = None
    """Where its files lie."""
    vocabulary_size: int | None = None
    """Tokens that it can generate, ids from 0; None: not known."""
    shares: Shares | None = None
    """How the time of a decode step is divided; None: not known."""
    trainable: bool | None = None
    """Whether its architecture can be trained; None: not looked at."""
    tools: bool = False
    """Whether its chat template tells it of tools and its calls can be read."""
    reasoning: bool = False
    """Whether it has a reasoning channel that is known here."""
    adapter: str | None = None
    """The folder's name of the adapter that all its answers are given with; None: it has none."""
    mounted: MountedAdapter | None = None
    """The same adapter as it lies in memory."""
    notes: tuple[str, ...] = ()
    """What of its files cannot be applied, one sentence each."""
    forms: bool = True
    """Whether the forms of answers are enforced: not with `MLXBUN_GRAMMAR=0`, nor without
    xgrammar."""
    batching: Batching = _TOGETHER
    """How rows run together on it; on an engine of one row `serial`, without a reason."""


@dataclass(frozen=True, kw_only=True)
class ComputeInfo:
    """How this process computes."""

    device: str
    """`cpu`, `metal` or `cuda`."""
    blas: str
    """The library that multiplies float32 on a CPU; `-` elsewhere."""
    compiler: str
    """Whether MLX may compile fused CPU kernels: a path, `none`, or `-` elsewhere."""
    notes: tuple[str, ...]
    """What to know or to fix, one sentence each."""


@dataclass(frozen=True, kw_only=True)
class EngineStats:
    """Counters at one moment."""

    batch: int
    """Rows that may run together, if the model lets them; 1 is serial."""
    loaded: bool
    """Whether the model is in memory."""
    active_rows: int
    """Rows in prefill or decode."""
    waiting_rows: int
    """Requests that wait for a row."""
    submitted_rows: int
    """Requests accepted since the start."""
    finished_rows: int
    """Answers that came to their end."""
    cancelled_rows: int
    """Answers whose caller left."""
    failed_rows: int
    """Answers that ended with an error."""
    kv_bytes: int
    """KV cache of the running rows."""
    prompt_tokens: int
    """Prompt tokens computed since the start."""
    generated_tokens: int
    """Tokens generated since the start."""
    memory_bytes: int
    """Memory that MLX holds in live arrays."""
    memory_peak_bytes: int
    """The most it held."""
    memory_cache_bytes: int
    """Memory that MLX keeps for reuse."""
    memory_budget_bytes: int
    """What weights and caches may take."""
    max_context: int
    """Tokens of prompt and answer that fit the model and the memory."""
    prompt_cache: PromptCacheStats
    """What is kept of prompts that were computed before."""
    kv_budget_bytes: int | None = None
    """Most bytes of KV that running rows may take together; None: no limit of its own."""
