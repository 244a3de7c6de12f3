"""`mlxbun serve`: one model behind an OpenAI-compatible HTTP API.

Light to import: the web server and the engine come in when the command runs.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from commands._shared.completion import hosts, models
from commands._shared.engine import open_shown
from commands._shared.options import (
    SETTINGS,
    AdapterOption,
    BatchOption,
    BlasOption,
    DequantizeOption,
    HlgOption,
    HlgPivotOption,
    HlgShoulderOption,
    HlgToeOption,
    HlgWidthOption,
    JsonOption,
    KvBudgetOption,
    MaxTokensOption,
    MemoryOption,
    MinPOption,
    PrefillOption,
    PromptCacheOption,
    TemperatureOption,
    ThinkingOption,
    TopKOption,
    TopPOption,
)
from core.errors import UsageProblem

if TYPE_CHECKING:
    from commands._shared.session import Session
    from core.settings import Settings


def serve(
    context: typer.Context,
    model: Annotated[
        str | None,
        typer.Argument(autocompletion=models, help="A folder, a repo id, or a part of one."),
    ] = None,
    host: Annotated[
        str | None,
        typer.Option(
            "--host",
            autocompletion=hosts,
            help="Interface to listen on [127.0.0.1].",
            metavar="HOST",
            rich_help_panel=SETTINGS,
        ),
    ] = None,
    port: Annotated[
        int | None,
        typer.Option(
            "--port",
            help="Port to listen on; 0: a free one [8080].",
            metavar="PORT",
            rich_help_panel=SETTINGS,
        ),
    ] = None,
    batch: BatchOption = None,
    memory_budget: MemoryOption = None,
    kv_budget: KvBudgetOption = None,
    prompt_cache: PromptCacheOption = None,
    prefill: PrefillOption = None,
    blas: BlasOption = None,
    dequantize: DequantizeOption = None,
    adapter: AdapterOption = None,
    temperature: TemperatureOption = None,
    top_p: TopPOption = None,
    top_k: TopKOption = None,
    min_p: MinPOption = None,
    max_tokens: MaxTokensOption = None,
    thinking: ThinkingOption = None,
    hlg_sampling: HlgOption = None,
    hlg_width: HlgWidthOption = None,
    hlg_shoulder: HlgShoulderOption = None,
    hlg_toe: HlgToeOption = None,
    hlg_pivot_offset: HlgPivotOption = None,
    keep_alive: Annotated[
        float | None,
        typer.Option(
            "--keep-alive",
            help="Idle time until the model leaves memory; a request brings it back. Unset: never.",
            metavar="MINUTES",
            rich_help_panel=SETTINGS,
        ),
    ] = None,
    drain_timeout: Annotated[
        float | None,
        typer.Option(
            "--drain-timeout",
            help="Seconds that running answers get when the server is stopped [30].",
            metavar="SECONDS",
            rich_help_panel=SETTINGS,
        ),
    ] = None,
    model_option: Annotated[
        str | None,
        typer.Option("--model", autocompletion=models, help="The same as MODEL.", metavar="MODEL"),
    ] = None,
    no_open: Annotated[  # noqa: ARG001 -- asks for what serve does anyway
        bool,
        typer.Option("--no-open", help="Do not open a browser; serve never opens one."),
    ] = False,
    json: JsonOption = False,
) -> None:
    """Serve a model over HTTP, with an OpenAI-compatible API.

    Ctrl-C lets running answers finish; a second one ends at once.
    """
    session: Session = context.obj
    settings = session.settings(
        host=host,
        port=port,
        batch=batch,
        memory_budget=memory_budget,
        kv_budget=kv_budget,
        prompt_cache=prompt_cache,
        prefill=prefill,
        blas=blas,
        dequantize=dequantize,
        adapter=adapter,
        temperature=temperature,
        top_p=top_p,
        top_k=top_k,
        min_p=min_p,
        max_tokens=max_tokens,
        thinking=thinking,
        hlg_sampling=hlg_sampling,
        hlg_width=hlg_width,
        hlg_shoulder=hlg_shoulder,
        hlg_toe=hlg_toe,
        hlg_pivot_offset=hlg_pivot_offset,
        keep_alive=keep_alive,
        drain_timeout=drain_timeout,
    ).values
    _serve(session, _one_model(model, model_option), settings, json=json)


def _can_train(model: Any) -> bool:
    """Return whether a loaded model can be trained, on the engine's thread."""
    from core.train.trial import can_train

    return can_train(model)


def _one_model(argument: str | None, option: str | None) -> str | None:
    """Return the model that was named, once or twice.

    Raises:
        UsageProblem: the two names differ.
    """
    if argument and option and argument != option:
        raise UsageProblem(
            f"MODEL is {argument!r}, but --model is {option!r}.", hint="Give only one of them."
        )
    return argument or option


def _serve(session: Session, model: str | None, settings: Settings, *, json: bool) -> None:
    """Take the port, load the model, say so, and answer until stopped."""
    from functools import partial
    from importlib.metadata import version

    from commands.serve.listener import bind, listen, url
    from commands.serve.telling import Telling

    console = session.console(json=json)
    telling = Telling(console, drain_timeout=settings.drain_timeout)
    # First the port: whoever has to choose another should not wait for the model to hear of it.
    with bind(settings.host, settings.port) as listener:
        from core.engine.slim import import_alone
        from core.engine.start import Opening
        from core.fit.host import find_host
        from core.registry.library import usable_models
        from core.servers import registered

        # Before MLX is imported, as it loads what must be there before MLX.
        host = find_host(settings, session.paths, session.environ)
        engine = open_shown(
            model,
            settings=settings,
            session=session,
            console=console,
            opening=Opening(
                # Importing the web framework takes as long as reading the weights.
                meanwhile=partial(import_alone, "commands.serve.run"),
                can_train=_can_train,
            ),
        )
        from commands.serve.run import run_server
        from commands.serve.tracing import tracing_wanted

        listen(listener)  # before it is said: whoever reads it may connect
        telling.listening(engine.info, engine.compute, url(listener))
        with registered(
            session.paths.run_folder,
            url=url(listener),
            model=engine.info.model_id,
            model_folder=engine.info.folder,
        ):
            run_server(
                engine,
                settings,
                listener=listener,
                version=version("mlxbun"),
                paths=session.paths,
                environ=session.environ,
                host=host,
                other_models=partial(usable_models, session.paths, settings),
                on_drain=telling.draining,
                on_cut=telling.cut,
                trace=console.reply if tracing_wanted(session.environ) else None,
            )
    telling.done()
