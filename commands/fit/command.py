"""The command: which models on which machines, and what is said of each."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated

import typer

from commands._shared.completion import kv_bits, macs, models, quantize_forms
from commands._shared.failure import EXIT_CODES, exit_code
from commands._shared.options import DequantizeOption, JsonOption, MemoryOption
from core.errors import DoesNotFit, MlxbunError, UsageProblem

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from commands._shared.console import Console
    from commands._shared.session import Session
    from commands.fit.quantizing import Quantizing
    from core.fit.assess import Assessment, Question
    from core.fit.candidate import ModelFiles
    from core.fit.host import Host
    from core.quantize.budget import Wanted
    from core.settings import Settings

_KV_BITS = (8, 4)


@dataclass(frozen=True, kw_only=True)
class Outcome:
    """What came out for one model."""

    name: str
    """As it was named."""
    found: tuple[Assessment, ...] = ()
    """One for each machine."""
    problem: MlxbunError | None = None
    """Why there are none; None: there are."""
    quantizing: Quantizing | None = None
    """The quantization that was asked about; None: none was."""


@dataclass(frozen=True, kw_only=True)
class _Asked:
    """What is asked about each model."""

    hosts: Sequence[Host]
    """The machines."""
    question: Question
    """Context, rows, KV."""
    wanted: Wanted | None
    """What the models are to be quantized to; None: as they are."""
    remote: bool
    """Ask the Hub even when a model is here."""


def fit(
    context: typer.Context,
    models: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="[MODEL]...",
            autocompletion=models,
            help="A model here or a repository on the Hub; none: all that run here.",
        ),
    ] = None,
    ctx: Annotated[
        int | None,
        typer.Option(
            "--ctx", min=1, max=2**31 - 1, help="Tokens of prompt and answer [8192].", metavar="N"
        ),
    ] = None,
    batch: Annotated[
        int,
        typer.Option("--batch", min=1, max=256, help="Rows that run together [1].", metavar="N"),
    ] = 1,
    kv_bits: Annotated[
        int | None,
        typer.Option(
            "--kv-bits",
            autocompletion=kv_bits,
            help="A KV cache of 8 or 4 bits, group size 64.",
            metavar="BITS",
        ),
    ] = None,
    skus: Annotated[bool, typer.Option("--skus", help="On every Mac there is.")] = False,
    sku: Annotated[
        str | None,
        typer.Option(
            "--sku",
            autocompletion=macs,
            help="On such a Mac: 'M4 Max', 'M4 Max 64'.",
            metavar="MAC",
        ),
    ] = None,
    quantize: Annotated[
        str | None,
        typer.Option(
            "--quantize",
            autocompletion=quantize_forms,
            help="As `mlxbun quantize` would leave them: 4bit, mxfp4, 4.5bpw.",
            metavar="FORM",
        ),
    ] = None,
    remote: Annotated[
        bool, typer.Option("--remote", help="Ask the Hub even when the model is here.")
    ] = False,
    memory_budget: MemoryOption = None,
    dequantize: DequantizeOption = None,
    json: JsonOption = False,
) -> None:
    """Tell whether models fit this machine or a Mac, and how fast they would be.

    From config.json and the headers of the weights, also of a model that was not downloaded. Ends
    with code 0 where they fit, 4 where one does not (with --skus: where it fits no Mac).
    """
    from core.fit.assess import Question

    if kv_bits not in (None, *_KV_BITS):
        raise UsageProblem(f"--kv-bits must be 8 or 4, not {kv_bits}.")
    if skus and sku is not None:
        raise UsageProblem("--skus means every Mac, --sku one: give one of them.")
    session: Session = context.obj
    settings = session.settings(memory_budget=memory_budget, dequantize=dequantize).values
    question = Question(context=ctx, rows=batch, kv_bits=kv_bits)
    asked = _Asked(
        hosts=_macs(sku, memory_budget) if skus or sku is not None else [_here(session, settings)],
        question=question,
        wanted=_wanted(quantize),
        remote=remote,
    )
    named = _names(models or (), session, settings)
    console = session.console(json=json)
    if not named:
        console.note(f"There are no models in {session.paths.hub_cache} yet.")
        console.note("  Name one on the Hub, or fetch a first one: `mlxbun download starter`.")
    outcomes = list(_outcomes(named, asked, session, settings))
    alone = bool(models) and len(outcomes) == 1
    if alone and outcomes[0].problem is not None:
        raise outcomes[0].problem
    _show(outcomes, console, whole=alone and len(asked.hosts) == 1 and not skus)
    if code := _code(outcomes, skus=skus):
        raise typer.Exit(code)


def _wanted(text: str | None) -> Wanted | None:
    if text is None:
        return None
    from core.quantize.budget import read_wanted

    return read_wanted(text)


def _macs(name: str | None, budget_gb: float | None) -> list[Host]:
    from core.fit.host import sku_host
    from core.fit.machines import find_skus, load_skus

    found = load_skus() if name is None else find_skus(name)
    return [sku_host(sku, budget_gb) for sku in found]


def _here(session: Session, settings: Settings) -> Host:
    from core.fit.host import find_host

    return find_host(settings, session.paths, session.environ)


def _names(models: Sequence[str], session: Session, settings: Settings) -> list[str]:
    """Return the models that are meant; where none is named, all that run here."""
    if models:
        return list(dict.fromkeys(models))
    from core.registry.library import library

    return [card.name for card in library(session.paths, settings) if card.supported]


def _outcomes(
    names: Sequence[str], asked: _Asked, session: Session, settings: Settings
) -> Iterator[Outcome]:
    from core.figures import FigureStore
    from core.fit.assess import Assessor
    from core.fit.batching import BatchingShelf
    from core.fit.candidate import candidate_of, find_files

    figures = FigureStore(session.paths.figures_file)
    shelf = BatchingShelf.in_cache(session.paths.cache)
    for name in names:
        try:
            files = find_files(
                name,
                paths=session.paths,
                environ=session.environ,
                model_folders=settings.model_folders,
                remote=asked.remote,
            )
            files, quantizing = _quantized(files, asked, session, settings)
            candidate = candidate_of(files)
            assessor = Assessor(candidate, figures=figures, shelf=shelf)
            found = tuple(assessor.assess(host, asked.question) for host in asked.hosts)
        except MlxbunError as problem:
            yield Outcome(name=name, problem=problem)
        else:
            yield Outcome(name=candidate.model_id, found=found, quantizing=quantizing)


def _quantized(
    files: ModelFiles, asked: _Asked, session: Session, settings: Settings
) -> tuple[ModelFiles, Quantizing | None]:
    """Return the files of a model as they are asked about, and the quantization, if any."""
    if asked.wanted is None:
        return files, None
    from commands.fit.quantizing import quantized_files

    return quantized_files(
        files,
        asked.wanted,
        hub_cache=session.paths.hub_cache,
        memory_bytes=_here(session, settings).usable_bytes,
    )


def _show(outcomes: Sequence[Outcome], console: Console, *, whole: bool) -> None:
    from commands.fit.plain import as_json, problem_as_json
    from commands.fit.show import show_macs, show_models, show_whole

    if console.json_mode:
        told = [
            as_json(each, quantizing=outcome.quantizing)
            for outcome in outcomes
            for each in outcome.found
        ]
        wrong = [problem_as_json(o.name, o.problem) for o in outcomes if o.problem is not None]
        console.json({"results": [*told, *wrong]})
    elif whole:
        show_whole(outcomes[0].found[0], console, quantizing=outcomes[0].quantizing)
    else:
        many = any(len(outcome.found) > 1 for outcome in outcomes)
        (show_macs if many else show_models)(outcomes, console)


def _code(outcomes: Sequence[Outcome], *, skus: bool) -> int:
    """Return the exit code: that of a misfit before that of what could not be told."""
    some = any if skus else all
    if not all(some(each.fits for each in outcome.found) for outcome in outcomes if outcome.found):
        return EXIT_CODES[DoesNotFit]
    if not all(outcome.quantizing.is_possible for outcome in outcomes if outcome.quantizing):
        return EXIT_CODES[DoesNotFit]
    problems = [outcome.problem for outcome in outcomes if outcome.problem is not None]
    return exit_code(problems[0]) if problems else 0
