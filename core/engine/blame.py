"""Whose fault it is that a model cannot be loaded: its files, or the installed packages."""

from __future__ import annotations

import traceback
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from core.errors import BackendMissing, BadModelFiles, MlxbunError
from core.registry.remedy import diagnose

if TYPE_CHECKING:
    from collections.abc import Iterator


@contextmanager
def blaming_files(folder: Path) -> Iterator[None]:
    """Turn what mlx-lm raises on files that it cannot use into an error of ours.

    Raises:
        BadModelFiles: anything of that kind was raised.
        BackendMissing: a Python package could not be imported, which is not the fault of the files.
    """
    try:
        yield
    except MlxbunError:
        raise
    except ImportError as problem:
        raise _import_failed(folder, problem) from problem
    # Foreign code on foreign files: whatever it raises, they cannot be used.
    except Exception as problem:
        cause = problem.__cause__
        # mlx-lm says "not supported" of an architecture whose own imports failed.
        if isinstance(cause, ImportError) and not (cause.name or "").startswith("mlx_lm.models."):
            raise _import_failed(folder, cause) from problem
        reason, hint = diagnose(folder)
        raise BadModelFiles(
            f"The model in {folder} cannot be loaded: {reason or _one_line(problem)}.",
            hint=hint or "Check that its files are whole and that mlx-lm runs this model.",
        ) from problem


def _import_failed(folder: Path, problem: ImportError) -> MlxbunError:
    """Return what to raise when something could not be imported while a model was loaded."""
    where = [frame.filename for frame in traceback.extract_tb(problem.__traceback__)]
    if any(Path(file).is_relative_to(folder) for file in where):
        return BadModelFiles(
            f"The Python code that comes with the model in {folder} cannot be imported: "
            f"{_one_line(problem)}",
            hint="Install the packages that its authors name, into the same environment as mlxbun.",
        )
    return BackendMissing(
        f"A Python package that is needed for the model in {folder} cannot be imported: "
        f"{_one_line(problem)}",
        hint="Install what is missing into the same environment as mlxbun, or reinstall mlxbun.",
    )


def _one_line(problem: Exception) -> str:
    text = " ".join(str(problem).split())
    if not isinstance(problem, OSError | ValueError | RuntimeError) or not text:
        text = f"{type(problem).__name__} {text}".strip()  # a bare key says nothing
    return text if len(text) <= 300 else text[:297] + "..."
