"""What a failed command tells the shell: one table from our error types to exit codes.

Codes: 1 failed, 2 wrong usage, 3 not found, 4 does not fit, 5 the machine lacks something,
6 download, 7 model files, 8 the engine, 9 the engine was lost, 10 the same work is under way.
(130, interrupted, is the entry point's.)
"""

from __future__ import annotations

from typing import Any

from core import errors

EXIT_CODES: dict[type[errors.MlxbunError], int] = {
    errors.MlxbunError: 1,
    errors.UsageProblem: 2,
    errors.BadRequest: 2,
    errors.ContextTooLong: 2,
    errors.NotFound: 3,
    errors.Ambiguous: 3,
    errors.AddressInUse: 5,
    errors.AlreadyRunning: 10,
    errors.DoesNotFit: 4,
    errors.BackendMissing: 5,
    errors.BadModelFiles: 7,
    errors.DownloadFailed: 6,
    errors.UploadFailed: 6,
    errors.StoreCorrupt: 1,
    errors.EngineFailed: 8,
    errors.QueueFull: 8,
    errors.EngineStopped: 8,
    errors.EngineLost: 9,
}


def exit_code(error: errors.MlxbunError) -> int:
    """Return the exit code of an error: that of its own type, never of a guess."""
    return EXIT_CODES[type(error)]


def error_as_json(error: errors.MlxbunError) -> dict[str, Any]:
    """Return an error as JSON has it, wherever it stands."""
    return failure_as_json(error.message, hint=error.hint, code=exit_code(error))


def failure_as_json(message: str, *, hint: str | None, code: int) -> dict[str, Any]:
    """Return what went wrong as JSON has it, wherever it stands."""
    return {"message": message, "hint": hint, "exit_code": code}
