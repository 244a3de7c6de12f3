"""Markdown as lines for a terminal, in pieces that stay as they are once the next one has begun.

Everything the model wrote is shown: HTML, link targets and line breaks included, which Markdown
would drop. Knows no screen: `commands.chat.screen` puts the lines there.
"""

from __future__ import annotations

import io
import re
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from markdown_it import MarkdownIt
from markdown_it.token import Token
from rich.console import Console
from rich.markdown import ListElement, Markdown

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from rich.console import ConsoleOptions, RenderResult

# Without these rules their texts stand there as they were written.
_PARSER = (
    MarkdownIt("commonmark", {"html": False})
    .enable(["strikethrough", "table"])
    .disable(["reference", "image", "autolink", "entity"])
)
_LISTS = ("bullet_list_open", "ordered_list_open")
_NARROWEST = 20
_DEEPEST = _PARSER.options.maxNesting - 2  # what is nested deeper, the parser drops
_COLORS = re.compile(r"\x1b\[[0-9;]*m")
_BLANK_END = re.compile(r"(?: |\x1b\[[0-9;]*m)+$")


@dataclass(frozen=True, kw_only=True)
class Piece:
    """What is shown for itself: a block, or one item of a list."""

    tokens: Sequence[Token]
    """Its Markdown, parsed."""
    line: int
    """The source line that it begins at."""
    block_line: int
    """The source line that its block begins at: the list of an item."""
    apart: bool
    """Whether an empty line stands before it."""
    grows_by_lines: bool
    """Whether more source only adds lines to it: code."""


def split(source: str) -> list[Piece]:
    """Return the pieces of a text."""
    pieces: list[Piece] = []
    for block in _groups(_PARSER.parse(source), level=0):
        _keep_line_breaks(block)
        written = _written(block, source)
        if _drops_text(block, written):
            token = Token("fence", "code", 0, content=written, map=block[0].map)
            pieces.append(_piece([token], block_line=_line(block)))
        elif block[0].type in _LISTS:
            pieces += _items(block)
        else:
            pieces.append(_piece(block, block_line=_line(block)))
    return pieces


class Renderer:
    """Turns pieces into lines with colors."""

    def __init__(self, environ: Mapping[str, str]) -> None:
        """Keep the environment, which tells what colors the terminal has."""
        self._environ = environ

    def lines(self, piece: Piece, width: int) -> list[str]:
        """Return the lines of a piece, none wider than `width` and none empty at either end."""
        console = Console(
            file=io.StringIO(),
            force_terminal=True,
            width=max(width, _NARROWEST),
            _environ=self._environ,
        )
        document = _Document("", code_theme="ansi_dark", hyperlinks=False)
        document.parsed = list(piece.tokens)
        with console.capture() as shown:
            console.print(document, end="")
        lines = [_trimmed(line) for line in shown.get().split("\n")]
        seen = [i for i, line in enumerate(lines) if _COLORS.sub("", line)]
        return lines[seen[0] : seen[-1] + 1] if seen else []


class _Numbered(ListElement):
    """A numbered list whose one and two digit numbers align, wherever it is cut into items."""

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        first = self.list_start or 0
        widest = max(first + len(self.items), 10)
        for number, item in enumerate(self.items, first):
            yield from item.render_number(console, options, number, widest)


class _Document(Markdown):
    elements = {**Markdown.elements, "ordered_list_open": _Numbered}  # noqa: RUF012 - rich's own


def _groups(tokens: Sequence[Token], *, level: int) -> Iterator[Sequence[Token]]:
    """Yield the runs of tokens that are one element of a level each."""
    begin = 0
    for i, token in enumerate(tokens):
        if token.level == level and token.nesting <= 0:
            yield tokens[begin : i + 1]
            begin = i + 1


def _items(block: Sequence[Token]) -> Iterator[Piece]:
    opening, *inner, closing = block
    start = int(opening.attrs.get("start", 1))
    for number, item in enumerate(_groups(inner, level=1), start):
        numbered = opening.copy()
        if opening.type == "ordered_list_open":
            numbered.attrs = {**opening.attrs, "start": number}
        piece = _piece([numbered, *item, closing], block_line=_line(block))
        yield replace(piece, line=_line(item), apart=number == start)


def _piece(tokens: Sequence[Token], *, block_line: int) -> Piece:
    return Piece(
        tokens=tokens,
        line=block_line,
        block_line=block_line,
        apart=True,
        grows_by_lines=tokens[0].type == "fence",
    )


def _written(block: Sequence[Token], source: str) -> str:
    begin, end = block[0].map or (0, None)
    return "\n".join(source.split("\n")[begin:end])


def _drops_text(block: Sequence[Token], written: str) -> bool:
    """Tell whether parsing lost something: what is nested too deep, a table's surplus cells."""
    if block[0].type != "table_open":
        return max(token.level for token in block) > _DEEPEST
    parsed = "".join(token.content for token in block)
    return sum(map(str.isalnum, parsed)) < sum(map(str.isalnum, written))


def _line(tokens: Sequence[Token]) -> int:
    return tokens[0].map[0] if tokens[0].map else 0


def _keep_line_breaks(tokens: Sequence[Token]) -> None:
    for token in tokens:
        for child in token.children or ():
            if child.type == "softbreak":
                child.type = "hardbreak"


def _trimmed(line: str) -> str:
    """Return a line without the blanks that rich fills it up with."""
    kept = _BLANK_END.sub("", line)
    return f"{kept}\x1b[0m" if "\x1b" in kept else kept
