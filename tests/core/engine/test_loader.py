"""From a folder to a model: defaults, unpacking, and folders that are not whole."""

from __future__ import annotations

import json
from dataclasses import replace
from importlib import import_module
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path

import mlx.core as mx
import numpy as np
import pytest
from mlx.utils import tree_flatten
from mlx_lm.utils import load_model

from core.engine.blame import blaming_files
from core.engine.loader import load, merge_sampling, unpack_weights
from core.engine.request import SamplingParams, ToneCurve
from core.errors import BackendMissing, BadModelFiles, DoesNotFit
from tests.core.engine.conftest import PLAN
from tests.tiny import llama_config, make_model


def load_tiny(folder: Path, **changes: object):  # type: ignore[no-untyped-def]
    options = {
        "model_id": "tiny",
        "plan": PLAN,
        "defaults": SamplingParams(),
        "memory_budget_gb": None,
    }
    return load(folder, **(options | changes))  # type: ignore[arg-type]


def test_what_a_model_tells_about_itself(tmp_path: Path) -> None:
    info = load_tiny(make_model(tmp_path)).info
    assert info.model_type == "llama"
    assert info.context_window == 512
    assert info.weights_bytes == 4 * info.parameters
    assert info.quantization == "float32"
    assert info.has_chat_template


def test_quantized_weights_are_unpacked_exactly(tmp_path: Path) -> None:
    folder = make_model(tmp_path, bits=4)
    packed, _ = load_model(folder)
    layer = packed.model.layers[0].mlp.up_proj
    grouped = np.array(
        mx.dequantize(
            layer.weight, layer.scales.astype(mx.float32), layer.biases.astype(mx.float32), 32, 4
        )
    )
    loaded = load_tiny(folder)
    assert loaded.info.loaded_as == "float32 (unpacked)"
    assert loaded.info.quantization == "4-bit (group 32)"
    dtypes = {value.dtype for _, value in tree_flatten(loaded.model.parameters())}
    assert dtypes == {mx.float32}
    assert np.array_equal(np.array(loaded.model.model.layers[0].mlp.up_proj.weight), grouped)


def test_half_precision_scales_are_not_rounded_again(tmp_path: Path) -> None:
    model, _ = load_model(make_model(tmp_path, bits=4))
    model.set_dtype(mx.float16)
    layer = model.model.layers[0].mlp.up_proj
    scales, biases = (np.array(a).astype(np.float32) for a in (layer.scales, layer.biases))
    nibbles = np.array(layer.weight)[..., None] >> (4 * np.arange(8)) & 15
    codes = nibbles.reshape(*scales.shape, 32).astype(np.float32)
    exact = (codes * scales[..., None] + biases[..., None]).reshape(codes.shape[0], -1)
    unpack_weights(model)
    assert np.abs(np.array(model.model.layers[0].mlp.up_proj.weight) - exact).max() < 1e-6


@pytest.mark.parametrize(
    ("dequantize", "fast_blas", "budget", "unpacked"),
    [
        ("auto", True, None, True),
        ("auto", False, None, False),
        ("off", True, None, False),
        ("on", False, None, True),
    ],
)
def test_when_weights_are_unpacked(
    tmp_path: Path, dequantize: str, fast_blas: bool, budget: float | None, unpacked: bool
) -> None:
    plan = replace(PLAN, dequantize=dequantize, fast_blas=fast_blas)  # type: ignore[arg-type]
    loaded = load_tiny(make_model(tmp_path, bits=4), plan=plan, memory_budget_gb=budget)
    packed_as = "4-bit (group 32), float32 scales"
    assert loaded.info.loaded_as == ("float32 (unpacked)" if unpacked else packed_as)
    dtypes = {value.dtype for _, value in tree_flatten(loaded.model.parameters())}
    assert dtypes == ({mx.float32} if unpacked else {mx.float32, mx.uint32})


def test_weights_beyond_the_budget_are_refused(tmp_path: Path) -> None:
    with pytest.raises(DoesNotFit, match=r"weights take 3\d\d kB") as refusal:
        load_tiny(make_model(tmp_path), memory_budget_gb=0.0001)
    assert refusal.value.need > refusal.value.have == 100_000


OURS = SamplingParams(
    temperature=0.7,
    top_p=0.0,
    top_k=0,
    min_p=0.0,
    xtc_probability=0.0,
    xtc_threshold=0.1,
    repetition_penalty=0.0,
    repetition_context_size=20,
    presence_penalty=0.0,
    presence_context_size=20,
    frequency_penalty=0.0,
    frequency_context_size=20,
    logit_bias=(),
    tone_curve=ToneCurve(enabled=False, width=4.0, shoulder=4.0, toe=6.0, pivot_offset=6.0),
)


def test_the_defaults_come_from_the_server_then_the_model_then_us(tmp_path: Path) -> None:
    folder = make_model(tmp_path, generation_config={"temperature": 0.2, "top_k": 40})
    defaults = load_tiny(folder, defaults=SamplingParams(temperature=0.9)).info.defaults
    assert defaults == replace(OURS, temperature=0.9, top_k=40)


@pytest.mark.parametrize("broken", ["{", "", '{"temperature": "hot", "top_p": -1, "top_k": true}'])
def test_a_broken_generation_config_recommends_nothing(tmp_path: Path, broken: str) -> None:
    folder = make_model(tmp_path)
    (folder / "generation_config.json").write_text(broken)
    assert load_tiny(folder).info.defaults == OURS


def test_merging_keeps_a_zero() -> None:
    merged = merge_sampling(SamplingParams(temperature=0.0), SamplingParams(temperature=0.5))
    assert merged.temperature == 0.0


def test_a_tone_curve_is_merged_field_by_field() -> None:
    mine = SamplingParams(tone_curve=ToneCurve(width=1.0), logit_bias=((3, 1.0),), seed=0)
    servers = SamplingParams(tone_curve=ToneCurve(enabled=True, width=2.0), xtc_probability=0.5)
    merged = merge_sampling(mine, servers, OURS)
    assert merged.tone_curve == replace(OURS.tone_curve or ToneCurve(), enabled=True, width=1.0)
    assert (merged.logit_bias, merged.seed) == (((3, 1.0),), 0)
    assert (merged.xtc_probability, merged.xtc_threshold) == (0.5, 0.1)
    assert merge_sampling(SamplingParams(), SamplingParams()).tone_curve is None


def test_missing_and_broken_files_are_named(tmp_path: Path) -> None:
    no_weights = make_model(tmp_path / "a")
    (no_weights / "model.safetensors").unlink()
    with pytest.raises(BadModelFiles, match="no weights"):
        load_tiny(no_weights)

    cut = make_model(tmp_path / "b")
    data = (cut / "model.safetensors").read_bytes()
    (cut / "model.safetensors").write_bytes(data[: len(data) // 2])
    with pytest.raises(BadModelFiles, match=r"model\.safetensors is broken: it has"):
        load_tiny(cut)

    (cut / "model.safetensors").write_bytes(b"\xff" * 64)
    with pytest.raises(BadModelFiles, match="is broken"):
        load_tiny(cut)

    no_config = make_model(tmp_path / "c")
    (no_config / "config.json").unlink()
    with pytest.raises(BadModelFiles, match=r"config\.json"):
        load_tiny(no_config)

    bad_config = make_model(tmp_path / "d")
    (bad_config / "config.json").write_text("{not json")
    with pytest.raises(BadModelFiles, match="cannot be loaded"):
        load_tiny(bad_config)

    unknown = make_model(tmp_path / "e")
    (unknown / "config.json").write_text(json.dumps(llama_config(model_type="perceptron")))
    with pytest.raises(BadModelFiles, match="perceptron"):
        load_tiny(unknown)

    mismatch = make_model(tmp_path / "f")
    (mismatch / "config.json").write_text(json.dumps(llama_config(num_hidden_layers=3)))
    with pytest.raises(BadModelFiles, match="cannot be loaded"):
        load_tiny(mismatch)

    no_tokenizer = make_model(tmp_path / "g")
    (no_tokenizer / "tokenizer.json").unlink()
    with pytest.raises(BadModelFiles, match="cannot be loaded"):
        load_tiny(no_tokenizer)


def test_an_import_that_fails_is_not_the_fault_of_the_files(tmp_path: Path) -> None:
    with pytest.raises(BackendMissing) as told, blaming_files(tmp_path):
        import_module("core.engine.no_such_module")
    assert "ModuleNotFoundError No module named 'core.engine.no_such_module'" in told.value.message
    assert told.value.hint is not None
    assert "ownload" not in told.value.hint
    # As mlx-lm does for an architecture whose own imports fail, and for one that it does not have.
    for name, kind in (("no_such_package", BackendMissing), ("mlx_lm.models.x", BadModelFiles)):
        with pytest.raises(kind), blaming_files(tmp_path):
            raise ValueError("Model type x not supported.") from ImportError("no", name=name)


def test_code_of_a_model_that_cannot_be_imported_is_told_as_such(tmp_path: Path) -> None:
    (tmp_path / "own.py").write_text("import no_such_package\n")
    spec = spec_from_file_location("own", tmp_path / "own.py")
    assert spec is not None
    assert spec.loader is not None
    told = pytest.raises(BadModelFiles, match="Python code that comes with the model")
    with told, blaming_files(tmp_path):
        spec.loader.exec_module(module_from_spec(spec))
