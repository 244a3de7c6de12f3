"""Options that several commands share, spelled once."""

from __future__ import annotations

from typing import Annotated

import typer

from commands._shared.completion import blas, dequantize, folders, prefill

EVERYWHERE = "Everywhere"
"""The panel of what every command takes."""

SETTINGS = "Settings (also: mlxbun config set, MLXBUN_NAME)"
"""The panel of options that are settings: `--top-p` is `top_p`, and `MLXBUN_TOP_P`."""


def _make_quiet(context: typer.Context, wanted: bool) -> None:
    if wanted:
        context.obj = context.obj.made_quiet()


def _take_offline(context: typer.Context, wanted: bool) -> None:
    if wanted:
        context.obj = context.obj.taken_offline()


QuietOption = Annotated[
    bool,
    typer.Option(
        "--quiet",
        "-q",
        help="Print data and errors, no notes and no progress.",
        callback=_make_quiet,
        expose_value=False,
        rich_help_panel=EVERYWHERE,
    ),
]
OfflineOption = Annotated[
    bool,
    typer.Option(
        "--offline",
        help="Use no network, as with MLXBUN_OFFLINE=1 or HF_HUB_OFFLINE=1.",
        callback=_take_offline,
        expose_value=False,
        rich_help_panel=EVERYWHERE,
    ),
]
JsonOption = Annotated[bool, typer.Option("--json", help="Print JSON and nothing else.")]
BatchOption = Annotated[
    int | None,
    typer.Option(
        "--batch",
        help="Requests decoded together; 1 is serial [8].",
        metavar="N",
        rich_help_panel=SETTINGS,
    ),
]
MemoryOption = Annotated[
    float | None,
    typer.Option(
        "--memory-budget",
        help="Memory for weights and caches, in GB.",
        metavar="GB",
        rich_help_panel=SETTINGS,
    ),
]
PrefillOption = Annotated[
    str | None,
    typer.Option(
        "--prefill",
        autocompletion=prefill,
        help="Long prompts yield to running streams (latency) or less so (throughput) [latency].",
        metavar="KIND",
        rich_help_panel=SETTINGS,
    ),
]
PromptCacheOption = Annotated[
    float | None,
    typer.Option(
        "--prompt-cache",
        help="KV kept for prompts to come, running ones included; 0: off [2].",
        metavar="GIB",
        rich_help_panel=SETTINGS,
    ),
]
BlasOption = Annotated[
    str | None,
    typer.Option(
        "--blas",
        autocompletion=blas,
        help="BLAS on a CPU: auto, off, or a library's path [auto].",
        metavar="BLAS",
        rich_help_panel=SETTINGS,
    ),
]
DequantizeOption = Annotated[
    str | None,
    typer.Option(
        "--dequantize",
        autocompletion=dequantize,
        help="Unpack quantized weights to float32: auto, on or off [auto].",
        metavar="WHEN",
        rich_help_panel=SETTINGS,
    ),
]
AdapterOption = Annotated[
    str | None,
    typer.Option(
        "--adapter",
        "--adapter-path",
        autocompletion=folders,
        help="Adapter to put on the model: a folder.",
        metavar="DIR",
        rich_help_panel=SETTINGS,
    ),
]
TemperatureOption = Annotated[
    float | None,
    typer.Option(
        "--temperature",
        "--temp",
        help="Randomness; 0 is greedy.",
        metavar="X",
        rich_help_panel=SETTINGS,
    ),
]
TopPOption = Annotated[
    float | None,
    typer.Option("--top-p", help="Nucleus mass; 0 is off.", metavar="P", rich_help_panel=SETTINGS),
]
TopKOption = Annotated[
    int | None,
    typer.Option(
        "--top-k", help="Keep the k likeliest; 0 is off.", metavar="K", rich_help_panel=SETTINGS
    ),
]
MinPOption = Annotated[
    float | None,
    typer.Option(
        "--min-p",
        help="Keep tokens this likely beside the best; 0 is off.",
        metavar="P",
        rich_help_panel=SETTINGS,
    ),
]
MaxTokensOption = Annotated[
    int | None,
    typer.Option(
        "--max-tokens",
        help="Most tokens to generate; unset: until done.",
        metavar="N",
        rich_help_panel=SETTINGS,
    ),
]
