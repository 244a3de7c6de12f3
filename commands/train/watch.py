"""`mlxbun train watch DIR`: a training that runs, or has run, by what it leaves in its folder."""

from __future__ import annotations

import json
import time
from typing import TYPE_CHECKING

from commands.train.showing import shown_events
from core.errors import MlxbunError, NotFound
from core.train.events import Metric, metric_from_json
from core.train.folder import is_training
from core.train.plot import METRICS

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from commands._shared.console import Console

_SECONDS = 0.5  # between two looks


def watch(folder: Path, *, console: Console, sleep: Callable[[float], None] = time.sleep) -> None:
    """Show the metrics of a training until it ends.

    Args:
        folder: of its adapter.
        console: the output.
        sleep: waits.

    Raises:
        NotFound: there is no training in the folder.
        MlxbunError: it cannot be read.
    """
    last: Metric | None = None
    file = folder / METRICS
    try:
        if not file.is_file() and not is_training(folder):
            raise NotFound(f"There is no training in {folder}.", hint="Name the adapter's folder.")
        with shown_events(console) as show:
            for metric in _metrics(file, lambda: is_training(folder), sleep):
                show(metric)
                last = metric
    except OSError as problem:
        raise MlxbunError(f"{file} cannot be read: {problem.strerror or problem}.") from problem
    if not console.json_mode and last is not None:
        console.note(f"the training has ended at step {last.step} of {last.steps}")


def _metrics(
    file: Path, running: Callable[[], bool], sleep: Callable[[float], None]
) -> Iterator[Metric]:
    """Yield metrics as they are written; what a resumed training took out is told once."""
    place = 0
    while True:
        alive = running()  # before the last look: what was written until then is read
        place, text = _news(file, place)
        whole = text.rfind(b"\n") + 1
        for line in text[:whole].splitlines():
            if (metric := _metric(line)) is not None:
                yield metric
        place += whole
        if not alive:
            return
        sleep(_SECONDS)


def _news(file: Path, place: int) -> tuple[int, bytes]:
    """Return where to go on, and what stands there; a file that became shorter begins anew."""
    if not file.exists():
        return place, b""
    with file.open("rb") as content:
        place = place if place <= content.seek(0, 2) else 0
        content.seek(place)
        return place, content.read()


def _metric(line: bytes) -> Metric | None:
    try:
        return metric_from_json(json.loads(line))
    except (ValueError, RecursionError):
        return None
