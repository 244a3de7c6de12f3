"""`mlxbun quantize`: quantize a model and measure the loss.

Light to import: the options come from the recipe's field table, which imports no arrays.
"""

from __future__ import annotations

import inspect
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from commands._shared import completion
from commands._shared.fields import FieldOptions, parameter, take_options
from commands._shared.options import BlasOption, JsonOption, MemoryOption
from core.quantize.recipe import TABLE

if TYPE_CHECKING:
    from commands._shared.session import Session

_MIXED = "Mixed precision"
_ROTATION = "Rotation"
_PROOF = "Proof"
_OUTPUT = "Output"
_SIZE = "Size"
_PANELS = {
    "target_bpw": _MIXED,
    "candidate_bits": _MIXED,
    "reference": _MIXED,
    "calibration_mix": _MIXED,
    "n_calibration": _MIXED,
    "rotate_weights": _ROTATION,
    "rotation_seed": _ROTATION,
    "rotation_form": _ROTATION,
    "proof": _PROOF,
    "min_agreement": _PROOF,
    "max_kl": _PROOF,
    "kv_config": _OUTPUT,
    "text_only": _OUTPUT,
    "output": _OUTPUT,
}

FIELDS = FieldOptions(
    table=TABLE,
    panel=lambda name: _PANELS.get(name, _SIZE),
    metavars={
        "mode": "MODE",
        "candidate_bits": "BITS",
        "reference": "bf16|BITS",
        "calibration_mix": "NAME|FILE",
        "override": "PATTERN=BITS|keep",
        "fit": "SIZE",
        "output": "DIR",
    },
    completers={
        "bits": completion.widths,
        "embedding_bits": completion.widths,
        "group_size": completion.group_sizes,
        "mode": completion.quantize_modes,
        "candidate_bits": completion.candidate_widths,
        "rotation_form": completion.rotation_forms,
        "reference": completion.sensitivity_references,
        "calibration_mix": completion.calibration_mixes,
        "fit": completion.memory_sizes,
        "output": completion.folders,
    },
)

ModelArgument = Annotated[
    str | None,
    typer.Argument(
        metavar="MODEL",
        autocompletion=completion.models,
        help="A folder, a repo id, or a part of one. Default: model_id in --recipe.",
    ),
]
RecipeOption = Annotated[
    Path | None,
    typer.Option(
        "--recipe",
        help="Read these fields from a TOML, YAML or JSON file; options take precedence.",
        metavar="FILE",
    ),
]
PlotOption = Annotated[
    Path | None,
    typer.Option(
        "--plot",
        help="Draw bits per layer, sensitivity, and size against KL (SVG or PNG).",
        metavar="FILE",
        rich_help_panel=_OUTPUT,
    ),
]
DryRunOption = Annotated[
    bool,
    typer.Option(
        "--dry-run",
        help="Show the plan for each layer, the size, memory and time; write nothing.",
    ),
]


def quantize(context: typer.Context, model: str | None = None, **options: Any) -> None:
    """Quantize a model and measure the loss.

    The result goes into the Hugging Face cache under a new name, where `ls` and `serve` find it.
    Ctrl-C stops after the current tensor, and the same command resumes; a second Ctrl-C stops at
    once.
    """
    session: Session = context.obj
    console = session.console(json=options["json"])
    from commands.quantize.command import Run, run_quantization

    settings = session.settings(memory_budget=options["memory_budget"], blas=options["blas"]).values
    given = FIELDS.given(options) | ({"model_id": model} if model else {})
    run = Run(
        file=options["recipe"],
        plot=options["plot"],
        dry_run=options["dry_run"],
        settings=settings,
        session=session,
    )
    run_quantization(given, run, console)


def _options() -> list[inspect.Parameter]:
    """Return the options: one for each field, and those of a run."""
    return [
        parameter("context", typer.Context, inspect.Parameter.empty),
        parameter("model", ModelArgument, None),
        *FIELDS.parameters(leave_out=("model_id",)),
        parameter("recipe", RecipeOption, None),
        parameter("plot", PlotOption, None),
        parameter("dry_run", DryRunOption, False),
        parameter("memory_budget", MemoryOption, None),
        parameter("blas", BlasOption, None),
        parameter("json", JsonOption, False),
    ]


take_options(quantize, _options())
