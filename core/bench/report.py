"""From samples to a run that can be kept: statistics, and what the engine and the machine are."""

from __future__ import annotations

from collections import defaultdict
from importlib.metadata import version
from typing import TYPE_CHECKING

from core.figures import Figure, MachineIdentity, Run, RunSettings, model_revision

if TYPE_CHECKING:
    from collections.abc import Iterable
    from datetime import datetime
    from pathlib import Path

    from core.bench.measure import Sample
    from core.bench.plan import Plan
    from core.engine.engine import Engine
    from core.figures import FigureKind
    from core.machine.probe import Machine
    from core.settings import Settings


def summarize(samples: Iterable[Sample]) -> tuple[Figure, ...]:
    """Return one figure for each kind and size, by kind, then size."""
    found: dict[tuple[FigureKind, int], list[float]] = defaultdict(list)
    for sample in samples:
        found[sample.kind, sample.size].append(sample.value)
    figures = [Figure.of(kind, size, values) for (kind, size), values in found.items()]
    return tuple(sorted(figures, key=lambda figure: figure.order))


def describe_run(
    samples: Iterable[Sample],
    *,
    plan: Plan,
    engine: Engine,
    folder: Path,
    machine: Machine,
    settings: Settings,
    now: datetime,
    complete: bool,
) -> Run:
    """Return the record of a run.

    Args:
        samples: what was measured.
        plan: what was to be measured.
        engine: that was measured.
        folder: of the model.
        machine: what it ran on.
        settings: that the engine was opened with.
        now: when it ended, in UTC.
        complete: whether it came to its end.
    """
    return Run(
        model_id=engine.info.model_id,
        revision=model_revision(folder),
        machine=MachineIdentity(
            processor=machine.processor,
            cores=machine.cores,
            memory_bytes=machine.memory_bytes,
            backend=machine.backend,
        ),
        settings=RunSettings(
            blas=engine.compute.blas,
            loaded_as=engine.info.loaded_as,
            dequantize=settings.dequantize,
            prefill=settings.prefill,
            batch=settings.batch,
            tokens=plan.tokens,
        ),
        mlx=version("mlx"),
        mlx_lm=version("mlx-lm"),
        mlxbun=version("mlxbun"),
        measured_at=now.isoformat(timespec="seconds"),
        figures=summarize(samples),
        complete=complete,
    )
