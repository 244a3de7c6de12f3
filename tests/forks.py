"""Run `mlxbun` commands in forks of one process that has imported it: a second less for each.

For tests that run many light commands. What a command imports, and how it starts, is tested with
real processes (`tests.processes.mlxbun`).
"""

from __future__ import annotations

import io
import multiprocessing
import os
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from functools import cache
from multiprocessing.context import ForkServerContext
from pathlib import Path

from tests.jsondocs import check_output

_PRELOADED = [
    *("mlxbun_cli.app", "mlxbun_cli.main", "commands.memory.app", "core.memory.pipeline"),
    *("core.memory.doctor", "core.memory.review", "core.memory.rules", "core.memory.setup"),
    *("core.memory.search.index", "core.memory.why", "rich.table", "typer._adapters"),
    *("pydantic.type_adapter", "sqlite3", "tests.forks"),
]
_SECONDS = 120


@cache
def _context() -> ForkServerContext:
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(_PRELOADED)
    return context


def mlxbun(
    *arguments: str, environ: Mapping[str, str], stdin: str = "", cwd: Path | None = None
) -> subprocess.CompletedProcess[str]:
    """Run one command to its end, as `tests.processes.mlxbun` does."""
    with tempfile.TemporaryDirectory() as folder:
        streams = [Path(folder) / name for name in ("in", "out", "err")]
        streams[0].write_text(stdin, encoding="utf-8")
        where = str(cwd or Path.cwd())
        child = _context().Process(
            target=_child, args=(arguments, dict(environ), where, [str(each) for each in streams])
        )
        child.start()
        child.join(_SECONDS)
        if child.exitcode is None:
            child.kill()
            child.join()
        code = child.exitcode
        out, err = (each.read_text(encoding="utf-8") for each in streams[1:])
    assert code is not None
    assert "Traceback" not in err, err
    if "--json" in arguments:
        check_output(arguments, out)
    return subprocess.CompletedProcess(["mlxbun", *arguments], code, out, err)


def _child(
    arguments: tuple[str, ...], environ: dict[str, str], where: str, streams: list[str]
) -> None:
    """Become the command: its streams, environment and folder."""
    flags = (os.O_RDONLY, os.O_WRONLY | os.O_CREAT, os.O_WRONLY | os.O_CREAT)
    for number, (path, flag) in enumerate(zip(streams, flags, strict=True)):
        descriptor = os.open(path, flag, 0o600)
        os.dup2(descriptor, number)
        os.close(descriptor)
    sys.stdin = io.TextIOWrapper(open(0, "rb", closefd=False), encoding="utf-8")  # noqa: SIM115
    os.chdir(where)
    os.environ.clear()
    os.environ.update(environ)
    sys.argv = ["mlxbun", *arguments]
    from mlxbun_cli.main import main

    main()
