"""How far `mlxbun fit` is off: its estimates beside `mx.get_peak_memory`, as a Markdown table.

    python -m benchmarks.fit_error                 # small random models of every layer kind
    python -m benchmarks.fit_error --model FOLDER  # and a real one

Each model is loaded and run as the engine does: prompts in its chunks, then some tokens. The peak
is the widest moment of loading and of three ways to reach a context: a prompt that fills it, an
answer for which the caches grow, and rows that join one after another.
"""

from __future__ import annotations

import argparse
import gc
import json
import os
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from core.fit.families import read_shape
from core.fit.host import host_of
from core.fit.memory import PREFILL_CPU, Computing, Estimator
from core.fit.weights import local_tensors, weigh
from core.machine.compute import ComputePlan, prepare_compute
from core.units import format_bytes

if TYPE_CHECKING:
    from core.engine.batch import BatchRunner

BUDGET_GB = 8.0
CASES = ((256, 1), (1024, 1), (2048, 1), (1024, 4))
LARGE_CASES = ((512, 1), (2048, 1), (4096, 1), (1024, 4))
_ANSWER = 4  # tokens
_GROWTH = 256  # tokens by which caches grow

_LLAMA: dict[str, Any] = {
    "model_type": "llama",
    "hidden_size": 384,
    "num_hidden_layers": 6,
    "intermediate_size": 1024,
    "num_attention_heads": 6,
    "num_key_value_heads": 3,
    "head_dim": 64,
    "rms_norm_eps": 1e-5,
    "vocab_size": 8192,
    "rope_theta": 10000.0,
    "tie_word_embeddings": True,
    "max_position_embeddings": 16384,
    "eos_token_id": 300,
    "torch_dtype": "float32",
}
_LATENT: dict[str, Any] = {
    "moe_intermediate_size": 256,
    "n_routed_experts": 8,
    "num_experts_per_tok": 2,
    "n_shared_experts": 1,
    "first_k_dense_replace": 1,
    "kv_lora_rank": 128,
    "q_lora_rank": 192,
    "qk_rope_head_dim": 32,
    "qk_nope_head_dim": 64,
    "v_head_dim": 64,
    "n_group": 1,
    "topk_group": 1,
}
_YARN = {
    "type": "yarn",
    "factor": 40,
    "beta_fast": 32,
    "beta_slow": 1,
    "mscale": 1.0,
    "mscale_all_dim": 1.0,
    "original_max_position_embeddings": 4096,
}
_MIXERS: dict[str, Any] = {
    "mamba_n_heads": 12,
    "mamba_d_head": 64,
    "mamba_d_state": 64,
    "mamba_d_conv": 4,
    "mamba_n_groups": 1,
    "mamba_conv_bias": True,
    "mamba_proj_bias": False,
}
MODELS: dict[str, dict[str, Any]] = {
    "llama": _LLAMA,
    "qwen2": _LLAMA | {"model_type": "qwen2"},
    "qwen3": _LLAMA | {"model_type": "qwen3"},
    "phi3": _LLAMA | {"model_type": "phi3", "tie_word_embeddings": False},
    "gemma3_text": _LLAMA
    | {
        "model_type": "gemma3_text",
        "sliding_window": 256,
        "sliding_window_pattern": 3,
        "query_pre_attn_scalar": 64,
    },
    "gpt_oss": _LLAMA
    | {
        "model_type": "gpt_oss",
        "intermediate_size": 256,
        "num_local_experts": 8,
        "num_experts_per_tok": 2,
        "sliding_window": 128,
        "tie_word_embeddings": False,
    },
    "qwen2_moe": _LLAMA
    | {
        "model_type": "qwen2_moe",
        "num_experts": 8,
        "num_experts_per_tok": 2,
        "moe_intermediate_size": 256,
        "shared_expert_intermediate_size": 512,
    },
    "deepseek_v2": _LLAMA
    | _LATENT
    | {"model_type": "deepseek_v2", "topk_method": "greedy", "rope_scaling": _YARN},
    "deepseek_v3": _LLAMA | _LATENT | {"model_type": "deepseek_v3"},
    "mamba2": {
        "model_type": "mamba2",
        "num_heads": 12,
        "head_dim": 64,
        "vocab_size": 8192,
        "hidden_size": 384,
        "intermediate_size": 768,
        "state_size": 64,
        "num_hidden_layers": 12,
        "layer_norm_epsilon": 1e-5,
        "conv_kernel": 4,
        "n_groups": 1,
        "use_bias": False,
        "use_conv_bias": True,
        "tie_word_embeddings": True,
        "time_step_limit": [0.0, 10.0],
        "time_step_rank": "auto",
        "max_position_embeddings": 16384,
        "eos_token_id": 300,
        "torch_dtype": "float32",
    },
    "lfm2": _LLAMA
    | {
        "model_type": "lfm2",
        "norm_eps": 1e-5,
        "conv_bias": False,
        "conv_L_cache": 3,
        "block_dim": 384,
        "block_ff_dim": 1024,
        "block_multiple_of": 32,
        "block_ffn_dim_multiplier": 1.0,
        "block_auto_adjust_ff_dim": False,
        "layer_types": ["conv", "conv", "full_attention"] * 2,
    },
    "qwen3_next": _LLAMA
    | {
        "model_type": "qwen3_next",
        "linear_num_value_heads": 4,
        "linear_num_key_heads": 2,
        "linear_key_head_dim": 64,
        "linear_value_head_dim": 64,
        "linear_conv_kernel_dim": 4,
        "num_experts": 8,
        "num_experts_per_tok": 2,
        "decoder_sparse_step": 1,
        "shared_expert_intermediate_size": 256,
        "mlp_only_layers": [],
        "moe_intermediate_size": 256,
        "norm_topk_prob": True,
        "partial_rotary_factor": 0.5,
        "full_attention_interval": 2,
    },
    "granitemoehybrid": _LLAMA
    | _MIXERS
    | {
        "model_type": "granitemoehybrid",
        "logits_scaling": 1.0,
        "attention_multiplier": 1.0,
        "embedding_multiplier": 1.0,
        "residual_multiplier": 1.0,
        "attention_bias": False,
        "layer_types": ["mamba", "mamba", "attention"] * 2,
        "num_local_experts": 8,
        "num_experts_per_tok": 2,
        "intermediate_size": 256,
        "shared_intermediate_size": 512,
    },
}


@dataclass(frozen=True, kw_only=True)
class Peak:
    """One comparison. Bytes."""

    context: int
    """Tokens of each row."""
    rows: int
    """Rows that ran together."""
    estimated: int
    """What `mlxbun fit` says of the peak."""
    measured: int
    """What MLX says of it."""
    weights: int
    """The part of it that the weights are."""

    @property
    def error(self) -> float:
        """The estimate's error, as a part of what was measured."""
        return self.estimated / self.measured - 1

    @property
    def rest_error(self) -> float:
        """The same of what is needed beside the weights."""
        return (self.estimated - self.weights) / (self.measured - self.weights) - 1


def estimator_of(folder: Path, plan: ComputePlan) -> Estimator:
    """Return the estimator of a model folder on this machine."""
    config = json.loads((folder / "config.json").read_text(encoding="utf-8"))
    weights = weigh(local_tensors(folder), config)
    shape = read_shape(config, vocabulary=weights.vocabulary)
    host = host_of(plan, BUDGET_GB)
    computing = Computing(gpu=host.gpu, storage=host.storage(weights), compiled=host.compiled)
    return Estimator(shape, weights, computing)


def compare(folder: Path, plan: ComputePlan, cases: tuple[tuple[int, int], ...]) -> list[Peak]:
    """Load a model and compare its peaks with the estimates.

    Args:
        folder: the model.
        plan: how to compute; its BLAS is in this process.
        cases: (context, rows) of each comparison.
    """
    import mlx.core as mx

    from core.engine.loader import load
    from core.engine.request import SamplingParams

    estimator = estimator_of(folder, plan)
    gc.collect()
    mx.clear_cache()
    before = mx.get_active_memory()
    mx.reset_peak_memory()
    loaded = load(
        folder,
        model_id=folder.name,
        plan=plan,
        defaults=SamplingParams(),
        memory_budget_gb=BUDGET_GB,
    )
    loading = mx.get_peak_memory() - before
    peaks = []
    for context, rows in cases:
        running = max(way(loaded.model, context, rows, before) for way in _WAYS)
        peaks.append(
            Peak(
                context=context,
                rows=rows,
                estimated=estimator.memory(context=context, rows=rows).total_bytes,
                measured=max(loading, running),
                weights=loaded.info.weights_bytes,
            )
        )
    return peaks


def _fill(model: Any, context: int, rows: int, before: int) -> int:
    """Return the peak of prompts that fill the context together."""
    with _Run(model, rows, before) as run:
        run.start(rows, context - _ANSWER)
        run.finish(rows)
        return run.peak


def _grow(model: Any, context: int, rows: int, before: int) -> int:
    """Return the peak of answers for which caches grow to the context."""
    if context <= 2 * _GROWTH:
        return 0
    with _Run(model, rows, before) as run:
        run.start(rows, context - _GROWTH)
        run.finish(rows)
        return run.peak


def _join(model: Any, context: int, rows: int, before: int) -> int:
    """Return the peak of rows that come one after another."""
    if rows == 1:
        return 0
    meanwhile = -(-context // PREFILL_CPU) + 1  # steps that others decode while one is computed
    with _Run(model, rows, before) as run:
        for count in range(1, rows + 1):
            run.start(1, context - (_ANSWER + meanwhile) * rows)
            run.finish(count)
        return run.peak


_WAYS = (_fill, _grow, _join)


class _Run:
    """One batch, from empty to empty."""

    def __init__(self, model: Any, rows: int, before: int) -> None:
        import mlx.core as mx

        from core.engine.batch import BatchRunner

        gc.collect()
        mx.clear_cache()
        mx.reset_peak_memory()
        self._before = before
        self._runner: BatchRunner = BatchRunner(
            model, eos_ids=[], cap=rows, most_prefill_tokens=PREFILL_CPU
        )

    def __enter__(self) -> _Run:
        return self

    def __exit__(self, *problem: object) -> None:
        self._runner.close()
        del self._runner
        gc.collect()

    def start(self, rows: int, tokens: int) -> None:
        """Insert rows with prompts of so many tokens."""
        from core.engine.request import SamplingParams

        sampling = SamplingParams(temperature=0.7, top_p=0.0, top_k=0, min_p=0.0, seed=1)
        for row in range(rows):
            prompt = [(7 * i + row) % 250 for i in range(tokens)]
            self._runner.insert([prompt], max_tokens=10**6, sampling=sampling)

    def finish(self, decoding: int) -> None:
        """Compute the prompts until so many rows decode, and some tokens of each."""
        while self._runner.decoding < decoding:
            self._runner.step(PREFILL_CPU)
        for _ in range(_ANSWER - 1):
            self._runner.step(PREFILL_CPU)
        self._runner.settle()

    @property
    def peak(self) -> int:
        """Bytes at the widest moment so far, weights included."""
        import mlx.core as mx

        return int(mx.get_peak_memory()) - self._before


def row_of(name: str, kinds: str, peaks: list[Peak]) -> str:
    """Return a row of a Markdown table: estimate / measured at each case, and the worst errors."""
    cells = [
        f"{_mb(peak.estimated)} / {_mb(peak.measured)} ({100 * peak.error:+.1f}%)" for peak in peaks
    ]
    rest = max((peak.rest_error for peak in peaks), key=abs)
    return f"| {name} | {kinds} | {_mb(peaks[0].weights)} | {' | '.join(cells)} | {rest:+.0%} |"


def main() -> None:
    from tests.tiny import make_model

    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--model", type=Path, action="append", default=[])
    parser.add_argument("--only", nargs="*", default=None, help="names of small models")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as scratch:
        plan = prepare_compute(
            blas="auto", dequantize="auto", cache=Path(scratch), environ=dict(os.environ)
        )
        chosen = MODELS if given.only is None else {name: MODELS[name] for name in given.only}
        if chosen:
            _print_head(CASES)
        for name, config in chosen.items():
            folder = make_model(Path(scratch) / name, config=config)
            print(row_of(name, _kinds(folder, plan), compare(folder, plan, CASES)), flush=True)
        for folder in given.model:
            _print_head(LARGE_CASES)
            name = folder.parent.parent.name.rpartition("--")[2] or folder.name
            print(row_of(name, _kinds(folder, plan), compare(folder, plan, LARGE_CASES)))


def _print_head(cases: tuple[tuple[int, int], ...]) -> None:
    told = " | ".join(f"{context:,} x {rows}" for context, rows in cases)
    print(f"\n| model | layers | weights | {told} | rest, worst |")
    print(f"| --- | --- | ---: |{' ---: |' * (len(cases) + 1)}")


def _mb(count: int) -> str:
    return format_bytes(count).removesuffix(" MB")


def _kinds(folder: Path, plan: ComputePlan) -> str:
    kinds = estimator_of(folder, plan).shape.kinds()
    return ", ".join(f"{count} {kind}" for kind, count in kinds.items())


if __name__ == "__main__":
    main()
