"""Pictures of what was measured: one style, small panels, PNG or SVG. Needs matplotlib.

The parts serve any picture of mlxbun's: `STYLE` and `COLOURS`, `new_figure`, `draw_spread` for a
line with its spread, `write_picture`. The colours are those of Okabe and Ito, which people with any
colour vision tell apart (https://jfly.uni-koeln.de/color/); series differ in their markers as well.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from core.errors import MlxbunError
from core.figures import machine_key
from core.paths import atomic_write
from core.units import format_number, format_seconds

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

    from matplotlib.axes import Axes
    from matplotlib.figure import Figure as Picture

    from core.figures import Figure, FigureKind, Run

COLOURS = {"blue": "#0072B2", "orange": "#D55E00", "green": "#009E73", "pink": "#CC79A7"}
STYLE: dict[Any, Any] = {
    "font.size": 9,
    "axes.titlesize": 10,
    "axes.titleweight": "bold",
    "axes.titlelocation": "left",
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.edgecolor": "#606060",
    "axes.grid": True,
    "axes.grid.axis": "y",
    "axes.axisbelow": True,
    "axes.xmargin": 0.15,
    "grid.color": "#E0E0E0",
    "grid.linewidth": 0.8,
    "legend.frameon": False,
    "lines.linewidth": 1.8,
    "lines.markersize": 5,
    "svg.fonttype": "none",
}
_PANEL_INCHES = (3.7, 3.1)
_TITLE_INCHES = 0.75
_DOTS_PER_INCH = 160


def draw_run(run: Run) -> Picture:
    """Return the picture of a run: a panel for each of prefill, decode and TTFT that it has."""
    from matplotlib import rc_context

    panels = [
        draw for kinds, draw in _PANELS if any(figure.kind in kinds for figure in run.figures)
    ]
    with rc_context(STYLE):
        picture, axes = new_figure(len(panels), title=run.model_id, subtitle=_subtitle(run))
        for panel, draw in zip(axes, panels, strict=True):
            draw(panel, run)
    return picture


def new_figure(panels: int, *, title: str, subtitle: str) -> tuple[Picture, list[Axes]]:
    """Return a picture with panels side by side. Call it, and draw, inside `rc_context(STYLE)`.

    Args:
        panels: how many, at least 1.
        title: what it is about.
        subtitle: where and when.
    """
    from matplotlib.figure import Figure as Picture

    width, height = _PANEL_INCHES[0] * panels, _PANEL_INCHES[1] + _TITLE_INCHES
    picture = Picture(figsize=(width, height), layout="constrained")
    top = 1 - _TITLE_INCHES / height
    picture.get_layout_engine().set(rect=(0, 0, 1, top), w_pad=0.12)  # type: ignore[union-attr, call-arg]
    margin = 0.12 / width
    picture.text(margin, 1 - 0.12 / height, title, size=12, weight="bold", va="top")
    picture.text(margin, 1 - 0.40 / height, subtitle, size=8.5, color="#404040", va="top")
    axes = picture.subplots(1, panels, squeeze=False)
    return picture, list(axes[0])


def draw_spread(
    panel: Axes,
    *,
    at: Sequence[float],
    middle: Sequence[float],
    low: Sequence[float],
    high: Sequence[float],
    colour: str,
    marker: str = "o",
    label: str | None = None,
) -> None:
    """Draw a line through points, each with a bar from low to high.

    Args:
        panel: where.
        at: positions on the horizontal axis.
        middle: the line.
        low: lower ends of the bars.
        high: upper ends of the bars.
        colour: a key of `COLOURS`.
        marker: matplotlib's name of it.
        label: for the legend.
    """
    below = [m - edge for m, edge in zip(middle, low, strict=True)]
    above = [edge - m for m, edge in zip(middle, high, strict=True)]
    panel.errorbar(
        at,
        middle,
        yerr=[below, above],
        color=COLOURS[colour],
        marker=marker,
        label=label,
        elinewidth=1.2,
        capsize=3.5,
    )


def write_picture(picture: Picture, path: Path) -> None:
    """Write a picture in the format of its suffix, whole or not at all.

    Raises:
        MlxbunError: it cannot be written.
    """
    from matplotlib import rc_context

    try:
        with rc_context(STYLE), atomic_write(path) as file:
            picture.savefig(file, format=path.suffix[1:].lower(), dpi=_DOTS_PER_INCH)
    except OSError as problem:
        raise MlxbunError(f"The picture {path} cannot be written: {problem.strerror}.") from problem


def _subtitle(run: Run) -> str:
    repeats = max(len(figure.samples) for figure in run.figures)
    how = f"median and quartiles of {repeats}" if repeats > 1 else "measured once"
    return f"{machine_key(run.machine)}, {run.measured_at[:10]}\n{run.settings.loaded_as}, {how}"


def _draw_prefill(panel: Axes, run: Run) -> None:
    figures = _of(run, "prefill")
    _draw(panel, figures, "blue", "o")
    _from_zero(panel, figures)
    _over(panel, figures, "prompt tokens")
    panel.set_title("Prefill, tokens/s")


def _draw_decode(panel: Axes, run: Run) -> None:
    figures = _of(run, "decode")
    _draw(panel, figures, "blue", "o", label="all rows")
    shares = [
        replace(f, median=f.per_row, low=f.low / f.size, high=f.high / f.size) for f in figures
    ]
    _draw(panel, shares, "orange", "s", label="each row")
    _from_zero(panel, figures)
    _over(panel, figures, "rows together")
    panel.set_title("Decode, tokens/s")
    panel.legend(loc="upper left")


def _draw_ttft(panel: Axes, run: Run) -> None:
    from matplotlib.ticker import FuncFormatter, LogLocator, NullLocator

    cold, warm = _of(run, "ttft_cold"), _of(run, "ttft_warm")
    _draw(panel, cold, "blue", "o", label="new prompt")
    _draw(panel, warm, "orange", "s", label="same prompt again")
    panel.set_yscale("log")
    panel.yaxis.set_major_locator(LogLocator(subs=(1, 2, 5)))
    panel.yaxis.set_major_formatter(FuncFormatter(lambda seconds, _: format_seconds(seconds)))
    panel.yaxis.set_minor_locator(NullLocator())
    _over(panel, cold or warm, "prompt tokens")
    panel.set_title("Time to first token")
    panel.legend(loc="best")


_PANELS: tuple[tuple[tuple[FigureKind, ...], Callable[[Axes, Run], None]], ...] = (
    (("prefill",), _draw_prefill),
    (("decode",), _draw_decode),
    (("ttft_cold", "ttft_warm"), _draw_ttft),
)


def _of(run: Run, kind: FigureKind) -> list[Figure]:
    return sorted((f for f in run.figures if f.kind == kind), key=lambda figure: figure.size)


def _draw(
    panel: Axes, figures: list[Figure], colour: str, marker: str, label: str | None = None
) -> None:
    draw_spread(
        panel,
        at=[f.size for f in figures],
        middle=[f.median for f in figures],
        low=[f.low for f in figures],
        high=[f.high for f in figures],
        colour=colour,
        marker=marker,
        label=label,
    )


def _over(panel: Axes, figures: list[Figure], what: str) -> None:
    """Lay out the horizontal axis: doublings, with the measured sizes named."""
    from matplotlib.ticker import NullLocator

    sizes = [figure.size for figure in figures]
    panel.set_xscale("log", base=2)
    panel.set_xticks(sizes, [f"{size:,}" for size in sizes])
    panel.xaxis.set_minor_locator(NullLocator())
    panel.set_xlabel(what)


def _from_zero(panel: Axes, figures: list[Figure]) -> None:
    """Start the vertical axis at zero, with room for a legend, and write the medians there."""
    panel.set_ylim(0, 1.25 * max(figure.high for figure in figures))
    # On the side where the line does not pass: before the points of one that rises.
    rises = figures[-1].median > figures[0].median
    for figure in figures:
        panel.annotate(
            format_number(figure.median),
            (figure.size, figure.median),
            xytext=(-5 if rises else 5, 4),
            textcoords="offset points",
            ha="right" if rises else "left",
            size=8,
            bbox={"facecolor": "white", "edgecolor": "none", "pad": 0.6},
            zorder=1.6,  # above the grid, below the lines
        )
