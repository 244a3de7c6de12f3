"""`mlxbun train`: fine-tune a model with LoRA on this machine, and watch a training.

Light to import: the options are made from the table of the configuration, which imports no arrays.
"""

from __future__ import annotations

import inspect
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from commands._shared import completion
from commands._shared.fields import FieldOptions, parameter, take_options
from commands._shared.options import BlasOption, DequantizeOption, JsonOption, MemoryOption
from commands.train.words import read_words
from core.train.config import TABLE

if TYPE_CHECKING:
    from commands._shared.session import Session

_RUN = "This run"
_PANELS = {"sft": "SFT", "dpo": "DPO", "orpo": "ORPO"}
_LORA = (
    "rank",
    "scale",
    "rank_scaling",
    "target_modules",
    "num_layers",
    "lora_dropout",
    "rs_lora",
    "lora_plus_ratio",
    "warm_start_adapter",
)
_MEMORY = ("grad_checkpoint", "segment_size", "mlp_split", "chunk_size")
_COMPLETERS: dict[str, Any] = {
    "data_dir": completion.data_sets,
    "adapter_path": completion.folders,
    "warm_start_adapter": completion.adapters,
    "method": completion.train_methods,
    "rank_scaling": completion.rank_scalings,
    "sft_scope": completion.loss_scopes,
    "target_modules": completion.target_modules,
} | dict.fromkeys(
    ("sft_lr_schedule", "dpo_lr_schedule", "orpo_lr_schedule"), completion.lr_schedules
)

ConfigFileOption = Annotated[
    Path | None,
    typer.Option(
        "--config",
        help="A TOML, YAML or JSON file with these fields; options go before it.",
        metavar="FILE",
        rich_help_panel=_RUN,
    ),
]
DryRunOption = Annotated[
    bool,
    typer.Option(
        "--dry-run",
        help="Show the configuration, the data and what it will take; train nothing.",
        rich_help_panel=_RUN,
    ),
]
ResumeOption = Annotated[
    bool,
    typer.Option(
        "--resume", help="Go on from the last checkpoint in --adapter-path.", rich_help_panel=_RUN
    ),
]
WordsArgument = Annotated[
    list[str] | None,
    typer.Argument(
        metavar="MODEL | watch DIR",
        autocompletion=completion.train_words,
        help="A folder, a repo id, or a part of one; `watch` shows a training in a folder.",
    ),
]


def train(context: typer.Context, words: list[str] | None = None, **options: Any) -> None:
    """Fine-tune a model on your data with LoRA: SFT, DPO or ORPO.

    Ctrl-C saves after the running step; a second one ends at once. `mlxbun train watch DIR` shows
    a training that runs or has run. A model called watch is ./watch.
    """
    session: Session = context.obj
    console = session.console(json=options["json"])
    asked = read_words(words or [], options)
    if asked.watch is not None:
        from commands.train.watch import watch

        watch(asked.watch, console=console)
        return
    from commands.train.command import run_train

    settings = session.settings(
        memory_budget=options["memory_budget"],
        blas=options["blas"],
        dequantize=options["dequantize"],
    ).values
    run_train(
        asked.model,
        FIELDS.given(options),
        config_file=options["config"],
        dry_run=options["dry_run"],
        resume=options["resume"],
        settings=settings,
        session=session,
        console=console,
    )


def _panel(name: str) -> str | None:
    method = name.split("_", 1)[0]
    if method in _PANELS and name != "sft_scope":
        return _PANELS[method]
    if name in _LORA:
        return "LoRA"
    return "Memory" if name in _MEMORY else None


FIELDS = FieldOptions(
    table=TABLE,
    panel=_panel,
    spelled={
        "data_dir": ("--data", "--data-dir"),
        "adapter_path": ("--adapter-path", "--output"),
    },
    metavars={"data_dir": "PATH", "adapter_path": "DIR", "warm_start_adapter": "DIR"},
    completers=_COMPLETERS,
    defaults={"target_modules": "all seven"},
)


def _options() -> list[inspect.Parameter]:
    """Return the options: one for each field, and those of a run."""
    return [
        parameter("context", typer.Context, inspect.Parameter.empty),
        parameter("words", WordsArgument, None),
        *FIELDS.parameters(leave_out=("model_dir",)),
        parameter("config", ConfigFileOption, None),
        parameter("dry_run", DryRunOption, False),
        parameter("resume", ResumeOption, False),
        parameter("memory_budget", MemoryOption, None),
        parameter("blas", BlasOption, None),
        parameter("dequantize", DequantizeOption, None),
        parameter("json", JsonOption, False),
    ]


take_options(train, _options())
