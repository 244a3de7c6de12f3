"""The curve of a training: SVG by hand, PNG where matplotlib is installed.

Read from `metrics.jsonl`, so that an unfinished training can be drawn too.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from importlib.util import find_spec
from typing import TYPE_CHECKING

from core.drawing import BLUE, RED, Axis, Panel, picture, text
from core.paths import atomic_write

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

METRICS = "metrics.jsonl"
"""Every metric of a training, a line each, in the adapter's folder."""

Points = list[tuple[int, float]]

_WIDTH, _HEIGHT = 720, 360
_LEFT, _RIGHT, _TOP, _BOTTOM = 64, 16, 36, 44
_SMOOTHED = 50  # shares of the curve that its mean line is averaged over


@dataclass(frozen=True, kw_only=True)
class Curves:
    """Losses by step."""

    train: Points
    """Of the training rows."""
    valid: Points
    """Of the validation rows."""


def read_curves(file: Path) -> Curves:
    """Return the losses in a `metrics.jsonl`; a line that is cut off is passed over.

    Raises:
        OSError: it cannot be read.
    """
    found: dict[str, Points] = {"train": [], "val": []}
    for line in file.read_text(encoding="utf-8", errors="replace").splitlines():
        try:
            values = json.loads(line)
            found[values["kind"]].append((int(values["step"]), float(values["loss"])))
        except (ValueError, TypeError, KeyError):
            continue
    return Curves(train=found["train"], valid=found["val"])


def write_plots(folder: Path) -> list[str]:
    """Draw a training's losses as loss.svg, and as loss.png where that can be done.

    Args:
        folder: with `metrics.jsonl`.

    Returns:
        What is worth knowing, one sentence each.

    Raises:
        OSError: the metrics cannot be read, or a picture not be written.
    """
    curves = read_curves(folder / METRICS)
    if not curves.train:
        return []
    with atomic_write(folder / "loss.svg") as file:
        file.write(draw_svg(curves).encode())
    if find_spec("matplotlib") is None:
        return ["There is loss.svg; for loss.png run `pip install 'mlxbun[plot]'`."]
    with atomic_write(folder / "loss.png") as file:
        file.write(_draw_png(curves))
    return []


def draw_svg(curves: Curves) -> str:
    """Return the losses as a picture."""
    steps = max(step for step, _ in [*curves.train, *curves.valid])
    low, high = _range([loss for _, loss in [*curves.train, *curves.valid]])
    panel = Panel(
        left=_LEFT,
        top=_TOP,
        width=_WIDTH - _LEFT - _RIGHT,
        height=_HEIGHT - _TOP - _BOTTOM,
        x=Axis(low=0, high=max(1, steps)),
        y=Axis(low=low, high=high),
    )
    across = [(value, f"{value:.0f}") for value in panel.x.ticks()]
    parts = [
        *panel.frame(title="Loss (nats)", along="Step", across=across),
        panel.line(curves.train, BLUE, opacity=0.3),
        panel.line(smoothed(curves.train), BLUE),
        panel.line(curves.valid, RED),
        *panel.dots(curves.valid, RED),
        text((_WIDTH - 180, 20), "training", anchor="start", colour=BLUE),
    ]
    if curves.valid:
        parts.append(text((_WIDTH - 110, 20), "validation", anchor="start", colour=RED))
    return picture(_WIDTH, _HEIGHT, parts)


def smoothed(points: Sequence[tuple[int, float]]) -> Points:
    """Return a curve of running means, over a fiftieth of it."""
    width = max(1, len(points) // _SMOOTHED)
    found: Points = []
    for index, (step, _) in enumerate(points):
        window = points[max(0, index - width + 1) : index + 1]
        found.append((step, sum(loss for _, loss in window) / len(window)))
    return found


def _range(losses: Sequence[float]) -> tuple[float, float]:
    low, high = min(losses), max(losses)
    room = 0.05 * (high - low) or 0.5
    return max(0.0, low - room) if low >= 0 else low - room, high + room


def _draw_png(curves: Curves) -> bytes:
    from io import BytesIO

    from matplotlib.figure import Figure

    figure = Figure(figsize=(_WIDTH / 100, _HEIGHT / 100), layout="constrained")
    axes = figure.subplots()
    axes.plot(*zip(*curves.train, strict=True), color=BLUE, alpha=0.3)
    axes.plot(*zip(*smoothed(curves.train), strict=True), color=BLUE, label="training")
    if curves.valid:
        axes.plot(*zip(*curves.valid, strict=True), color=RED, marker="o", label="validation")
    axes.set(xlabel="Step", title="Loss (nats)")
    axes.legend(frameon=False)
    out = BytesIO()
    figure.savefig(out, format="png", dpi=150)
    return out.getvalue()
