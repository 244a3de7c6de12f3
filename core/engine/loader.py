"""From a local folder to a model in memory, computed as the plan says. Opens no connection.

Runs on the engine's thread: MLX arrays belong to the thread that made them.
"""

from __future__ import annotations

import json
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Any

import mlx.core as mx
from mlx.utils import tree_flatten
from mlx_lm.models.cache import make_prompt_cache
from mlx_lm.utils import (
    dequantize_model,
    get_total_parameters,
    load_config,
    load_model,
)

from core.engine.cache.snapshot import always_cuttable
from core.engine.device import device_name, recommended_working_set
from core.engine.info import ComputeInfo, ModelInfo
from core.engine.measure import measure_kv
from core.engine.request import SamplingParams, ToneCurve
from core.engine.tokenizer import Tokenizer
from core.errors import BadModelFiles, BadRequest, DoesNotFit, MlxbunError
from core.fit.admission import Admission, transient_bytes
from core.registry.weights import check_weights, count_tensors
from core.units import format_bytes

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

    from core.engine.tokenizer_card import CardShelf
    from core.machine.compute import ComputePlan
    from core.machine.threads import ThreadKeeper

_NO_CONTEXT_LIMIT = 2**31 - 1
_LEAST_CONTEXT = 64
# What a step's transients are sized for: a prefill chunk, and rows that decode.
_PREFILL_TOKENS = 512
_ROWS = 8
_ENDLESS = (
    "No token that ends an answer is in this model's vocabulary: answers end at max_tokens or when "
    "the context is full."
)
_BUILT_IN = SamplingParams(
    temperature=0.7,
    top_p=0.0,
    top_k=0,
    min_p=0.0,
    xtc_probability=0.0,
    xtc_threshold=0.1,
    repetition_penalty=0.0,
    repetition_context_size=20,
    presence_penalty=0.0,
    presence_context_size=20,
    frequency_penalty=0.0,
    frequency_context_size=20,
    logit_bias=(),
    tone_curve=ToneCurve(enabled=False, width=4.0, shoulder=4.0, toe=6.0, pivot_offset=6.0),
)


@dataclass(frozen=True, kw_only=True)
class LoadedModel:
    """A model ready to run."""

    model: Any
    """The mlx-lm module: `model(tokens [B, T], cache)` → logits [B, T, V]."""
    tokenizer: Tokenizer
    """Its tokenizer."""
    info: ModelInfo
    """What it is."""
    compute: ComputeInfo
    """How it computes."""
    budget_bytes: int
    """What weights and caches may take."""
    admission: Admission
    """The memory that rows share."""
    threads: ThreadKeeper | None
    """Keeps the BLAS from fighting for cores; None where it does not apply."""
    cuttable: bool
    """Whether its KV can be cut to any shorter prefix."""


def load(
    folder: Path,
    *,
    model_id: str,
    plan: ComputePlan,
    defaults: SamplingParams,
    memory_budget_gb: float | None,
    shelf: CardShelf | None = None,
    adapter: Path | None = None,
) -> LoadedModel:
    """Load a model folder.

    Args:
        folder: config.json, tokenizer files and model*.safetensors.
        model_id: what clients will call it.
        plan: how to compute.
        defaults: the server's sampling defaults; what is None there comes from the model.
        memory_budget_gb: memory for weights and caches in GB (10^9 bytes), or None.
        shelf: where tokenizers are kept between starts, or None.
        adapter: the folder of one to put on it, or None.

    Raises:
        BadModelFiles: files are missing, cut short, or of a kind that mlx-lm does not know.
        DoesNotFit: the weights alone exceed the budget.
    """
    if not plan.compile_kernels:
        mx.disable_compile()
    budget = plan.budget_bytes(memory_budget_gb, recommended_working_set())
    refuse_oversized(folder, budget)
    with blaming_files(folder), ThreadPoolExecutor(1) as pool:
        refuse_absurd(folder)
        model, config = load_model(folder, lazy=True)
        # Text is read while the weights are.
        text = pool.submit(Tokenizer.load, folder, eos_ids=config.get("eos_token_id"), shelf=shelf)
        parameters = int(get_total_parameters(model))
        loaded_as = _settle_weights(model, parameters, describe_storage(config), plan, budget)
        if adapter:
            mount_adapter(model, adapter)
            loaded_as += f", adapter {adapter.name}"
        mx.eval(model.parameters())
        tokenizer = text.result()
        vocabulary_size = _vocabulary_size(model)
        tokenizer.limit(vocabulary_size)
        weights = sum(array.nbytes for _, array in tree_flatten(model.parameters()))
        admission = _admission(model, config, budget, weights)
        cuttable = always_cuttable(make_prompt_cache(model))
    info = ModelInfo(
        model_id=model_id,
        model_type=str(config.get("model_type", "unknown")),
        context_window=_context_window(config),
        parameters=parameters,
        quantization=describe_storage(config),
        loaded_as=loaded_as,
        weights_bytes=weights,
        has_chat_template=tokenizer.has_chat_template,
        defaults=merge_sampling(defaults, _model_defaults(folder), _BUILT_IN),
        folder=folder,
        vocabulary_size=vocabulary_size,
        adapter=adapter.name if adapter else None,
    )
    return LoadedModel(
        model=model,
        tokenizer=tokenizer,
        info=info,
        compute=_describe_compute(plan, endless=not tokenizer.eos_ids),
        budget_bytes=budget,
        admission=admission,
        threads=plan.threads,
        cuttable=cuttable,
    )


def mount_adapter(model: Any, folder: Path) -> None:
    """Put an adapter on a model, by mlx-lm's own loader.

    An engine has one adapter for its whole life, so its prompt cache holds the KV of no other.

    Args:
        model: an mlx-lm model.
        folder: the adapter's.

    Raises:
        BadModelFiles: the adapter's files are broken, or made for another model.
    """
    from mlx_lm.tuner.utils import load_adapters

    try:
        load_adapters(model, str(folder))
    # Foreign code on foreign files: whatever it raises, they cannot be used.
    except Exception as problem:
        reason = " ".join(str(problem).split())[:300]
        raise BadModelFiles(
            f"The adapter in {folder} cannot be put on this model: {reason}",
            hint="Use it with the model it was trained on; `mlxbun adapters inspect` names it.",
        ) from problem
    model.eval()


@contextmanager
def blaming_files(folder: Path) -> Iterator[None]:
    """Turn what mlx-lm raises on files that it cannot use into an error of ours.

    Raises:
        BadModelFiles: anything of that kind was raised.
    """
    try:
        yield
    except MlxbunError:
        raise
    # Foreign code on foreign files: whatever it raises, they cannot be used.
    except Exception as problem:
        raise BadModelFiles(
            f"The model in {folder} cannot be loaded: {_one_line(problem)}",
            hint="Download it again, or check that mlx-lm supports this architecture.",
        ) from problem


def _describe_compute(plan: ComputePlan, *, endless: bool) -> ComputeInfo:
    notes = (*plan.notes, _ENDLESS) if endless else plan.notes
    return ComputeInfo(device=device_name(), blas=plan.blas, compiler=plan.compiler, notes=notes)


def merge_sampling(*layers: SamplingParams) -> SamplingParams:
    """Return the first value that is set for each field, looking through `layers` in order.

    The tone curve's fields are looked for one by one.
    """
    curves = [layer.tone_curve for layer in layers if layer.tone_curve]
    tone_curve = ToneCurve(**_first_set(curves)) if curves else None
    return SamplingParams(**(_first_set(layers) | {"tone_curve": tone_curve}))


def check_bias(sampling: SamplingParams, vocabulary: int | None) -> None:
    """Check that every biased token is one.

    Args:
        sampling: how tokens are to be chosen.
        vocabulary: how many tokens there are; None: not known, and nothing is checked.

    Raises:
        BadRequest: one is not.
    """
    for token, _ in sampling.logit_bias or ():
        if vocabulary is not None and not 0 <= token < vocabulary:
            raise BadRequest(
                f"logit_bias names token {token}, but this model's vocabulary has the tokens "
                f"0 to {vocabulary - 1}",
                field="logit_bias",
            )


def _first_set(layers: Sequence[SamplingParams] | Sequence[ToneCurve]) -> dict[str, Any]:
    """Return the first value that is set for each field of some dataclasses of one type."""
    return {
        field.name: next(
            (value for layer in layers if (value := getattr(layer, field.name)) is not None), None
        )
        for field in fields(layers[0])
    }


def refuse_oversized(folder: Path, budget: int) -> None:
    """Refuse a model whose weights alone exceed the budget.

    Raises:
        DoesNotFit: they do.
    """
    need = check_weights(folder)
    if need > budget:
        raise DoesNotFit(
            f"The weights take {format_bytes(need)}, but the memory budget is "
            f"{format_bytes(budget)}.",
            need=need,
            have=budget,
            hint="Use a smaller or more strongly quantized model, or raise --memory-budget.",
        )


def _settle_weights(
    model: Any, parameters: int, stored_as: str, plan: ComputePlan, budget: int
) -> str:
    """Give the weights the form that the plan wants; all of it is exact. Return its name."""
    if plan.unpack_weights(4 * parameters, budget):
        unpack_weights(model)
        return "float32 (unpacked)"
    packed = any(hasattr(module, "scales") for module in model.modules())
    if packed and plan.widen_scales:
        model.set_dtype(mx.float32)
        return f"{stored_as}, float32 scales"
    return stored_as


def refuse_absurd(folder: Path) -> None:
    """Refuse a config that promises more layers than there are tensors, before they are built."""
    config = load_config(folder)
    layers = (config.get("text_config") or config).get("num_hidden_layers")
    tensors = count_tensors(folder)
    if isinstance(layers, int) and layers > tensors:
        raise ValueError(f"config.json promises {layers} layers, but there are {tensors} tensors")


def unpack_weights(model: Any) -> None:
    """Turn every weight into float32, exactly: scales first, so that no product is rounded."""
    model.set_dtype(mx.float32)
    dequantize_model(model)
    model.set_dtype(mx.float32)  # block formats without float scales unpack to bfloat16


def _admission(model: Any, config: dict[str, Any], budget: int, weights: int) -> Admission:
    """Return the memory that rows share.

    Raises:
        DoesNotFit: the weights leave none.
    """
    sizes = config.get("text_config") or config
    transients = transient_bytes(
        prefill_tokens=_PREFILL_TOKENS,
        rows=_ROWS,
        hidden=int(sizes.get("hidden_size") or 4096),
        vocabulary=int(sizes.get("vocab_size") or 128_000),
    )
    room = max(0, budget - weights - transients)
    admission = Admission(
        kv=measure_kv(model), room_bytes=room, context_window=_context_window(config)
    )
    if admission.max_context < _LEAST_CONTEXT:
        need = weights + transients + 2 * admission.kv.row_bytes(_LEAST_CONTEXT)
        raise DoesNotFit(
            f"The weights take {format_bytes(weights)} of the memory budget of "
            f"{format_bytes(budget)} and leave no room for a context.",
            need=need,
            have=budget,
            hint="Use a smaller or more strongly quantized model, or raise --memory-budget.",
        )
    return admission


def _context_window(config: dict[str, Any]) -> int:
    for scope in (config, config.get("text_config") or {}):
        for key in ("max_position_embeddings", "n_positions", "max_seq_len", "seq_length"):
            if isinstance(scope.get(key), int) and scope[key] > 0:
                return int(scope[key])
    return _NO_CONTEXT_LIMIT


def _vocabulary_size(model: Any) -> int:
    """Return how many logits a step has: of the model itself, whatever its config says.

    Nothing is computed: arrays know their shapes before they are evaluated.
    """
    return int(model(mx.array([[0]]), cache=make_prompt_cache(model)).shape[-1])


def _model_defaults(folder: Path) -> SamplingParams:
    """Return what the model's authors recommend; a broken file recommends nothing."""
    try:
        given = json.loads((folder / "generation_config.json").read_text(encoding="utf-8"))
    except (OSError, ValueError):
        given = None
    if not isinstance(given, dict):
        return SamplingParams()

    def number(key: str, kind: type[int] | type[float]) -> Any:
        value = given.get(key)
        if isinstance(value, int | float) and not isinstance(value, bool) and value >= 0:
            return kind(value)
        return None

    return SamplingParams(
        temperature=number("temperature", float),
        top_p=number("top_p", float),
        top_k=number("top_k", int),
        min_p=number("min_p", float),
    )


def describe_storage(config: dict[str, Any]) -> str:
    """Return how the weights lie on disk, for people."""
    quantization = config.get("quantization")
    if isinstance(quantization, dict) and "bits" in quantization:
        return f"{quantization['bits']}-bit (group {quantization.get('group_size')})"
    text = config.get("text_config") or {}
    return str(config.get("torch_dtype") or config.get("dtype") or text.get("dtype") or "unpacked")


def _one_line(problem: Exception) -> str:
    text = " ".join(str(problem).split())
    if not isinstance(problem, OSError | ValueError | RuntimeError) or not text:
        text = f"{type(problem).__name__} {text}".strip()  # a bare key says nothing
    return text if len(text) <= 300 else text[:297] + "..."
