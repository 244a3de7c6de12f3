"""Runs git: found on `PATH`, in an environment built from nothing, without shell or terminal.

Output and time are bounded; Ctrl-C ends git, which is in a session of its own.
"""

from __future__ import annotations

import contextlib
import functools
import os
import re
import shutil
import subprocess
import sys
import threading
from dataclasses import dataclass
from pathlib import Path
from typing import IO, TYPE_CHECKING

from core.errors import GitMissing, MlxbunError, NotFound

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

LONGEST_OUTPUT = 256 * 2**20
"""Bytes that git may print, unless a call says otherwise."""
LONGEST_SECONDS = 120.0
"""Seconds that git may take, unless a call says otherwise."""
_OLDEST = (2, 32)
_STDERR_BYTES = 16 * 1024
_CHUNK = 1 << 16

# For the few commands that see the repository's own settings, and as a second wall for the rest.
_OVERRIDES = (
    f"core.hooksPath={os.devnull}",
    f"core.attributesFile={os.devnull}",
    "core.fsmonitor=false",
    "core.untrackedCache=false",
    "core.autocrlf=false",
    "core.safecrlf=false",
    "core.quotePath=false",
    "core.protectNTFS=false",  # on POSIX a backslash is a letter like any other
    "core.pager=cat",
    "core.editor=false",
    "core.sshCommand=false",
    "core.askPass=",
    "core.fsync=committed,reference",
    "core.logAllRefUpdates=true",
    "credential.helper=",
    "commit.gpgSign=false",
    "gpg.program=false",
    "log.showSignature=false",
    "log.mailmap=false",
    "i18n.commitEncoding=UTF-8",
    "i18n.logOutputEncoding=UTF-8",
    "gc.auto=0",
    "maintenance.auto=false",
    "protocol.allow=never",
    "submodule.recurse=false",
)


@dataclass(frozen=True, kw_only=True)
class Outcome:
    """The result of a git command."""

    code: int
    """Exit status."""
    out: bytes
    """Standard output, at most as much as was allowed."""
    error: str
    """First line of standard error."""
    cut: bool
    """Whether there was more output than allowed; git was stopped then."""


def run_git(
    args: tuple[str, ...],
    environ: dict[str, str],
    *,
    root: Path,
    data: bytes | Iterable[bytes] | None = None,
    limit: int = LONGEST_OUTPUT,
    timeout: float = LONGEST_SECONDS,
    keep: tuple[int, ...] = (),
) -> Outcome:
    """Run a git command in a folder.

    Args:
        args: the command and its arguments.
        environ: the whole environment (`clean_environ` and what points git to its files).
        root: the vault.
        data: what it reads.
        limit: bytes of output at most; what comes then is cut.
        timeout: seconds at most.
        keep: descriptors that it inherits.

    Raises:
        GitMissing: there is no usable git.
        NotFound: there is no such folder.
        MlxbunError: it took too long.
    """
    settings = [*_OVERRIDES, f"core.ignoreCase={str((root / '.GIT').exists()).lower()}"]
    settings += ["core.precomposeUnicode=true"] if sys.platform == "darwin" else []
    options = [word for setting in settings for word in ("-c", setting)]
    command = [_program(environ["PATH"]), *options, "--no-pager", *args]
    return _executed(command, environ, cwd=root, data=data, limit=limit, timeout=timeout, keep=keep)


def clean_environ(*, not_within: Path) -> dict[str, str]:
    """Return an environment for git in which nothing is inherited but where programs are.

    Args:
        not_within: programs are not searched in there.
    """
    found = os.environ.get("PATH") or os.defpath
    folders = [each for each in found.split(os.pathsep) if _is_outside(each, not_within)]
    return {
        "PATH": os.pathsep.join(folders),
        "HOME": os.devnull,
        "LC_ALL": "C",
        "GIT_CONFIG_NOSYSTEM": "1",
        "GIT_CONFIG_SYSTEM": os.devnull,
        "GIT_CONFIG_GLOBAL": os.devnull,
        "GIT_ATTR_NOSYSTEM": "1",
        "GIT_NO_REPLACE_OBJECTS": "1",
        "GIT_NO_LAZY_FETCH": "1",
        "GIT_ALLOW_PROTOCOL": "",
        "GIT_TERMINAL_PROMPT": "0",
        "GIT_OPTIONAL_LOCKS": "0",
        "GIT_LITERAL_PATHSPECS": "1",
        "GIT_CEILING_DIRECTORIES": str(not_within.parent),
    }


def _is_outside(folder: str, root: Path) -> bool:
    """Return whether a folder of `PATH` is absolute and not the vault's."""
    if not Path(folder).is_absolute():
        return False
    inside = os.path.realpath(folder) + os.sep
    return not inside.startswith(os.path.realpath(root) + os.sep)


@functools.lru_cache(maxsize=8)
def _program(search: str) -> str:
    """Return the path of a git that is recent enough.

    Raises:
        GitMissing: there is none.
    """
    hint = "Install git 2.32 or newer, for example from https://git-scm.com."
    found = shutil.which("git", path=search)
    if found is None:
        raise GitMissing("git is not installed.", hint=hint)
    environ = {"PATH": search, "HOME": os.devnull, "LC_ALL": "C"}
    done = _executed([found, "version"], environ, cwd=Path("/"), limit=4096, timeout=20)
    version = re.match(rb"git version (\d{1,4})\.(\d{1,4})", done.out)
    if done.code or version is None:
        # macOS has a placeholder that asks to install the developer tools.
        raise GitMissing(f"{found} does not work: {done.error or 'no version'}.", hint=hint)
    if (int(version[1]), int(version[2])) < _OLDEST:
        words = f"{int(version[1])}.{int(version[2])}"
        raise GitMissing(f"git {words} is too old for mlxbun memory.", hint=hint)
    return found


def _executed(
    command: list[str],
    environ: dict[str, str],
    *,
    cwd: Path,
    data: bytes | Iterable[bytes] | None = None,
    limit: int,
    timeout: float,
    keep: tuple[int, ...] = (),
) -> Outcome:
    """Run a program without a shell or a terminal."""
    try:
        process = subprocess.Popen(
            command, env=environ, cwd=cwd, pass_fds=keep, start_new_session=True,
            stdin=subprocess.DEVNULL if data is None else subprocess.PIPE,
            stdout=subprocess.PIPE, stderr=subprocess.PIPE,
        )  # fmt: skip
    except FileNotFoundError as problem:
        if not cwd.is_dir():
            raise NotFound(f"{cwd} is not a folder.") from problem
        raise GitMissing(f"{command[0]} cannot be run: {problem.strerror}.") from problem
    except OSError as problem:
        raise GitMissing(f"{command[0]} cannot be run: {problem.strerror}.") from problem
    return _Running(process, data=data, limit=limit).outcome(timeout)


class _Running:
    """A program that runs: fed, read up to a limit, and ended in time."""

    def __init__(
        self, process: subprocess.Popen[bytes], *, data: bytes | Iterable[bytes] | None, limit: int
    ) -> None:
        self._process = process
        self._data = data
        self._limit = limit
        self._out = bytearray()
        self._error = bytearray()
        self._problem: BaseException | None = None
        self.cut = False

    def outcome(self, timeout: float) -> Outcome:
        works = [
            self._read_out,
            self._read_error,
            *([self._feed] if self._data is not None else []),
        ]
        threads = [threading.Thread(target=work, daemon=True) for work in works]
        try:
            for thread in threads:
                thread.start()
            code = self._process.wait(timeout)
        except subprocess.TimeoutExpired:
            raise MlxbunError(
                f"git took longer than {timeout:.0f} seconds and was stopped."
            ) from None
        finally:
            # Also at Ctrl-C: git is in a session of its own and does not get it.
            if self._process.poll() is None:
                self._process.kill()
                self._process.wait()
            for thread in threads:
                if thread.ident is not None:
                    thread.join(10)
            self._close()
        if self._problem is not None:
            raise self._problem
        lines = self._error.decode("utf-8", "replace").strip().splitlines()
        wanted = [line for line in lines if line.startswith(("fatal:", "error:"))] or lines
        error = re.sub(r"^(fatal|error): ", "", wanted[0]).rstrip(".")[:300] if wanted else ""
        return Outcome(code=code, out=bytes(self._out), error=error, cut=self.cut)

    def _read_out(self) -> None:
        assert self._process.stdout is not None
        for part in _parts(self._process.stdout):
            room = self._limit - len(self._out)
            self._out += part[:room]
            if len(part) > room:
                self.cut = True
                self._process.kill()
                return

    def _read_error(self) -> None:
        assert self._process.stderr is not None
        for part in _parts(self._process.stderr):
            self._error += part[: max(0, _STDERR_BYTES - len(self._error))]

    def _feed(self) -> None:
        assert self._process.stdin is not None
        data = self._data
        try:
            for part in [data] if isinstance(data, bytes) else data or ():
                self._process.stdin.write(part)
            self._process.stdin.close()
        except BrokenPipeError:
            pass  # it has ended; its exit status says why
        except BaseException as problem:  # of the iterable: for the caller, not for this thread
            self._problem = problem
            self._process.kill()

    def _close(self) -> None:
        for stream in (self._process.stdin, self._process.stdout, self._process.stderr):
            if stream is not None:
                with contextlib.suppress(OSError):
                    stream.close()


def _parts(stream: IO[bytes]) -> Iterator[bytes]:
    with contextlib.suppress(OSError, ValueError):
        while part := os.read(stream.fileno(), _CHUNK):
            yield part
