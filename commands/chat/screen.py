"""Where an answer appears while it comes: as it is, or as Markdown.

Markdown is printed for good piece by piece and never touched again; only what may still change is
drawn anew, at the bottom and never higher than the screen. So nothing that has scrolled away is
lost or doubled, whatever the length of an answer.
"""

from __future__ import annotations

import os
import time
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from commands.chat.markdown import Piece

# One write per picture: cursor hidden, and shown at once where the terminal can (mode 2026).
# Without line wrapping (mode 7) a character of doubtful width cannot shift the lines below it.
_BEGIN, _END = "\x1b[?2026h\x1b[?25l", "\x1b[?25h\x1b[?2026l"
_NO_WRAP, _WRAP = "\x1b[?7l", "\x1b[?7h"
_CLEAR_LINE, _CLEAR_DOWN = "\x1b[K", "\x1b[J"
_PAUSE_SECONDS = 0.05


class Screen(Protocol):
    """Shows one answer after the other."""

    def push(self, text: str) -> None:
        """Show more of the answer."""

    def finish(self) -> None:
        """Show what is left and end the answer."""


class PlainScreen:
    """Shows an answer as it is."""

    def __init__(self, write: Callable[[str], object]) -> None:
        self._write = write
        self._open = False

    def push(self, text: str) -> None:
        """Write the text."""
        self._write(text)
        self._open = not text.endswith("\n")

    def finish(self) -> None:
        """End the last line."""
        if self._open:
            self._write("\n")
        self._open = False


class MarkdownScreen:
    """Shows an answer as Markdown while it comes."""

    def __init__(
        self,
        write: Callable[[str], object],
        *,
        environ: Mapping[str, str],
        size: Callable[[], os.terminal_size],
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """Prepare the first answer.

        Args:
            write: puts text and escape sequences onto the terminal.
            environ: tells what colors the terminal has.
            size: the terminal's size at this moment.
            clock: a monotonic clock in seconds.
        """
        from commands.chat.markdown import Renderer, split

        self._write = write
        self._split = split
        self._renderer = Renderer(environ)
        self._size = size
        self._clock = clock
        self._next_draw = 0.0
        self._start()

    def push(self, text: str) -> None:
        """Take more of the answer, and show it unless something was shown just now."""
        self._source += text
        began = self._clock()
        if began < self._next_draw:
            return
        self._draw(final=False)
        # A slow terminal or a large table must not take the time that the model needs.
        took = self._clock() - began
        self._next_draw = began + max(_PAUSE_SECONDS, 10 * took)

    def finish(self) -> None:
        """Show all of it, for good."""
        self._draw(final=True)
        if self._drawn:  # the marks of a code block in which nothing was
            back = self._back(self._size())
            self._write(back + "\n".join(_CLEAR_LINE for _ in self._drawn) + back)
        self._start()

    def _start(self) -> None:
        self._source = ""  # from the block on that is not done yet
        self._printed = 0  # pieces of `_source` that stand there for good
        self._frozen: list[str] = []  # lines of the piece after these that do, too
        self._width = 0  # to which these were made
        self._drawn: list[str] = []  # lines that may be drawn anew
        self._begun = False

    def _draw(self, *, final: bool) -> None:
        size = self._size()
        pieces = self._split(self._source)
        settled = len(pieces) if final else self._settled(pieces)
        back = self._back(size)
        done = self._lines(pieces[self._printed : settled], size)
        self._begun = self._begun or bool(done)  # what follows stands apart from it
        if settled > self._printed:
            self._frozen = []
        self._printed = max(settled, self._printed)
        live = self._lines(pieces[self._printed :], size)
        live = self._freeze(pieces, live, done, size)
        self._begun = self._begun or bool(done)
        self._show(back, done, live)
        self._forget(pieces)

    def _settled(self, pieces: Sequence[Piece]) -> int:
        """Return how many pieces cannot change: a whole line of the next one is there."""
        whole = self._source.count("\n")
        return sum(1 for piece in pieces[1:] if piece.line < whole)

    def _lines(self, pieces: Sequence[Piece], size: os.terminal_size) -> list[str]:
        """Return the lines of pieces, but for those of the first that stand there already."""
        shown: list[str] = []
        for i, piece in enumerate(pieces):
            frozen = len(self._frozen) if i == 0 else 0
            lines = self._renderer.lines(piece, self._width if frozen else size.columns - 1)
            apart = piece.apart and (self._begun or bool(shown)) and not frozen and bool(lines)
            shown += ([""] if apart else []) + lines[frozen:]
        return shown

    def _freeze(
        self, pieces: Sequence[Piece], live: list[str], done: list[str], size: os.terminal_size
    ) -> list[str]:
        """Return the live lines that fit; of code, the others are printed for good."""
        too_many = len(live) - max(size.lines - 2, 1)
        if too_many <= 0:
            return live
        last = self._printed == len(pieces) - 1
        apart = self._begun and not self._frozen
        if last and pieces[-1].grows_by_lines and too_many > apart:
            if not self._frozen:
                self._width = size.columns - 1
            done += live[:too_many]
            self._frozen += live[apart:too_many]
        return live[too_many:]

    def _show(self, back: str, done: Sequence[str], live: list[str]) -> None:
        # Old lines go one by one under the new ones: cleared from the top of the screen, tmux
        # would keep every picture in its history.
        lasting = "".join(f"{_CLEAR_LINE}{line}\n" for line in done)
        passing = "\n".join(f"{_CLEAR_LINE}{line}" for line in live)
        if not lasting and not live:
            return  # a code block begins: what was drawn of its fence goes with its first line
        if lasting or live != self._drawn:
            picture = f"{lasting}{_NO_WRAP}{passing}{_CLEAR_DOWN}{_WRAP}"
            self._write(f"{_BEGIN}{back}{picture}{_END}")
        self._drawn = live

    def _back(self, size: os.terminal_size) -> str:
        """Return what goes back to the first live line, also when it was wrapped meanwhile."""
        if not self._drawn:
            return ""
        from rich.text import Text

        widths = (Text.from_ansi(line).cell_len for line in self._drawn)
        rows = sum(max(-(-width // size.columns), 1) for width in widths)
        up = min(rows, size.lines) - 1
        wrapped = _CLEAR_DOWN if rows > len(self._drawn) else ""
        return "\r" + (f"\x1b[{up}A" if up else "") + wrapped

    def _forget(self, pieces: Sequence[Piece]) -> None:
        """Drop the source of blocks that are done, so that it is not parsed again."""
        if not 0 < self._printed < len(pieces):
            return
        at = pieces[self._printed].block_line
        before = sum(1 for piece in pieces if piece.block_line < at)
        self._source = self._source.split("\n", at)[at]
        self._printed -= before
