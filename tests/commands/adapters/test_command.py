"""`mlxbun adapters` and `mlxbun fuse` as processes."""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path

import pytest

from tests.core.train.runs import config_of, run, sums, write_rows
from tests.processes import environ_of, mlxbun
from tests.tiny import make_model


def test_from_a_training_to_a_fused_model(tmp_path: Path) -> None:
    environ = environ_of(tmp_path / "home")
    assert "There are no adapters" in mlxbun("adapters", "list", environ=environ).stderr
    make_model(tmp_path / "model", bits=4)
    write_rows(tmp_path / "data", sums(8))
    kept = tmp_path / "home" / ".cache" / "mlxbun" / "adapters" / "counting"
    run(config_of(tmp_path, iters=25, adapter_path=str(kept)), tmp_path / "home")

    table = mlxbun("adapters", "list", environ=environ).stdout
    assert table.splitlines()[1].startswith("counting")
    (listed,) = json.loads(mlxbun("adapters", "list", "--json", environ=environ).stdout)["adapters"]
    assert listed["folder"] == str(kept)
    shown = mlxbun("adapters", "inspect", "counting", environ=environ).stdout
    assert "learning_rate" in shown
    told = json.loads(mlxbun("adapters", "inspect", str(kept), "--json", environ=environ).stdout)
    assert told["recipe"]["rank"] == told["rank"] == 4
    assert (told["fits_base"], told["problem"]) == (None, None)
    assert "it is not on this disk" in shown

    model, fused = str(tmp_path / "model"), str(tmp_path / "fused")
    words = ("fuse", model, "--adapter", "counting", "--output", fused)
    done = mlxbun(*words, environ=environ)
    assert done.stdout == f"{fused}\n", done.stderr
    assert "was trained on" not in done.stderr
    make_model(tmp_path / "sister", bits=4, seed=1)
    words = ("fuse", str(tmp_path / "sister"), "--adapter", "counting", "--output", f"{fused}-2")
    told = mlxbun(*words, environ=environ).stderr
    assert "The adapter was trained on model, not on sister." in told
    words = ("fuse", model, "--adapter", "counting", "--output", fused)
    again = mlxbun(*words, environ=environ)
    assert (again.returncode, again.stdout) == (2, "")
    answer = mlxbun(
        "generate", fused, "1?", "--temperature", "0", "--max-tokens", "4", "--blas", "off",
        environ=environ,
    )  # fmt: skip
    assert answer.stdout.startswith("=")


def test_damaged_adapters_are_told_and_damaged_words_do_not_matter(tmp_path: Path) -> None:
    environ = environ_of(tmp_path / "home")
    make_model(tmp_path / "model")
    write_rows(tmp_path / "data", sums(8))
    kept = tmp_path / "home" / ".cache" / "mlxbun" / "adapters"
    run(config_of(tmp_path, iters=1, adapter_path=str(kept / "one")), tmp_path / "home")
    shutil.copytree(kept / "one", kept / "two")
    (kept / "one" / "mlxbun.json").write_text("{}")
    (kept / "two" / "adapters.safetensors").write_bytes(b"short")
    done = mlxbun("adapters", "list", "--json", environ=environ)
    assert [found["name"] for found in json.loads(done.stdout)["adapters"]] == ["one"]
    assert "Left out: The weights file" in done.stderr
    assert mlxbun("adapters", "inspect", "one", environ=environ).returncode == 0
    broken = mlxbun("adapters", "inspect", "two", environ=environ)
    assert (broken.returncode, "Train it again" in broken.stderr) == (7, True)


@pytest.mark.skipif(os.geteuid() == 0, reason="root reads everything")
def test_a_folder_of_adapters_that_is_closed_is_told(tmp_path: Path) -> None:
    kept = tmp_path / "home" / ".cache" / "mlxbun" / "adapters"
    kept.mkdir(parents=True)
    kept.chmod(0)
    done = mlxbun("adapters", "list", environ=environ_of(tmp_path / "home"))
    kept.chmod(0o755)
    assert (done.returncode, "cannot be read" in done.stderr) == (0, True)


def test_what_is_missing_is_named(tmp_path: Path) -> None:
    environ = environ_of(tmp_path / "home")
    model = str(make_model(tmp_path / "model"))
    assert mlxbun("fuse", model, "--output", "x", environ=environ).returncode == 2
    words = ("fuse", model, "--adapter", "none", "--output", str(tmp_path / "x"))
    assert mlxbun(*words, environ=environ).returncode == 3
    assert mlxbun("adapters", "inspect", "none", environ=environ).returncode == 3
    assert mlxbun("adapters", "inspect", str(tmp_path), environ=environ).returncode == 7
