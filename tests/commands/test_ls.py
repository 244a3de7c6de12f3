"""`mlxbun ls`, run as a user runs it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.caches import add_model

CONFIG = {
    "model_type": "llama",
    "quantization": {"group_size": 32, "bits": 4},
    "max_position_embeddings": 8192,
}


def _run(folder: Path, *arguments: str, **environ: str) -> subprocess.CompletedProcess[str]:
    kept = {name: value for name, value in os.environ.items() if not name.startswith("HF_")}
    folders = {
        "HF_HUB_CACHE": str(folder / "hub"),
        "MLXBUN_HOME": str(folder / "home"),
        "MLXBUN_CACHE": str(folder / "cache"),
    }
    return subprocess.run(
        [sys.executable, "-m", "mlxbun_cli", *arguments],
        env={**kept, **folders, **environ},
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )


def test_a_table_for_people(tmp_path: Path) -> None:
    weights = {"model.safetensors": bytes(1_500_000)}
    add_model(tmp_path / "hub", "org/one", config=json.dumps(CONFIG).encode(), weights=weights)
    done = _run(tmp_path, "ls")
    assert done.returncode == 0, done.stderr
    heading, row = (line.split() for line in done.stdout.splitlines())
    assert heading == ["MODEL", "TYPE", "SIZE", "QUANTIZATION", "CONTEXT"]
    assert row == ["org/one", "llama", "1.5", "MB", "4-bit", "(group", "32)", "8192"]


def test_json_for_programs(tmp_path: Path) -> None:
    folder = add_model(tmp_path / "hub", "org/one", config=json.dumps(CONFIG).encode())
    add_model(tmp_path / "hub", "org/two", config=b"\xff garbage")
    done = _run(tmp_path, "ls", "--json")
    one, two = json.loads(done.stdout)
    size = len(json.dumps(CONFIG)) + 1
    assert one == {
        "id": "org/one",
        "type": "llama",
        "size": f"{size} B",
        "size_bytes": size,
        "quantization": "4-bit (group 32)",
        "context": 8192,
        "commit": folder.name,
        "folder": str(folder),
        "usable": True,
        "note": None,
    }
    assert two["usable"] is False
    assert "config.json" in two["note"]


def test_a_note_beside_what_cannot_be_used(tmp_path: Path) -> None:
    add_model(tmp_path / "hub", "org/one")
    add_model(tmp_path / "hub", "org/two", config=b"garbage")
    done = _run(tmp_path, "ls")
    assert done.returncode == 0
    assert "org/one" in done.stdout
    assert "cannot be used: config.json is not a JSON object" in done.stdout


def test_nothing_there_yet(tmp_path: Path) -> None:
    done = _run(tmp_path, "ls")
    assert (done.returncode, done.stdout) == (0, "")
    assert "mlxbun download starter" in done.stderr
    assert json.loads(_run(tmp_path, "ls", "--json").stdout) == []


def test_a_cache_that_is_a_file(tmp_path: Path) -> None:
    (tmp_path / "hub").write_text("")
    done = _run(tmp_path, "ls")
    assert done.returncode == 1
    assert "cannot be read: Not a directory." in done.stderr
    assert "Traceback" not in done.stderr


def test_ls_imports_nothing_heavy(tmp_path: Path) -> None:
    add_model(tmp_path / "hub", "org/one")
    code = (
        "import sys; from mlxbun_cli.main import run; run(['ls']);"
        "print([m for m in ('mlx', 'mlx_lm', 'huggingface_hub', 'transformers', 'numpy',"
        " 'litestar', 'httpx') if m in sys.modules])"
    )
    done = subprocess.run(
        [sys.executable, "-c", code],
        env={**os.environ, "HF_HUB_CACHE": str(tmp_path / "hub")},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.stdout.splitlines()[-1] == "[]"


@pytest.mark.starter
def test_the_starter_is_listed(starter_folder: Path) -> None:
    done = _run(Path("/nowhere"), "ls", "--json", HF_HUB_CACHE=str(starter_folder.parents[2]))
    (row,) = json.loads(done.stdout)
    assert row["id"] == "mlxbun/SmolLM2-135M-Instruct-4bit"
    assert (row["type"], row["context"]) == ("llama", 8192)
    assert row["quantization"] == "4-bit (group 32)"
