"""Weights in memory, from headers alone: as many bytes as the engine's loader makes of them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from core.errors import BadModelFiles
from core.fit.weights import Storage, Tensor, Weights, local_tensors, parse_header, weigh
from tests.caches import Tensors, safetensors
from tests.core.fit.test_assess import plan_of
from tests.tiny import llama_config, make_model


def read(folder: Path) -> Weights:
    return weigh(local_tensors(folder), json.loads((folder / "config.json").read_text()))


def tensors_of(described: Tensors) -> list[Tensor]:
    data = safetensors(described)
    length = int.from_bytes(data[:8], "little")
    return list(parse_header(json.loads(data[8 : 8 + length]), "a test"))


@pytest.mark.parametrize("tied", [True, False])
@pytest.mark.parametrize("bits", [None, 4, 8])
@pytest.mark.parametrize(("dequantize", "storage"), [("on", "unpacked"), ("off", "widened")])
def test_the_loader_makes_as_many_bytes(
    tmp_path: Path, *, dequantize: str, storage: Storage, bits: int | None, tied: bool
) -> None:
    from core.engine.loader import load
    from core.engine.request import SamplingParams

    config = llama_config(tie_word_embeddings=tied, torch_dtype="bfloat16")
    folder = make_model(tmp_path / "tiny", config=config, bits=bits)
    loaded = load(
        folder,
        model_id="tiny",
        plan=plan_of(dequantize=dequantize),
        defaults=SamplingParams(),
        memory_budget_gb=4.0,
    )
    weights = read(folder)
    used = storage if bits or storage == "unpacked" else "stored"
    assert weights.bytes_in(used) == loaded.info.weights_bytes
    assert weights.parameters == loaded.info.parameters
    assert weights.packed == (bits is not None)


def test_half_precision_stays_half_where_nothing_is_unpacked() -> None:
    weights = weigh(tensors_of({"model.embed_tokens.weight": ("BF16", (100, 8))}), {})
    assert (weights.stored_bytes, weights.unpacked_bytes) == (1600, 3200)
    assert (weights.float_bytes_in("stored"), weights.float_bytes_in("unpacked")) == (2, 4)


def test_what_a_text_engine_leaves_out_takes_no_memory() -> None:
    described: Tensors = {
        "language_model.model.embed_tokens.weight": ("F16", (100, 8)),
        "language_model.lm_head.weight": ("F16", (100, 8)),
        "vision_tower.blocks.0.weight": ("F16", (1000, 8)),
        "model.layers.0.self_attn.rotary_emb.inv_freq": ("F32", (4,)),
        "model.layers.1.mlp.up_proj.weight": ("F16", (8, 8)),  # a layer beyond the last
    }
    config = {"model_type": "llama", "tie_word_embeddings": True, "num_hidden_layers": 1}
    weights = weigh(tensors_of(described), config)
    assert weights.stored_bytes == 1600
    assert weights.files_bytes == 2 * 1600 + 16_000 + 16 + 128
    assert weights.tensors == 5


@pytest.mark.parametrize(
    ("kind", "loaded"), [("llama", 1), ("gemma3_text", 2), ("qwen2_moe", 2), ("qwen3", 1)]
)
def test_a_tied_head_is_left_out_by_those_who_do(kind: str, loaded: int) -> None:
    head: Tensors = {
        "model.embed_tokens.weight": ("F16", (100, 8)),
        "lm_head.weight": ("F16", (100, 8)),
    }
    weights = weigh(tensors_of(head), {"model_type": kind, "tie_word_embeddings": True})
    assert weights.stored_bytes == loaded * 1600


def experts(**names: tuple[str, tuple[int, ...]]) -> Weights:
    described: Tensors = {
        "model.embed_tokens.weight": ("BF16", (100, 8)),
        "lm_head.weight": ("BF16", (100, 8)),
        "model.layers.0.self_attn.q_proj.weight": ("BF16", (8, 8)),
        **names,
    }
    config = {"num_experts_per_tok": 2, "num_hidden_layers": 1}
    return weigh(tensors_of(described), config)


@pytest.mark.parametrize(
    "names",
    [
        {"model.layers.0.mlp.switch_mlp.up_proj.weight": ("BF16", (16, 8, 8))},
        {f"model.layers.0.mlp.experts.{n}.up_proj.weight": ("BF16", (8, 8)) for n in range(16)},
    ],
)
def test_a_token_reads_its_own_experts(names: dict[str, Any]) -> None:
    weights = experts(**names)
    assert weights.expert_parameters == 16 * 64
    assert weights.chosen_share == 2 / 16
    # The embedding is looked up; the head and the projection are multiplied with.
    assert weights.active_parameters == 800 + 64 + 2 * 64
    assert weights.read_bytes("stored", 1) == 2 * (800 + 64 + 2 * 64)
    # Eight rows choose independently: 1 - (1 - 2/16)^8 of all experts.
    together = 1 - (1 - 2 / 16) ** 8
    assert weights.read_bytes("stored", 8) == pytest.approx(
        2 * (800 + 64 + together * 16 * 64), abs=2
    )


def test_fp8_becomes_bfloat16_and_is_said_to() -> None:
    weights = weigh(tensors_of({"model.layers.0.mlp.up_proj.weight": ("F8_E4M3", (8, 8))}), {})
    assert weights.stored_bytes == 128
    assert weights.notes == ("Weights in FP8 become bfloat16 when they are loaded.",)


def test_no_weights_are_told(tmp_path: Path) -> None:
    with pytest.raises(BadModelFiles, match="no weights"):
        local_tensors(tmp_path)


def test_more_layers_than_tensors_are_refused() -> None:
    with pytest.raises(BadModelFiles, match="promises 500 layers, but there are 1 tensors"):
        weigh(tensors_of({"w": ("F16", (1,))}), {"num_hidden_layers": 500})


@pytest.mark.parametrize(
    "quantization",
    [None, 5, "4", [], {}, {"bits": "x"}, {"group_size": -1}, {"group_size": 10**9}, {"w": 3}],
)
def test_hostile_quantizations_are_survived(quantization: Any) -> None:
    described: Tensors = {"w.weight": ("U32", (8, 8)), "w.scales": ("F16", (8, 1))}
    weights = weigh(tensors_of(described), {"quantization": quantization})
    assert weights.parameters == 8 * 64
