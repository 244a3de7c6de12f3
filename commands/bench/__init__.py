"""`mlxbun bench`: how fast a model runs on this machine, kept and compared with earlier runs.

Light to import: the engine and matplotlib come in when the command runs.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from commands._shared.completion import bench_words
from commands._shared.options import (
    BatchOption,
    BlasOption,
    DequantizeOption,
    JsonOption,
    MemoryOption,
    PrefillOption,
    PromptCacheOption,
)
from commands.bench.words import read_words

if TYPE_CHECKING:
    from commands._shared.session import Session

_HISTORY = "History"


def bench(
    context: typer.Context,
    words: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="[MODEL] | history [MODEL]",
            autocompletion=bench_words,
            help="A folder, a repo id, or a part of one; `history` shows earlier runs.",
        ),
    ] = None,
    prompts: Annotated[
        str | None,
        typer.Option("--prompts", help="Prompt lengths in tokens [128,512,2048].", metavar="N,N"),
    ] = None,
    rows: Annotated[
        str | None,
        typer.Option("--rows", help="Rows decoded together [1,2,4,8].", metavar="N,N"),
    ] = None,
    tokens: Annotated[
        int | None, typer.Option("--tokens", help="Tokens that each row decodes [32].")
    ] = None,
    repeats: Annotated[
        int | None, typer.Option("--repeats", help="Samples of each figure [5].")
    ] = None,
    plot: Annotated[
        Path | None, typer.Option("--plot", help="Draw it: a .png or .svg file.", metavar="FILE")
    ] = None,
    batch: BatchOption = None,
    memory_budget: MemoryOption = None,
    prompt_cache: PromptCacheOption = None,
    prefill: PrefillOption = None,
    blas: BlasOption = None,
    dequantize: DequantizeOption = None,
    limit: Annotated[
        int | None,
        typer.Option("--limit", help="Most runs to show [10].", min=1, rich_help_panel=_HISTORY),
    ] = None,
    json: JsonOption = False,
) -> None:
    """Measure prefill, decode and the time to the first token; keep the figures.

    `mlxbun bench history` shows earlier runs. A model called history is ./history.
    """
    session: Session = context.obj
    console = session.console(json=json)
    asked = read_words(words or [], context.params)
    if asked.history:
        from commands.bench.history import show_history

        show_history(asked.model, limit or 10, session=session, console=console)
        return
    settings = session.settings(
        batch=batch,
        memory_budget=memory_budget,
        prompt_cache=prompt_cache,
        prefill=prefill,
        blas=blas,
        dequantize=dequantize,
    ).values
    from commands.bench.run import run_bench
    from core.bench.plan import make_wishes

    wishes = make_wishes(prompts=prompts, rows=rows, tokens=tokens, repeats=repeats)
    run_bench(asked.model, wishes, plot, settings=settings, session=session, console=console)
