"""A model made ready for training: loaded, unpacked where that pays, adapters mounted."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import mlx.core as mx
from mlx.utils import tree_flatten
from mlx_lm.utils import get_total_parameters, load_model

from core.engine.device import recommended_working_set
from core.engine.loader import (
    blaming_files,
    describe_storage,
    refuse_absurd,
    refuse_oversized,
    unpack_weights,
)
from core.engine.tokenizer import Tokenizer
from core.train.config import TrainConfig
from core.train.head import Split, split_model
from core.train.lora import Target, find_targets, mount, trainable
from core.train.ranks import read_kl, scaled_ranks
from core.units import format_bytes

if TYPE_CHECKING:
    from core.engine.tokenizer_card import CardShelf
    from core.machine.compute import ComputePlan
    from core.machine.threads import ThreadKeeper

# The share of the budget that unpacked weights may take: the rest is for activations.
_UNPACKED_SHARE = 0.6


@dataclass(frozen=True, kw_only=True)
class TrainModel:
    """A model with adapters on it."""

    model: Any
    """The mlx-lm module."""
    split: Split
    """Its body and head."""
    tokenizer: Tokenizer
    """Its tokenizer."""
    targets: tuple[Target, ...]
    """The layers that have adapters."""
    config: dict[str, Any]
    """Its config.json."""
    parameters: int
    """Its weights, counted unpacked, without adapters."""
    weights_bytes: int
    """Memory that they take."""
    budget_bytes: int
    """Memory for all of the training."""
    loaded_as: str
    """How they lie in memory, for people."""
    threads: ThreadKeeper | None
    """Keeps the BLAS from fighting for cores; None where it does not apply."""

    @property
    def trainable_parameters(self) -> int:
        """Numbers that are trained."""
        return sum(int(array.size) for array in trainable(self.model).values())


def load_train_model(
    folder: Path,
    config: TrainConfig,
    *,
    plan: ComputePlan,
    memory_budget_gb: float | None,
    shelf: CardShelf | None,
    on_note: Callable[[str], None],
) -> TrainModel:
    """Load a model and put fresh adapters on it.

    Args:
        folder: the model's.
        config: which layers, ranks and scales.
        plan: how to compute.
        memory_budget_gb: in GB (10^9 bytes), or None.
        shelf: where tokenizers are kept between starts, or None.
        on_note: hears what was done to the weights.

    Raises:
        BadModelFiles: the model's files cannot be used.
        DoesNotFit: its weights alone exceed the budget.
        UsageProblem: the configuration names layers that it has not.
    """
    if not plan.compile_kernels:
        mx.disable_compile()
    budget = plan.budget_bytes(memory_budget_gb, recommended_working_set())
    refuse_oversized(folder, budget)
    with blaming_files(folder):
        refuse_absurd(folder)
        model, model_config = load_model(folder, lazy=True)
        tokenizer = Tokenizer.load(folder, eos_ids=model_config.get("eos_token_id"), shelf=shelf)
        parameters = int(get_total_parameters(model))
    # Before unpacking, which makes all bits the same.
    targets = find_targets(model, config.target_modules, config.num_layers)
    ranks = _ranks(config, targets, folder)
    with blaming_files(folder):
        loaded_as = _settle(
            model, parameters, describe_storage(model_config), plan, budget, on_note=on_note
        )
        mx.eval(model.parameters())
    weights = sum(array.nbytes for _, array in tree_flatten(model.parameters()))
    split = split_model(model)
    if not split.known:
        on_note("The head of this architecture is not known here: its logits are held whole.")
    mount(
        model,
        ranks,
        scale=config.scale,
        rs_lora=config.rs_lora,
        dropout=config.lora_dropout,
        seed=config.seed,
    )
    return TrainModel(
        model=model,
        split=split,
        tokenizer=tokenizer,
        targets=tuple(targets),
        config=model_config,
        parameters=parameters,
        weights_bytes=weights,
        budget_bytes=budget,
        loaded_as=loaded_as,
        threads=plan.threads,
    )


def _ranks(config: TrainConfig, targets: list[Target], folder: Path) -> dict[str, int]:
    kl = read_kl(folder) if config.rank_scaling == "by_kl" else {}
    bits = {target.path: target.bits for target in targets}
    return scaled_ranks(config.rank_scaling, config.rank, bits=bits, kl=kl)


def _settle(
    model: Any,
    parameters: int,
    stored_as: str,
    plan: ComputePlan,
    budget: int,
    *,
    on_note: Callable[[str], None],
) -> str:
    """Give the frozen weights the form in which their gradients are quick. Return its name."""
    if plan.machine.backend != "cpu":
        return stored_as
    packed = any(hasattr(module, "scales") for module in model.modules())
    size = 4 * parameters
    if plan.dequantize == "on" or (plan.dequantize == "auto" and size <= _UNPACKED_SHARE * budget):
        unpack_weights(model)
        if packed:
            on_note(
                f"The {stored_as} weights are unpacked to float32 ({format_bytes(size)}) while "
                "they train: on a CPU, gradients through packed ones are 20 times slower."
            )
        return "float32 (unpacked)"
    if packed:
        model.set_dtype(mx.float32)
        why = "as --dequantize says" if plan.dequantize == "off" else "as they do not fit unpacked"
        on_note(f"The weights stay packed, {why}: on a CPU this is about 20 times slower.")
        return f"{stored_as}, float32 scales"
    on_note("The weights stay in half precision, which a CPU computes slowly.")
    return stored_as
