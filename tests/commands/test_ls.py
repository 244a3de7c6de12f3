"""`mlxbun ls`, run as a user runs it."""

from __future__ import annotations

import json
import os
import pty
import select
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.caches import WORDS, Tensors, add_model, safetensors
from tests.processes import SCRIPT, environ_of, mlxbun

CONFIG = {
    "model_type": "llama",
    "architectures": ["LlamaForCausalLM"],
    "quantization": {"group_size": 32, "bits": 4},
    "max_position_embeddings": 8192,
    **WORDS,
}
TENSORS: Tensors = {
    "a.weight": ("U32", (1000, 160)),
    "a.scales": ("F16", (1000, 40)),
    "a.biases": ("F16", (1000, 40)),
}
FILES = {
    "model.safetensors": safetensors(TENSORS),
    "chat_template.jinja": b"{% if tools %}{% endif %}<think>",
}

Environ = dict[str, str]


@pytest.fixture
def environ(tmp_path: Path) -> Environ:
    return environ_of(tmp_path / "home", HF_HUB_CACHE=str(tmp_path / "hub"))


def _add(tmp_path: Path, name: str, files: dict[str, bytes] | None = None, **config: Any) -> Path:
    content = json.dumps(CONFIG | config).encode()
    return add_model(tmp_path / "hub", name, config=content, weights=files or FILES)


def _plain(folder: Path) -> Path:
    folder.mkdir(parents=True)
    (folder / "config.json").write_text(json.dumps(CONFIG))
    (folder / "model.safetensors").write_bytes(FILES["model.safetensors"])
    return folder


def _ids(environ: Environ, *arguments: str) -> list[str]:
    done = mlxbun("ls", "--json", *arguments, environ=environ)
    assert done.returncode == 0, done.stderr
    return [row["id"] for row in json.loads(done.stdout)["models"]]


def test_a_table_for_people(tmp_path: Path, environ: Environ) -> None:
    _add(tmp_path, "org/one")
    done = mlxbun("ls", environ=environ)
    assert done.returncode == 0, done.stderr
    assert [line.split() for line in done.stdout.splitlines()] == [
        ["MODEL", "TYPE", "PARAMS", "QUANT", "SIZE", "CONTEXT", "CAN", "NOTE"],
        ["org/one", "llama", "1.28M", "4-bit", "g32", "801", "kB", "8k", "tools", "thinking", "-"],
    ]
    assert done.stderr == "1 model, 801 kB on disk\n"


def test_json_for_programs(tmp_path: Path, environ: Environ) -> None:
    folder = _add(tmp_path, "org/one")
    _add(tmp_path, "org/two", files={"model.safetensors": b"cut"}, quantization=None)
    done = mlxbun("ls", "--json", environ=environ)
    one, two = json.loads(done.stdout)["models"]
    assert done.stderr == ""
    assert one.pop("modified").endswith("+00:00")
    assert one == {
        "id": "org/one",
        "source": "cache",
        "folder": str(folder),
        "commit": folder.name,
        "refs": ["main"],
        "type": "llama",
        "architectures": ["LlamaForCausalLM"],
        "parameters": 1_280_000,
        "quantization": {
            "bits": 4,
            "group_size": 32,
            "mode": "affine",
            "mixed": False,
            "widths": [4],
            "bits_per_weight": 5.0,
        },
        "dtype": "fp16",
        "size_bytes": len(json.dumps(CONFIG)) + sum(map(len, FILES.values())),
        "weights_bytes": 800_000,
        "context": 8192,
        "vision": False,
        "audio": False,
        "chat": True,
        "tools": True,
        "thinking": True,
        "usable": True,
        "supported": True,
        "reason": None,
        "note": None,
    }
    assert (two["usable"], two["supported"], two["parameters"]) == (False, False, None)
    assert two["reason"] == "model.safetensors is broken: it has 3 bytes"
    assert two["quantization"] is None


def test_what_cannot_be_used_and_what_is_not_supported(tmp_path: Path, environ: Environ) -> None:
    _add(tmp_path, "org/one")
    _add(tmp_path, "org/two", model_type="whisper")
    add_model(tmp_path / "hub", "org/three", config=b"garbage")
    done = mlxbun("ls", environ=environ)
    assert done.returncode == 0
    assert "org/one" in done.stdout
    assert "cannot be used: config.json is not a JSON object" in done.stdout
    assert "not supported: it is a speech model" in done.stdout


def test_nothing_there_yet(environ: Environ) -> None:
    done = mlxbun("ls", environ=environ)
    assert (done.returncode, done.stdout) == (0, "")
    assert "mlxbun download starter" in done.stderr
    assert _ids(environ) == []


def test_a_cache_that_is_a_file(tmp_path: Path, environ: Environ) -> None:
    (tmp_path / "hub").write_text("")
    done = mlxbun("ls", environ=environ)
    assert (done.returncode, done.stdout) == (1, "")
    assert "cannot be read: Not a directory." in done.stderr


def test_filters_and_orders(tmp_path: Path, environ: Environ) -> None:
    big = safetensors(TENSORS, padding=2_000_000)
    _add(tmp_path, "org/big", files={"model.safetensors": big}, vision_config={"a": 1})
    _add(tmp_path, "org/small", model_type="qwen3", max_position_embeddings=99)
    assert _ids(environ, "BIG") == ["org/big"]
    assert _ids(environ, "--min-size", "1MB") == ["org/big"]
    assert _ids(environ, "--max-size", "1 MiB", "--quant", "4bit") == ["org/small"]
    assert _ids(environ, "--type", "qwen*") == ["org/small"]
    assert _ids(environ, "--vision") == ["org/big"]
    assert _ids(environ, "--tools", "--thinking") == ["org/small"]
    assert _ids(environ, "--audio") == []
    assert _ids(environ, "--sort", "size") == ["org/big", "org/small"]
    assert _ids(environ, "--sort", "size", "--reverse") == ["org/small", "org/big"]
    done = mlxbun("ls", "--type", "bert", environ=environ)
    assert (done.stdout, done.stderr) == (
        "",
        "None of the 2 models here fits what was asked for.\n",
    )
    done = mlxbun("ls", "--sort", "date", environ=environ)
    assert "DATE" in done.stdout.splitlines()[0]


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("--min-size", "large"), "--min-size must be a size such as 500MB, 4GB or 4GiB"),
        (("--max-size", "-1GB"), "--max-size must be a size"),
        (("--quant", "9-bit"), "There is no quantization '9-bit'"),
        (("--sort", "colour"), "'colour' is not one of 'name', 'size', 'params', 'date'"),
        (("--model-folders", ""), "--model-folders must be a folder"),
    ],
)
def test_what_is_refused(environ: Environ, arguments: tuple[str, ...], said: str) -> None:
    done = mlxbun("ls", *arguments, environ=environ)
    assert (done.returncode, done.stdout) == (2, "")
    assert said in done.stderr


def test_every_revision(tmp_path: Path, environ: Environ) -> None:
    for commit, ref in (("a" * 40, "v1"), ("b" * 40, "main")):
        content = json.dumps(CONFIG | {"commit": commit}).encode()
        add_model(
            tmp_path / "hub", "org/one", commit=commit, config=content, weights=FILES, ref=ref
        )
    done = mlxbun("ls", "--all-revisions", environ=environ)
    rows = [line.split()[:3] for line in done.stdout.splitlines()]
    assert rows == [
        ["MODEL", "REVISION", "REFS"],
        ["org/one", "bbbbbbbb", "main"],
        ["org/one", "aaaaaaaa", "v1"],
    ]
    assert done.stderr == "2 snapshots, 801 kB on disk\n"  # the weights once


def test_folders_of_models_by_every_layer(tmp_path: Path, environ: Environ) -> None:
    one, two = _plain(tmp_path / "a" / "one"), _plain(tmp_path / "b" / "org" / "two")
    both = os.pathsep.join(map(str, (tmp_path / "a", tmp_path / "b")))
    assert _ids(environ) == []
    assert _ids(environ | {"MLXBUN_MODEL_FOLDERS": both}) == ["one", "org/two"]
    mlxbun("config", "set", "model_folders", both, environ=environ)
    assert _ids(environ) == ["one", "org/two"]
    assert _ids(environ | {"MLXBUN_MODEL_FOLDERS": str(one)}) == ["one"]
    assert _ids(environ, "--model-folders", str(two)) == ["two"]
    done = mlxbun("ls", "--json", "--model-folders", "b", environ=environ, cwd=tmp_path)
    (row,) = json.loads(done.stdout)["models"]
    assert (row["id"], row["source"], row["commit"]) == ("org/two", "folder", None)
    assert row["folder"] == str(two)


def test_names_that_are_no_text_are_never_printed_raw(tmp_path: Path, environ: Environ) -> None:
    folder = _plain(tmp_path / "models" / os.fsdecode(b"odd\xff\x1b[2J\n"))
    (folder / os.fsdecode(b"\xfe")).write_text("")
    add_model(tmp_path / "hub", "a/b").parents[1].rename(tmp_path / "hub" / "models--\x1b[2J\n--b")
    named = environ | {"MLXBUN_MODEL_FOLDERS": str(tmp_path / "models")}
    done = mlxbun("ls", environ=named)
    assert (done.returncode, len(done.stdout.splitlines())) == (0, 3)
    assert all(line.isprintable() for line in done.stdout.splitlines())
    assert "\x1b" not in mlxbun("ls", "--json", environ=named).stdout
    assert len(_ids(named)) == 2


def test_without_a_place_for_the_index(tmp_path: Path, environ: Environ) -> None:
    _add(tmp_path, "org/one")
    (tmp_path / "file").write_text("")
    assert _ids(environ | {"MLXBUN_CACHE": str(tmp_path / "file")}) == ["org/one"]
    assert _ids(environ | {"MLXBUN_CACHE": "/proc/none"}) == ["org/one"]


def _on_a_terminal(environ: Environ, columns: int) -> list[str]:
    """Return the lines of `ls` on a terminal."""
    ours, theirs = pty.openpty()
    size = environ | {"COLUMNS": str(columns), "TERM": "xterm"}
    with subprocess.Popen(
        [SCRIPT, "ls"], env=size, stdin=theirs, stdout=theirs, stderr=subprocess.DEVNULL
    ) as process:
        os.close(theirs)
        shown = b""
        while select.select([ours], [], [], 30)[0]:
            try:
                shown += os.read(ours, 10_000)
            except OSError:  # Linux: nobody is at the other end any more
                break
        assert process.wait(30) == 0
    os.close(ours)
    return shown.decode().splitlines()


def test_a_narrow_terminal(tmp_path: Path, environ: Environ) -> None:
    long = "mlx-community/Qwen3-Coder-30B-A3B-Instruct-4bit-DWQ"
    _add(tmp_path, long, vision_config={"a": 1}, model_type="qwen3_vl")
    _add(tmp_path, "org/whisper", model_type="whisper")
    assert _on_a_terminal(environ | {"NO_COLOR": "1"}, 80) == [
        "MODEL",
        "  TYPE      PARAMS  QUANT        SIZE  CONTEXT  CAN",
        long,
        "  qwen3_vl   1.28M  4-bit g32  801 kB       8k  vision* tools thinking",
        "org/whisper",
        "  whisper    1.28M  4-bit g32  801 kB       8k  tools thinking",
        "  not supported: it is a speech model, not a language model",
    ]
    assert _on_a_terminal(environ, 80)[2] == f"\x1b[1m{long}\x1b[0m"


def test_ls_imports_nothing_heavy(tmp_path: Path, environ: Environ) -> None:
    _add(tmp_path, "org/one")
    code = (
        "import sys; from mlxbun_cli.main import run; run(['ls']);"
        "print([m for m in ('mlx', 'mlx_lm', 'huggingface_hub', 'transformers', 'numpy',"
        " 'litestar', 'httpx', 'rich.table') if m in sys.modules])"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], env=environ, capture_output=True, text=True, check=False
    )
    assert done.stdout.splitlines()[-1] == "[]"


def test_other_verbs_do_not_bring_sqlite_along(environ: Environ) -> None:
    code = "import sys, mlxbun_cli.app; print('sqlite3' in sys.modules)"
    done = subprocess.run(
        [sys.executable, "-c", code], env=environ, capture_output=True, text=True, check=False
    )
    assert done.stdout.strip() == "False"


@pytest.mark.starter
def test_the_starter_is_listed(starter_folder: Path, environ: Environ) -> None:
    hub = {"HF_HUB_CACHE": str(starter_folder.parents[2])}
    (row,) = json.loads(mlxbun("ls", "--json", environ=environ | hub).stdout)["models"]
    assert row["id"] == "mlxbun/SmolLM2-135M-Instruct-4bit"
    assert (row["type"], row["context"], row["supported"]) == ("llama", 8192, True)
    assert row["parameters"] == 134_515_008
    packed = row["quantization"]
    assert (packed["bits"], packed["group_size"], packed["widths"]) == (4, 32, [4, 8])
