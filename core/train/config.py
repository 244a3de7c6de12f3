"""All that can be chosen for a training: one table of fields, read from flags, files and JSON.

The names are those of `POST /api/finetune/submit`; ours beside them are `valid_split`, `strict`,
`chunk_size`, `steps_per_save`, `early_stopping`, `loss_limit` and the schedule of `sft`. Imports no
arrays.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field, fields, replace
from difflib import get_close_matches
from typing import TYPE_CHECKING, Any, Literal

from core.errors import NotFound, UsageProblem
from core.train.rows import shown
from core.train.values import Choice, Names, Number, Reader, Switch, Text, WholeNumber

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from pathlib import Path

Method = Literal["sft", "dpo", "orpo"]
METHODS: tuple[str, ...] = ("sft", "dpo", "orpo")
PROJECTIONS = ("q_proj", "k_proj", "v_proj", "o_proj", "gate_proj", "up_proj", "down_proj")
"""What LoRA layers are put on unless `target_modules` says otherwise."""

_MANY = 2**31 - 1
_PATHS = ("model_dir", "data_dir", "adapter_path", "warm_start_adapter")
_SCHEDULES = Choice(("constant", "cosine"))


def _field(default: Any, read: Reader, help_text: str) -> Any:
    return field(default=default, metadata={"read": read, "help": help_text})


@dataclass(frozen=True, kw_only=True)
class TrainConfig:
    """One training. Each field's meaning, unit and range stand in its metadata."""

    model_dir: str | None = _field(
        None, Text(), "The model: a folder, a repo id, or a part of one."
    )
    data_dir: str | None = _field(
        None, Text(), "The data: a folder with train and valid files, or one file."
    )
    adapter_path: str | None = _field(None, Text(), "The folder that the adapter is written to.")
    method: str = _field("sft", Choice(METHODS), "What is learned from: sft, dpo or orpo.")
    rank: int = _field(16, WholeNumber(1, 4096), "Rank of the LoRA matrices.")
    scale: float = _field(20.0, Number(0.0001, 10_000), "What LoRA's update is multiplied by.")
    rank_scaling: str = _field(
        "constant",
        Choice(("constant", "by_bits", "by_kl")),
        "Ranks of the layers: the same (constant), by their bits (by_bits), or by their "
        "quantization's KL (by_kl).",
    )
    target_modules: tuple[str, ...] = _field(
        PROJECTIONS,
        Names(),
        "The linear layers that get LoRA, by the ends of their names, with commas between.",
    )
    num_layers: int = _field(
        0, WholeNumber(-1, 10_000), "Train the last N transformer layers; 0 or -1: all."
    )
    iters: int = _field(300, WholeNumber(1, _MANY), "Optimizer steps.")
    learning_rate: float = _field(2e-4, Number(0, 10), "Learning rate after the warm-up.")
    max_seq_length: int = _field(
        2048, WholeNumber(2, 2**20), "Tokens of a row; what is longer is cut and counted."
    )
    batch_size: int = _field(1, WholeNumber(1, 4096), "Rows, or pairs, computed together.")
    grad_accumulation_steps: int = _field(
        1, WholeNumber(1, 4096), "Batches whose gradients make one step, weighted by tokens."
    )
    seed: int = _field(0, WholeNumber(0, 2**32 - 1), "Of everything random.")
    steps_per_report: int = _field(1, WholeNumber(1, _MANY), "Steps between two reports.")
    steps_per_eval: int = _field(
        0, WholeNumber(0, _MANY), "Steps between two validations; 0: before and after only."
    )
    weight_decay: float = _field(0.0, Number(0, 1), "AdamW's decoupled weight decay.")
    lora_dropout: float = _field(0.0, Number(0, 0.95), "Share of LoRA's inputs that is dropped.")
    rs_lora: bool = _field(
        False, Switch(), "Divide the scale by the square root of the rank (rsLoRA)."
    )
    lora_plus_ratio: float = _field(
        1.0, Number(0.01, 10_000), "How many times A's learning rate B gets (LoRA+)."
    )
    grad_checkpoint: bool = _field(
        False, Switch(), "Recompute each layer in the backward pass: less memory, more time."
    )
    mlp_split: bool = _field(
        False, Switch(), "Compute MLPs in pieces of the sequence, and again in the backward pass."
    )
    segment_size: int = _field(
        0, WholeNumber(0, 10_000), "Layers that the backward pass takes at a time; 0: all at once."
    )
    save_checkpoints: bool = _field(
        True, Switch(), "Keep checkpoints on the way, from which --resume goes on."
    )
    steps_per_save: int = _field(
        0, WholeNumber(0, _MANY), "Steps between two checkpoints; 0: a twentieth of all."
    )
    grad_clip_norm: float = _field(
        0.0, Number(0, 1e6), "Largest norm of a step's gradient; 0: any."
    )
    val_max_examples: int = _field(
        0, WholeNumber(0, _MANY), "Rows of a validation at most; 0: all."
    )
    valid_split: float = _field(
        0.0, Number(0, 0.9), "Share of the rows kept for validation where there is no valid file."
    )
    early_stopping: int = _field(
        0, WholeNumber(0, _MANY), "End after N validations without a better one; 0: never."
    )
    loss_limit: float = _field(
        100.0, Number(0.1, 1e6), "End where the loss is beyond this, or no number, in nats."
    )
    strict: bool = _field(False, Switch(), "Stop at rows that cannot be used; else leave them out.")
    chunk_size: int = _field(
        0, WholeNumber(0, 2**20), "Tokens whose logits are there at one time; 0: what takes 16 MB."
    )
    sft_scope: str | None = _field(
        None,
        Choice(("full", "response")),
        "Tokens of the likelihood loss: full or response [response; with orpo full].",
    )
    sft_warmup_iters: int = _field(
        0, WholeNumber(0, _MANY), "Steps in which the learning rate rises, with method sft."
    )
    sft_lr_schedule: str = _field(
        "constant", _SCHEDULES, "Learning rate after them: constant or cosine."
    )
    dpo_beta: float = _field(0.1, Number(0.0001, 100), "How strongly DPO holds to the reference.")
    dpo_warmup_iters: int = _field(
        0, WholeNumber(0, _MANY), "Steps in which the learning rate rises, with method dpo."
    )
    dpo_lr_schedule: str = _field(
        "constant", _SCHEDULES, "Learning rate after them: constant or cosine."
    )
    orpo_lambda: float = _field(0.1, Number(0, 100), "Weight of ORPO's odds ratio.")
    orpo_warmup_iters: int = _field(
        0, WholeNumber(0, _MANY), "Steps in which the learning rate rises, with method orpo."
    )
    orpo_lr_schedule: str = _field(
        "constant", _SCHEDULES, "Learning rate after them: constant or cosine."
    )
    orpo_chunk_size: int = _field(0, WholeNumber(0, 2**20), "As chunk_size, for orpo alone.")
    orpo_fused_ce: bool = _field(
        True, Switch(), "Compute orpo's cross-entropy in chunks; else logits are whole."
    )
    orpo_flash_ce: bool = _field(
        True, Switch(), "Keep its gradient from the forward pass; else compute chunks twice."
    )
    orpo_prefix_shared: bool = _field(
        True, Switch(), "Compute the prompt of orpo's pairs once for both answers."
    )
    warm_start_adapter: str | None = _field(
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


def field_help(name: str) -> str:
    """Return what a field means."""
    return str(_FIELDS[name].metadata["help"])


def choices_of(name: str) -> tuple[str, ...]:
    """Return the only values of a field; none where there are more."""
    read = _FIELDS[name].metadata["read"]
    return read.words if isinstance(read, Choice) else ()


def make_config(
    *layers: Mapping[str, Any], where: tuple[str, ...] = (), base: TrainConfig | None = None
) -> TrainConfig:
    """Merge raw values into one configuration; later layers go before earlier ones.

    Args:
        layers: names to raw values: a file's, JSON's, the command line's. None means not given.
        where: for each layer, how to call one of its fields in an error: `{} in train.toml`,
            `--{}`; the bare name where there is none.
        base: what stands where no layer says anything; None: the defaults.

    Raises:
        UsageProblem: an unknown name, a value outside its range, or fields that do not go together.
    """
    values: dict[str, Any] = {}
    for index, layer in enumerate(layers):
        form = where[index] if index < len(where) else "{}"
        known = {name: raw for name, raw in layer.items() if raw is not None}
        values |= {name: read_field(name, raw, form=form) for name, raw in known.items()}
    config = replace(base or TrainConfig(), **values)
    _check_together(config)
    return config


def read_field(name: str, raw: Any, *, form: str = "{}") -> Any:
    """Return one field's value.

    Raises:
        UsageProblem: there is no such field, or the value is none of its own.
    """
    if name not in _FIELDS:
        raise UsageProblem(
            f"A training has no field {_called(form, shown(name))}.",
            hint=_near(name),
        )
    said = name.replace("_", "-") if form.startswith("--") else name
    try:
        return _FIELDS[name].metadata["read"](raw)
    except ValueError as wanted:
        told = f"{_called(form, said)} must be {wanted}, not {shown(raw)}."
        raise UsageProblem(told) from None


def _called(form: str, name: str) -> str:
    """Return how a field is called; a file's name in the form may hold braces of its own."""
    return form.replace("{}", name, 1)


def _near(name: str) -> str:
    """Return what somebody who wrote an unknown name may have meant."""
    near = get_close_matches(name.lower().replace("-", "_"), _FIELDS, n=1)
    return f"Did you mean {near[0]}?" if near else f"There are {', '.join(_FIELDS)}."


def read_config_file(path: Path) -> dict[str, Any]:
    """Return the raw values of a TOML, YAML or JSON file.

    Raises:
        NotFound: there is no such file.
        UsageProblem: it cannot be read, or is no table of fields.
    """
    try:
        text = path.read_text(encoding="utf-8-sig")
        values = _parse(text, path.suffix.lower())
    except FileNotFoundError:
        raise NotFound(f"There is no configuration file {path}.") from None
    except (OSError, UnicodeDecodeError, ValueError) as problem:
        reason = problem.strerror if isinstance(problem, OSError) else problem
        raise UsageProblem(f"The configuration file {path} cannot be read: {reason}.") from problem
    except RecursionError:
        raise UsageProblem(f"The configuration file {path} is nested too deeply.") from None
    if not isinstance(values, dict) or not all(isinstance(name, str) for name in values):
        raise UsageProblem(f"The configuration file {path} is no table of fields.")
    return values


def config_as_json(config: TrainConfig) -> dict[str, Any]:
    """Return every field, as `make_config` takes them."""
    values = {name: getattr(config, name) for name in _FIELDS}
    return {name: list(v) if isinstance(v, tuple) else v for name, v in values.items()}


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


def _parse(text: str, suffix: str) -> Any:
    if suffix == ".json":
        return json.loads(text, object_pairs_hook=_each_once)
    if suffix in (".yaml", ".yml"):
        import yaml  # type: ignore[import-untyped]

        try:
            _refuse_twice(yaml.compose(text, yaml.SafeLoader))
            return yaml.safe_load(text) or {}
        except yaml.YAMLError as problem:
            raise ValueError(" ".join(str(problem).split())) from problem
    if suffix == ".toml":
        import tomllib

        return tomllib.loads(text)
    raise ValueError("its name ends in none of .toml, .yaml, .yml and .json")


def _each_once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """Return an object of JSON.

    Raises:
        ValueError: a name stands in it twice, of which JSON would take the last one.
    """
    values: dict[str, Any] = {}
    for name, value in pairs:
        if name in values:
            raise ValueError(f"it says {shown(name)} twice")
        values[name] = value
    return values


def _refuse_twice(node: Any) -> None:
    """Do for the outermost mapping of a YAML document what `_each_once` does."""
    if getattr(node, "id", None) == "mapping":
        _each_once([(str(key.value), None) for key, _ in node.value])


def _check_together(config: TrainConfig) -> None:
    """Refuse fields that do not go together, or do nothing beside each other.

    Raises:
        UsageProblem: it names them.
    """
    for name, each in _FIELDS.items():
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
_FIELDS = {each.name: each for each in fields(TrainConfig)}
FIELD_NAMES: tuple[str, ...] = tuple(_FIELDS)
