"""The entry point: layout guard, run the app, the only broad catch, exit codes."""

from __future__ import annotations

import os
import signal
import sys
import threading
from typing import TYPE_CHECKING

from mlxbun_cli._layout import find_stranger

if TYPE_CHECKING:
    from collections.abc import Callable

INTERRUPTED = 130  # 128 + SIGINT, as shells report it


def main() -> None:
    """Run mlxbun and leave the process with its exit code."""
    sys.unraisablehook = _raise_interrupts_again(sys.unraisablehook)
    try:
        if stranger := find_stranger():
            sys.stderr.write(f"mlxbun: {stranger}\n")
            raise SystemExit(1)
        code = _complete() if sys.argv[1:2] == ["__complete"] else run(sys.argv[1:])
    except KeyboardInterrupt:  # while the app was imported
        code = INTERRUPTED
    if code == INTERRUPTED:
        # At once, whatever other threads are in the middle of (a model that loads). Everything
        # that had to be tidied up was, on the way here; and every write was flushed.
        os._exit(code)
    raise SystemExit(code)


def run(arguments: list[str]) -> int:
    """Run one command and return its exit code.

    Errors of ours are shown as two sentences. Anything else is a defect: one sentence, and the
    traceback only with `MLXBUN_DEBUG=1`.
    """
    from typer import Abort, TyperException

    from commands._shared.console import Console, ReaderGone
    from commands._shared.failure import exit_code
    from core.errors import MlxbunError
    from mlxbun_cli.app import app, debugging
    from mlxbun_cli.completion.options import with_shell_named

    console = Console()
    try:
        code = app(with_shell_named(arguments), standalone_mode=False, prog_name="mlxbun")
    except MlxbunError as error:
        console.error(error)
        return exit_code(error)
    except TyperException as mistake:
        if said := mistake.format_message():  # `mlxbun` alone has shown its help instead
            console.note(f"mlxbun: {said}")
            console.note("  See `mlxbun --help`, or --help behind a command.")
        return mistake.exit_code
    except (KeyboardInterrupt, Abort):
        console.note("mlxbun: interrupted")
        return INTERRUPTED
    except ReaderGone:  # `mlxbun ls | head -1`: not a failure
        return 0
    except Exception as defect:
        if debugging():
            raise
        console.note(f"mlxbun: internal error: {type(defect).__name__}: {defect}")
        console.note("  Run it again with MLXBUN_DEBUG=1 for the traceback, and report it.")
        return 1
    return code if isinstance(code, int) else 0


def _complete() -> int:
    """Answer a Tab, without the app: it would take longer to import than a person waits for."""
    from mlxbun_cli.completion.command import answer_tab

    return answer_tab(sys.argv[2:])


def _raise_interrupts_again(
    otherwise: Callable[[sys.UnraisableHookArgs], object],
) -> Callable[[sys.UnraisableHookArgs], None]:
    """Return a hook for exceptions that cannot be raised, as in the destructors of libraries.

    Python drops those. A Ctrl-C is not to be dropped: it comes again, a moment later.
    """

    def hook(dropped: sys.UnraisableHookArgs, /) -> None:
        if not issubclass(dropped.exc_type, KeyboardInterrupt):
            otherwise(dropped)
            return
        again = threading.Timer(
            0.01, signal.pthread_kill, (threading.main_thread().ident, signal.SIGINT)
        )
        again.daemon = True
        again.start()

    return hook
