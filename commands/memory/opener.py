"""Opening a file or a folder for a person: in Obsidian, else with the opener of the platform.

Programs are started directly, never through a shell.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import quote

from core.errors import MlxbunError, NotFound

if TYPE_CHECKING:
    from collections.abc import Mapping

_PRINT = "Use --print to show the path instead."
_PATIENCE = 5.0  # seconds; an opener that still runs then has opened something


def open_path(path: Path, *, environ: Mapping[str, str], platform: str = sys.platform) -> str:
    """Open a path and return the name of the program.

    Args:
        path: a file or a folder that exists.
        environ: the environment; `PATH` says where programs are.
        platform: as `sys.platform`.

    Raises:
        NotFound: there is no program for it.
        MlxbunError: the program failed.
    """
    name, command = _command(path, environ, platform)
    try:
        process = subprocess.Popen(
            command,
            env=dict(environ),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )
        code = process.wait(_PATIENCE)
    except subprocess.TimeoutExpired:
        return name
    except OSError as problem:
        raise MlxbunError(f"{name} could not be started: {problem}.", hint=_PRINT) from problem
    if code != 0:
        raise MlxbunError(f"{name} could not open {path} (exit code {code}).", hint=_PRINT)
    return name


def _command(path: Path, environ: Mapping[str, str], platform: str) -> tuple[str, list[str]]:
    """Return a program and the command line that opens a path with it."""
    obsidian = f"obsidian://open?path={quote(os.fsencode(path.absolute()), safe='')}"
    if platform == "darwin":
        home = Path(environ.get("HOME", "/var/empty"))
        folders = (Path("/Applications"), home / "Applications")
        if any((folder / "Obsidian.app").is_dir() for folder in folders):
            return "Obsidian", ["/usr/bin/open", obsidian]
        return "open", ["/usr/bin/open", "--", str(path)]
    where = environ.get("PATH", os.defpath)
    if found := shutil.which("obsidian", path=where):
        return "Obsidian", [found, obsidian]
    if found := shutil.which("xdg-open", path=where):
        return "xdg-open", [found, str(path.absolute())]
    raise NotFound("There is neither Obsidian nor xdg-open on this machine.", hint=_PRINT)
