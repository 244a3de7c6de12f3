"""The command: port first, then the model; what it says; which flags reach whom."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import httpx
import pytest
import typer
from typer.testing import CliRunner

import core.engine.start
from commands._shared.session import Session
from commands.serve import serve
from commands.serve.listener import bind, listen
from core.errors import AddressInUse, UsageProblem
from core.fit.batching import Batching
from core.paths import Paths
from core.settings import Settings
from tests.commands.serve.fake_engine import FakeEngine
from tests.tiny import make_model


def _run(arguments: list[str], folder: Path, environ: dict[str, str] | None = None) -> Any:
    app = typer.Typer()
    app.command()(serve)
    environ = {"HOME": str(folder), **(environ or {})}
    session = Session(environ=environ, paths=Paths.from_environ(environ))
    return CliRunner().invoke(app, arguments, obj=session)


def test_the_port_is_taken_before_the_model_is_loaded(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(core.engine.start, "open_engine", lambda *_a, **_k: pytest.fail("loaded"))
    with bind("127.0.0.1", 0) as taken:
        listen(taken)
        outcome = _run(["--port", str(taken.getsockname()[1])], tmp_path)
    assert isinstance(outcome.exception, AddressInUse)


def test_flags_and_environment_reach_the_engine_and_the_server(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: dict[str, Any] = {}

    def open_engine(model: str | None, *, settings: Settings, **_others: Any) -> FakeEngine:
        seen.update(model=model, settings=settings)
        return FakeEngine()

    def run_server(engine: FakeEngine, settings: Settings, **options: Any) -> None:
        seen.update(served=engine, server_settings=settings, **options)
        options["on_drain"](2)

    monkeypatch.setattr(core.engine.start, "open_engine", open_engine)
    monkeypatch.setattr("commands.serve.run.run_server", run_server)
    flags = "--port 0 --batch 3 --temp 0.5 --top-p 0.9 --top-k 5 --min-p 0.1 --max-tokens 64"
    more = "--memory-budget 2 --blas off --dequantize off"
    environ = {"MLXBUN_DRAIN_TIMEOUT": "5"}
    outcome = _run(["tiny", *flags.split(), *more.split()], tmp_path, environ)
    assert outcome.exception is None
    assert seen["model"] == "tiny"
    assert seen["settings"] == seen["server_settings"]
    assert seen["settings"] == Settings(
        port=0,
        batch=3,
        temperature=0.5,
        top_p=0.9,
        top_k=5,
        min_p=0.1,
        max_tokens=64,
        memory_budget=2.0,
        blas="off",
        dequantize="off",
        drain_timeout=5.0,
    )
    assert outcome.stdout == ""
    assert "acme/tiny-1: 4-bit (group 32), loaded as float32 (unpacked)" in outcome.stderr
    assert "computes on cpu, blas OpenBLAS" in outcome.stderr
    assert "curl http://127.0.0.1:" in outcome.stderr
    assert "2 answers are done" in outcome.stderr


def test_what_it_tells_a_program(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def run_server(_engine: FakeEngine, _settings: Settings, **options: Any) -> None:
        options["on_drain"](2)
        options["on_cut"](1)

    monkeypatch.setattr(core.engine.start, "open_engine", lambda *_a, **_k: FakeEngine())
    monkeypatch.setattr("commands.serve.run.run_server", run_server)
    outcome = _run(["--port", "0", "--json"], tmp_path)
    assert (outcome.exception, outcome.stderr) == (None, "")
    listening, draining, cut, done = [json.loads(line) for line in outcome.stdout.splitlines()]
    assert listening["event"] == "listening"
    assert listening["url"].startswith("http://127.0.0.1:")
    assert (listening["model"], listening["pid"]) == ("acme/tiny-1", os.getpid())
    assert draining == {"schema": 1, "event": "draining", "running": 2}
    assert cut == {"schema": 1, "event": "cut", "running": 1}
    assert done == {"schema": 1, "event": "done"}


def test_the_banner_says_why_a_model_runs_one_request_at_a_time(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    why = "The architecture gemma2 fails in a batch."
    engine = FakeEngine(batching=Batching(mode="serial", reason=why))
    monkeypatch.setattr(core.engine.start, "open_engine", lambda *_a, **_k: engine)
    monkeypatch.setattr("commands.serve.run.run_server", lambda *_a, **_k: None)
    told = _run(["--port", "0"], tmp_path).stderr
    assert "answers one request at a time, whatever --batch says" in told
    assert why in told
    listening = json.loads(_run(["--port", "0", "--json"], tmp_path).stdout.splitlines()[0])
    assert (listening["lane"], listening["lane_reason"]) == ("serial", why)


_SERVE = """
import os, sys, typer
from commands._shared.session import Session
from commands.serve import serve
from core.paths import Paths
app = typer.Typer()
app.command()(serve)
environ = dict(os.environ)
app(sys.argv[1:], obj=Session(environ=environ, paths=Paths.from_environ(environ)))
"""


@pytest.mark.skipif(not shutil.which("curl"), reason="no curl here")
def test_the_printed_curl_line_works_on_a_real_model(tmp_path: Path) -> None:
    model = make_model(tmp_path / "tiny")
    command = [sys.executable, "-c", _SERVE, str(model), "--port", "0", "--blas", "off"]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as process:
        try:
            assert process.stderr is not None
            said: list[str] = []
            while not (line := process.stderr.readline().strip()).startswith("curl "):
                assert line, said
                said.append(line)
            _until_up(line.split()[1].partition("/v1")[0])
            curl = line.replace("curl ", "curl -sS --noproxy '*' ", 1)
            done = subprocess.run(curl, shell=True, capture_output=True, text=True, check=True)
            assert '"finish_reason":"' in done.stdout
            process.send_signal(signal.SIGINT)
            assert process.wait(20) == 0
        finally:
            process.kill()


def _until_up(base: str) -> None:
    for _ in range(500):
        try:
            assert httpx.get(f"{base}/health", trust_env=False).status_code == 200
        except httpx.ConnectError:
            time.sleep(0.02)
        else:
            return
    raise AssertionError("the server does not listen")


@pytest.mark.parametrize(
    ("arguments", "model"),
    [
        (["tiny"], "tiny"),
        (["--model", "tiny"], "tiny"),
        (["tiny", "--model", "tiny"], "tiny"),
        ([], None),
    ],
)
def test_the_spellings_of_other_servers(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, arguments: list[str], model: str | None
) -> None:
    seen: dict[str, Any] = {}

    def open_engine(model: str | None, *, settings: Settings, **others: Any) -> FakeEngine:
        seen.update(model=model, settings=settings, **others)
        return FakeEngine()

    monkeypatch.setattr(core.engine.start, "open_engine", open_engine)
    monkeypatch.setattr("commands.serve.run.run_server", lambda *_a, **_k: None)
    flags = "--port 0 --no-open --decode-concurrency 3 --kv-budget 1.5"
    outcome = _run([*arguments, *flags.split()], tmp_path)
    assert outcome.exception is None
    assert seen["model"] == model
    assert seen["settings"] == Settings(port=0, batch=3, kv_budget=1.5)
    assert callable(seen["opening"].can_train)


def test_two_names_of_a_model_are_refused(tmp_path: Path) -> None:
    outcome = _run(["tiny", "--model", "other", "--port", "0"], tmp_path)
    assert isinstance(outcome.exception, UsageProblem)
    assert "'tiny'" in outcome.exception.message
    assert "'other'" in outcome.exception.message


def test_idle_connections_stay_open_for_75_seconds(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from commands.serve.lifespan import DrainingServer

    seen: list[int] = []

    def stop(self: Any, sockets: Any = None) -> None:
        assert sockets
        seen.append(self.config.timeout_keep_alive)

    monkeypatch.setattr(DrainingServer, "run", stop)
    monkeypatch.setattr(core.engine.start, "open_engine", lambda *_a, **_k: FakeEngine())
    assert _run(["--port", "0"], tmp_path).exception is None
    assert seen == [75]
