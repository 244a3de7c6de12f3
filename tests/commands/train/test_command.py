"""`mlxbun train` as a process: what it shows, what it leaves, how it is stopped."""

from __future__ import annotations

import json
import signal
import subprocess
import time
from pathlib import Path
from typing import Any

import pytest

from core.jobs.lease import hold_lease
from core.paths import Paths
from tests.core.train.runs import sums, write_rows
from tests.processes import SCRIPT, mlxbun
from tests.tiny import make_model

_QUICK = ("--rank", "4", "--learning-rate", "0.01", "--blas", "off")


@pytest.fixture
def place(tmp_path: Path) -> Path:
    make_model(tmp_path / "model")
    write_rows(tmp_path / "data", [*sums(12), {"prompt": 1}])
    write_rows(tmp_path / "data", sums(4, 20), "valid.jsonl")
    return tmp_path


def train(place: Path, environ: dict[str, str], *more: str) -> subprocess.CompletedProcess[str]:
    words = ("train", str(place / "model"), "--data", str(place / "data"), *_QUICK, *more)
    return mlxbun(*words, environ=environ)


def events(done: subprocess.CompletedProcess[str]) -> list[dict[str, Any]]:
    return [json.loads(line) for line in done.stdout.splitlines()]


def test_trains_serves_and_is_watched(place: Path, environ: dict[str, str]) -> None:
    out = str(place / "out")
    done = train(place, environ, "--iters", "25", "--adapter-path", out)
    assert done.returncode == 0, done.stderr
    assert f"next: mlxbun serve {place / 'model'} --adapter {out}" in done.stderr
    assert "One row cannot be used: train.jsonl, line 13" in done.stderr
    assert "AFTER STEP 25" in done.stdout
    watched = mlxbun("train", "watch", out, "--json", environ=environ)
    assert [line["step"] for line in events(watched)] == [0, *range(1, 26), 25]
    plain, adapted = (
        mlxbun(
            "generate", str(place / "model"), "1?", "--temperature", "0", "--max-tokens", "8",
            "--blas", "off", *more, environ=environ,
        ).stdout
        for more in ((), ("--adapter", out))
    )  # fmt: skip
    assert adapted.startswith("=")
    assert not plain.startswith("=")


def test_json_is_events_alone(place: Path, environ: dict[str, str]) -> None:
    done = train(place, environ, "--iters", "3", "--adapter-path", str(place / "out"), "--json")
    found = events(done)
    assert [line["step"] for line in found if line.get("kind") == "train"] == [1, 2, 3]
    assert found[-1]["event"] == "done"
    assert found[-1]["after"]["loss"] < found[-1]["before"]["loss"]


def test_dry_run_tells_everything_and_writes_nothing(place: Path, environ: dict[str, str]) -> None:
    config = place / "train.toml"
    config.write_text("rank = 3\niters = 7\n")
    done = train(place, environ, "--config", str(config), "--dry-run", "--iters", "9")
    assert done.returncode == 0, done.stderr
    for told in ("rank                     4", "iters                    9", "⟦=1<|im_end|>⟧"):
        assert told in done.stdout
    assert "training rows    12" in done.stdout
    assert "train.jsonl:13" in done.stdout
    plan = events(train(place, environ, "--dry-run", "--json"))[-1]
    assert (plan["event"], plan["n_train"], plan["n_valid"]) == ("plan", 12, 4)
    assert plan["memory_bytes"] > 0
    first = plan["first_example"][0]
    assert sum(first["learned"]) == 3
    assert sorted(path.name for path in place.iterdir()) == ["data", "model", "train.toml"]


def test_dry_run_marks_what_the_loss_counts(place: Path, environ: dict[str, str]) -> None:
    whole = train(place, environ, "--dry-run", "--sft-scope", "full")
    assert "first example\n<|im_start|>⟦user\n0?<|im_end|>" in whole.stdout
    pair = {"prompt": "0?", "chosen": "=1", "rejected": "no"}
    write_rows(place / "data", [pair])
    (place / "data" / "valid.jsonl").unlink()
    told = train(place, environ, "--dry-run", "--method", "orpo").stdout
    assert "chosen\n<|im_start|>⟦user\n0?<|im_end|>" in told
    assert "rejected\n<|im_start|>user\n0?<|im_end|>\n<|im_start|>assistant\n⟦no" in told
    told = train(place, environ, "--dry-run", "--method", "dpo").stdout
    assert "chosen\n<|im_start|>user\n0?<|im_end|>\n<|im_start|>assistant\n⟦=1" in told


def test_dry_run_shows_what_is_learned_of_a_long_row(place: Path, environ: dict[str, str]) -> None:
    write_rows(place / "data", [{"prompt": "x" * 600, "completion": "yes"}])
    told = train(place, environ, "--dry-run").stdout
    assert "first example\n519 tokens before ... xxx" in told
    assert "⟦yes<|im_end|>⟧" in told


def test_dry_run_multiplies_as_a_training_does(place: Path, environ: dict[str, str]) -> None:
    done = train(place, environ, "--dry-run", "--blas", "auto")
    assert done.returncode == 0, done.stderr
    assert "MLX was imported before" not in done.stderr


@pytest.mark.parametrize(
    ("more", "code", "told"),
    [
        (("--rank", "0"), 2, "--rank must be a whole number from 1 to 4096, not 0."),
        (
            ("--strict",),
            2,
            "One row cannot be used: train.jsonl, line 13: its 'prompt' is no text.",
        ),
        (("--method", "dpo"), 2, "learns from preference pairs"),
        (("--target-modules", "w"), 2, "names 'w', which no layer of this model has"),
        (("--config", "none.toml"), 3, "There is no configuration file none.toml."),
        (("--resume",), 2, "--resume needs the folder"),
        (("--adapter-path", "x" * 5000), 1, "cannot be written to xxx"),
        (("--warm-start-adapter", "nowhere"), 3, "There is no adapter nowhere."),
    ],
)
def test_what_cannot_be(
    place: Path, environ: dict[str, str], more: tuple[str, ...], code: int, told: str
) -> None:
    done = train(place, environ, *more)
    assert done.returncode == code
    assert told in done.stderr


def test_words(environ: dict[str, str], tmp_path: Path) -> None:
    for words, code in (
        (("watch",), 2),
        (("watch", str(tmp_path)), 3),
        (("watch", "~nobody-of-that-name/x"), 3),
        (("watch", "x" * 5000), 1),
        (("watch", str(tmp_path), "--rank", "3"), 2),
        (("a", "b"), 2),
        (("a",), 2),
    ):
        assert mlxbun("train", *words, environ=environ).returncode == code, words


def test_ctrl_c_saves_and_the_same_command_goes_on(place: Path, environ: dict[str, str]) -> None:
    out = place / "out"
    words = [SCRIPT, "train", str(place / "model"), "--data", str(place / "data"), *_QUICK]
    words += ["--adapter-path", str(out), "--iters", "100000", "--json"]
    process = subprocess.Popen(words, env=environ, stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    for line in process.stdout:
        if json.loads(line).get("step", 0) >= 3:
            break
    process.send_signal(signal.SIGINT)
    rest = [json.loads(line) for line in process.stdout]
    assert process.wait(timeout=60) == 130
    process.stdout.close()
    assert rest[-1]["ended"] == "stopped"
    assert (out / "adapters.safetensors").is_file()
    step = rest[-1]["step"]
    more = ("--adapter-path", str(out), "--iters", str(step + 2), "--resume", "--json")
    done = train(place, environ, *more)
    assert events(done)[-1]["step"] == step + 2, done.stderr


def test_ctrl_c_before_the_first_step_ends_at_once(place: Path, environ: dict[str, str]) -> None:
    out = place / "out"
    write_rows(place / "data", sums(4000, 20), "valid.jsonl")  # takes a while to be measured
    words = [SCRIPT, "train", str(place / "model"), "--data", str(place / "data"), *_QUICK]
    words += ["--adapter-path", str(out), "--json"]
    process = subprocess.Popen(words, env=environ, stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    for line in process.stdout:
        if json.loads(line).get("stage") == "measuring":
            break
    process.send_signal(signal.SIGINT)
    assert all("kind" not in json.loads(line) for line in process.stdout)
    assert process.wait(timeout=60) == 130
    process.stdout.close()
    assert not out.exists()


def test_watching_follows_a_training_that_runs(place: Path, environ: dict[str, str]) -> None:
    out = place / "out"
    words = [SCRIPT, "train", str(place / "model"), "--data", str(place / "data"), *_QUICK]
    words += ["--adapter-path", str(out), "--iters", "100000", "--quiet"]
    process = subprocess.Popen(words, env=environ)
    try:
        deadline = time.monotonic() + 60
        while not (out / "metrics.jsonl").exists() and time.monotonic() < deadline:
            time.sleep(0.05)
        watching = subprocess.Popen(
            [SCRIPT, "train", "watch", str(out), "--json"],
            env=environ,
            stdout=subprocess.PIPE,
            text=True,
        )
        assert watching.stdout is not None
        seen = [json.loads(watching.stdout.readline())["step"] for _ in range(30)]
        assert seen == list(range(30))
        process.send_signal(signal.SIGINT)
        watching.communicate(timeout=60)
        assert watching.returncode == 0
    finally:
        process.kill()
        process.wait()


def test_watching_passes_over_rubbish(environ: dict[str, str], tmp_path: Path) -> None:
    (tmp_path / "metrics.jsonl").write_bytes(
        b'{"kind": "val", "step": 0, "steps": 5, "loss": null}\n[]\n\xff\n'
        b'{"kind": "train", "step": 1, "steps": 5, "loss": 2}\n{"kind": "tr'
    )
    done = mlxbun("train", "watch", str(tmp_path), environ=environ)
    assert done.returncode == 0, done.stderr
    assert "step 0: measured loss nan" in done.stderr
    assert "step 1 of 5: loss 2" in done.stderr


def test_the_next_command_can_be_copied(place: Path, environ: dict[str, str]) -> None:
    out = str(place / "an adapter")
    done = train(place, environ, "--iters", "1", "--adapter-path", out)
    assert f"--adapter '{out}'" in done.stderr


def test_two_do_not_train_at_once(place: Path, environ: dict[str, str]) -> None:
    lease = Paths.from_environ(environ).lease_file
    with hold_lease(lease, what="job 1a2b3c4d (finetune)", on_wait=None):
        done = train(place, environ, "--iters", "1", "--adapter-path", str(place / "out"))
    assert done.returncode == 10
    assert "The accelerator is in use by job 1a2b3c4d (finetune)" in done.stderr
    assert not (place / "out").exists()
