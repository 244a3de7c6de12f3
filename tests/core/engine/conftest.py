"""A running engine on a tiny random model."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from core.engine.engine import Engine, EngineOptions
from core.engine.loader import load
from core.engine.request import SamplingParams
from core.fit.batching import BatchingShelf
from core.machine.compute import ComputePlan
from core.machine.probe import probe_machine
from tests.tiny import make_model

PLAN = ComputePlan(
    machine=probe_machine(),
    blas="whatever is loaded",
    fast_blas=True,
    compile_kernels=True,
    dequantize="auto",
    notes=(),
)
OpenEngine = Callable[..., Engine]


@pytest.fixture(scope="session")
def tiny_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_model(tmp_path_factory.mktemp("models") / "tiny")


@pytest.fixture
def open_tiny(tiny_folder: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[OpenEngine]:
    """Return a function that opens an engine; all are closed at the end."""
    engines: list[Engine] = []
    # One for all tests: a model is tried in a batch once.
    kept = BatchingShelf(tmp_path_factory.getbasetemp() / "batching")

    def open_engine(
        folder: Path | None = None, *, plan: ComputePlan = PLAN, **options: Any
    ) -> Engine:
        loader = partial(
            load,
            folder or tiny_folder,
            model_id="tiny",
            plan=plan,
            defaults=options.pop("defaults", SamplingParams()),
            memory_budget_gb=options.pop("memory_budget_gb", None),
        )
        shelf = options.pop("shelf", kept)
        engines.append(Engine(loader, EngineOptions(**options), shelf=shelf))
        return engines[-1]

    yield open_engine
    for engine in engines:
        engine.close()
        assert not engine.alive
