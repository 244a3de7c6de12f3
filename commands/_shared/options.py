"""Options that several commands share, spelled once."""

from __future__ import annotations

from typing import Annotated

import typer

from commands._shared.completion import (
    adapters,
    blas,
    dequantize,
    on_off,
    prefill,
    true_false,
)

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
        "--decode-concurrency",
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
KvBudgetOption = Annotated[
    float | None,
    typer.Option(
        "--kv-budget",
        help="Memory for the KV of running requests, in GB; others wait. Unset: what is left.",
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
        autocompletion=adapters,
        help="Adapter to put on the model: a folder, or a name that `mlxbun adapters list` shows.",
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
ThinkingOption = Annotated[
    str | None,
    typer.Option(
        "--thinking",
        autocompletion=true_false,
        help="Reason before answering, where the model can: true or false; unset: as it likes.",
        metavar="BOOL",
        rich_help_panel=SETTINGS,
    ),
]
HlgOption = Annotated[
    str | None,
    typer.Option(
        "--hlg-sampling",
        autocompletion=on_off,
        help="Tone-curve sampling: on or off [off].",
        metavar="WHEN",
        rich_help_panel=SETTINGS,
    ),
]
HlgWidthOption = Annotated[
    float | None,
    typer.Option(
        "--hlg-width",
        help="Its plateau, in nats [4].",
        metavar="NATS",
        rich_help_panel=SETTINGS,
    ),
]
HlgShoulderOption = Annotated[
    float | None,
    typer.Option(
        "--hlg-shoulder",
        help="Its shoulder, in nats [4].",
        metavar="NATS",
        rich_help_panel=SETTINGS,
    ),
]
HlgToeOption = Annotated[
    float | None,
    typer.Option(
        "--hlg-toe", help="Its toe, in nats [6].", metavar="NATS", rich_help_panel=SETTINGS
    ),
]
HlgPivotOption = Annotated[
    float | None,
    typer.Option(
        "--hlg-pivot-offset",
        help="From the likeliest token down to its pivot, in nats [6].",
        metavar="NATS",
        rich_help_panel=SETTINGS,
    ),
]
