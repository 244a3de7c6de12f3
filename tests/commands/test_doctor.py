"""`mlxbun doctor` as a process: what it shows, in words and in JSON, and what it finds to fix."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.processes import environ_of, mlxbun

Environ = dict[str, str]


def _report(environ: Environ, *arguments: str) -> dict[str, Any]:
    done = mlxbun("doctor", "--json", *arguments, environ=environ)
    assert (done.returncode, done.stderr) == (0, "")
    report: dict[str, Any] = json.loads(done.stdout)
    return report


def test_json_has_every_part(environ: Environ) -> None:
    report = _report(environ)
    assert set(report) == {"schema", "machine", "computing", "folders", "to_fix"}
    assert report["machine"]["memory_bytes"] > 10**9
    assert {"backend", "blas", "compiler", "mlx", "device"} <= set(report["computing"])
    assert report["computing"]["float32_gflops"] > 0
    assert report["folders"]["free_bytes"] >= 0
    assert report["folders"]["settings"] == f"{environ['HOME']}/.mlxbun/config.toml"


def test_words_say_the_same(environ: Environ) -> None:
    done = mlxbun("doctor", environ=environ)
    assert (done.returncode, done.stderr) == (0, "")
    report = _report(environ)
    words = [value for part in ("machine", "folders") for value in report[part].values()]
    assert all(word in done.stdout for word in words if isinstance(word, str))
    assert report["computing"]["blas"] in done.stdout
    assert f", {report['machine']['cores']} cores\n" in done.stdout
    assert " GFLOP/s\n" in done.stdout


def test_the_blas_in_use_is_shown(environ: Environ) -> None:
    used = _report(environ)["computing"]
    without = _report(environ, "--blas", "off")["computing"]
    on_cpu = used["backend"] == "cpu"
    assert ("BLAS" in used["blas"]) == on_cpu
    assert without["blas"] == ("reference BLAS of mlx-cpu" if on_cpu else "-")
    refused = mlxbun("doctor", "--blas", "/nowhere.so", environ=environ)
    assert (refused.returncode, refused.stdout) == ((2, "") if on_cpu else (0, refused.stdout))


@pytest.mark.parametrize("content", ["port = = 3", "port = 99999", "no_such_setting = 1", "\x00"])
def test_a_broken_config_file_is_something_to_fix(content: str, fresh_environ: Environ) -> None:
    config = Path(fresh_environ["HOME"], ".mlxbun", "config.toml")
    config.parent.mkdir()
    config.write_text(content)
    problems = _report(fresh_environ)["to_fix"]  # a machine may have others, a missing g++
    assert sum("config file" in problem for problem in problems) == 1


def test_a_file_in_the_place_of_a_folder_is_something_to_fix(tmp_path: Path) -> None:
    blocker = tmp_path / "file"
    blocker.write_text("")
    environ = environ_of(tmp_path / "home", HF_HUB_CACHE=str(blocker))
    assert f"{blocker} is in the way: there should be a folder." in _report(environ)["to_fix"]
