"""The entry point: layout guard, run the app, the only broad catch, exit codes."""

from __future__ import annotations

import os
import sys

from mlxbun_cli._layout import find_stranger

INTERRUPTED = 130  # 128 + SIGINT, as shells report it


def main() -> None:
    """Run mlxbun and leave the process with its exit code."""
    if stranger := find_stranger():
        sys.stderr.write(f"mlxbun: {stranger}\n")
        raise SystemExit(1)
    code = run(sys.argv[1:])
    if code == INTERRUPTED:
        # At once, whatever other threads are in the middle of (a model that loads). Everything
        # that had to be tidied up was, on the way here.
        sys.stdout.flush()
        os._exit(code)
    raise SystemExit(code)


def run(arguments: list[str]) -> int:
    """Run one command and return its exit code.

    Errors of ours are shown as two sentences. Anything else is a defect: one sentence, and the
    traceback only with `MLXBUN_DEBUG=1`.
    """
    from typer import Abort, TyperException

    from commands._shared.console import Console
    from commands._shared.failure import exit_code
    from core.errors import MlxbunError
    from mlxbun_cli.app import app, debugging

    console = Console()
    try:
        code = app(arguments, standalone_mode=False, prog_name="mlxbun")
    except MlxbunError as error:
        console.error(error)
        return exit_code(error)
    except TyperException as mistake:
        console.note(f"mlxbun: {mistake.format_message()}")
        console.note("  See `mlxbun --help`, or --help behind a command.")
        return mistake.exit_code
    except (KeyboardInterrupt, Abort):
        console.note("mlxbun: interrupted")
        return INTERRUPTED
    except BrokenPipeError:
        # The reader of our output has gone (`mlxbun ls | head -1`): not a failure. Python would
        # complain again when it flushes stdout at exit, so that goes nowhere.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    except Exception as defect:
        if debugging():
            raise
        console.note(f"mlxbun: internal error: {type(defect).__name__}: {defect}")
        console.note("  Run it again with MLXBUN_DEBUG=1 for the traceback, and report it.")
        return 1
    return code if isinstance(code, int) else 0
