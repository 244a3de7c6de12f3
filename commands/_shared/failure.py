"""What a failed command tells the shell: one table from our error types to exit codes.

And one of what the codes mean, which docs/cli.md shows.
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
    errors.VaultMissing: 3,
    errors.Ambiguous: 3,
    errors.AddressInUse: 5,
    errors.AlreadyRunning: 10,
    errors.VaultBusy: 10,
    errors.VaultChanged: 10,
    errors.DoesNotFit: 4,
    errors.BackendMissing: 5,
    errors.GitMissing: 5,
    errors.BadModelFiles: 7,
    errors.DownloadFailed: 6,
    errors.UploadFailed: 6,
    errors.ProofFailed: 11,
    errors.StoreCorrupt: 1,
    errors.EngineFailed: 8,
    errors.QueueFull: 8,
    errors.EngineStopped: 8,
    errors.EngineLost: 9,
}

MEANINGS: dict[int, str] = {
    0: "done",
    1: "failed in a way that has no code of its own",
    2: "wrong usage: the command line, a setting, or what was asked for cannot be",
    3: "not found, or a name that fits several",
    4: "does not fit: into the memory, onto the disk",
    5: "the machine lacks something: a compute backend for MLX, git, a free port",
    6: "the network: the Hub did not give, or did not take",
    7: "model files that are missing, broken or of another kind",
    8: "the engine could not answer",
    9: "the engine was lost: start it again",
    10: "the same work is under way already, or files changed meanwhile",
    11: "a model measures worse than its limits, or other than its table claims",
    130: "interrupted by Ctrl-C",
    141: "the reader of the output went away before its end",
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
