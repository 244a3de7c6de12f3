"""`mlxbun quantize` as a process: what it shows, what it leaves, what it refuses, how it stops."""

from __future__ import annotations

import json
import signal
import subprocess
from pathlib import Path
from typing import Any

import pytest

from core.jobs.lease import hold_lease
from core.paths import Paths
from tests.processes import SCRIPT, environ_of, mlxbun
from tests.tiny import llama_config, make_model

_QUICK = ("--no-proof", "--blas", "off")


@pytest.fixture
def environ(tmp_path: Path) -> dict[str, str]:
    return environ_of(tmp_path / "home")


@pytest.fixture
def place(tmp_path: Path) -> Path:
    make_model(tmp_path / "model")
    return tmp_path


def quantize(
    place: Path, environ: dict[str, str], *more: str, model: str | None = "model"
) -> subprocess.CompletedProcess[str]:
    named = () if model is None else (str(place / model),)
    return mlxbun("quantize", *named, *_QUICK, *more, environ=environ, cwd=place)


def events(done: subprocess.CompletedProcess[str]) -> list[dict[str, Any]]:
    return [json.loads(line) for line in done.stdout.splitlines()]


def snapshots(environ: dict[str, str], name: str) -> list[Path]:
    cache = Paths.from_environ(environ).hub_cache
    return list((cache / f"models--{name.replace('/', '--')}" / "snapshots").glob("*"))


def test_quantizes_into_the_cache_and_ls_and_generate_see_it(
    place: Path, environ: dict[str, str]
) -> None:
    done = quantize(place, environ, "--bits", "8")
    assert done.returncode == 0, done.stderr
    assert "next: mlxbun serve local/model-OptiQ-8bit" in done.stderr
    facts = dict(line.split("  ", 1) for line in done.stdout.splitlines() if "  " in line)
    assert facts["model"].strip() == "local/model-OptiQ-8bit"
    assert facts["proof"].strip() == "not measured (--no-proof)"
    listed = json.loads(mlxbun("ls", "--json", environ=environ).stdout)["models"]
    assert [model["id"] for model in listed] == ["local/model-OptiQ-8bit"]
    words = ("generate", "local/model-OptiQ-8bit", "1?", "--max-tokens", "3", "--blas", "off")
    assert mlxbun(*words, environ=environ).returncode == 0
    again = quantize(place, environ, "--bits", "8")
    assert again.returncode == 0
    assert "is there already" in again.stderr
    assert len(snapshots(environ, "local/model-OptiQ-8bit")) == 1


@pytest.mark.slow  # two proofs with a tokenizer of bytes
def test_limits_hold_for_a_result_that_is_there_already(
    place: Path, environ: dict[str, str]
) -> None:
    words = ("quantize", str(place / "model"), "--bits", "8", "--blas", "off")
    missed = mlxbun(*words, "--max-kl", "0", environ=environ)
    assert (missed.returncode, "misses its limits" in missed.stderr) == (11, True)
    assert "top-1 agreement" in missed.stdout  # the table comes before the error
    assert snapshots(environ, "local/model-OptiQ-8bit") == []
    table, failed = events(mlxbun(*words, "--max-kl", "0", "--json", environ=environ))[-2:]
    assert (table["event"], failed["event"]) == ("proof", "failed")
    assert len(table["table"]["entries"]) == 2
    done = mlxbun(*words, "--json", environ=environ)
    assert done.returncode == 0, done.stderr
    first = events(done)[-1]
    assert len(first["table"]["entries"]) == 2
    again = mlxbun(*words, "--json", environ=environ)
    assert events(again)[-1] == {**first, "existing": True, "notes": events(again)[-1]["notes"]}
    missed = mlxbun(*words, "--max-kl", "0", environ=environ)
    assert (missed.returncode, "misses its limits" in missed.stderr) == (11, True)


def test_json_is_events_and_one_result(place: Path, environ: dict[str, str]) -> None:
    found = events(quantize(place, environ, "--group-size", "32", "--json"))
    assert {line["event"] for line in found[:-1]} <= {"stage", "note"}
    stages = [line["progress"] for line in found if line["event"] == "stage"]
    assert stages == sorted(stages)
    done = found[-1]
    assert (done["event"], done["repo_id"]) == ("done", "local/model-OptiQ-4bit-g32")
    assert Path(done["folder"], "model.safetensors").is_file()
    assert done["table"] is None
    assert done["bits_per_weight"] > 4


def test_dry_run_shows_every_layer_and_writes_nothing(place: Path, environ: dict[str, str]) -> None:
    done = quantize(place, environ, "--dry-run", "--override", "*.o_proj=keep,*.q_proj=8")
    assert done.returncode == 0, done.stderr
    rows = {line.split()[0]: line for line in done.stdout.splitlines() if line}
    assert "unquantized" in rows["model.layers.*.self_attn.o_proj"]
    assert "8-bit g64" in rows["model.layers.*.self_attn.q_proj"]
    assert "4-bit g64" in rows["model.layers.*.mlp.down_proj"]
    for name in ("bits", "weights", "memory", "time"):
        assert name in rows
    assert not Paths.from_environ(environ).hub_cache.exists()
    assert sorted(path.name for path in place.iterdir()) == ["home", "model"]


def test_dry_run_for_a_program(place: Path, environ: dict[str, str]) -> None:
    plan = events(quantize(place, environ, "--dry-run", "--json", "--mode", "mxfp4"))[-1]
    assert (plan["event"], plan["target"]) == ("plan", "local/model-OptiQ-mxfp4")
    assert len(plan["layers"]) == 15
    assert plan["layers"][0]["form"] == {"bits": 4, "group_size": 32, "mode": "mxfp4"}
    assert plan["result_bytes"] == sum(layer["bytes"] for layer in plan["layers"]) + 5 * 256


def test_a_recipe_file_and_options_before_it(place: Path, environ: dict[str, str]) -> None:
    file = place / "recipe.toml"
    text = f'model_id = "{place / "model"}"\nbits = 3\noverride = ["*.v_proj=8"]\n'
    file.write_text(text, encoding="utf-8")
    words = ("--recipe", str(file), "--dry-run", "--json")
    plan = events(quantize(place, environ, *words, model=None))[-1]
    assert plan["target"] == "local/model-OptiQ-3bit"
    bits = {layer["path"].rpartition(".")[2]: layer["form"]["bits"] for layer in plan["layers"]}
    assert (bits["v_proj"], bits["q_proj"]) == (8, 3)
    plan = events(quantize(place, environ, *words, "--bits", "6", model=None))[-1]
    assert plan["target"] == "local/model-OptiQ-6bit"


def test_options_are_repeated_or_have_commas(place: Path, environ: dict[str, str]) -> None:
    words = ("--override", "*.v_proj=8", "--override", "*.q_proj=6,*.k_proj=keep")
    plan = events(quantize(place, environ, "--dry-run", "--json", *words))[-1]
    forms = {layer["path"].rpartition(".")[2]: layer["form"] for layer in plan["layers"]}
    assert (forms["v_proj"]["bits"], forms["q_proj"]["bits"]) == (8, 6)
    assert forms["k_proj"] is None


def test_the_width_that_fits(place: Path, environ: dict[str, str]) -> None:
    done = quantize(place, environ, "--fit", "6GB", "--dry-run", "--json")
    found = events(done)
    assert found[-1]["target"] == "local/model-OptiQ-8bit"
    assert "8 bits fit 6 GB" in found[0]["line"]
    done = quantize(place, environ, "--fit", "10kB")
    assert done.returncode == 4
    assert "fits 10 kB at no width" in done.stderr


@pytest.mark.parametrize(
    ("more", "code", "said"),
    [
        (("--bits", "1"), 2, "--bits must be a whole number from 2 to 8, not 1."),
        (("--bits", "7"), 2, "does not support 7 bits"),
        (("--mode", "mxfp4", "--bits", "8"), 2, "does not support 8 bits"),
        (("--mode", "int4"), 2, "--mode must be one of affine"),
        (("--override", "w=4"), 2, "matches no layer"),
        (("--override", "w"), 2, "override must be PATTERN=BITS"),
        (("--target-bpw", "3.5", "--candidate-bits", "7"), 2, "must be one of"),
        (("--target-bpw", "12"), 2, "out of reach"),
        (("--target-bpw", "4.5", "--reference", "fp32"), 2, "reference must be bf16 or one of"),
        (("--target-bpw", "4.5", "--calibration-mix", "none"), 3, "none"),
        (("--candidate-bits", "2,4"), 2, "has no effect without target_bpw"),
        (("--min-agreement", "0.9"), 2, "cannot be checked without the proof"),
        (("--dequantize",), 2, "is not quantized"),
        (("--fit", "much"), 2, "fit must be a size such as 6GB"),
        (("--fit", "6GB", "--bits", "4"), 2, "cannot be combined with fit"),
        (("--recipe", "none.toml"), 3, "There is no configuration file none.toml."),
        (("--plot", "x.svg"), 2, "--plot needs --target-bpw"),
        (("--target-bpw", "4.5", "--plot", "x.gif"), 2, "A picture is a .png or .svg file"),
        (("--output", "model/in"), 2, "lies in the folder of the model itself"),
        (("--output", "home"), 2, "exists already"),
        (("--memory-budget", "0"), 2, "--memory-budget must be a number"),
    ],
)
def test_what_cannot_be(
    place: Path, environ: dict[str, str], more: tuple[str, ...], code: int, said: str
) -> None:
    done = quantize(place, environ, *more)
    assert (done.returncode, said in done.stderr) == (code, True), done.stderr
    assert not Paths.from_environ(environ).hub_cache.exists()
    words = (*more, "--json")
    (failed,) = [line for line in events(quantize(place, environ, *words)) if "error" in line]
    assert failed["error"]["exit_code"] == code


def test_models_that_cannot_be(place: Path, environ: dict[str, str]) -> None:
    make_model(place / "packed", bits=4)
    odd = make_model(place / "odd")
    config = llama_config(model_type="novel")
    (odd / "config.json").write_text(json.dumps(config), encoding="utf-8")
    (place / "file.gguf").write_bytes(b"GGUF")
    for model, code, said in (
        (None, 2, "quantize needs a MODEL."),
        ("nowhere", 3, "There is no folder"),
        ("packed", 2, "is quantized already"),
        ("odd", 7, "does not load the type novel"),
        ("file.gguf", 7, "mlxbun import"),
    ):
        done = quantize(place, environ, model=model)
        assert (done.returncode, said in done.stderr) == (code, True), (model, done.stderr)
    done = mlxbun("quantize", "org/name", *_QUICK, environ=environ)
    assert (done.returncode, "There is no model 'org/name'" in done.stderr) == (3, True)


def test_two_do_not_quantize_at_once(place: Path, environ: dict[str, str]) -> None:
    lease = Paths.from_environ(environ).lease_file
    with hold_lease(lease, what="job 1a2b3c4d (finetune)", on_wait=None):
        done = quantize(place, environ)
        assert quantize(place, environ, "--dry-run").returncode == 0
    assert done.returncode == 10
    assert "The accelerator is in use by job 1a2b3c4d (finetune)" in done.stderr


def test_ctrl_c_keeps_what_is_written_and_the_same_command_resumes(
    place: Path, environ: dict[str, str]
) -> None:
    config = llama_config(num_hidden_layers=24, hidden_size=512, intermediate_size=2048)
    make_model(place / "deep", config=config)
    words = [SCRIPT, "quantize", str(place / "deep"), *_QUICK, "--json"]
    process = subprocess.Popen(
        words, env=environ, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    assert process.stdout is not None
    for line in process.stdout:
        if json.loads(line).get("stage") == "packing":
            break
    process.send_signal(signal.SIGINT)
    rest, told = process.communicate(timeout=60)
    assert process.returncode == 130
    assert "Stopping after the current tensor" in told
    assert "run the same command again to resume" in told
    assert not any(json.loads(line)["event"] == "done" for line in rest.splitlines())
    assert snapshots(environ, "local/deep-OptiQ-4bit") == []
    assert json.loads(mlxbun("ls", "--json", environ=environ).stdout)["models"] == []
    found = events(quantize(place, environ, "--json", model="deep"))
    assert any("Resuming an interrupted run" in line.get("line", "") for line in found)
    assert found[-1]["event"] == "done"
