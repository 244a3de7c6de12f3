"""`mlxbun fit`, run as a user runs it."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from core.figures import Figure, FigureStore, MachineIdentity
from core.fit.batching import Batching, BatchingShelf
from core.fit.machines import load_skus
from core.machine.probe import probe_machine
from core.paths import Paths
from tests.caches import add_model, safetensors
from tests.core.figures.runs import make_run
from tests.core.fit.large import LLAMA_8B, llama_8b
from tests.fakehub import FakeHub
from tests.processes import SCRIPT, environ_of, mlxbun
from tests.tiny import llama_config, make_model

Environ = dict[str, str]
FILES = {"model.safetensors": safetensors({f"layers.{n}.w": ("F32", (8, 8)) for n in range(9)})}


@pytest.fixture
def environ(tmp_path: Path) -> Environ:
    hub = str(tmp_path / "hub")
    return environ_of(tmp_path / "home", HF_HUB_CACHE=hub, HF_HUB_OFFLINE="1")


@pytest.fixture(scope="module")
def large(tmp_path_factory: pytest.TempPathFactory) -> str:
    return str(llama_8b(tmp_path_factory.mktemp("models") / "Llama-8B-4bit", bits=4))


def told(*arguments: str, environ: Environ, code: int = 0) -> Any:
    done = mlxbun("fit", *arguments, "--json", environ=environ)
    assert done.returncode == code, done.stderr
    document = json.loads(done.stdout)
    assert document["schema"] == 1
    return document["results"]


def told_one(*arguments: str, environ: Environ, code: int = 0) -> Any:
    (found,) = told(*arguments, environ=environ, code=code)
    return found


def test_one_model_has_its_verdict_and_its_numbers(tiny_model: str, environ: Environ) -> None:
    done = mlxbun("fit", tiny_model, environ=environ)
    assert done.returncode == 0, done.stderr
    first, *lines = done.stdout.splitlines()
    assert first.startswith("fits: ")
    assert " usable at 512 tokens; up to 512 tokens" in first
    names = [line.split("  ")[0] for line in lines]
    assert names[:6] == ["model", "machine", "weights", "KV", "transients", "total"]
    assert "layers: 2 full attention" in done.stdout


def test_json_holds_every_number(large: str, environ: Environ) -> None:
    found = told_one(large, "--sku", "M4 Max 64", "--ctx", "4096", environ=environ)
    assert found["model"] == "Llama-8B-4bit"
    assert found["downloaded"] is True
    assert found["fits"] is True
    assert found["parameters"] == 8_030_261_248
    assert (found["context"], found["rows"], found["window"]) == (4096, 1, 131_072)
    assert found["machine"] == {
        "name": "M4 Max 64 GB (40-core GPU)",
        "memory_bytes": 64 * 2**30,
        "usable_bytes": 48 * 2**30,
        "bandwidth_gbs": 546.0,
        "fp16_tflops": found["machine"]["fp16_tflops"],
        "unconfirmed": ["fp16"],
    }
    parts = (found["weights_bytes"], found["kv_bytes"], found["transient_bytes"])
    assert found["total_bytes"] == sum(parts)
    assert found["kv"] == {
        "bytes_per_token": 128 * 1024,
        "float_bytes": 2,
        "layers": {"full": 32},
    }
    assert found["kv_bytes"] == 4096 * 128 * 1024
    assert set(found["predicted"]) == {"decode_tps", "prefill_tps", "ttft_s"}
    assert found["measured"] is None


def test_a_model_that_was_never_loaded_was_not_tried_in_a_batch(
    tiny_model: str, environ: Environ
) -> None:
    found = told_one(tiny_model, environ=environ)
    assert (found["lane"], found["lane_reason"]) == ("not tried", None)
    assert "batching     not tried" in mlxbun("fit", tiny_model, environ=environ).stdout


def test_what_a_load_has_tried_is_told(tiny_model: str, environ: Environ) -> None:
    shelf = BatchingShelf.in_cache(Paths.from_environ(environ).cache)
    serial = Batching(mode="serial", reason="It fails in a batch.")
    for verdict, told_so in (
        (Batching(mode="padded"), "requests run together"),
        (Batching(mode="joined", reason="It has a state."), "requests run together"),
        (serial, "one request at a time: It fails in a batch."),
    ):
        shelf.keep(Path(tiny_model), probe_machine().backend, verdict)
        shown = mlxbun("fit", tiny_model, environ=environ).stdout
        assert f"batching     {told_so}" in shown
    found = told_one(tiny_model, "--batch", "2", environ=environ)
    assert (found["lane"], found["lane_reason"]) == ("serial", serial.reason)
    assert any("one after the other" in note for note in found["notes"])


def test_what_does_not_fit_ends_with_four(large: str, environ: Environ) -> None:
    done = mlxbun("fit", large, "--sku", "M1 8", environ=environ)
    assert done.returncode == 4
    assert done.stdout.startswith("does not fit: needs ")
    assert "; use --ctx " in done.stdout.splitlines()[0]
    assert done.stderr == ""
    assert told_one(large, "--sku", "M1 8", environ=environ, code=4)["fits"] is False


def test_the_advice_works(large: str, environ: Environ) -> None:
    advice = told_one(large, "--sku", "M1 8", environ=environ, code=4)["advice"]
    assert told_one(large, "--sku", "M1 8", *advice.split(), environ=environ)["fits"] is True


def test_another_budget_is_another_machine(large: str, environ: Environ) -> None:
    enough = ("--memory-budget", "12", "--dequantize", "off")
    assert told_one(large, *enough, environ=environ)["usable_bytes"] == 12 * 10**9
    small = told_one(large, "--memory-budget", "4", environ=environ, code=4)
    assert small["usable_bytes"] == 4 * 10**9
    mac = told_one(large, "--sku", "M4 16", "--memory-budget", "14", environ=environ)
    assert mac["usable_bytes"] == 14 * 10**9


def test_rows_and_kv_bits_count(large: str, environ: Environ) -> None:
    mac = ("--sku", "M4 Max 64", "--ctx", "8192")
    one = told_one(large, *mac, environ=environ)
    four = told_one(large, *mac, "--batch", "4", environ=environ)
    packed = told_one(large, *mac, "--kv-bits", "8", environ=environ)
    assert four["kv_bytes"] == 4 * one["kv_bytes"]
    assert packed["kv_bytes"] == one["kv_bytes"] * 8.5 / 16
    shown = mlxbun("fit", large, *mac, "--batch", "4", environ=environ).stdout
    assert "at 4 x 8,192 tokens" in shown
    assert "each row" in shown


def test_the_weights_say_how_they_lie(large: str, environ: Environ) -> None:
    off = ("--memory-budget", "12", "--dequantize", "off")
    shown = mlxbun("fit", large, *off, environ=environ).stdout
    assert "packed, scales in float32" in shown
    assert told_one(large, *off, environ=environ)["weights"]["in_memory"] == "widened"
    assert "as stored" in mlxbun("fit", large, "--sku", "M4 32", environ=environ).stdout


def test_without_a_model_all_that_run_here_are_told(tmp_path: Path, environ: Environ) -> None:
    config = json.dumps(llama_config()).encode()
    for name in ("acme/b", "acme/a"):
        add_model(tmp_path / "hub", name, config=config, weights=FILES)
    add_model(tmp_path / "hub", "acme/odd", config=b'{"model_type": "novel"}', weights=FILES)
    found = told(environ=environ)
    assert [each["model"] for each in found] == ["acme/a", "acme/b"]
    done = mlxbun("fit", environ=environ)
    assert [line.split()[0] for line in done.stdout.splitlines()] == ["MODEL", "acme/a", "acme/b"]


def test_without_models_there_is_nothing_to_tell(environ: Environ) -> None:
    done = mlxbun("fit", environ=environ)
    assert (done.returncode, done.stdout) == (0, "")
    assert "There are no models in" in done.stderr
    assert told(environ=environ) == []


def test_several_models_are_a_table_and_one_misfit_is_enough(
    large: str, tiny_model: str, environ: Environ
) -> None:
    done = mlxbun("fit", tiny_model, large, "--memory-budget", "1", environ=environ)
    assert done.returncode == 4
    rows = [line.split() for line in done.stdout.splitlines()[1:]]
    assert [(row[0], "yes" in row) for row in rows] == [("tiny", True), ("Llama-8B-4bit", False)]
    assert "does not fit: needs" in done.stdout


def test_what_is_wrong_with_one_leaves_the_others(
    tiny_model: str, truncated_model: str, environ: Environ
) -> None:
    found = told(truncated_model, tiny_model, environ=environ, code=7)
    assert [each["fits"] for each in found] == [True, None]
    assert "broken" in found[1]["error"]["message"]
    assert found[1]["error"]["exit_code"] == 7
    done = mlxbun("fit", truncated_model, tiny_model, environ=environ)
    assert done.returncode == 7
    assert "is broken" in done.stdout


# Quantized


@pytest.fixture(scope="module")
def plain(tmp_path_factory: pytest.TempPathFactory) -> str:
    return str(llama_8b(tmp_path_factory.mktemp("models") / "Llama-8B"))


def test_a_model_as_it_would_be_quantized(plain: str, large: str, environ: Environ) -> None:
    mac = ("--sku", "M4 Max 64")
    found = told_one(plain, *mac, "--quantize", "4bit", environ=environ)
    packed = told_one(large, *mac, environ=environ)
    for name in ("weights_bytes", "kv_bytes", "needed_bytes", "max_context", "parameters"):
        assert found[name] == packed[name], name
    assert found["model"] == "Llama-8B (4-bit)"
    assert found["downloaded"] is False
    asked = found["quantizing"]
    assert asked["form"] == "4-bit"
    assert asked["bits_per_weight"] == pytest.approx(4.5, abs=0.01)
    assert asked["disk_bytes"] == packed["weights"]["files_bytes"]
    assert 0 < asked["memory_bytes"] < asked["disk_bytes"]
    assert (asked["possible"], asked["packed_already"]) == (True, False)
    assert "quantizing" not in packed


def test_a_quantization_for_a_person(plain: str, large: str, environ: Environ) -> None:
    done = mlxbun("fit", plain, "--sku", "M1 8", "--quantize", "3.5bpw", environ=environ)
    lines = dict(line.split("  ", 1) for line in done.stdout.splitlines()[1:])
    assert lines["quantized"].strip() == "mixed precision, 3.50 bits per weight"
    assert "of disk (" in lines["quantizing"]
    table = mlxbun("fit", plain, large, "--quantize", "mxfp4", environ=environ)
    assert "Llama-8B (mxfp4): mxfp4, 4.2" in table.stderr
    assert "needs --allow-requantize" in table.stderr


def test_a_quantization_that_this_machine_has_no_memory_for(plain: str, environ: Environ) -> None:
    words = (plain, "--sku", "M4 Max 64", "--memory-budget", "1", "--quantize", "2bit")
    found = told_one(*words, environ=environ, code=4)
    assert found["quantizing"]["possible"] is False
    assert "too much for this machine" in mlxbun("fit", *words, environ=environ).stdout


@pytest.mark.parametrize("form", ["7bit", "9bpw", "affine", ""])
def test_no_quantization(plain: str, environ: Environ, form: str) -> None:
    done = mlxbun("fit", plain, "--quantize", form, environ=environ)
    assert (done.returncode, done.stdout) == (2, "")


def test_every_mac_is_told(large: str, environ: Environ) -> None:
    found = told(large, "--skus", environ=environ)
    assert [each["machine"]["name"] for each in found] == [sku.name for sku in load_skus()]
    assert {each["fits"] for each in found} == {True, False}
    done = mlxbun("fit", large, "--skus", environ=environ)
    assert done.returncode == 0
    assert len(done.stdout.splitlines()) == 1 + len(load_skus())
    assert "Figures of Macs as of 20" in done.stderr


def test_a_model_for_no_mac_ends_with_four(large: str, environ: Environ) -> None:
    assert mlxbun("fit", large, "--skus", "--ctx", "131073", environ=environ).returncode == 4


def test_a_chip_means_all_its_macs(large: str, environ: Environ) -> None:
    found = told(large, "--sku", "m2", environ=environ, code=4)
    assert [each["fits"] for each in found] == [False, True, True]


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("--kv-bits", "5"), "--kv-bits must be 8 or 4, not 5."),
        (("--skus", "--sku", "M4"), "--skus means every Mac"),
        (("--sku", "M99"), "There is no Mac 'M99' in our list."),
        (("--ctx", "0"), "--ctx"),
        (("--batch", "0"), "--batch"),
        (("--memory-budget", "-1"), "memory"),
        (("--dequantize", "maybe"), "dequantize"),
    ],
)
def test_wrong_usage_ends_with_two(
    arguments: tuple[str, ...], said: str, tiny_model: str, environ: Environ
) -> None:
    done = mlxbun("fit", tiny_model, *arguments, environ=environ)
    assert done.returncode == 2
    assert said in done.stderr
    assert done.stdout == ""


@pytest.mark.parametrize(
    "changes",
    [
        {"num_hidden_layers": 10**9},
        {"hidden_size": -1},
        {"num_attention_heads": "many"},
        {"num_key_value_heads": 10**300},
        {"layer_types": 5},
        {"max_position_embeddings": -1},
    ],
)
def test_hostile_configs_end_in_one_sentence(
    changes: dict[str, Any], tmp_path: Path, environ: Environ
) -> None:
    folder = make_model(tmp_path / "odd")
    (folder / "config.json").write_text(json.dumps(llama_config(**changes)))
    done = mlxbun("fit", str(folder), environ=environ)
    assert (done.returncode, done.stdout) == (7, "")
    assert next(iter(changes)) in done.stderr or "promises" in done.stderr


def test_a_missing_model_is_told(environ: Environ) -> None:
    with FakeHub() as hub:
        done = mlxbun(
            "fit",
            "nobody/nothing",
            environ={**environ, "HF_ENDPOINT": hub.url, "HF_HUB_OFFLINE": "0"},
        )
    assert (done.returncode, done.stdout) == (3, "")


@pytest.fixture
def hub() -> Iterator[FakeHub]:
    with FakeHub() as hub:
        yield hub


def test_a_model_on_the_hub_is_told_without_its_weights(
    hub: FakeHub, environ: Environ, tmp_path: Path
) -> None:
    config = json.dumps(LLAMA_8B | {"num_hidden_layers": 2}).encode()
    weights = safetensors(
        {f"model.layers.{n}.w": ("BF16", (8, 8)) for n in range(2)}, padding=2**22
    )
    hub.add("acme/far", {"config.json": config, "model.safetensors": weights})
    online = {**environ, "HF_ENDPOINT": hub.url, "HF_HUB_OFFLINE": "0"}
    found = told_one("acme/far", environ=online)
    assert (found["model"], found["downloaded"], found["fits"]) == ("acme/far", False, True)
    assert not (tmp_path / "hub").exists()
    hub.repos["acme/far"].gated = True
    done = mlxbun("fit", "acme/far", environ=online)
    assert (done.returncode, done.stdout) == (6, "")
    assert "acme/far is gated" in done.stderr
    done = mlxbun("fit", "acme/nothing", environ=online)
    assert done.returncode == 3


def test_what_was_measured_here_is_told_apart(environ: Environ, tmp_path: Path) -> None:
    folder = make_model(tmp_path / "mine")
    revision = told_one(str(folder), environ=environ)["revision"]
    machine = probe_machine()
    run = make_run(
        model_id="mine",
        revision=revision,
        machine=MachineIdentity(
            processor=machine.processor,
            cores=machine.cores,
            memory_bytes=machine.memory_bytes,
            backend=machine.backend,
        ),
        figures=(Figure.of("decode", 1, (61.5,)), Figure.of("prefill", 128, (1000.0,))),
    )
    FigureStore(tmp_path / "home" / ".mlxbun" / "bench.db").add(run)
    shown = mlxbun("fit", str(folder), environ=environ).stdout
    assert "61.5 tokens/s, measured 2026-11-29" in shown
    assert "1,000 tokens/s, measured 2026-11-29 over 128 tokens" in shown
    assert told_one(str(folder), environ=environ)["measured"]["decode_tps"] == 61.5
    assert "predicted" in mlxbun("fit", str(folder), "--sku", "M4 16", environ=environ).stdout


def test_no_mlx_is_imported(tiny_model: str, environ: Environ) -> None:
    program = (
        "import sys\n"
        "from mlxbun_cli.main import main\n"
        f"sys.argv = ['mlxbun', 'fit', {tiny_model!r}]\n"
        "try:\n    main()\n"
        "except SystemExit:\n    pass\n"
        "heavy = {'mlx', 'mlx_lm', 'numpy', 'transformers', 'huggingface_hub', 'httpx', 'rich'}\n"
        "sys.exit(', '.join(sorted(heavy & set(sys.modules))) or 0)\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], env=environ, capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert Path(SCRIPT).exists()
