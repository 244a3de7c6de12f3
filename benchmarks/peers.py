"""The servers that are compared, started and stopped as their users would."""

from __future__ import annotations

import json
import os
import shutil
import socket
import subprocess
import sys
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO

import httpx

# mlx_lm.server with the BLAS that mlxbun would load: the peer that differs in nothing but itself.
_WITH_BLAS = """
import runpy, sys
from pathlib import Path
from core.machine.blas import load_blas
assert load_blas("auto", cache=Path(sys.argv.pop(1))).fast
runpy.run_module("mlx_lm.server", run_name="__main__")
"""


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


@dataclass(kw_only=True)
class Peer:
    """One server under measurement."""

    name: str
    """As the table shows it."""
    command: list[str]
    """Starts it; `{port}` stands for its port."""
    start_to_ready: float = 0.0
    """Seconds from the start of the process to its first answered token."""
    port: int = field(default_factory=_free_port)
    _process: subprocess.Popen[bytes] | None = None

    @property
    def url(self) -> str:
        """The API's root."""
        return f"http://127.0.0.1:{self.port}"

    def start(self, log: IO[bytes], timeout: float = 180) -> None:
        """Start the server and wait until it has answered one token.

        Raises:
            RuntimeError: it ended, or did not answer in `timeout` seconds.
        """
        command = [part.replace("{port}", str(self.port)) for part in self.command]
        began = time.perf_counter()
        # Users' Python keeps compiled modules; a start without them would measure the compiler.
        environment = {k: v for k, v in os.environ.items() if k != "PYTHONDONTWRITEBYTECODE"}
        self._process = subprocess.Popen(command, stdout=log, stderr=log, env=environment)
        body = {"messages": [{"role": "user", "content": "Hi"}], "max_tokens": 1}
        while time.perf_counter() - began < timeout:
            if self._process.poll() is not None:
                raise RuntimeError(f"{self.name} ended with code {self._process.returncode}")
            try:
                answer = httpx.post(f"{self.url}/v1/chat/completions", json=body, timeout=timeout)
                answer.raise_for_status()
            except httpx.HTTPError:
                time.sleep(0.02)
            else:
                self.start_to_ready = time.perf_counter() - began
                return
        raise RuntimeError(f"{self.name} did not answer within {timeout:g} s")

    def stop(self) -> None:
        """End the server."""
        if self._process is not None:
            self._process.terminate()
            try:
                self._process.wait(20)
            except subprocess.TimeoutExpired:
                self._process.kill()


def mlxbun(model: Path, *flags: str, name: str = "mlxbun") -> Peer:
    """Return our server, as `mlxbun serve` starts it."""
    script = str(Path(sys.executable).with_name("mlxbun"))
    return Peer(name=name, command=[script, "serve", str(model), "--port", "{port}", *flags])


def mlx_lm_as_installed(model: Path) -> Peer:
    """Return mlx_lm.server as pip leaves it: packed weights, its own BLAS.

    The folder should have float32 scales (`copy_model`): with float16 ones MLX's CPU backend is
    thirty times slower still, and the peer is to be shown at its best.
    """
    command = [sys.executable, "-m", "mlx_lm.server", "--model", str(model), "--port", "{port}"]
    return Peer(name="mlx_lm.server as installed", command=command)


def mlx_lm_equal(float32_model: Path, cache: Path) -> Peer:
    """Return mlx_lm.server on float32 weights with our OpenBLAS."""
    command = [sys.executable, "-c", _WITH_BLAS, str(cache)]
    command += ["--model", str(float32_model), "--port", "{port}"]
    return Peer(name="mlx_lm.server equal", command=command)


def copy_model(model: Path, target: Path, *, unpack: bool) -> Path:
    """Write a float32 copy of a quantized model; made once.

    Args:
        model: the folder to copy.
        target: where to.
        unpack: unpack the weights, exactly as mlxbun computes with them; False: keep them packed
            and widen their scales only.
    """
    # Not at the top: a fast BLAS must be in the process before MLX is.
    import mlx.core as mx
    from mlx.utils import tree_flatten
    from mlx_lm.utils import load_model

    from core.engine.loader import unpack_weights

    if (target / "config.json").exists():
        return target
    shutil.rmtree(target, ignore_errors=True)
    target.mkdir(parents=True)
    module, config = load_model(model)
    module.set_dtype(mx.float32)
    if unpack:
        unpack_weights(module)
        for key in ("quantization", "quantization_config"):
            config.pop(key, None)
    weights = dict(tree_flatten(module.parameters()))
    mx.save_safetensors(str(target / "model.safetensors"), weights, metadata={"format": "mlx"})
    for file in model.iterdir():
        if file.suffix in (".json", ".jinja") and "index" not in file.name:
            shutil.copyfile(file, target / file.name)
    (target / "config.json").write_text(json.dumps(config | {"torch_dtype": "float32"}))
    return target
