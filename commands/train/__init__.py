"""`mlxbun train`: fine-tune a model with LoRA on this machine, and watch a training.

Light to import: the options are made from the table of the configuration, which imports no arrays.
"""

from __future__ import annotations

import inspect
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Optional

import typer

from commands._shared import completion
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
_NAMES = {"data_dir": ("--data", "--data-dir"), "adapter_path": ("--adapter-path", "--output")}
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
        {name: options[name] for name in TABLE.names if name in options},
        config_file=options["config"],
        dry_run=options["dry_run"],
        resume=options["resume"],
        settings=settings,
        session=session,
        console=console,
    )


def _field_option(name: str) -> inspect.Parameter:
    """Return the option of a field, as Typer reads it."""
    default = TABLE.default(name)
    kind = _kind(default)
    spelled = _NAMES.get(name, (f"--{name.replace('_', '-')}",))
    if kind is bool:
        spelled = (f"{spelled[0]}/--no-{spelled[0][2:]}",)
    option = typer.Option(
        *spelled,
        help=TABLE.help(name) if default is None or kind is bool else _with_default(name),
        metavar=None if kind is bool else _metavar(name, kind),
        autocompletion=_COMPLETERS.get(name),
        rich_help_panel=_panel(name),
    )
    return _parameter(name, Annotated[Optional[kind], option], None)  # noqa: UP045 (a value)


def _with_default(name: str) -> str:
    default = TABLE.default(name)
    shown = f"{default:g}" if isinstance(default, int | float) else default
    shown = "all seven" if name == "target_modules" else shown
    return f"{TABLE.help(name).removesuffix('.')} [{shown}]."


def _kind(default: Any) -> type:
    if isinstance(default, bool | int | float):
        return type(default)
    return str


def _metavar(name: str, kind: type) -> str:
    if name in _NAMES or name == "warm_start_adapter":
        return "PATH" if name == "data_dir" else "DIR"
    return {int: "N", float: "X"}.get(kind, "NAME")


def _panel(name: str) -> str | None:
    method = name.split("_", 1)[0]
    if method in _PANELS and name != "sft_scope":
        return _PANELS[method]
    if name in _LORA:
        return "LoRA"
    return "Memory" if name in _MEMORY else None


def _parameter(name: str, annotation: Any, default: Any) -> inspect.Parameter:
    kind = inspect.Parameter.KEYWORD_ONLY
    return inspect.Parameter(name, kind, annotation=annotation, default=default)


def _make_options() -> None:
    """Give the command its options: one for each field, and those of a run."""
    fields = [_field_option(name) for name in TABLE.names if name != "model_dir"]
    run = [
        _parameter("config", ConfigFileOption, None),
        _parameter("dry_run", DryRunOption, False),
        _parameter("resume", ResumeOption, False),
        _parameter("memory_budget", MemoryOption, None),
        _parameter("blas", BlasOption, None),
        _parameter("dequantize", DequantizeOption, None),
        _parameter("json", JsonOption, False),
    ]
    first = [
        _parameter("context", typer.Context, inspect.Parameter.empty),
        _parameter("words", WordsArgument, None),
    ]
    parameters = [*first, *fields, *run]
    train.__dict__["__signature__"] = inspect.Signature(parameters)
    train.__annotations__ = {each.name: each.annotation for each in parameters}


_make_options()
