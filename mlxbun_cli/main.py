"""The entry point: layout guard, run the app, the only broad catch, exit codes."""

from __future__ import annotations

import os
import sys

from mlxbun_cli._layout import find_stranger


def main() -> None:
    """Run mlxbun and leave the process with its exit code."""
    if stranger := find_stranger():
        sys.stderr.write(f"mlxbun: {stranger}\n")
        raise SystemExit(1)
    raise SystemExit(run(sys.argv[1:]))


def run(arguments: list[str]) -> int:
    """Run one command and return its exit code.

    Errors of ours are shown as two sentences. Anything else is a defect: one sentence, and the
    traceback only with `MLXBUN_DEBUG=1`.
    """
    from commands._shared.console import Console
    from commands._shared.failure import INTERRUPTED, exit_code
    from core.errors import MlxbunError
    from mlxbun_cli.app import app, debugging

    try:
        code = app(arguments, standalone_mode=False, prog_name="mlxbun")
        return code if isinstance(code, int) else 0
    except MlxbunError as error:
        Console().error(error)
        return exit_code(error)
    except KeyboardInterrupt:
        Console().note("mlxbun: interrupted")
        return INTERRUPTED
    except BrokenPipeError:
        # The reader of our output has gone (`mlxbun ls | head -1`): not a failure. Python would
        # complain again when it flushes stdout at exit, so that goes nowhere.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    except Exception as error:
        from mlxbun_cli.app import show_usage_error

        if (code := show_usage_error(error)) is not None:
            return code
        if debugging():
            raise
        Console().note(f"mlxbun: internal error: {type(error).__name__}: {error}")
        Console().note("  Run it again with MLXBUN_DEBUG=1 for the traceback, and report it.")
        return 1
