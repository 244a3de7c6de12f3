"""Parameters are counted as mlx-lm counts them, whatever they are packed in."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from core.registry.storage import Quantization, read_storage
from core.registry.weights import parse_header
from tests.caches import Tensors, write_sparse
from tests.tiny import llama_config, make_model

CONFIG = llama_config(hidden_size=128, intermediate_size=256, tie_word_embeddings=False)


def _headers(tensors: Tensors, folder: Path) -> dict[str, Any]:
    return parse_header(write_sparse(folder / "x.safetensors", tensors))


def _quantized(folder: Path, layers: Any = None, **settings: Any) -> tuple[dict[str, Any], int]:
    """Quantize a tiny model as mlx-lm does; return its config and its number of parameters.

    Args:
        folder: an empty one.
        layers: returns the settings of a layer by its path; None: all have the same.
        settings: bits, group_size, mode.
    """
    import mlx.core as mx
    from mlx import nn
    from mlx.utils import tree_flatten
    from mlx_lm.utils import _get_classes, get_total_parameters, load_model

    make_model(folder, config=CONFIG)
    model, _ = load_model(folder)
    written: dict[str, Any] = dict(settings)

    def choose(path: str, module: Any) -> Any:
        if not hasattr(module, "to_quantized"):
            return False
        own = layers(path) if layers else None
        if own is None:
            return True
        written[path] = own
        return own

    nn.quantize(model, class_predicate=choose, **settings)
    mx.save_safetensors(str(folder / "model.safetensors"), dict(tree_flatten(model.parameters())))
    config = CONFIG | {"quantization": written}
    (folder / "config.json").write_text(json.dumps(config))
    assert _get_classes(config)
    # As mlx-lm reads them back.
    return config, int(get_total_parameters(load_model(folder)[0]))


@pytest.mark.parametrize(
    "settings",
    [
        {"bits": bits, "group_size": group}
        for bits, group in [(2, 64), (3, 32), (4, 32), (4, 64), (5, 64), (6, 64), (8, 128)]
    ]
    + [
        {"bits": 4, "group_size": 32, "mode": "mxfp4"},
        {"bits": 4, "group_size": 16, "mode": "nvfp4"},
        {"bits": 8, "group_size": 32, "mode": "mxfp8"},
    ],
    ids=str,
)
def test_packed_weights_are_counted_as_mlx_lm_counts_them(
    settings: dict[str, Any], tmp_path: Path
) -> None:
    config, parameters = _quantized(tmp_path, **settings)
    storage = read_storage(config, parse_header(tmp_path / "model.safetensors"))
    assert storage.parameters == parameters
    assert storage.quantization == Quantization(
        bits=settings["bits"],
        group_size=settings["group_size"],
        mode=settings.get("mode", "affine"),
        widths=(settings["bits"],),
    )
    blind = read_storage(config, None)
    assert blind.quantization == storage.quantization
    assert blind.parameters is None


def _mixed(path: str) -> dict[str, Any] | None:
    return {"bits": 6, "group_size": 64} if "down_proj" in path else None


def test_layers_of_different_widths_are_mixed(tmp_path: Path) -> None:
    config, parameters = _quantized(tmp_path, _mixed, bits=4, group_size=64)
    headers = parse_header(tmp_path / "model.safetensors")
    storage = read_storage(config, headers)
    assert storage.parameters == parameters
    packed = storage.quantization
    assert packed == Quantization(bits=4, group_size=64, mode="affine", widths=(4, 6), mixed=True)
    assert packed.label == "4+6-bit g64"
    assert read_storage(config, None).quantization == packed
    # Without the settings of the layers, their shapes tell as much.
    config["quantization"] = {"bits": 4, "group_size": 64}
    assert read_storage(config, headers).parameters == parameters


def test_modes_of_different_kinds_are_mixed(tmp_path: Path) -> None:
    def choose(path: str) -> dict[str, Any] | None:
        own = {"bits": 8, "group_size": 64, "mode": "affine"}
        return own if "embed" in path or "lm_head" in path else None

    config, parameters = _quantized(tmp_path, choose, bits=4, group_size=32, mode="mxfp4")
    storage = read_storage(config, parse_header(tmp_path / "model.safetensors"))
    assert storage.parameters == parameters
    assert storage.quantization is not None
    assert storage.quantization.label == "mxfp4+8-bit"


def test_plain_weights(tmp_path: Path) -> None:
    tensors: Tensors = {"a.weight": ("BF16", (10, 10)), "a.bias": ("F32", (10,))}
    storage = read_storage({"torch_dtype": "float32"}, _headers(tensors, tmp_path))
    assert storage.parameters == 110
    assert storage.weights_bytes == 240
    assert storage.dtype == "bf16"  # what the files hold, whatever the config says
    assert storage.quantization is None


@pytest.mark.parametrize(
    ("settings", "tensors", "parameters", "label"),
    [
        (
            {"quant_method": "awq", "bits": 4, "group_size": 128},
            {
                "a.qweight": ("I32", (256, 16)),
                "a.qzeros": ("I32", (2, 16)),
                "a.scales": ("F16", (2, 128)),
                "a.bias": ("F16", (128,)),
            },
            256 * 128 + 128,
            "awq 4-bit",
        ),
        (
            {"quant_method": "gptq", "bits": 8},
            {"a.qweight": ("I32", (64, 128)), "a.g_idx": ("I32", (256,))},
            256 * 128,
            "gptq 8-bit",
        ),
        (
            {"quant_method": "fp8", "weight_block_size": [128, 128]},
            {"a.weight": ("F8_E4M3", (256, 128)), "a.weight_scale_inv": ("F32", (2, 1))},
            256 * 128,
            "fp8",
        ),
        (
            {"quant_method": "bitsandbytes", "load_in_4bit": True},
            {"a.weight": ("U8", (128 * 256 // 2, 1)), "a.weight.absmax": ("U8", (512,))},
            256 * 128,
            "bitsandbytes 4-bit",
        ),
        (
            {
                "quant_method": "compressed-tensors",
                "config_groups": {"group_0": {"weights": {"num_bits": 8}}},
            },
            {"a.weight_packed": ("I32", (256, 32)), "a.weight_scale": ("BF16", (256, 1))},
            256 * 128,
            "compressed-tensors 8-bit",
        ),
        (
            {"quant_method": "mxfp4"},
            {"a.b_blocks": ("U8", (4, 256, 4, 16)), "a.b_scales": ("U8", (4, 256, 4))},
            4 * 256 * 128,
            "mxfp4",
        ),
        (
            {"quant_method": "bitnet"},
            {"a.weight": ("U8", (64, 128)), "a.weight_scale": ("BF16", (1,))},
            256 * 128,
            "bitnet 4-bit",
        ),
    ],
    ids=lambda value: value.get("quant_method") if isinstance(value, dict) else None,
)
def test_weights_that_others_packed(
    settings: dict[str, Any], tensors: Tensors, parameters: int, label: str, tmp_path: Path
) -> None:
    for config in (
        {"quantization_config": settings},
        {"text_config": {"quantization_config": settings}},
    ):
        storage = read_storage(config, _headers(tensors, tmp_path))
        assert storage.parameters == parameters
        assert storage.quantization is not None
        assert storage.quantization.label == label


_ANY = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=8,
)
_SETTINGS = st.dictionaries(
    st.sampled_from(
        ["bits", "group_size", "mode", "quant_method", "config_groups", "a", "load_in_8bit"]
    ),
    st.integers(-1, 64)
    | st.sampled_from(["affine", "mxfp4", "awq", "fp8", "bitnet"])
    | st.dictionaries(st.sampled_from(["bits", "group_size", "mode", "group_0"]), _ANY)
    | _ANY,
)
_NAMES = st.sampled_from(
    ["a.weight", "a.scales", "a.biases", "a.qweight", "a.weight_packed", "a.weight.absmax", "b"]
)
_SHAPES = st.tuples(
    st.sampled_from(["U32", "U8", "F16", "I32"]), st.lists(st.integers(0, 9), max_size=3)
)


@given(
    config=st.fixed_dictionaries(
        {},
        optional={
            "quantization": _SETTINGS | _ANY,
            "quantization_config": _SETTINGS | _ANY,
            "text_config": _ANY,
            "dtype": _ANY,
        },
    ),
    tensors=st.none() | st.dictionaries(_NAMES, _SHAPES),
)
def test_any_config_is_read(config: dict[str, Any], tensors: dict[str, Any] | None) -> None:
    headers = tensors and {
        name: {"dtype": kind, "shape": shape, "data_offsets": [0, 8]}
        for name, (kind, shape) in tensors.items()
    }
    storage = read_storage(config, headers)
    assert storage.parameters is None or storage.parameters >= 0
    assert storage.quantization is None or storage.quantization.label
