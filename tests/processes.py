"""Runs the installed `mlxbun` as a user does: a process, with an environment of its own."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx

from tests.jsondocs import check_output

SCRIPT = str(Path(sys.executable).parent / "mlxbun")
NOWHERE = "http://127.0.0.1:9"  # a loopback port at which nobody listens

_FOREIGN = ("MLXBUN_", "HF_", "HUGGINGFACE_", "TRANSFORMERS_", "XDG_", "PIP_")
_PROXIES = ("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY")


def environ_of(home: Path, **more: str) -> dict[str, str]:
    """Return this environment with an empty home and without settings of who runs the tests."""
    kept = {
        name: value
        for name, value in os.environ.items()
        if not name.startswith(_FOREIGN) and name.upper() not in _PROXIES
    }
    home.mkdir(parents=True, exist_ok=True)
    return {**kept, "HOME": str(home), **more}


def offline(links: Path) -> dict[str, str]:
    """Return variables with which neither the Hub nor a package index answers.

    Args:
        links: an empty folder, the only place where pip may look.
    """
    links.mkdir(parents=True, exist_ok=True)
    return {
        "HF_ENDPOINT": NOWHERE,
        "PIP_NO_INDEX": "1",
        "PIP_FIND_LINKS": str(links),
        "PIP_CONFIG_FILE": os.devnull,
    }


def mlxbun(
    *arguments: str, environ: Mapping[str, str], stdin: str = "", cwd: Path | None = None
) -> subprocess.CompletedProcess[str]:
    """Run one command to its end. Whatever it does, it shows no traceback, and JSON as promised."""
    done = subprocess.run(
        [SCRIPT, *arguments],
        env=dict(environ),
        input=stdin,
        cwd=cwd,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert "Traceback" not in done.stderr, done.stderr
    assert "terminate called" not in done.stderr, done.stderr
    if "--json" in arguments:
        check_output(arguments, done.stdout)
    return done


def wait_until(condition: Callable[[], object], seconds: float = 60.0) -> None:
    """Wait for a callable to turn true."""
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, "it did not happen in time"
        time.sleep(0.02)


@dataclass(frozen=True, kw_only=True)
class Server:
    """A running `mlxbun serve`."""

    url: str
    process: subprocess.Popen[bytes]
    log: Path
    """What it writes to stderr."""

    def said(self) -> str:
        """Return what it has told so far."""
        return self.log.read_text(encoding="utf-8")

    def get(self, path: str) -> Any:
        """Return the JSON at a path."""
        return httpx.get(self.url + path, trust_env=False, timeout=30).json()

    def ask(self, question: str, **fields: Any) -> Any:
        """Return the whole answer to one question, at temperature 0 unless told otherwise."""
        body = {"messages": [{"role": "user", "content": question}], "temperature": 0, **fields}
        url = f"{self.url}/v1/chat/completions"
        answer = httpx.post(url, json=body, trust_env=False, timeout=120)
        assert answer.status_code == 200, answer.text
        return answer.json()

    def idle(self) -> bool:
        """Return whether no request runs or waits."""
        now = self.get("/stats")["batch"]
        return bool(now["active_rows"] == 0 and now["pending_rows"] == 0)

    def stop(self) -> int:
        """Press Ctrl-C once and return the exit code."""
        self.process.send_signal(signal.SIGINT)
        return self.process.wait(60)


@contextmanager
def serving(*arguments: str, environ: Mapping[str, str], log: Path) -> Iterator[Server]:
    """Start a server on a free port, wait until it answers, and end it with the block."""
    command = [SCRIPT, "serve", *arguments, "--port", "0"]
    with (
        log.open("wb") as err,
        subprocess.Popen(
            command, env=dict(environ), stdin=subprocess.DEVNULL, stdout=err, stderr=err
        ) as process,
    ):
        try:
            server = Server(url=_url(process, log), process=process, log=log)
            wait_until(lambda: _answers(server.url))
            yield server
        finally:
            process.kill()


def _url(process: subprocess.Popen[bytes], log: Path) -> str:
    """Return the address that the server names, once it does."""
    pattern = re.compile(r"listening on (http://\S+)\n")
    wait_until(lambda: process.poll() is not None or pattern.search(log.read_text("utf-8")))
    said = log.read_text("utf-8")
    found = pattern.search(said)
    assert found, said
    return found[1]


def _answers(url: str) -> bool:
    try:
        return httpx.get(f"{url}/health", trust_env=False).status_code == 200
    except httpx.ConnectError:
        return False
