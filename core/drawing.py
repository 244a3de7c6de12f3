"""Charts in SVG, written without a library, and the check of a picture's path. Imports no arrays.

The colours are those of Okabe and Ito, which people with any colour vision tell apart
(https://jfly.uni-koeln.de/color/).
"""

from __future__ import annotations

import math
import os
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from xml.sax.saxutils import escape

from core.errors import BackendMissing, UsageProblem

Point = tuple[float, float]

BLUE, ORANGE, GREEN, PINK, SKY, RED, BLACK = (
    "#0072B2", "#E69F00", "#009E73", "#CC79A7", "#56B4E9", "#D55E00", "#000000",
)  # fmt: skip
GRID = "#E0E0E0"
TICKS = 5
SUFFIXES = (".png", ".svg")


@dataclass(frozen=True, kw_only=True)
class Axis:
    """One direction of a panel."""

    low: float
    """Value at the start; above 0 where it is logarithmic."""
    high: float
    """Value at the end, above `low`."""
    log: bool = False
    """Whether equal distances are equal factors."""
    marks: tuple[float, ...] = ()
    """Values to write beside it; empty: evenly spaced ones."""

    def share(self, value: float) -> float:
        """Return where a value lies between the ends, 0 to 1."""
        if self.log:
            return math.log(value / self.low) / math.log(self.high / self.low)
        return (value - self.low) / (self.high - self.low)

    def ticks(self) -> list[float]:
        """Return values to write beside the axis."""
        if self.marks:
            return list(self.marks)
        if not self.log:
            return [self.low + (self.high - self.low) * tick / TICKS for tick in range(TICKS + 1)]
        first, last = (
            math.ceil(math.log10(self.low) - 1e-9),
            math.floor(math.log10(self.high) + 1e-9),
        )
        stride = max(1, math.ceil((last - first) / TICKS))
        return [10.0**power for power in range(first, last + 1, stride)]


@dataclass(frozen=True, kw_only=True)
class Panel:
    """A rectangle with axes, in pixels."""

    left: float
    """Of the drawing area."""
    top: float
    """Of the drawing area."""
    width: float
    """Of the drawing area."""
    height: float
    """Of the drawing area."""
    x: Axis
    """Along."""
    y: Axis
    """Up."""

    def place(self, point: Point) -> Point:
        """Return the pixel of a point."""
        x = self.left + self.width * self.x.share(point[0])
        y = self.top + self.height * (1 - self.y.share(point[1]))
        return round(x, 1), round(y, 1)

    def frame(self, *, title: str, along: str, across: Sequence[tuple[float, str]]) -> list[str]:
        """Return the title, a grid line for every tick of `y`, and labels.

        Args:
            title: above.
            along: what `x` is.
            across: values of `x` to write, with their texts.
        """
        bottom = self.top + self.height
        parts = [
            f'<text x="{self.left}" y="{self.top - 16}" font-weight="bold">{escape(title)}</text>'
        ]
        for value in self.y.ticks():
            _, y = self.place((self.x.low, value))
            parts.append(f'<path d="M{self.left} {y}H{self.left + self.width}" stroke="{GRID}"/>')
            parts.append(text((self.left - 8, y + 4), f"{value:.3g}", anchor="end"))
        for value, name in across:
            x, _ = self.place((value, self.y.low))
            parts.append(text((x, bottom + 20), name))
        parts.append(text((self.left + self.width / 2, bottom + 38), along))
        return parts

    def line(self, points: Iterable[Point], colour: str, *, opacity: float = 1.0) -> str:
        """Return a line through points."""
        places = " ".join(f"{x},{y}" for x, y in map(self.place, points))
        return (
            f'<polyline points="{places}" fill="none" stroke="{colour}" stroke-width="1.8" '
            f'stroke-opacity="{opacity}"/>'
        )

    def dots(
        self, points: Iterable[Point], colour: str, *, radius: float = 3.5, filled: bool = True
    ) -> list[str]:
        """Return a dot for each point."""
        fill = colour if filled else "white"
        return [
            f'<circle cx="{x}" cy="{y}" r="{radius}" fill="{fill}" stroke="{colour}"/>'
            for x, y in map(self.place, points)
        ]


def text(at: Point, words: str, *, anchor: str = "middle", colour: str = BLACK) -> str:
    """Return words at a pixel."""
    return (
        f'<text x="{round(at[0], 1)}" y="{round(at[1], 1)}" text-anchor="{anchor}" '
        f'fill="{colour}">{escape(words)}</text>'
    )


def picture(width: int, height: int, parts: Iterable[str]) -> str:
    """Return an SVG file of parts on white."""
    head = (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" '
        'font-family="sans-serif" font-size="12">'
    )
    return "\n".join(
        [head, f'<rect width="{width}" height="{height}" fill="white"/>', *parts, "</svg>\n"]
    )


def check_picture(path: Path, *, example: str, own_svg: bool = False) -> None:
    """Refuse a path to which no picture can be written, before anything is measured.

    Args:
        path: the file.
        example: a file name for the hint.
        own_svg: whether SVG is drawn without matplotlib.

    Raises:
        UsageProblem: the suffix is neither .png nor .svg, the path is a folder, or the folder that
            holds it cannot be written to.
        BackendMissing: matplotlib is needed and not installed.
    """
    suffix = path.suffix.lower()
    if suffix not in SUFFIXES:
        raise UsageProblem(
            f"A picture is a .png or .svg file, and {path.name!r} is neither.",
            hint=f"Name it for example {example}.",
        )
    if path.is_dir():
        raise UsageProblem(f"{path} is a folder.", hint="Name a file in it.")
    there = next(folder for folder in path.absolute().parents if folder.exists())
    if not (there.is_dir() and os.access(there, os.W_OK | os.X_OK)):
        raise UsageProblem(
            f"{path} cannot be written: {there} is not a folder that takes files.",
            hint="Name a file in another folder.",
        )
    svg = suffix == ".svg" and own_svg
    if not svg and find_spec("matplotlib") is None:
        kind, other = ("PNG pictures", "name an .svg file, or ") if own_svg else ("Pictures", "")
        hint = f"{other}run `pip install 'mlxbun[plot]'`."
        raise BackendMissing(
            f"{kind} need matplotlib, which is not installed.", hint=hint[0].upper() + hint[1:]
        )
