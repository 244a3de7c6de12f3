"""`mlxbun import` as a process."""

from __future__ import annotations

import json
import shlex
from pathlib import Path

import pytest

from tests.ggufs import tiny_llama
from tests.processes import environ_of, mlxbun


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder with a GGUF file of each sort of weights."""
    place = tmp_path_factory.mktemp("gguf")
    tiny_llama().write(place / "tiny.gguf")
    (place / "broken.gguf").write_bytes((place / "tiny.gguf").read_bytes()[:5000])
    (place / "folder").mkdir()
    return place


def test_from_a_file_to_an_answer(place: Path, tmp_path: Path) -> None:
    environ = environ_of(tmp_path / "home")
    refused = mlxbun("generate", "tiny.gguf", "hello", environ=environ, cwd=place)
    assert refused.returncode == 7
    (hint,) = [line for line in refused.stderr.splitlines() if "`mlxbun import" in line]
    words = shlex.split(hint.partition("`mlxbun ")[2].partition("`")[0])
    done = mlxbun(*words, environ=environ, cwd=place)
    assert done.stdout == "local/tiny\n", done.stderr
    assert "Q4_0: 14 tensors as 4-bit g32" in done.stderr
    listed = json.loads(mlxbun("ls", "--json", environ=environ).stdout)["models"]
    assert [(model["id"], model["supported"]) for model in listed] == [("local/tiny", True)]
    answer = mlxbun(
        "generate", "local/tiny", "hello", "--max-tokens", "4", "--blas", "off", environ=environ
    )
    assert answer.returncode == 0, answer.stderr


def test_a_dry_run_says_all_and_writes_nothing(place: Path, tmp_path: Path) -> None:
    environ = environ_of(tmp_path / "home")
    words = ("import", "tiny.gguf", "--dequantize", "--dry-run")
    told = mlxbun(*words, environ=environ, cwd=place)
    assert told.returncode == 0
    assert "dequantized: as asked" in told.stderr
    assert "nothing was written" in told.stderr
    document = json.loads(mlxbun(*words, "--json", environ=environ, cwd=place).stdout)
    assert document["dry_run"] is True
    assert document["folder"] is None
    assert {fate["kind"]: fate["stored"] for fate in document["tensors"]}["Q4_0"] == "float16"
    assert list((tmp_path / "home").iterdir()) == []


def test_packed_anew_into_a_folder(place: Path, tmp_path: Path) -> None:
    environ = environ_of(tmp_path / "home")
    out = str(tmp_path / "out")
    words = ("import", "tiny.gguf", "--output", out, "--requantize", "4", "--json")
    document = json.loads(mlxbun(*words, environ=environ, cwd=place).stdout)
    assert document["model"] == document["folder"] == out
    assert (Path(out) / "config.json").is_file()


@pytest.mark.parametrize(
    ("words", "code", "said"),
    [
        ("none.gguf", 3, "No such file: none.gguf"),
        ("folder", 3, "No such file: folder"),
        ("broken.gguf", 7, "is cut short"),
        ("tiny.gguf --requantize 7", 2, "7"),
        ("tiny.gguf --requantize 4 --dequantize", 2, "cannot be combined"),
        ("tiny.gguf --dtype float8", 2, "float16 or bfloat16"),
        ("tiny.gguf --name a/b/c", 2, "is no repository"),
        ("tiny.gguf --name a/b --output c", 2, "cannot be combined"),
        ("tiny.gguf --output folder", 2, "exists already"),
    ],
)
def test_what_cannot_be_is_refused(
    words: str, code: int, said: str, place: Path, tmp_path: Path
) -> None:
    environ = environ_of(tmp_path / "home")
    done = mlxbun("import", *words.split(), environ=environ, cwd=place)
    assert (done.returncode, done.stdout) == (code, "")
    assert said in done.stderr
