"""Pictures of a sweep: bits per layer, sensitivity per layer and width, size against KL divergence.

SVG is drawn by hand; PNG needs matplotlib. Imports no MLX.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from core.drawing import (
    BLACK,
    BLUE,
    GREEN,
    ORANGE,
    PINK,
    RED,
    SKY,
    Axis,
    Panel,
    Point,
    picture,
    text,
)
from core.errors import BadModelFiles, MlxbunError, NotFound
from core.paths import atomic_write
from core.quantize.allocate import Allocation, Sizes
from core.quantize.form import Form
from core.quantize.frontier import Frontier, trace_frontier
from core.quantize.sweep_store import Sweep

_COLOURS = (RED, ORANGE, GREEN, BLUE, PINK, SKY, BLACK)
_WIDTH, _PANEL, _LEFT, _RIGHT, _TOP, _BOTTOM = 720, 230, 72, 110, 44, 52
_LEAST = 1e-9  # nats: the foot of a logarithmic axis
_LAYER_TICKS = 12


@dataclass(frozen=True, kw_only=True)
class Series:
    """Points of one kind."""

    label: str
    """For the legend; empty: none."""
    colour: str
    """As `#RRGGBB`."""
    points: tuple[Point, ...]
    """In the order of a line through them."""
    line: bool = True
    """Whether there is a line through them."""
    dots: bool = True
    """Whether each has a dot."""


@dataclass(frozen=True, kw_only=True)
class Chart:
    """One panel."""

    title: str
    """Above it."""
    along: str
    """What the horizontal axis is."""
    x: Axis
    """Along."""
    y: Axis
    """Up."""
    across: tuple[tuple[float, str], ...]
    """Values to write below, with their texts."""
    series: tuple[Series, ...]
    """What is drawn."""


def write_plot(path: Path, sweep: Sweep, sizes: Sizes, chosen: Allocation) -> None:
    """Draw a sweep and the allocation that was made from it, in the format of the suffix.

    Args:
        path: an .svg or .png file.
        sweep: the sensitivities.
        sizes: the sizes of forms.
        chosen: the allocation.

    Raises:
        MlxbunError: it cannot be written.
    """
    charts = make_charts(sweep, sizes, chosen)
    draw = _draw_png if path.suffix.lower() == ".png" else _draw_svg
    try:
        with atomic_write(path) as file:
            file.write(draw(charts))
    except OSError as problem:
        raise MlxbunError(f"The plot {path} cannot be written: {problem.strerror}.") from problem


def write_record_plot(path: Path, folder: Path) -> None:
    """Draw the sweep that travels with a quantized model.

    Args:
        path: an .svg or .png file.
        folder: the model's.

    Raises:
        NotFound: no sweep is there.
        BadModelFiles: its record cannot be read.
        MlxbunError: the picture cannot be written.
    """
    from core.evals.record import FILE, read_record
    from core.quantize.mixing import read_mixed

    record = read_record(folder)
    if record is None or record.sweep is None:
        raise NotFound(
            f"There is no sweep to plot in {folder}.",
            hint="Mixed precision (--target-bpw) measures one.",
        )
    try:
        sweep, sizes, chosen = read_mixed(record.sweep)
    except ValueError as problem:
        raise BadModelFiles(f"The sweep in {folder / FILE} cannot be read: {problem}.") from problem
    write_plot(path, sweep, sizes, chosen)


def make_charts(sweep: Sweep, sizes: Sizes, chosen: Allocation) -> tuple[Chart, ...]:
    """Return what is drawn of a sweep: up to three panels, top to bottom."""
    layers = _layers(chosen.forms)
    charts = [_bits_chart(layers, sizes, chosen)]
    if sweep.entries:
        charts.append(_sensitivity_chart(layers, sweep))
        charts.append(_frontier_chart(trace_frontier(sweep, sizes), chosen))
    return tuple(charts)


def _layers(paths: Mapping[str, Form]) -> dict[str, list[str]]:
    """Return the tensors of each layer; those outside of layers by their own names."""
    found: dict[str, list[str]] = {}
    for path in paths:
        parts = path.split(".")
        numbers = [part for part in parts if part.isdigit()]
        found.setdefault(numbers[0] if numbers else parts[-1], []).append(path)
    return found


def _along(layers: Mapping[str, list[str]]) -> tuple[Axis, tuple[tuple[float, str], ...]]:
    stride = -(-len(layers) // _LAYER_TICKS)
    names = {"embed_tokens": "embed", "lm_head": "head"}
    across = [
        (float(at), names.get(name, name))
        for at, name in enumerate(layers)
        if at % stride == 0 or not name.isdigit()
    ]
    return Axis(low=-0.5, high=len(layers) - 0.5), tuple(across)


def _bits_chart(layers: Mapping[str, list[str]], sizes: Sizes, chosen: Allocation) -> Chart:
    points, means = [], []
    for at, paths in enumerate(layers.values()):
        forms = [chosen.forms[path] for path in paths]
        points += [(float(at), float(form.bits)) for form in forms]
        counts = [sizes.options[path][chosen.forms[path]] / form.bits_per_weight
                  for path, form in zip(paths, forms, strict=True)]  # fmt: skip
        weighted = sum(form.bits * count for form, count in zip(forms, counts, strict=True))
        means.append((float(at), weighted / sum(counts)))
    x, across = _along(layers)
    return Chart(
        title=f"Bits per layer, {chosen.bits_per_weight:.2f} bits per weight in all",
        along="layer",
        x=x,
        y=Axis(low=0, high=8, marks=(0, 2, 4, 6, 8)),
        across=across,
        series=(
            Series(label="layer mean", colour=BLUE, points=tuple(means), dots=False),
            Series(label="tensor", colour=RED, points=tuple(sorted(set(points))), line=False),
        ),
    )


def _sensitivity_chart(layers: Mapping[str, list[str]], sweep: Sweep) -> Chart:
    curves = sweep.curves
    forms = sorted({entry.form for entry in sweep.entries}, key=lambda form: form.bits_per_weight)
    series = []
    for rank, form in enumerate(forms):
        sums = [
            (float(at), sum(curves.get(path, {}).get(form, 0.0) for path in paths))
            for at, paths in enumerate(layers.values())
        ]
        points = tuple((at, kl) for at, kl in sums if kl > _LEAST)
        colour = _COLOURS[rank % len(_COLOURS)]
        series.append(Series(label=_name(form), colour=colour, points=points))
    x, across = _along(layers)
    return Chart(
        title="Sensitivity: KL divergence of the output, nats per token",
        along="layer",
        x=x,
        y=_log_axis(series),
        across=across,
        series=tuple(series),
    )


def _frontier_chart(frontier: Frontier, chosen: Allocation) -> Chart:
    mixed = tuple((each.bits_per_weight, each.kl) for each in frontier.mixed if each.kl > _LEAST)
    uniform = tuple(
        (each.bits_per_weight, each.kl) for each in frontier.uniform.values() if each.kl > _LEAST
    )
    here = ((chosen.bits_per_weight, chosen.kl),) if chosen.kl > _LEAST else ()
    series = (
        Series(label="mixed", colour=BLUE, points=mixed, dots=False),
        Series(label="uniform", colour=RED, points=uniform, line=False),
        Series(label="chosen", colour=BLACK, points=here, line=False),
    )
    sizes = [size for each in series for size, _ in each.points] or [0.0, 8.0]
    x = Axis(low=min(sizes) - 0.25, high=max(sizes) + 0.25)
    return Chart(
        title="Size against the sum of KL divergences",
        along="bits per weight",
        x=x,
        y=_log_axis(series),
        across=tuple((value, f"{value:.1f}") for value in x.ticks()),
        series=series,
    )


def _log_axis(series: Sequence[Series]) -> Axis:
    values = [kl for each in series for _, kl in each.points] or [0.1, 1.0]
    return Axis(low=min(values) / 1.5, high=max(values) * 1.5, log=True)


def _name(form: Form) -> str:
    return f"{form.bits} bits" if form.mode == "affine" else form.mode


def _draw_svg(charts: Sequence[Chart]) -> bytes:
    parts: list[str] = []
    step = _TOP + _PANEL + _BOTTOM
    for number, chart in enumerate(charts):
        panel = Panel(
            left=_LEFT,
            top=_TOP + number * step,
            width=_WIDTH - _LEFT - _RIGHT,
            height=_PANEL,
            x=chart.x,
            y=chart.y,
        )
        parts += panel.frame(title=chart.title, along=chart.along, across=chart.across)
        for rank, series in enumerate(each for each in chart.series if each.points):
            if series.line:
                parts.append(panel.line(series.points, series.colour))
            if series.dots:
                parts += panel.dots(series.points, series.colour, radius=2.5)
            at = (_WIDTH - _RIGHT + 12, panel.top + 12 + 18 * rank)
            parts.append(text(at, series.label, anchor="start", colour=series.colour))
    return picture(_WIDTH, len(charts) * step, parts).encode()


def _draw_png(charts: Sequence[Chart]) -> bytes:
    from io import BytesIO

    from matplotlib.figure import Figure

    height = len(charts) * (_TOP + _PANEL + _BOTTOM)
    figure = Figure(figsize=(_WIDTH / 100, height / 100), layout="constrained")
    panels = figure.subplots(len(charts), 1, squeeze=False)[:, 0]
    for panel, chart in zip(panels, charts, strict=True):
        for series in (each for each in chart.series if each.points):
            style = {"marker": "o" if series.dots else "", "ls": "-" if series.line else ""}
            xs, ys = zip(*series.points, strict=True)
            panel.plot(xs, ys, color=series.colour, markersize=3, label=series.label, **style)
        panel.set(title=chart.title, xlabel=chart.along, xlim=(chart.x.low, chart.x.high))
        panel.set_yscale("log" if chart.y.log else "linear")
        panel.set_ylim(chart.y.low, chart.y.high)
        panel.set_xticks([at for at, _ in chart.across], [name for _, name in chart.across])
        panel.legend(frameon=False, bbox_to_anchor=(1.0, 1.0), loc="upper left")
    out = BytesIO()
    figure.savefig(out, format="png", dpi=150)
    return out.getvalue()
