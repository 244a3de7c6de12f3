"""The curve of a training: SVG by hand, PNG where matplotlib is installed.

Read from `metrics.jsonl`, so that an unfinished training can be drawn too.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from importlib.util import find_spec
from typing import TYPE_CHECKING

from core.paths import atomic_write

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

METRICS = "metrics.jsonl"
"""Every metric of a training, a line each, in the adapter's folder."""

Points = list[tuple[int, float]]

# Of Okabe and Ito, whom people with any colour vision tell apart.
_BLUE, _ORANGE = "#0072B2", "#D55E00"
_WIDTH, _HEIGHT = 720, 360
_LEFT, _RIGHT, _TOP, _BOTTOM = 64, 16, 36, 44
_TICKS = 5
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
    points = [*curves.train, *curves.valid]
    steps = max(step for step, _ in points)
    low, high = _range([loss for _, loss in points])

    def place(step: float, loss: float) -> tuple[float, float]:
        x = _LEFT + (_WIDTH - _LEFT - _RIGHT) * step / max(1, steps)
        y = _TOP + (_HEIGHT - _TOP - _BOTTOM) * (high - loss) / (high - low)
        return round(x, 1), round(y, 1)

    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_WIDTH} {_HEIGHT}" '
        'font-family="sans-serif" font-size="12">',
        f'<rect width="{_WIDTH}" height="{_HEIGHT}" fill="white"/>',
        f'<text x="{_LEFT}" y="20" font-weight="bold">Loss (nats)</text>',
    ]
    for tick in range(_TICKS + 1):
        value = low + (high - low) * tick / _TICKS
        x, y = place(0, value)
        parts.append(f'<path d="M{x} {y}H{_WIDTH - _RIGHT}" stroke="#E0E0E0"/>')
        parts.append(f'<text x="{x - 8}" y="{y + 4}" text-anchor="end">{value:.3g}</text>')
        x, _ = place(steps * tick / _TICKS, low)
        text = f"{steps * tick / _TICKS:.0f}"
        parts.append(f'<text x="{x}" y="{_HEIGHT - 24}" text-anchor="middle">{text}</text>')
    parts.append(f'<text x="{_WIDTH / 2}" y="{_HEIGHT - 6}" text-anchor="middle">Step</text>')
    faint = _line([place(*p) for p in curves.train], _BLUE, opacity=0.3)
    strong = _line([place(*p) for p in smoothed(curves.train)], _BLUE)
    dots = [
        f'<circle cx="{x}" cy="{y}" r="3.5" fill="{_ORANGE}"/>'
        for x, y in (place(*p) for p in curves.valid)
    ]
    parts += [faint, strong, _line([place(*p) for p in curves.valid], _ORANGE), *dots]
    parts.append(f'<text x="{_WIDTH - 180}" y="20" fill="{_BLUE}">training</text>')
    if curves.valid:
        parts.append(f'<text x="{_WIDTH - 110}" y="20" fill="{_ORANGE}">validation</text>')
    return "\n".join([*parts, "</svg>\n"])


def smoothed(points: Sequence[tuple[int, float]]) -> Points:
    """Return a curve of running means, over a fiftieth of it."""
    width = max(1, len(points) // _SMOOTHED)
    found: Points = []
    for index, (step, _) in enumerate(points):
        window = points[max(0, index - width + 1) : index + 1]
        found.append((step, sum(loss for _, loss in window) / len(window)))
    return found


def _line(points: Sequence[tuple[float, float]], colour: str, *, opacity: float = 1.0) -> str:
    text = " ".join(f"{x},{y}" for x, y in points)
    return (
        f'<polyline points="{text}" fill="none" stroke="{colour}" stroke-width="1.8" '
        f'stroke-opacity="{opacity}"/>'
    )


def _range(losses: Sequence[float]) -> tuple[float, float]:
    low, high = min(losses), max(losses)
    room = 0.05 * (high - low) or 0.5
    return max(0.0, low - room) if low >= 0 else low - room, high + room


def _draw_png(curves: Curves) -> bytes:
    from io import BytesIO

    from matplotlib.figure import Figure

    figure = Figure(figsize=(_WIDTH / 100, _HEIGHT / 100), layout="constrained")
    axes = figure.subplots()
    axes.plot(*zip(*curves.train, strict=True), color=_BLUE, alpha=0.3)
    axes.plot(*zip(*smoothed(curves.train), strict=True), color=_BLUE, label="training")
    if curves.valid:
        axes.plot(*zip(*curves.valid, strict=True), color=_ORANGE, marker="o", label="validation")
    axes.set(xlabel="Step", title="Loss (nats)")
    axes.legend(frameon=False)
    out = BytesIO()
    figure.savefig(out, format="png", dpi=150)
    return out.getvalue()
