"""A model made ready for training: loaded, unpacked where that pays, adapters mounted."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import mlx.core as mx
from mlx.utils import tree_flatten
from mlx_lm.utils import get_total_parameters, load_model

from core.engine import loader
from core.engine.blame import blaming_files
from core.engine.device import recommended_working_set
from core.engine.loader import (
    describe_storage,
    refuse_absurd,
    refuse_oversized,
    unpack_weights,
)
from core.engine.split import Split, split_model
from core.engine.tokenizer import Tokenizer
from core.errors import MlxbunError, UsageProblem
from core.registry.adapters import read_lora_form
from core.train.config import PROJECTIONS, TrainConfig
from core.train.lora import Arrays, Target, find_targets, mount, trainable
from core.train.ranks import KL_FILE, read_kl, scaled_ranks, without_kl
from core.units import format_bytes

if TYPE_CHECKING:
    from core.engine.tokenizer_card import CardShelf
    from core.machine.compute import ComputePlan
    from core.machine.threads import ThreadKeeper

OnNote = Callable[[str], None]
"""Hears a sentence that is worth knowing."""

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
    reference: Arrays | None = None
    """A and B of the policy that DPO compares with; None: the base model, or another method."""

    @property
    def trainable_parameters(self) -> int:
        """Numbers that are trained."""
        return sum(int(array.size) for array in trainable(self.model).values())


def read_tokenizer(
    folder: Path, *, plan: ComputePlan, memory_budget_gb: float | None, shelf: CardShelf | None
) -> Tokenizer:
    """Return the tokenizer of a model that has a chance to be loaded; no weights are read.

    Args:
        folder: the model's.
        plan: how to compute.
        memory_budget_gb: in GB (10^9 bytes), or None.
        shelf: where tokenizers are kept between starts, or None.

    Raises:
        BadModelFiles: the model's files cannot be used.
        DoesNotFit: its weights alone exceed the budget.
    """
    refuse_oversized(folder, plan.budget_bytes(memory_budget_gb, recommended_working_set()))
    with blaming_files(folder):
        refuse_absurd(folder)
    return loader.read_tokenizer(folder, shelf)


def load_train_model(
    folder: Path,
    config: TrainConfig,
    *,
    tokenizer: Tokenizer,
    plan: ComputePlan,
    memory_budget_gb: float | None,
    warm_start: Path | None = None,
    on_note: OnNote,
) -> TrainModel:
    """Load a model and put fresh adapters on it.

    Args:
        folder: the model's.
        config: which layers, ranks and scales.
        tokenizer: the model's.
        plan: how to compute.
        memory_budget_gb: in GB (10^9 bytes), or None.
        warm_start: the folder of an adapter whose layers must be those that are trained, or None.
        on_note: hears what was done to the weights.

    Raises:
        BadModelFiles: the model's files cannot be used.
        UsageProblem: the configuration names layers that it has not, or not those of `warm_start`.
    """
    if not plan.compile_kernels:
        mx.disable_compile()
    budget = plan.budget_bytes(memory_budget_gb, recommended_working_set())
    read = _read(folder)
    # Before unpacking, which makes all bits the same.
    targets, ranks = _choose(read.model, config, folder, on_note)
    if warm_start:
        _refuse_other_layers(warm_start, ranks)
    with blaming_files(folder):
        loaded_as = _settle(read, plan, budget, on_note=on_note)
        mx.eval(read.model.parameters())
    weights = sum(array.nbytes for _, array in tree_flatten(read.model.parameters()))
    with blaming_architecture(str(read.config.get("model_type", "unknown"))):
        split = _split(read.model, on_note)
        _mount(read.model, ranks, config)
    return TrainModel(
        model=read.model,
        split=split,
        tokenizer=tokenizer,
        targets=tuple(targets),
        config=read.config,
        parameters=read.parameters,
        weights_bytes=weights,
        budget_bytes=budget,
        loaded_as=loaded_as,
        threads=plan.threads,
    )


@contextmanager
def blaming_architecture(kind: str) -> Iterator[None]:
    """Turn what an architecture raises that cannot be trained into an error of ours.

    Raises:
        UsageProblem: anything was raised that is not our own.
    """
    try:
        yield
    except MlxbunError:
        raise
    # Foreign code that was written to answer, not to be trained: it fails in ways of its own.
    except Exception as problem:
        reason = " ".join(f"{type(problem).__name__}: {problem}".split())[:300]
        raise UsageProblem(
            f"The architecture {kind} cannot be trained: mlx-lm's code for it does not allow that "
            f"({reason}).",
            hint="Train another model, or other target_modules.",
        ) from problem


@dataclass(frozen=True, kw_only=True)
class _Read:
    """A model as its files have it."""

    model: Any
    """Its weights not evaluated yet."""
    config: dict[str, Any]
    """Its config.json."""
    parameters: int
    """Its weights, counted unpacked."""


def _read(folder: Path) -> _Read:
    with blaming_files(folder):
        model, config = load_model(folder, lazy=True)
        parameters = int(get_total_parameters(model))
    return _Read(model=model, config=config, parameters=parameters)


def _refuse_other_layers(adapter: Path, ranks: Mapping[str, int]) -> None:
    """Refuse to begin from an adapter of other layers, or of ranks too small, by its headers."""
    form = read_lora_form(adapter)
    if set(form.paths) != set(ranks):
        raise UsageProblem(
            f"The adapter in {adapter} is for other layers than those to be trained.",
            hint="Set target_modules and num_layers to those of the adapter.",
        )
    if form.rank is not None and form.rank < max(ranks.values()):
        raise UsageProblem(
            f"The adapter in {adapter} has rank {form.rank}, and rank {max(ranks.values())} is "
            "trained.",
            hint="Set rank to that of the adapter.",
        )


def _choose(
    model: Any, config: TrainConfig, folder: Path, on_note: OnNote
) -> tuple[list[Target], dict[str, int]]:
    """Return the layers to train and the ranks of their adapters."""
    for line in _beyond(config, len(model.layers)):
        on_note(line)
    targets = _targets(model, config, on_note)
    return targets, _ranks(config, targets, folder, on_note)


def _beyond(config: TrainConfig, layers: int) -> Iterator[str]:
    """Yield what asks for more layers than there are."""
    if config.num_layers > layers:
        yield f"num_layers is {config.num_layers}: all {layers} layers of this model are trained."
    if config.segment_size >= layers:
        yield (
            f"segment_size is {config.segment_size}, and this model has {layers} layers: its "
            "backward pass takes all of them at once, and computes them again for nothing."
        )


def _targets(model: Any, config: TrainConfig, on_note: OnNote) -> list[Target]:
    """Return the layers to train, and tell where they are others than one would think."""
    targets = find_targets(model, config.target_modules, config.num_layers)
    names = {target.key.rsplit(".", 1)[-1] for target in targets}
    if config.target_modules == PROJECTIONS and names != set(PROJECTIONS):
        missing = [name for name in PROJECTIONS if name not in names]
        on_note(
            f"This architecture has no {', '.join(missing)}: its linear layers are trained, which "
            f"are {', '.join(sorted(names))}."
        )
    experts = [target for target in targets if target.experts]
    if experts:
        on_note(
            f"{len(experts)} of the {len(targets)} layers that are trained are mixtures of experts "
            f"({experts[0].experts} each), and every expert gets an adapter of its own: for small "
            "adapters leave them out with target_modules."
        )
    return targets


def _ranks(
    config: TrainConfig, targets: list[Target], folder: Path, on_note: OnNote
) -> dict[str, int]:
    kl = read_kl(folder) if config.rank_scaling == "by_kl" else {}
    bits = {target.path: target.bits for target in targets}
    ranks = scaled_ranks(config.rank_scaling, config.rank, bits=bits, kl=kl)
    if kl and (unknown := without_kl(bits, kl)):
        on_note(
            f"{KL_FILE} tells no KL of {len(unknown)} of the {len(bits)} layers that are trained, "
            f"{unknown[0]} among them: they get rank {config.rank}."
        )
    return ranks


def _split(model: Any, on_note: OnNote) -> Split:
    split = split_model(model)
    if not split.known:
        on_note("The head of this architecture is not known here: its logits are held whole.")
    return split


def _mount(model: Any, ranks: dict[str, int], config: TrainConfig) -> None:
    mount(
        model,
        ranks,
        scale=config.scale,
        rs_lora=config.rs_lora,
        dropout=config.lora_dropout,
        seed=config.seed,
    )


def _settle(read: _Read, plan: ComputePlan, budget: int, *, on_note: OnNote) -> str:
    """Give the frozen weights the form in which their gradients are quick. Return its name."""
    model, stored_as = read.model, describe_storage(read.config)
    if plan.machine.backend != "cpu":
        return stored_as
    packed = any(hasattr(module, "scales") for module in model.modules())
    size = 4 * read.parameters
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
