"""Whole trainings of a tiny model, in this process or in one of their own.

As a program: `python -m tests.core.train.runs FOLDER [--resume] FIELDS-AS-JSON` trains
FOLDER/model on FOLDER/data into FOLDER/out, and waits a moment after each step.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from core.paths import Paths
from core.settings import Settings
from core.train.config import TrainConfig, make_config
from core.train.events import Metric, TrainEvent, TrainResult
from core.train.run import run_training


def write_rows(folder: Path, rows: list[Any], name: str = "train.jsonl") -> Path:
    """Write rows as JSONL and return the folder."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / name).write_text("".join(json.dumps(row) + "\n" for row in rows))
    return folder


def sums(count: int, first: int = 0) -> list[dict[str, str]]:
    """Return rows that teach to count on."""
    return [
        {"prompt": f"{n % 10}?", "completion": f"={(n + 1) % 10}" + "." * (n % 4)}
        for n in range(first, first + count)
    ]


def config_of(folder: Path, **fields: Any) -> TrainConfig:
    """Return a small training of FOLDER/model on FOLDER/data into FOLDER/out."""
    small = {"rank": 4, "scale": 4.0, "iters": 6, "learning_rate": 0.01, "batch_size": 2}
    places = {
        "model_dir": str(folder / "model"),
        "data_dir": str(folder / "data"),
        "adapter_path": str(folder / "out"),
    }
    return make_config(places | small | fields)


def run(
    config: TrainConfig,
    home: Path,
    *,
    events: list[TrainEvent] | None = None,
    should_stop: Callable[[], bool] = lambda: False,
    resume: bool = False,
    on_step: Callable[[int], None] = lambda _step: None,
    blas: str = "off",
    memory_budget: float | None = None,
) -> TrainResult:
    """Train, and return what it came to."""

    def hear(event: TrainEvent) -> None:
        if events is not None:
            events.append(event)
        if isinstance(event, Metric) and event.kind == "train":
            on_step(event.step)

    return run_training(
        config,
        settings=Settings(blas=blas, memory_budget=memory_budget),
        paths=Paths.from_environ({"HOME": str(home)}),
        environ={"PATH": "/usr/bin:/bin"},
        on_event=hear,
        should_stop=should_stop,
        resume=resume,
    )


def main() -> None:
    """Train as the command line says."""
    folder, *flags, fields = sys.argv[1:]

    def tell(step: int) -> None:
        sys.stdout.write(f"{step}\n")
        sys.stdout.flush()
        time.sleep(0.02)

    config = config_of(Path(folder), **json.loads(fields))
    run(config, Path(folder) / "home", resume="--resume" in flags, on_step=tell)


if __name__ == "__main__":
    main()
