"""The keyboard while no line is edited: every key waits, unseen, for the next prompt."""

from __future__ import annotations

import sys
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator


@contextmanager
def keys_kept() -> Iterator[None]:
    """Keep keys as they are typed until the line editor reads them; Ctrl-C stays a signal.

    A terminal that collects whole lines would take Ctrl-D for an end of input, which is lost when
    the editor switches it to single keys. So it passes on single keys for the whole chat, and shows
    none of them in the middle of an answer.
    """
    if not (sys.stdin and sys.stdin.isatty()):
        yield
        return
    import termios

    keyboard = sys.stdin.fileno()
    before = termios.tcgetattr(keyboard)
    quiet = list(before)
    quiet[0] &= ~termios.ICRNL  # Enter arrives as it does in the editor
    quiet[3] &= ~(termios.ECHO | termios.ICANON)
    termios.tcsetattr(keyboard, termios.TCSANOW, quiet)
    try:
        yield
    finally:
        termios.tcsetattr(keyboard, termios.TCSANOW, before)
