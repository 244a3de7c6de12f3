"""`mlxbun serve` at its start, as a process: what it tells, and one sentence where it cannot."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
from contextlib import suppress
from pathlib import Path

from tests.processes import SCRIPT, environ_of, mlxbun, offline, serving, wait_until
from tests.tiny import make_model

Environ = dict[str, str]


def _refused(environ: Environ, *arguments: str, code: int) -> str:
    done = mlxbun("serve", *arguments, environ=environ)
    assert (done.returncode, done.stdout) == (code, ""), done.stderr
    return done.stderr


def test_weights_that_stay_packed_are_told(environ: Environ, tmp_path: Path) -> None:
    packed = str(make_model(tmp_path / "packed", bits=4))
    log = tmp_path / "stderr"
    with serving(packed, "--dequantize", "off", environ=environ, log=log) as server:
        assert server.ask("hello", max_tokens=3)["usage"]["completion_tokens"] == 3
        weights = server.get("/stats")["compute"]["weights"]
        assert weights.startswith("4-bit (group 32)")
        assert f"loaded as {weights}" in server.said()
        assert server.stop() == 0


def test_a_port_in_use_is_told_before_the_model_is_looked_at(environ: Environ) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = str(taken.getsockname()[1])
        said = _refused(environ, "/no/such/model", "--port", port, code=5)
    sentence, hint = said.splitlines()
    assert sentence == f"mlxbun: Port {port} on 127.0.0.1 is taken."
    assert "--port" in hint


def test_a_model_folder_that_is_not_there(environ: Environ) -> None:
    said = _refused(environ, "/no/such/model", "--port", "0", code=3)
    assert "There is no folder /no/such/model." in said


def test_truncated_weights(environ: Environ, truncated_model: str) -> None:
    said = _refused(environ, truncated_model, "--port", "0", code=7)
    assert "model.safetensors is broken" in said


def test_a_cache_that_cannot_be_read(tmp_path: Path) -> None:
    blocker = tmp_path / "file"
    blocker.write_text("")
    environ = environ_of(tmp_path / "home", HF_HUB_CACHE=str(blocker))
    sentence, hint = _refused(environ, "--port", "0", code=1).splitlines()
    assert str(blocker) in sentence
    assert "HF_HUB_CACHE" in hint


def test_no_network_for_the_starter(tmp_path: Path) -> None:
    environ = environ_of(tmp_path / "home", **offline(tmp_path / "links"))
    *notes, sentence, hint = _refused(environ, "--port", "0", code=6).splitlines()
    assert sentence.startswith("mlxbun: The starter model could not be fetched")
    assert "network" in hint
    assert all(not note.startswith("mlxbun: ") for note in notes)
    left = [path for path in Path(environ["HOME"]).rglob("*llm*") if path.is_file()]
    assert left == []


_NO_BACKEND = """
import importlib.metadata as metadata
found = metadata.version
def version(name):
    if name.startswith(("mlx-c", "mlx-metal")):
        raise metadata.PackageNotFoundError(name)
    return found(name)
metadata.version = version
import platform
platform.system = lambda: "Linux"
"""


def test_no_backend_for_mlx(environ: Environ, tiny_model: str, tmp_path: Path) -> None:
    (tmp_path / "sitecustomize.py").write_text(_NO_BACKEND)
    path = os.pathsep.join(filter(None, (str(tmp_path), os.environ.get("PYTHONPATH"))))
    bare = {**environ, "PYTHONPATH": path}
    for command in ("serve", "generate"):
        done = mlxbun(command, tiny_model, *_REST[command], environ=bare)
        assert (done.returncode, done.stdout) == (5, "")
        assert "pip install 'mlxbun[cpu]'" in done.stderr
    doctor = mlxbun("doctor", environ=bare)
    assert doctor.returncode == 0
    assert "pip install 'mlxbun[cpu]'" in doctor.stdout


_REST = {"serve": ("--port", "0"), "generate": ("hello",)}


_SLOW = """
import os
from core.engine import recommended
read = recommended.read_recommended
def wait_and_read(folder):
    open(os.environ["GATE"]).close()  # waits for somebody who writes
    return read(folder)
recommended.read_recommended = wait_and_read
"""


def test_ctrl_c_while_the_model_loads(environ: Environ, tmp_path: Path) -> None:
    folder, gate = make_model(tmp_path / "slow"), tmp_path / "gate"
    os.mkfifo(gate)
    (tmp_path / "sitecustomize.py").write_text(_SLOW)
    path = os.pathsep.join(filter(None, (str(tmp_path), os.environ.get("PYTHONPATH"))))
    with subprocess.Popen(
        [SCRIPT, "serve", str(folder), "--port", "0"],
        env={**environ, "PYTHONPATH": path, "GATE": str(gate)},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        writers: list[int] = []
        wait_until(lambda: process.poll() is not None or _has_reader(gate, writers))
        process.send_signal(signal.SIGINT)
        out, said = process.communicate(timeout=10)
        os.close(writers[0])
    assert (process.returncode, out) == (130, "")
    assert "Traceback" not in said
    assert "terminate called" not in said


def _has_reader(gate: Path, writers: list[int]) -> bool:
    """Open the gate for writing, which works only while somebody reads."""
    with suppress(OSError):
        writers.append(os.open(gate, os.O_WRONLY | os.O_NONBLOCK))
    return bool(writers)
