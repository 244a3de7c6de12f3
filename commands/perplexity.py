"""`mlxbun perplexity`: measure how well a model predicts a text.

Light to import: the engine is imported when the command runs.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import isnan
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal, cast

import typer

from commands._shared.completion import data_sets, models
from commands._shared.options import (
    AdapterOption,
    BlasOption,
    DequantizeOption,
    JsonOption,
    MemoryOption,
)
from core.errors import BackendMissing, UsageProblem
from core.units import format_bytes, format_number, format_seconds

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from commands._shared.console import Console
    from commands._shared.session import Session
    from core.engine.loader import LoadedModel
    from core.engine.tokenizer_card import CardShelf
    from core.evals.documents import Document, TokenRows
    from core.evals.perplexity import Losses, Measured
    from core.machine.compute import ComputePlan
    from core.registry.resolve import ModelRef
    from core.settings import Settings

_SAMPLES, _SEED = 256, 123  # as mlx_lm.perplexity
_COLUMNS = {"domain": "DOMAIN", "tokens": "TOKENS", "perplexity": "PERPLEXITY"}


@dataclass(frozen=True, kw_only=True)
class _Run:
    """What to measure, and how."""

    data: Path | None
    """A file of rows; None: our held-out text."""
    length: int
    """Tokens per sequence."""
    samples: int | None
    """Number of sequences; -1: all; None: not given."""
    batch: int
    """Sequences computed together."""
    seed: int | None
    """Chooses the sequences; None: not given."""
    settings: Settings
    """The merged settings."""
    session: Session
    """The environment and the folders."""
    console: Console
    """The output."""


def perplexity(
    context: typer.Context,
    model: Annotated[
        str | None,
        typer.Argument(autocompletion=models, help="A folder, a repo id, or a part of one."),
    ] = None,
    data: Annotated[
        Path | None,
        typer.Option(
            "--data",
            "--data-path",
            autocompletion=data_sets,
            help="Text to measure on: .jsonl, .csv or .parquet. Default: mlxbun's held-out text.",
            metavar="FILE",
        ),
    ] = None,
    sequence_length: Annotated[
        int,
        typer.Option(
            "--sequence-length", help="Tokens per sequence.", min=8, max=2**20, metavar="N"
        ),
    ] = 512,
    num_samples: Annotated[
        int | None,
        typer.Option(
            "--num-samples",
            help="Number of sequences to measure; -1: all [256].",
            min=-1,
            metavar="N",
        ),
    ] = None,
    batch_size: Annotated[
        int,
        typer.Option(
            "--batch-size", help="Sequences computed together.", min=1, max=4096, metavar="N"
        ),
    ] = 8,
    seed: Annotated[
        int | None,
        typer.Option("--seed", help="Seed for choosing the sequences [123].", min=0, metavar="N"),
    ] = None,
    adapter: AdapterOption = None,
    memory_budget: MemoryOption = None,
    blas: BlasOption = None,
    dequantize: DequantizeOption = None,
    json: JsonOption = False,
) -> None:
    """Measure the perplexity of a model on held-out text.

    Uses the method of `mlx_lm.perplexity`. The held-out text is part of mlxbun, so it works without
    a network.
    """
    session: Session = context.obj
    console = session.console(json=json)
    if num_samples == 0:
        raise UsageProblem("--num-samples must be -1 or at least 1, not 0.")
    settings = session.settings(
        adapter=adapter, memory_budget=memory_budget, blas=blas, dequantize=dequantize
    ).values
    run = _Run(
        data=data,
        length=sequence_length,
        samples=num_samples,
        batch=batch_size,
        seed=seed,
        settings=settings,
        session=session,
        console=console,
    )
    _measure(model, run)


def _measure(model: str | None, run: _Run) -> None:
    """Measure a model and show the result. Cheap checks come first."""
    from core.engine.adapters import find_sound_adapter
    from core.machine.compute import prepare_compute

    settings, session = run.settings, run.session
    documents = _documents(run.data)
    find_sound_adapter(settings.adapter, cache=session.paths.cache)
    plan = prepare_compute(
        blas=settings.blas,
        dequantize=cast(Literal["auto", "on", "off"], settings.dequantize),
        cache=session.paths.cache,
        environ=session.environ,
    )
    for line in plan.notes:
        run.console.note(line)
    found = _find(model, plan, run)
    rows = _rows(documents, found, run)
    loaded = _load(found, plan, run)
    from core.evals.perplexity import measure_perplexity

    with run.console.progress() as on_progress:
        measured = measure_perplexity(
            loaded.model,
            rows,
            batch_size=run.batch,
            threads=loaded.threads,
            on_progress=on_progress,
        )
    _show(measured, rows, loaded, run)


def _documents(file: Path | None) -> Sequence[Document]:
    from core.evals.documents import read_documents
    from core.evals.heldout import heldout_documents
    from core.paths import expanded

    if file is None:
        return heldout_documents()
    documents = read_documents(expanded(file))
    if not documents:
        raise UsageProblem(f"{file} has no rows.")
    return documents


def _find(model: str | None, plan: ComputePlan, run: _Run) -> ModelRef:
    from core.engine.start import find_model

    with run.console.progress() as on_progress:
        return find_model(
            model or run.settings.model,
            plan=plan,
            settings=run.settings,
            paths=run.session.paths,
            environ=run.session.environ,
            on_progress=on_progress,
            on_note=run.console.note,
        )


def _rows(documents: Sequence[Document], found: ModelRef, run: _Run) -> TokenRows:
    """Return the token sequences to measure; no weights are read."""
    _refuse_beyond_context(found, run.length)
    try:
        from core.engine.slim import import_mlx_lm

        import_mlx_lm()
        from core.engine.loader import read_tokenizer
    except ImportError as problem:
        raise BackendMissing(
            f"MLX cannot be imported: {problem}.",
            hint="Run `pip install 'mlxbun[cpu]'`, or 'mlxbun[cuda]' with an NVIDIA GPU.",
        ) from problem
    from core.evals.documents import sample_rows, token_rows

    whole = token_rows(documents, read_tokenizer(found.folder, _shelf(run)), length=run.length)
    if not whole.rows:
        raise UsageProblem("The text is too short: it has fewer than two tokens.")
    wanted = _SAMPLES if run.samples is None else run.samples
    rows = sample_rows(whole, wanted, seed=_SEED if run.seed is None else run.seed)
    for note in (*whole.notes, *_sampling_notes(len(rows.rows), len(whole.rows), run)):
        run.console.note(note)
    return rows


def _refuse_beyond_context(found: ModelRef, length: int) -> None:
    from core.registry.abilities import read_abilities
    from core.registry.files import read_json

    context = read_abilities(read_json(found.folder / "config.json") or {}, None).context
    if context is not None and length > context:
        raise UsageProblem(
            f"--sequence-length is {length}, but the context of {found.model_id} is {context} "
            "tokens."
        )


def _sampling_notes(count: int, total: int, run: _Run) -> Iterator[str]:
    """Yield notes on the effect of the sampling options, one sentence each."""
    if count < total:
        if run.samples is None:
            yield f"{count} of {total} sequences are measured; --num-samples -1 measures all."
        return
    if run.samples is not None and run.samples > total:
        yield f"The text has {total} sequences; all of them are measured, not {run.samples}."
    if run.seed is not None:
        yield f"--seed has no effect: all {total} sequences are measured."


def _load(found: ModelRef, plan: ComputePlan, run: _Run) -> LoadedModel:
    from core.engine.loader import load
    from core.engine.request import SamplingParams
    from core.engine.start import fitting_adapter

    adapter = fitting_adapter(
        run.settings.adapter, found, cache=run.session.paths.cache, on_note=run.console.note
    )
    return load(
        found.folder,
        model_id=found.model_id,
        plan=plan,
        defaults=SamplingParams(),
        memory_budget_gb=run.settings.memory_budget,
        shelf=_shelf(run),
        adapter=adapter,
    )


def _shelf(run: _Run) -> CardShelf:
    from core.engine.tokenizer_card import CardShelf

    return CardShelf(run.session.paths.cache / "tokenizers")


def _show(measured: Measured, rows: TokenRows, loaded: LoadedModel, run: _Run) -> None:
    info, whole = loaded.info, measured.whole
    if run.console.json_mode:
        run.console.json(
            {
                "model": info.model_id,
                "loaded_as": info.loaded_as,
                "adapter": info.adapter,
                "data": str(run.data) if run.data else None,
                "data_sha256": rows.digest,
                "sequences": len(rows.rows),
                "sequence_length": run.length,
                **_figures(whole),
                "domains": [
                    {"domain": name, **_figures(each)} for name, each in measured.domains.items()
                ],
                "seconds": measured.seconds,
                "tokens_per_second": measured.tokens_per_second,
                "peak_memory_bytes": measured.peak_bytes,
            }
        )
        return
    run.console.note(f"{info.model_id}, {info.loaded_as}")
    lines = [*measured.domains.items()] if len(measured.domains) > 1 else []
    run.console.table([_line(name, each) for name, each in (*lines, ("all", whole))], _COLUMNS)
    speed = format_number(measured.tokens_per_second)
    run.console.note(
        f"{len(rows.rows)} sequences of up to {run.length} tokens in "
        f"{format_seconds(measured.seconds)}: {speed} tokens/s, "
        f"peak memory {format_bytes(measured.peak_bytes)}"
    )


def _figures(losses: Losses) -> dict[str, Any]:
    return {
        "tokens": losses.tokens,
        "loss": losses.mean,
        "perplexity": losses.perplexity,
        "standard_error": losses.perplexity_error,
    }


def _line(name: str, losses: Losses) -> dict[str, Any]:
    error = losses.perplexity_error
    within = "" if isnan(error) else f" \N{PLUS-MINUS SIGN} {error:.3f}"
    return {
        "domain": name,
        "tokens": losses.tokens,
        "perplexity": f"{losses.perplexity:.3f}{within}",
    }
