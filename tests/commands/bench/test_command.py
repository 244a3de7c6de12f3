"""`mlxbun bench` as a process: what it measures, shows, keeps and draws, and how it is stopped."""

from __future__ import annotations

import json
import signal
import sqlite3
import subprocess
from pathlib import Path
from typing import Any

import pytest

from tests.processes import SCRIPT, environ_of, mlxbun, wait_until
from tests.tiny import llama_config, make_model

Environ = dict[str, str]
SHORT = ("--prompts", "32,64", "--rows", "1,2", "--tokens", "4", "--repeats", "2")
KEYS = [(kind, size) for kind in ("prefill",) for size in (32, 64)] + [("decode", 1), ("decode", 2)]
KEYS += [(kind, size) for kind in ("ttft_cold", "ttft_warm") for size in (32, 64)]


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> str:
    """Return the folder of a tiny model whose answers have no end."""
    config = llama_config(eos_token_id=10_000)
    return str(make_model(tmp_path_factory.mktemp("models") / "tiny", config=config))


def runs_of(environ: Environ, *arguments: str) -> list[dict[str, Any]]:
    done = mlxbun("bench", "history", *arguments, "--json", environ=environ)
    assert (done.returncode, done.stderr) == (0, "")
    document = json.loads(done.stdout)
    assert document["schema"] == 1
    runs: list[dict[str, Any]] = document["runs"]
    return runs


def test_a_run_is_shown_and_kept(fresh_environ: Environ, model: str) -> None:
    assert runs_of(fresh_environ) == []
    assert not (Path(fresh_environ["HOME"]) / ".mlxbun").exists()
    done = mlxbun("bench", model, *SHORT, environ=fresh_environ)
    assert done.returncode == 0
    heading, *lines = done.stdout.splitlines()
    assert heading.split()[:3] == ["FIGURE", "SIZE", "MEDIAN"]
    assert len(lines) == len(KEYS)
    assert "samples of each figure: 2" in done.stderr
    assert "kept as run 1" in done.stderr
    (run,) = runs_of(fresh_environ)
    assert [(figure["kind"], figure["size"]) for figure in run["figures"]] == KEYS
    assert all(len(figure["samples"]) == 2 for figure in run["figures"])
    assert run["model_id"] == "tiny"
    assert run["revision"].startswith("files-")
    assert run["complete"]


def test_json_is_alone_on_stdout_and_the_same_as_in_the_history(
    fresh_environ: Environ, model: str
) -> None:
    arguments = (*SHORT, "--prefill", "throughput", "--batch", "2", "--json")
    done = mlxbun("bench", model, *arguments, environ=fresh_environ)
    run = json.loads(done.stdout)
    assert run.pop("schema") == 1
    assert [run] == runs_of(fresh_environ)
    assert run["settings"]["prefill"] == "throughput"
    assert run["settings"]["batch"] == 2
    assert run["settings"]["tokens"] == 4
    assert run["machine"]["key"].endswith(run["machine"]["backend"])


def test_the_history_is_the_newest_first_and_of_one_model(
    fresh_environ: Environ, model: str, tmp_path: Path
) -> None:
    other = str(make_model(tmp_path / "other", config=llama_config(eos_token_id=10_000)))
    one = ("--prompts", "16", "--rows", "1", "--tokens", "2", "--repeats", "1")
    for each in (model, other, model):
        assert mlxbun("bench", each, *one, environ=fresh_environ).returncode == 0
    assert [run["run_id"] for run in runs_of(fresh_environ)] == [3, 2, 1]
    assert [run["run_id"] for run in runs_of(fresh_environ, "--limit", "2")] == [3, 2]
    assert [run["run_id"] for run in runs_of(fresh_environ, "OTHER")] == [2]
    assert [run["run_id"] for run in runs_of(fresh_environ, other)] == [2]
    table = mlxbun("bench", "history", environ=fresh_environ).stdout.splitlines()
    assert table[0].split()[:2] == ["RUN", "WHEN"]
    assert [line.split()[0] for line in table[1:]] == ["3", "2", "1"]
    nothing = mlxbun("bench", "history", "bear", environ=fresh_environ)
    assert (nothing.returncode, nothing.stdout) == (0, "")
    assert "No run of bear was kept yet." in nothing.stderr


def test_sizes_are_cut_to_the_model(fresh_environ: Environ, model: str) -> None:
    done = mlxbun(
        "bench", model, "--prompts", "128,9999", "--rows", "1,9", "--batch", "2", "--repeats", "1",
        "--prompt-cache", "0", "--json", environ=fresh_environ,
    )  # fmt: skip
    figures = json.loads(done.stdout)["figures"]
    sizes = {(figure["kind"], figure["size"]) for figure in figures}
    assert sizes == {
        ("prefill", 128), ("prefill", 511), ("ttft_cold", 128), ("ttft_cold", 511),
        ("decode", 1), ("decode", 2),
    }  # fmt: skip
    assert "The context allows 511 tokens of prompt: measured instead of 9999." in done.stderr
    assert "--batch allows 2 rows: measured instead of 9." in done.stderr
    assert "no warm TTFT" in done.stderr


def test_a_model_called_history_is_a_path(fresh_environ: Environ, tmp_path: Path) -> None:
    make_model(tmp_path / "history", config=llama_config(eos_token_id=10_000))
    done = mlxbun("bench", "./history", *SHORT, "--json", environ=fresh_environ, cwd=tmp_path)
    assert json.loads(done.stdout)["model_id"] == "history"


def test_a_picture_is_drawn(fresh_environ: Environ, model: str, tmp_path: Path) -> None:
    target = tmp_path / "bench.svg"
    done = mlxbun("bench", model, *SHORT, "--plot", str(target), environ=fresh_environ)
    assert f"drawn in {target}" in done.stderr
    assert "Time to first token" in target.read_text()


@pytest.mark.parametrize(
    ("arguments", "code", "said"),
    [
        (("--plot", "bench.pdf"), 2, "neither"),
        (("--prompts", "a"), 2, "--prompts must be whole numbers"),
        (("--rows", "0"), 2, "--rows must be at least 1"),
        (("--tokens", "1"), 2, "--tokens must be at least 2"),
        (("--repeats", "0"), 2, "--repeats must be at least 1"),
        (("--limit", "3"), 2, "--limit belongs to"),
        (("--prefill", "some"), 2, "--prefill"),
    ],
)
def test_wrong_usage_is_told_before_anything_is_loaded(
    environ: Environ, arguments: tuple[str, ...], code: int, said: str
) -> None:
    done = mlxbun("bench", "/nowhere", *arguments, environ=environ)
    assert (done.returncode, done.stdout) == (code, "")
    assert said in done.stderr


def test_without_matplotlib_it_says_what_to_install(environ: Environ, tmp_path: Path) -> None:
    script = tmp_path / "bare.py"
    script.write_text(
        "import importlib.util as util\n"
        "real = util.find_spec\n"
        "util.find_spec = lambda name, *a: None if name == 'matplotlib' else real(name, *a)\n"
        "from mlxbun_cli.main import main\n"
        "main()\n"
    )
    command = [str(Path(SCRIPT).with_name("python")), str(script), "bench", "/nowhere"]
    done = subprocess.run(
        [*command, "--plot", "bench.png"], env=environ, capture_output=True, text=True, check=False
    )
    assert done.returncode == 5
    assert done.stderr.splitlines() == [
        "mlxbun: Pictures need matplotlib, which is not installed.",
        "  Run `pip install 'mlxbun[plot]'`.",
    ]


def test_ctrl_c_shows_and_keeps_what_there_is_as_partial(
    fresh_environ: Environ, model: str, tmp_path: Path
) -> None:
    log = tmp_path / "log"
    many = ("--prompts", "16", "--rows", "1", "--tokens", "2", "--repeats", "2000")
    with (
        log.open("wb") as err,
        subprocess.Popen(
            [SCRIPT, "bench", model, *many, "--json", "--plot", str(tmp_path / "no.png")],
            env=fresh_environ,
            stdout=subprocess.PIPE,
            stderr=err,
        ) as process,
    ):
        try:
            wait_until(lambda: b"25%" in log.read_bytes() or process.poll() is not None)
            process.send_signal(signal.SIGINT)
            out, _ = process.communicate(timeout=60)
        finally:
            process.kill()
    assert process.returncode == 130
    run = json.loads(out)
    assert not run["complete"]
    assert run["figures"]
    assert run.pop("schema") == 1
    assert [run] == runs_of(fresh_environ)
    assert not (tmp_path / "no.png").exists()
    table = mlxbun("bench", "history", environ=fresh_environ).stdout
    assert "partial" in table


def test_a_store_that_cannot_be_written_costs_no_figure(tmp_path: Path, model: str) -> None:
    environ = environ_of(tmp_path / "home")
    (Path(environ["HOME"]) / ".mlxbun" / "bench.db").mkdir(parents=True)
    target = tmp_path / "bench.png"
    done = mlxbun("bench", model, *SHORT, "--json", "--plot", str(target), environ=environ)
    assert done.returncode == 1
    assert json.loads(done.stdout)["run_id"] is None
    assert "bench.db cannot be written" in done.stderr
    assert target.exists()


def test_a_damaged_store_is_moved_aside(fresh_environ: Environ, model: str) -> None:
    folder = Path(fresh_environ["HOME"]) / ".mlxbun"
    folder.mkdir()
    (folder / "bench.db").write_bytes(b"nonsense" * 1000)
    done = mlxbun("bench", "history", environ=fresh_environ)
    assert done.returncode == 0
    assert "is damaged" in done.stderr
    done = mlxbun("bench", model, *SHORT, environ=fresh_environ)
    assert "a new one begun" in done.stderr
    (aside,) = folder.glob("bench.db.damaged-*")
    assert aside.read_bytes() == b"nonsense" * 1000
    with sqlite3.connect(folder / "bench.db") as connection:
        assert connection.execute("SELECT count(*) FROM run").fetchone() == (1,)
