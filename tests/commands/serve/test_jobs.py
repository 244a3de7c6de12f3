"""`/api/jobs` and `/api/finetune`: started here or elsewhere, seen by every server."""

from __future__ import annotations

import json
import re
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import httpx
import pytest

from commands.serve.moments import Moments
from core.jobs.cancel import cancel_job
from core.jobs.job import Job
from tests.commands.serve.fake_engine import FakeEngine
from tests.commands.serve.live import live_server, serve_options
from tests.core.jobs.conftest import desk
from tests.core.jobs.desk import ROOT, Desk, events_of, job_command
from tests.processes import wait_until

__all__ = ["desk"]

ROW = [
    "id", "kind", "status", "config_json", "progress", "message", "log_path", "output_path",
    "error", "started_at", "ended_at",
]  # fmt: skip


@contextmanager
def _server(desk: Desk, work: str = "quick") -> Iterator[httpx.Client]:
    options = replace(
        serve_options(desk.environ, keep_alive=0.1),
        finetune_command=tuple(job_command(work)),
        finetune_check=lambda *_: None,
    )
    with (
        live_server(FakeEngine(), options=options) as base,
        httpx.Client(base_url=base, timeout=30, trust_env=False) as client,
    ):
        yield client


@pytest.fixture
def client(desk: Desk) -> Iterator[httpx.Client]:
    with _server(desk) as client:
        yield client


def _submit(client: httpx.Client, **fields: Any) -> dict[str, Any]:
    body = {"model_dir": "/m", "data_dir": "/d", **fields}
    answer = client.post("/api/finetune/submit", json=body)
    assert answer.status_code == 200, answer.text
    started: dict[str, Any] = answer.json()
    return started


def _frames(client: httpx.Client, path: str) -> list[tuple[str, str]]:
    """Return the fields of a stream in their order, as an EventSource reads them."""
    fields = []
    with client.stream("GET", path) as answer:
        assert answer.status_code == 200
        assert answer.headers["content-type"].startswith("text/event-stream")
        for line in answer.iter_lines():
            name, _, value = line.partition(":")
            if name:  # neither a comment nor the end of an event
                fields.append((name, value.removeprefix(" ")))
    return fields


def _streamed(fields: list[tuple[str, str]]) -> list[dict[str, Any]]:
    """Return the events of a stream that has come to its end."""
    assert fields[0] == ("retry", "1500")
    assert fields[-2:] == [("event", "end"), ("data", "{}")]
    assert {name for name, _ in fields[1:-2]} <= {"data"}
    return [json.loads(value) for _, value in fields[1:-2]]


def test_a_finetuning_from_its_start_to_its_end(client: httpx.Client, desk: Desk) -> None:
    begun = int(time.time() * 1000)
    started = _submit(client, rank=8, iters=3, target_modules=["q_proj"], of_tomorrow={"a": None})
    assert list(started) == ["ok", "job_id", "adapter_path"]
    found = re.fullmatch(r".*/\.cache/mlxbun/adapters/adapter-(\d+)", started["adapter_path"])
    assert found is not None
    assert begun <= int(found[1]) <= time.time() * 1000
    events = _streamed(_frames(client, f"/api/jobs/{started['job_id']}/stream"))
    assert [event["type"] for event in events] == ["started", "stage", "metric", "log", "done"]
    assert events[2]["grad_norm"] is None
    assert events[-1]["summary"] == {"steps": 1, "rank": 8}
    answer = client.get(f"/api/jobs/{started['job_id']}")
    body = answer.json()
    assert list(body) == ["ok", "job"]
    assert list(body["job"]) == ROW
    row = body["job"]
    assert (row["status"], row["kind"], row["progress"]) == ("done", "finetune", 1.0)
    assert json.loads(row["config_json"]) == {
        "model_dir": "/m", "data_dir": "/d", "rank": 8, "iters": 3, "target_modules": ["q_proj"],
        "of_tomorrow": {"a": None}, "adapter_path": started["adapter_path"],
    }  # fmt: skip
    assert events == events_of(desk.job(row["id"]))
    assert client.get("/api/jobs").json() == {"ok": True, "jobs": [row]}
    assert answer.headers["cache-control"] == "no-store"


def test_no_two_adapters_have_one_place(client: httpx.Client) -> None:
    with ThreadPoolExecutor(3) as pool:
        found = [*pool.map(lambda _: _submit(client)["adapter_path"], range(3))]
    assert len(set(found)) == 3
    moments = Moments(clock=lambda: 5.0)
    assert [moments.next() for _ in range(3)] == [5000, 5001, 5002]


def test_a_place_that_was_named(client: httpx.Client) -> None:
    assert _submit(client, adapter_path="/mine")["adapter_path"] == "/mine"
    assert "adapters/adapter-" in _submit(client, adapter_path=None)["adapter_path"]


@pytest.mark.parametrize(
    "body", [{}, {"model_dir": "/m"}, {"data_dir": "/d"}, {"model_dir": "/m", "data_dir": " "}]
)
def test_what_is_not_said(client: httpx.Client, desk: Desk, body: dict[str, Any]) -> None:
    answer = client.post("/api/finetune/submit", json=body)
    assert answer.status_code == 400
    assert answer.json() == {"ok": False, "error": "model_dir and data_dir required"}
    assert desk.store.recent() == []


def test_wrong_fields_are_the_jobs_error(desk: Desk) -> None:
    with _server(desk, "too_large") as client:
        job_id = _submit(client, sft_scope="sideways")["job_id"]
        *_, last = _streamed(_frames(client, f"/api/jobs/{job_id}/stream"))
        assert (last["type"], last["error"]) == ("failed", "It needs 9 GB. Take a smaller batch.")
        assert client.get(f"/api/jobs/{job_id}").json()["job"]["error"] == last["error"]


def test_a_program_that_cannot_be_started(desk: Desk) -> None:
    options = replace(
        serve_options(desk.environ),
        finetune_command=("/no/such/program",),
        finetune_check=lambda *_: None,
    )
    with live_server(FakeEngine(), options=options) as base:
        body = {"model_dir": "/m", "data_dir": "/d"}
        answer = httpx.post(f"{base}/api/finetune/submit", json=body, trust_env=False)
    assert answer.status_code == 500
    assert answer.json()["error"].startswith("The job's process could not be started: ")


def test_unknown_jobs(client: httpx.Client) -> None:
    for name in ("1a2b3c4d", "..", "%2e%2e%2fjobs", "x" * 3000):
        answer = client.get(f"/api/jobs/{name}")
        assert answer.status_code == 404
    assert client.get("/api/jobs/1a2b").json() == {"ok": False, "error": "job not found"}
    (event,) = _streamed(_frames(client, "/api/jobs/1a2b/stream"))
    assert abs(event.pop("ts") - time.time() * 1000) < 60_000
    assert event == {"type": "failed", "error": "job not found"}


def test_lists_are_chosen_and_cut(client: httpx.Client, desk: Desk) -> None:
    jobs = [desk.store.add(kind, {}) for kind in ("finetune", "dataset", "finetune")]
    ids = [job.id for job in reversed(jobs)]

    def listed(query: str) -> list[str]:
        return [row["id"] for row in client.get(f"/api/jobs{query}").json()["jobs"]]

    assert listed("") == listed("?kind=&limit=") == listed("?limit=many") == ids
    assert listed("?kind=finetune") == [ids[0], ids[2]]
    assert listed("?kind=finetune&limit=1") == listed("?limit=0") == ids[:1]
    assert listed("?kind=cooking") == []


def test_events_come_as_they_happen(desk: Desk) -> None:
    with _server(desk, "busy") as client:
        job = desk.job(_submit(client)["job_id"])
        seen = []
        with client.stream("GET", f"/api/jobs/{job.id}/stream") as answer:
            for line in answer.iter_lines():
                seen.append(line)
                if '"step":50' in line:
                    break
        assert desk.job(job.id).status == "running"
        cancel_job(desk.store, job.id, patience=20)
        *_, last = _streamed(_frames(client, f"/api/jobs/{job.id}/stream"))
        assert last["error"] == "cancelled"


def test_silence_is_filled(desk: Desk, tmp_path: Path) -> None:
    gate = tmp_path / "gate"
    with _server(desk, "until") as client:
        job_id = _submit(client, gate=str(gate))["job_id"]
        with client.stream("GET", f"/api/jobs/{job_id}/stream") as answer:
            lines = answer.iter_lines()
            assert any(line == ": keep-alive" for line in lines)
            gate.touch()
            assert "event: end" in list(lines)


def test_a_job_outlives_its_server_and_the_next_one_shows_it(desk: Desk) -> None:
    with _server(desk, "busy") as client:
        job_id = _submit(client, steps=700)["job_id"]
        desk.running(desk.job(job_id))
    assert desk.job(job_id).status == "running"
    with _server(desk) as client:
        assert client.get("/api/jobs").json()["jobs"][0]["status"] == "running"
        events = _streamed(_frames(client, f"/api/jobs/{job_id}/stream"))
        assert [event["type"] for event in events].count("metric") == 700
        assert client.get(f"/api/jobs/{job_id}").json()["job"]["status"] == "done"


@contextmanager
def _process(desk: Desk) -> Iterator[tuple[subprocess.Popen[str], str]]:
    """Run a server as a process; yield it and its address."""
    command = [sys.executable, "-m", "tests.commands.serve.run_fake", "0", "60", "0"]
    with subprocess.Popen(
        command, env=desk.environ, cwd=ROOT, stdout=subprocess.PIPE, text=True
    ) as process:
        try:
            assert process.stdout is not None
            base = process.stdout.readline().strip()
            wait_until(lambda: _answers(base))
            yield process, base
        finally:
            process.kill()


def _answers(base: str) -> bool:
    try:
        return httpx.get(f"{base}/health", trust_env=False).status_code == 200
    except httpx.ConnectError:
        return False


@pytest.mark.parametrize("end", [signal.SIGTERM, signal.SIGKILL])
def test_a_server_does_not_wait_for_jobs_nor_they_for_it(desk: Desk, end: signal.Signals) -> None:
    job = desk.running(desk.start("busy"))
    with _process(desk) as (process, base):
        fields: list[str] = []
        with httpx.stream(
            "GET", f"{base}/api/jobs/{job.id}/stream", trust_env=False, timeout=30
        ) as answer:
            try:
                for line in answer.iter_lines():
                    fields.append(line)
                    if len(fields) == 20:
                        process.send_signal(end)
            except httpx.RemoteProtocolError:
                assert end == signal.SIGKILL
        # Drained long before the patience of 60 seconds: this stream was cut, and told no end.
        assert process.wait(20) in (0, -signal.SIGKILL)
    assert "event: end" not in fields
    assert desk.job(job.id).status == "running"


def test_a_list_that_is_damaged_is_no_end(client: httpx.Client, desk: Desk) -> None:
    job: Job = desk.end(desk.start("quick"))
    (job.log_path.parent / "jobs.db").write_bytes(b"no database " * 500)
    assert client.get("/api/jobs").json() == {"ok": True, "jobs": []}
    assert _submit(client)["ok"] is True


# Data sets


def test_data_sets(client: httpx.Client, tmp_path: Path) -> None:
    folder = tmp_path / "data"
    folder.mkdir()

    def inspected(path: str) -> Any:
        answer = client.post("/api/finetune/inspect-dataset", json={"path": path})
        assert answer.status_code == 200
        return answer.json()

    none = {"ok": False, "n_train": 0, "n_valid": 0, "format": "unknown"}
    assert inspected(str(folder)) == {**none, "error": f"{folder / 'train.jsonl'} not found"}
    assert inspected("") == {**none, "error": "path required"}
    row = {"messages": [{"role": "user", "content": "a"}, {"role": "assistant", "content": "b"}]}
    (folder / "train.jsonl").write_text(f"{json.dumps(row)}\n" * 3)
    (folder / "valid.jsonl").write_text(f"{json.dumps(row)}\n")
    assert inspected(f" {folder} ") == {
        "ok": True, "n_train": 3, "n_valid": 1, "format": "messages",
    }  # fmt: skip
    (folder / "train.jsonl").write_text('{"prompt": "a", "chosen": "b", "rejected": "c"}\n')
    assert inspected(str(folder))["format"] == "dpo"
