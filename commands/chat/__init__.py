"""`mlxbun chat`: a conversation at the terminal, kept as it goes.

Light to import: the line editor, Markdown and the engine come in when the command runs.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from commands._shared.completion import models, sessions
from commands._shared.options import (
    AdapterOption,
    BlasOption,
    DequantizeOption,
    JsonOption,
    MaxTokensOption,
    MemoryOption,
    MinPOption,
    PromptCacheOption,
    TemperatureOption,
    ThinkingOption,
    TopKOption,
    TopPOption,
)

if TYPE_CHECKING:
    from commands._shared.session import Session

ContinueOption = Annotated[
    bool, typer.Option("--continue", help="Go on with the latest conversation.")
]
ResumeOption = Annotated[
    str | None,
    typer.Option(
        "--resume",
        autocompletion=sessions,
        help="Go on with this one: its name or a part.",
        metavar="NAME",
    ),
]


def chat(
    context: typer.Context,
    model: Annotated[
        str | None,
        typer.Argument(autocompletion=models, help="A folder, a repo id, or a part of one."),
    ] = None,
    system: Annotated[str | None, typer.Option("--system", help="System message.")] = None,
    resume_last: ContinueOption = False,
    resume: ResumeOption = None,
    no_save: Annotated[
        bool, typer.Option("--no-save", help="Keep neither the conversation nor what is typed.")
    ] = False,
    plain: Annotated[
        bool, typer.Option("--plain", help="Show answers as they are, without Markdown.")
    ] = False,
    stats: Annotated[
        bool, typer.Option("--stats", help="Tell speed and cached tokens after each answer.")
    ] = False,
    memory: Annotated[
        bool, typer.Option("--memory", help="Let the model look things up in the memory vault.")
    ] = False,
    temperature: TemperatureOption = None,
    top_p: TopPOption = None,
    top_k: TopKOption = None,
    min_p: MinPOption = None,
    max_tokens: MaxTokensOption = None,
    thinking: ThinkingOption = None,
    memory_budget: MemoryOption = None,
    prompt_cache: PromptCacheOption = None,
    blas: BlasOption = None,
    dequantize: DequantizeOption = None,
    adapter: AdapterOption = None,
    json: JsonOption = False,
) -> None:
    """Chat with a model; /help there lists the commands.

    Conversations are kept in ~/.mlxbun/sessions. Ctrl-C stops an answer, Ctrl-D leaves. With
    --json, messages come from a pipe, one a line, and answers are lines of JSON.
    """
    session: Session = context.obj
    settings = session.settings(
        temperature=temperature,
        top_p=top_p,
        top_k=top_k,
        min_p=min_p,
        max_tokens=max_tokens,
        thinking=thinking,
        memory_budget=memory_budget,
        prompt_cache=prompt_cache,
        blas=blas,
        dequantize=dequantize,
        adapter=adapter,
        batch=1,
    ).values
    from commands.chat.run import Wishes, run_chat

    wishes = Wishes(
        model=model,
        system=system,
        resume_last=resume_last,
        resume=resume,
        save=not no_save,
        plain=plain,
        stats=stats,
        json=json,
        memory=memory,
    )
    raise typer.Exit(run_chat(session, settings, wishes))
