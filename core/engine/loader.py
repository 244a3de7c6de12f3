"""From a local folder to a model in memory, computed as the plan says. Opens no connection.

Runs on the engine's thread: MLX arrays belong to the thread that made them.
"""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import mlx.core as mx
from mlx import nn
from mlx.utils import tree_flatten
from mlx_lm.models.cache import make_prompt_cache
from mlx_lm.models.switch_layers import QuantizedSwitchLinear, SwitchLinear
from mlx_lm.utils import (
    dequantize_model,
    get_total_parameters,
    load_config,
    load_model,
)

from core.engine.blame import blaming_files
from core.engine.cache.snapshot import always_cuttable
from core.engine.device import device_name, recommended_working_set
from core.engine.events import Shares
from core.engine.info import ComputeInfo, ModelInfo, MountedAdapter
from core.engine.measure import measure_kv
from core.engine.recommended import read_recommended
from core.engine.request import SamplingParams, ToneCurve
from core.engine.slim import import_tuner
from core.engine.tokenizer import Tokenizer
from core.errors import BadModelFiles, BadRequest, DoesNotFit
from core.fit.admission import Admission, transient_bytes
from core.registry.adapters import fit_to_layers, read_form, require_fit
from core.registry.files import refuse_special_files
from core.registry.weights import check_weights, count_tensors
from core.units import GB, format_bytes

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from core.engine.tokenizer_card import CardShelf
    from core.machine.compute import ComputePlan
    from core.machine.threads import ThreadKeeper

# What mlx-lm puts adapters on (`linear_to_lora_layers`).
_ADAPTED = (
    nn.Linear,
    nn.QuantizedLinear,
    nn.Embedding,
    nn.QuantizedEmbedding,
    SwitchLinear,
    QuantizedSwitchLinear,
)
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
    recommended = read_recommended(folder)
    with blaming_files(folder), ThreadPoolExecutor(1) as pool:
        refuse_absurd(folder)
        model, config = load_model(folder, lazy=True)
        # Text is read while the weights are.
        text = pool.submit(Tokenizer.load, folder, eos_ids=config.get("eos_token_id"), shelf=shelf)
        parameters = int(get_total_parameters(model))
        loaded_as = _settle_weights(model, parameters, describe_storage(config), plan, budget)
        if adapter:
            mount_adapter(model, adapter, model_id=model_id)
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
        defaults=merge_sampling(defaults, recommended.sampling, _BUILT_IN),
        chosen_defaults=merge_sampling(defaults, recommended.sampling),
        notes=recommended.notes if tokenizer.eos_ids else (*recommended.notes, _ENDLESS),
        folder=folder,
        vocabulary_size=vocabulary_size,
        adapter=adapter.name if adapter else None,
        kv=admission.kv,
        shares=_shares(config, vocabulary_size, parameters=parameters, weights=weights),
        mounted=_mounted(model, adapter) if adapter else None,
    )
    return LoadedModel(
        model=model,
        tokenizer=tokenizer,
        info=info,
        compute=_describe_compute(plan),
        budget_bytes=budget,
        admission=admission,
        threads=plan.threads,
        cuttable=cuttable,
    )


def read_tokenizer(folder: Path, shelf: CardShelf | None) -> Tokenizer:
    """Return the tokenizer of a model folder; no weights are read.

    Args:
        folder: the model's.
        shelf: where tokenizers are kept between starts, or None.

    Raises:
        BadModelFiles: its files cannot be used.
    """
    with blaming_files(folder):
        eos_ids = load_config(folder).get("eos_token_id")
        return Tokenizer.load(folder, eos_ids=eos_ids, shelf=shelf)


def mount_adapter(model: Any, folder: Path, *, model_id: str = "this model") -> None:
    """Put an adapter on a model, by mlx-lm's own loader.

    mlx-lm leaves a missing matrix at its random initial value, so the adapter is checked first.
    An engine has one adapter for its whole life, so its prompt cache holds the KV of no other.

    Args:
        model: an mlx-lm model.
        folder: the adapter's.
        model_id: what users call the model.

    Raises:
        BadModelFiles: the adapter's files are broken, or made for another model.
    """
    form = read_form(folder)
    if form.kind != "full":
        require_fit(form, fit_to_layers(form, layers_of(model), model_id=model_id))
    tuner = import_tuner()  # outside of the block: what fails here is not the adapter's fault
    try:
        tuner.load_adapters(model, str(folder))
    # Foreign code on foreign files: whatever it raises, they cannot be used.
    except Exception as problem:
        reason = " ".join(str(problem).split())[:300]
        raise BadModelFiles(
            f"The adapter in {folder} does not fit {model_id}: {reason}",
            hint="Use it with the model it was trained on; `mlxbun adapters inspect` names it.",
        ) from problem
    model.eval()


def layers_of(model: Any) -> dict[str, tuple[int, ...] | None]:
    """Return the layers of a model that can have an adapter, as `core.registry.adapters.Layers`."""
    found: dict[str, tuple[int, ...] | None] = {}
    for path, module in model.named_modules():
        if hasattr(module, "to_lora"):  # its adapter has a form of its own
            found[path] = None
        elif isinstance(module, _ADAPTED):
            *outer, inner = module.weight.shape
            packed = hasattr(module, "bits")
            found[path] = (*outer, inner * 32 // module.bits if packed else inner)
    return found


def _shares(config: dict[str, Any], vocabulary: int, *, parameters: int, weights: int) -> Shares:
    """Return how a decode step's time is divided, by the bytes that its parts read.

    One row is computed as fast as its weights are read. The head is taken for a matrix of hidden
    size times vocabulary, packed as the rest; a choice reads the logits once, in float32.
    """
    hidden = (config.get("text_config") or config).get("hidden_size")
    rows = hidden if isinstance(hidden, int) else 0
    head = min(weights, weights * rows * vocabulary // max(1, parameters))
    sample = 4 * vocabulary
    whole = weights + sample
    return Shares(forward=(weights - head) / whole, head=head / whole, sample=sample / whole)


def _mounted(model: Any, folder: Path) -> MountedAdapter:
    """Return the layers and the memory of the adapter on a model."""
    layers = [module for module in model.modules() if "lora_a" in module]
    arrays = [
        layer[name] for layer in layers for name in ("lora_a", "lora_b", "m") if name in layer
    ]
    return MountedAdapter(
        folder=folder, layers=len(layers), nbytes=sum(array.nbytes for array in arrays)
    )


def _describe_compute(plan: ComputePlan) -> ComputeInfo:
    return ComputeInfo(
        device=device_name(), blas=plan.blas, compiler=plan.compiler, notes=plan.notes
    )


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
    """Refuse files that would never end, and a config that promises more layers than tensors.

    Raises:
        BadModelFiles: a file that mlx-lm or transformers would open is not a regular one.
        ValueError: the layers would be built before anyone notices.
    """
    refuse_special_files(folder)
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


def with_kv_budget(loaded: LoadedModel, budget_gb: float) -> LoadedModel:
    """Return a loaded model whose running rows keep within a KV budget.

    Args:
        loaded: the model.
        budget_gb: memory for the KV of all running rows in GB (10^9 bytes).

    Raises:
        DoesNotFit: no useful context fits the budget.
    """
    admission, kv_budget = loaded.admission, int(budget_gb * GB)
    limited = replace(admission, kv_budget_bytes=kv_budget)
    least = min(_LEAST_CONTEXT, admission.max_context)
    if limited.max_context < least:
        need = admission.kv.row_bytes(least)
        raise DoesNotFit(
            f"The KV of {least} tokens takes {format_bytes(need)}, but the KV budget is "
            f"{format_bytes(kv_budget)}.",
            need=need,
            have=kv_budget,
            hint="Raise --kv-budget.",
        )
    return replace(loaded, admission=limited)


def with_training(loaded: LoadedModel, can_train: Callable[[Any], bool]) -> LoadedModel:
    """Return the loaded model with the result of `can_train` in its info."""
    return replace(loaded, info=replace(loaded.info, trainable=can_train(loaded.model)))


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


def describe_storage(config: dict[str, Any]) -> str:
    """Return how the weights lie on disk, for people."""
    quantization = config.get("quantization")
    if isinstance(quantization, dict) and "bits" in quantization:
        return f"{quantization['bits']}-bit (group {quantization.get('group_size')})"
    text = config.get("text_config") or {}
    return str(config.get("torch_dtype") or config.get("dtype") or text.get("dtype") or "unpacked")
