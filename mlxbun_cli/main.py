"""The entry point: layout guard, run the app, the only broad catch, exit codes."""

from __future__ import annotations

import os
import signal
import sys
import threading
from typing import TYPE_CHECKING, NoReturn

from mlxbun_cli._layout import find_stranger

if TYPE_CHECKING:
    from collections.abc import Callable

    from typer import TyperException

# 128 and the number of a signal, as shells report it.
INTERRUPTED = 130  # SIGINT
UNREAD = 141  # SIGPIPE

_HINT = "Run it again with MLXBUN_DEBUG=1 for the traceback, and report it."


def main() -> None:
    """Run mlxbun and leave the process with its exit code."""
    _hold_standard_descriptors()
    sys.unraisablehook = _raise_interrupts_again(sys.unraisablehook)
    try:
        if stranger := find_stranger():
            sys.stderr.write(f"mlxbun: {stranger}\n")
            raise SystemExit(1)
        if sys.argv[1:2] == ["__complete"]:
            _complete()
        code = run(sys.argv[1:])
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
    from typer import Abort, Exit, TyperException

    from commands._shared.console import Console, ReaderGone
    from commands._shared.failure import exit_code
    from core.errors import MlxbunError
    from mlxbun_cli.app import debugging, invoke, new_session

    session = new_session()
    console = Console(json_mode=_wants_json(arguments), streams=session.streams)
    try:
        invoke(arguments, session)
    except Exit as end:
        code = end.exit_code
    except MlxbunError as error:
        console.error(error)
        code = exit_code(error)
    except TyperException as mistake:
        code = mistake.exit_code
        hint = "See `mlxbun --help`, or --help behind a command."
        console.fail(_told(mistake), hint=hint, code=code)
    except (KeyboardInterrupt, Abort):
        code = INTERRUPTED
    # `mlxbun ls | true`: it is not known how much was read. Help is written by Typer itself.
    except (ReaderGone, BrokenPipeError):
        code = UNREAD
    except Exception as defect:
        if debugging():
            raise
        code = 1
        console.fail(_sentence(defect), hint=_HINT, code=code)
    else:
        code = 0
    return code


def _wants_json(arguments: list[str]) -> bool:
    """Tell before the command line is read: what is wrong with it is JSON, too."""
    end = arguments.index("--") if "--" in arguments else None
    return "--json" in arguments[:end]


def _told(mistake: TyperException) -> str:
    """Return what is wrong with a command line: one sentence, without what pydantic puts first."""
    message = mistake.format_message().replace("Value error, ", "")
    return message if message.endswith((".", "?", "!")) else f"{message}."


def _sentence(defect: Exception) -> str:
    if isinstance(defect, OSError) and defect.strerror:
        where = f"{defect.filename}: " if defect.filename else ""
        return f"{where}{defect.strerror}."
    return f"internal error: {type(defect).__name__}: {defect}"


def _hold_standard_descriptors() -> None:
    """Open those that are closed on nothing: else the next file opened would be our stdout."""
    for number in (0, 1, 2):
        try:
            os.fstat(number)
        except OSError:
            os.set_inheritable(os.open(os.devnull, os.O_RDWR), True)


def _complete() -> NoReturn:
    """Answer a Tab and end. Without the app: to import that takes longer than a person waits."""
    from mlxbun_cli.completion.command import answer_tab

    # At once: nothing is left to be tidied up, and that takes a tenth of the time.
    os._exit(answer_tab(sys.argv[2:]))


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
