"""`mlxbun eval`: compare a model with its original, or verify a published table.

Light to import: MLX is imported when the command runs.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from commands._shared.completion import models, two_models
from commands._shared.options import BlasOption, JsonOption, MemoryOption

if TYPE_CHECKING:
    from commands._shared.session import Session


def evaluate(
    context: typer.Context,
    words: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="ORIGINAL MODEL | --verify MODEL",
            autocompletion=two_models,
            help="Two models (folder, repo id, or part of one); one with --verify.",
        ),
    ] = None,
    verify: Annotated[
        bool,
        typer.Option("--verify", help="Measure a quantized model's published table again."),
    ] = False,
    original: Annotated[
        str | None,
        typer.Option(
            "--original",
            autocompletion=models,
            help="With --verify: the original model. Default: the one named in the record.",
            metavar="MODEL",
        ),
    ] = None,
    min_agreement: Annotated[
        float | None,
        typer.Option(
            "--min-agreement",
            help="Fail below this top-1 agreement, 0 to 1.",
            metavar="X",
        ),
    ] = None,
    max_kl: Annotated[
        float | None,
        typer.Option(
            "--max-kl",
            help="Fail above this mean KL divergence, in nats per token.",
            metavar="NATS",
        ),
    ] = None,
    answers: Annotated[
        bool | None,
        typer.Option(
            "--answers/--no-answers", help="Generate and compare answers, JSON and tool calls [on]."
        ),
    ] = None,
    max_tokens: Annotated[
        int | None,
        typer.Option(
            "--max-tokens", help="Maximum tokens per answer [64].", min=1, max=4096, metavar="N"
        ),
    ] = None,
    layer_by_layer: Annotated[
        bool | None,
        typer.Option(
            "--layer-by-layer/--whole",
            help="Keep one layer in memory at a time [for large models].",
        ),
    ] = None,
    memory_budget: MemoryOption = None,
    blas: BlasOption = None,
    json: JsonOption = False,
) -> None:
    """Compare a model with its original on held-out text.

    Shows bits per weight, size, perplexity, KL divergence and top-1 agreement, overall and by
    domain; then where greedy answers diverge, and how many are valid JSON or valid tool calls.
    With --verify, measures the published table of a quantized model again, and fails if a claim
    does not hold.
    """
    from commands.eval.command import run_command
    from commands.eval.words import read_words

    session: Session = context.obj
    asked = read_words(
        words or [], verify=verify, original=original, min_agreement=min_agreement, max_kl=max_kl,
        answers=answers, max_tokens=max_tokens, layered=layer_by_layer,
    )  # fmt: skip
    settings = session.settings(memory_budget=memory_budget, blas=blas, batch=8).values
    run_command(asked, settings=settings, session=session, console=session.console(json=json))
