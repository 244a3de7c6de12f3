"""Which servers run on this machine: a small file for each, and whether its process still lives.

A file is whole or not there; a stale one (its process is gone, or the number belongs to another
process now) is recognised by the process's start time and removed by whoever meets it. Stopping is
a signal, the same as Ctrl-C. Knows processes, not HTTP.
"""

from __future__ import annotations

import json
import os
import platform
import signal
import subprocess
import time
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from core.errors import Ambiguous, NotFound
from core.paths import atomic_write

if TYPE_CHECKING:
    from collections.abc import Iterator


@dataclass(frozen=True, kw_only=True)
class RunningServer:
    """One server."""

    pid: int
    """Its process."""
    born: str
    """When that process started, in the system's own words; tells it from a later one."""
    url: str
    """Where it listens."""
    model: str
    """The model that it serves."""
    started_at: float
    """Unix seconds."""
    folder: str | None = None
    """Where the model's files lie; None: an older mlxbun did not say."""


@dataclass(frozen=True, kw_only=True)
class ServerFiles:
    """The files in a run folder."""

    alive: tuple[RunningServer, ...]
    """Those of servers that run, the oldest first."""
    stale: tuple[Path, ...]
    """Those of servers that are gone, and those that cannot be read."""


@contextmanager
def registered(
    folder: Path, *, url: str, model: str, model_folder: Path | None = None
) -> Iterator[None]:
    """Keep a file for this process while the block runs.

    A folder that cannot be written means no file, not no server.

    Args:
        folder: where the files of all servers lie.
        url: where this one listens.
        model: what it serves.
        model_folder: where the files of that lie; nobody may tidy them away.
    """
    pid = os.getpid()
    server = RunningServer(
        pid=pid,
        born=process_born(pid) or "",
        url=url,
        model=model,
        started_at=time.time(),
        folder=str(model_folder.absolute()) if model_folder else None,
    )
    file = folder / f"{pid}.json"
    try:
        with atomic_write(file) as target:
            target.write(json.dumps(asdict(server)).encode())
    except OSError:
        yield
        return
    try:
        yield
    finally:
        file.unlink(missing_ok=True)


def read_servers(folder: Path) -> ServerFiles:
    """Return which servers run and which files are left of others. Writes nothing."""
    alive, stale = [], []
    for file in sorted(folder.glob("*.json")):
        server = _read(file)
        if server is not None and process_born(server.pid) == server.born:
            alive.append(server)
        else:
            stale.append(file)
    return ServerFiles(
        alive=tuple(sorted(alive, key=lambda server: server.started_at)), stale=tuple(stale)
    )


def list_servers(folder: Path) -> list[RunningServer]:
    """Return the servers that run, the oldest first; files of dead ones are removed."""
    files = read_servers(folder)
    for file in files.stale:
        file.unlink(missing_ok=True)
    return list(files.alive)


def find_server(name: str | None, servers: list[RunningServer]) -> RunningServer:
    """Return the server that is meant.

    Args:
        name: a pid, a port, or a part of the model's name; None: the only one.
        servers: those that run.

    Raises:
        NotFound: none fits, or none runs.
        Ambiguous: several fit.
    """
    if not servers:
        raise NotFound("No mlxbun server is running.")
    fitting = [server for server in servers if name is None or _is_called(server, name)]
    if len(fitting) == 1:
        return fitting[0]
    lines = tuple(f"{server.pid}  {server.url}  {server.model}" for server in fitting or servers)
    if not fitting:
        raise NotFound(
            f"No running server is called {name!r}.", hint="Running: " + "; ".join(lines)
        )
    raise Ambiguous(
        "Several servers fit.",
        candidates=lines,
        hint="Name one by its pid or port: " + "; ".join(lines),
    )


def stop_server(server: RunningServer, *, patience: float) -> bool:
    """Ask a server to drain and wait for its end.

    Args:
        server: which one.
        patience: seconds to wait.

    Returns:
        Whether it has ended.
    """
    deadline = time.monotonic() + patience
    try:
        os.kill(server.pid, signal.SIGTERM)
    except ProcessLookupError:
        return True
    while process_born(server.pid) == server.born:
        if time.monotonic() > deadline:
            return False
        time.sleep(0.05)
    return True


def process_born(pid: int) -> str | None:
    """Return when a process started, in words that no other process has; None: it is gone.

    Source on Linux: proc(5), field 22 of /proc/PID/stat, and field 3 for zombies.
    """
    if platform.system() == "Linux":
        try:
            after_name = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8").rpartition(")")[2]
        except (OSError, UnicodeDecodeError):
            return None
        fields = after_name.split()
        return None if fields[0] in "ZX" else fields[19]
    command = ["ps", "-o", "lstart=", "-p", str(pid)]
    answer = subprocess.run(command, capture_output=True, text=True, check=False)
    return answer.stdout.strip() or None


def _read(file: Path) -> RunningServer | None:
    try:
        fields = json.loads(file.read_bytes())
        server = RunningServer(**fields)
    except (OSError, ValueError, TypeError):
        return None
    kinds = {"pid": int, "born": str, "url": str, "model": str, "started_at": float}
    right = all(isinstance(getattr(server, name), kind) for name, kind in kinds.items())
    return server if right and isinstance(server.folder, str | None) else None


def _is_called(server: RunningServer, name: str) -> bool:
    port = server.url.rpartition(":")[2]
    return name in (str(server.pid), port) or (
        not name.isdigit() and name.lower() in server.model.lower()
    )
