"""All that can be chosen for a training: one table of fields, read from flags, files and JSON.

The names are those of `POST /api/finetune/submit`; ours beside them are `valid_split`, `strict`,
`chunk_size`, `steps_per_save`, `early_stopping`, `loss_limit` and the schedule of `sft`. Imports no
arrays.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

from core.errors import UsageProblem
from core.fields import FieldTable, choice
from core.values import Choice, Names, Number, Switch, Text, WholeNumber

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

Method = Literal["sft", "dpo", "orpo"]
METHODS: tuple[str, ...] = ("sft", "dpo", "orpo")
PROJECTIONS = ("q_proj", "k_proj", "v_proj", "o_proj", "gate_proj", "up_proj", "down_proj")
"""What LoRA layers are put on unless `target_modules` says otherwise."""

_MANY = 2**31 - 1
_PATHS = ("model_dir", "data_dir", "adapter_path", "warm_start_adapter")
_SCHEDULES = Choice(("constant", "cosine"))


@dataclass(frozen=True, kw_only=True)
class TrainConfig:
    """One training. Each field's meaning, unit and range stand in its metadata."""

    model_dir: str | None = choice(
        None, Text(), "The model: a folder, a repo id, or a part of one."
    )
    data_dir: str | None = choice(
        None, Text(), "The data: a folder with train and valid files, or one file."
    )
    adapter_path: str | None = choice(None, Text(), "The folder that the adapter is written to.")
    method: str = choice("sft", Choice(METHODS), "What is learned from: sft, dpo or orpo.")
    rank: int = choice(16, WholeNumber(1, 4096), "Rank of the LoRA matrices.")
    scale: float = choice(20.0, Number(0.0001, 10_000), "What LoRA's update is multiplied by.")
    rank_scaling: str = choice(
        "constant",
        Choice(("constant", "by_bits", "by_kl")),
        "Ranks of the layers: the same (constant), by their bits (by_bits), or by their "
        "quantization's KL (by_kl).",
    )
    target_modules: tuple[str, ...] = choice(
        PROJECTIONS,
        Names(),
        "The linear layers that get LoRA, by the ends of their names, with commas between.",
    )
    num_layers: int = choice(
        0, WholeNumber(-1, 10_000), "Train the last N transformer layers; 0 or -1: all."
    )
    iters: int = choice(300, WholeNumber(1, _MANY), "Optimizer steps.")
    learning_rate: float = choice(2e-4, Number(0, 10), "Learning rate after the warm-up.")
    max_seq_length: int = choice(
        2048, WholeNumber(2, 2**20), "Tokens of a row; what is longer is cut and counted."
    )
    batch_size: int = choice(1, WholeNumber(1, 4096), "Rows, or pairs, computed together.")
    grad_accumulation_steps: int = choice(
        1, WholeNumber(1, 4096), "Batches whose gradients make one step, weighted by tokens."
    )
    seed: int = choice(0, WholeNumber(0, 2**32 - 1), "Of everything random.")
    steps_per_report: int = choice(1, WholeNumber(1, _MANY), "Steps between two reports.")
    steps_per_eval: int = choice(
        0, WholeNumber(0, _MANY), "Steps between two validations; 0: before and after only."
    )
    weight_decay: float = choice(0.0, Number(0, 1), "AdamW's decoupled weight decay.")
    lora_dropout: float = choice(0.0, Number(0, 0.95), "Share of LoRA's inputs that is dropped.")
    rs_lora: bool = choice(
        False, Switch(), "Divide the scale by the square root of the rank (rsLoRA)."
    )
    lora_plus_ratio: float = choice(
        1.0, Number(0.01, 10_000), "How many times A's learning rate B gets (LoRA+)."
    )
    grad_checkpoint: bool = choice(
        False, Switch(), "Recompute each layer in the backward pass: less memory, more time."
    )
    mlp_split: bool = choice(
        False, Switch(), "Compute MLPs in pieces of the sequence, and again in the backward pass."
    )
    segment_size: int = choice(
        0, WholeNumber(0, 10_000), "Layers that the backward pass takes at a time; 0: all at once."
    )
    save_checkpoints: bool = choice(
        True, Switch(), "Keep checkpoints on the way, from which --resume goes on."
    )
    steps_per_save: int = choice(
        0, WholeNumber(0, _MANY), "Steps between two checkpoints; 0: a twentieth of all."
    )
    grad_clip_norm: float = choice(
        0.0, Number(0, 1e6), "Largest norm of a step's gradient; 0: any."
    )
    val_max_examples: int = choice(
        0, WholeNumber(0, _MANY), "Rows of a validation at most; 0: all."
    )
    valid_split: float = choice(
        0.0, Number(0, 0.9), "Share of the rows kept for validation where there is no valid file."
    )
    early_stopping: int = choice(
        0, WholeNumber(0, _MANY), "End after N validations without a better one; 0: never."
    )
    loss_limit: float = choice(
        100.0, Number(0.1, 1e6), "End where the loss is beyond this, or no number, in nats."
    )
    strict: bool = choice(False, Switch(), "Stop at rows that cannot be used; else leave them out.")
    chunk_size: int = choice(
        0, WholeNumber(0, 2**20), "Tokens whose logits are there at one time; 0: what takes 16 MB."
    )
    sft_scope: str | None = choice(
        None,
        Choice(("full", "response")),
        "Tokens of the likelihood loss: full or response [response; with orpo full].",
    )
    sft_warmup_iters: int = choice(
        0, WholeNumber(0, _MANY), "Steps in which the learning rate rises, with method sft."
    )
    sft_lr_schedule: str = choice(
        "constant", _SCHEDULES, "Learning rate after them: constant or cosine."
    )
    dpo_beta: float = choice(0.1, Number(0.0001, 100), "How strongly DPO holds to the reference.")
    dpo_warmup_iters: int = choice(
        0, WholeNumber(0, _MANY), "Steps in which the learning rate rises, with method dpo."
    )
    dpo_lr_schedule: str = choice(
        "constant", _SCHEDULES, "Learning rate after them: constant or cosine."
    )
    orpo_lambda: float = choice(0.1, Number(0, 100), "Weight of ORPO's odds ratio.")
    orpo_warmup_iters: int = choice(
        0, WholeNumber(0, _MANY), "Steps in which the learning rate rises, with method orpo."
    )
    orpo_lr_schedule: str = choice(
        "constant", _SCHEDULES, "Learning rate after them: constant or cosine."
    )
    orpo_chunk_size: int = choice(0, WholeNumber(0, 2**20), "As chunk_size, for orpo alone.")
    orpo_fused_ce: bool = choice(
        True, Switch(), "Compute orpo's cross-entropy in chunks; else logits are whole."
    )
    orpo_flash_ce: bool = choice(
        True, Switch(), "Keep its gradient from the forward pass; else compute chunks twice."
    )
    orpo_prefix_shared: bool = choice(
        True, Switch(), "Compute the prompt of orpo's pairs once for both answers."
    )
    warm_start_adapter: str | None = choice(
        None, Text(), "Start from this adapter: a folder, or a name that `adapters list` shows."
    )

    @property
    def response_only(self) -> bool:
        """Whether the likelihood loss counts the response alone."""
        scope = self.sft_scope or ("full" if self.method == "orpo" else "response")
        return scope == "response"

    @property
    def warmup_iters(self) -> int:
        """Steps in which the learning rate rises, of the method that is used."""
        return int(getattr(self, f"{self.method}_warmup_iters"))

    @property
    def lr_schedule(self) -> str:
        """`constant` or `cosine`, of the method that is used."""
        return str(getattr(self, f"{self.method}_lr_schedule"))

    @property
    def save_every(self) -> int:
        """Steps between two checkpoints."""
        return self.steps_per_save or max(1, self.iters // 20)

    @property
    def pairs(self) -> bool:
        """Whether the rows are preference pairs."""
        return self.method != "sft"


def make_config(
    *layers: Mapping[str, Any], where: tuple[str, ...] = (), base: TrainConfig | None = None
) -> TrainConfig:
    """Merge raw values into one configuration, as `FieldTable.merged` does.

    Raises:
        UsageProblem: an unknown name, a value outside its range, or fields that do not go together.
    """
    config = TABLE.merged(*layers, where=where, base=base)
    _check_together(config)
    return config


def config_as_json(config: TrainConfig) -> dict[str, Any]:
    """Return every field, as `make_config` takes them."""
    return TABLE.as_json(config)


def recipe_of(config: TrainConfig) -> dict[str, Any]:
    """Return what was chosen, without the paths of this machine, which are nobody's business."""
    return {name: v for name, v in config_as_json(config).items() if name not in _PATHS}


def require_paths(config: TrainConfig) -> None:
    """Refuse a configuration that does not say what is trained on what, and where to.

    Raises:
        UsageProblem: it names the field that is missing.
    """
    for name in ("model_dir", "data_dir", "adapter_path"):
        if getattr(config, name) is None:
            raise UsageProblem(f"A training needs {name}.")


def _check_together(config: TrainConfig) -> None:
    """Refuse fields that do not go together, or do nothing beside each other.

    Raises:
        UsageProblem: it names them.
    """
    for name, each in TABLE.fields.items():
        method = name.split("_", 1)[0]
        theirs = method in METHODS and name != "sft_scope"
        if theirs and method != config.method and getattr(config, name) != each.default:
            raise UsageProblem(
                f"{name} belongs to the method {method}, and the method is {config.method}.",
                hint=f"Leave it out, or say method {method}.",
            )
    if config.warmup_iters >= config.iters and config.warmup_iters:
        raise UsageProblem(
            f"{config.method}_warmup_iters must be less than iters ({config.iters}), "
            f"not {config.warmup_iters}."
        )
    for clash in _CLASHES:
        if clash.there(config):
            raise UsageProblem(clash.told, hint=clash.hint)


@dataclass(frozen=True)
class _Clash:
    """Fields that do not go together."""

    there: Callable[[TrainConfig], bool]
    """Tells whether a configuration has them both."""
    told: str
    """What is wrong about that."""
    hint: str | None = None
    """What to do."""


_CLASHES = (
    _Clash(
        lambda c: c.sft_scope is not None and c.method == "dpo",
        "sft_scope belongs to sft and orpo: DPO has no likelihood loss.",
    ),
    _Clash(
        lambda c: not c.orpo_fused_ce and c.orpo_chunk_size > 0,
        "orpo_chunk_size does nothing without orpo_fused_ce.",
    ),
    _Clash(
        lambda c: not c.orpo_fused_ce and c.chunk_size > 0,
        "chunk_size does nothing without orpo_fused_ce.",
    ),
    _Clash(
        lambda c: c.orpo_chunk_size > 0 and c.chunk_size > 0,
        "chunk_size does nothing beside orpo_chunk_size.",
        "Leave one of them out.",
    ),
    _Clash(
        lambda c: not c.save_checkpoints and c.steps_per_save > 0,
        "steps_per_save does nothing without save_checkpoints.",
    ),
    _Clash(
        lambda c: c.mlp_split and c.lora_dropout > 0,
        "mlp_split and lora_dropout do not go together: pieces drop alike.",
    ),
    _Clash(
        lambda c: c.grad_checkpoint and c.segment_size > 0,
        "grad_checkpoint and segment_size are two ways to do the same.",
        "Choose one of them.",
    ),
)
TABLE = FieldTable(TrainConfig, what="A training")
