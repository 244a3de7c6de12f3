"""A terminal's lines as an SVG, small and without anything from elsewhere; and its text again."""

from __future__ import annotations

import io
from typing import TYPE_CHECKING
from xml.etree import ElementTree

from rich.console import Console
from rich.text import Text

if TYPE_CHECKING:
    from collections.abc import Sequence

# Rich fills it in. Its own one loads fonts from another server.
_FORMAT = """\
<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="760">
<style>
.{unique_id}-matrix {{ font: {char_height}px ui-monospace, Menlo, Consolas, monospace; }}
{styles}
</style>
<defs>
<clipPath id="{unique_id}-clip-terminal">
<rect x="0" y="0" width="{terminal_width}" height="{terminal_height}"/>
</clipPath>
{lines}
</defs>
{chrome}
<g transform="translate({terminal_x}, {terminal_y})" clip-path="url(#{unique_id}-clip-terminal)">
{backgrounds}
<g class="{unique_id}-matrix">
{matrix}
</g>
</g>
</svg>
"""


def draw(lines: Sequence[str], *, columns: int, name: str) -> str:
    """Return a picture of lines with the sequences that color them.

    Args:
        lines: what stands on the terminal.
        columns: how wide it is.
        name: tells this picture's styles from those of others on a page.
    """
    console = Console(
        record=True,
        width=columns,
        file=io.StringIO(),
        force_terminal=True,
        color_system="truecolor",
        highlight=False,
    )
    for line in lines:
        console.print(Text.from_ansi(line), no_wrap=True, crop=True)
    picture = console.export_svg(title="", code_format=_FORMAT, unique_id=name)
    return picture.replace("</text><text", "</text>\n<text")


def text_of(picture: str) -> list[str]:
    """Return the lines that a picture shows, without colors."""
    rows: dict[float, dict[float, str]] = {}
    for element in ElementTree.fromstring(picture).iter("{http://www.w3.org/2000/svg}text"):
        row = rows.setdefault(float(element.attrib["y"]), {})
        row[float(element.attrib["x"])] = (element.text or "").replace("\N{NO-BREAK SPACE}", " ")
    width = 20 * 0.61  # of a character, as Rich draws them
    shown = []
    for y in sorted(rows):
        line = ""
        for x, text in sorted(rows[y].items()):
            line = line.ljust(round(x / width)) + text
        shown.append(line.rstrip())
    return shown
