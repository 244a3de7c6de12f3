"""What becomes of every layer, without a model."""

from __future__ import annotations

from dataclasses import replace

import pytest

from core.errors import UsageProblem
from core.quantize.form import Form
from core.quantize.plan import Layer, Plan, Sums, describe_kept, make_plan, uniform_near
from core.quantize.recipe import make_recipe

_SHAPES = {
    "model.embed_tokens": ("embedding", (1000, 576)),
    "model.layers.0.self_attn.q_proj": ("linear", (576, 576)),
    "model.layers.0.mlp.gate": ("linear", (8, 576)),
    "model.layers.0.mlp.switch_mlp.down_proj": ("experts", (8, 576, 1536)),
    "model.layers.1.self_attn.q_proj": ("linear", (576, 576)),
}


def _layers() -> list[Layer]:
    return [
        Layer(
            path=path,
            kind=kind,  # type: ignore[arg-type]
            shape=shape,
            item_bytes=2,
            router=path.endswith(".gate"),
        )
        for path, (kind, shape) in _SHAPES.items()
    ]


def _plan(layers: list[Layer] | None = None, **fields: object) -> Plan:
    layers = layers or _layers()
    count = sum(layer.count for layer in layers)
    sums = Sums(nbytes=2 * count + 1000, parameters=count + 500)
    return make_plan(layers, sums, make_recipe(fields))


def test_routers_keep_eight_bits_unless_asked() -> None:
    forms = _plan(bits=3).forms
    assert forms["model.layers.0.mlp.gate"] == Form(bits=8, group_size=64)
    assert forms["model.embed_tokens"] == Form(bits=3, group_size=64)
    asked = _plan(bits=3, override="*.mlp.gate=3").forms
    assert asked["model.layers.0.mlp.gate"] == Form(bits=3, group_size=64)
    assert _plan(bits=8).config() == {"bits": 8, "group_size": 64, "mode": "affine"}


def test_group_128_does_not_divide_576() -> None:
    plan = _plan(group_size=128)
    assert list(plan.forms) == [
        "model.layers.0.mlp.gate",
        "model.layers.0.mlp.switch_mlp.down_proj",
    ]
    assert describe_kept(plan) == [
        "model.embed_tokens, model.layers.*.self_attn.q_proj (2) stay unquantized: their last "
        "dimension, 576, is not a multiple of 128."
    ]
    with pytest.raises(UsageProblem, match="128 does not divide") as caught:
        _plan(group_size=128, strict=True)
    assert caught.value.hint == "--group-size 64 fits them all."


def test_the_size_counts_scales() -> None:
    plan = _plan(bits=4, override="*.gate=4")
    count = plan.sums.parameters - 500
    assert plan.nbytes == count * 4 // 8 + count // 64 * 4 + 1000
    assert plan.bits_per_weight == 8 * plan.nbytes / plan.sums.parameters
    block = _plan(mode="mxfp4", override="*.gate=4")
    assert block.nbytes == count * 4 // 8 + count // 32 + 1000


def test_block_modes_give_routers_affine_bits() -> None:
    plan = _plan(mode="mxfp4")
    assert plan.forms["model.layers.0.mlp.gate"] == Form(bits=8, group_size=64)
    assert plan.config() == {
        "bits": 4,
        "group_size": 32,
        "mode": "mxfp4",
        "model.layers.0.mlp.gate": {"bits": 8, "group_size": 64, "mode": "affine"},
    }


def test_an_override_that_matches_nothing() -> None:
    with pytest.raises(UsageProblem, match=r"'\*\.w_proj' matches no layer"):
        _plan(override="*.w_proj=6")


def test_mixed_precision_and_its_reach() -> None:
    plan = _plan(target_bpw=5.0, candidate_bits="2,4,8", embedding_bits=6, override="*.1.*=keep")
    assert set(plan.choices) == {
        "model.layers.0.self_attn.q_proj",
        "model.layers.0.mlp.switch_mlp.down_proj",
    }
    low, high = plan.reachable()
    assert low < 5.0 < high
    smallest = plan.with_forms({path: forms[0] for path, forms in plan.choices.items()})
    assert smallest.bits_per_weight == low
    with pytest.raises(UsageProblem, match=f"takes {low:.3f} to .*bits per weight"):
        _plan(target_bpw=1.5, candidate_bits="2,4,8", embedding_bits=6, override="*.1.*=keep")


def test_the_uniform_plan_of_a_size() -> None:
    plan = _plan(target_bpw=4.6)
    found = uniform_near(plan, 4.6)
    assert found is not None
    assert found.forms["model.layers.0.self_attn.q_proj"] == Form(bits=4, group_size=64)
    assert found.forms["model.layers.0.mlp.gate"] == Form(bits=8, group_size=64)
    assert uniform_near(plan, found.bits_per_weight - 0.005) == found  # counts as that size
    assert uniform_near(plan, 1.0) is None


def test_of_uniform_plans_of_one_size_the_one_of_more_bits() -> None:
    wide = [replace(layer, item_bytes=4) for layer in _layers() if not layer.router]
    count = sum(layer.count for layer in wide)
    sums = Sums(nbytes=4 * count, parameters=count)
    # With float32 scales 3 bits in groups of 32 take as much as 4 bits in groups of 64.
    plan = make_plan(wide, sums, make_recipe({"target_bpw": 5.2}))
    found = uniform_near(plan, 5.1)
    assert found is not None
    assert set(found.forms.values()) == {Form(bits=4, group_size=64)}


def test_an_embedding_that_is_read_as_numbers_cannot_be_packed() -> None:
    layers = [
        replace(each, fixed="it is read") if each.kind == "embedding" else each
        for each in _layers()
    ]
    assert "model.embed_tokens" not in _plan(layers).forms
    with pytest.raises(UsageProblem, match="embed_tokens cannot be quantized: it is read"):
        _plan(layers, override="*embed*=4")


def test_nothing_to_quantize() -> None:
    with pytest.raises(UsageProblem, match="Nothing to quantize"):
        _plan(override="*=keep")


@pytest.mark.parametrize(
    ("fields", "named"),
    [
        ({"dequantize": True, "bits": 4}, "bits has no effect with dequantize"),
        ({"dequantize": True, "min_agreement": 0.5}, "min_agreement has no effect"),
        ({"target_bpw": 4, "bits": 4}, "bits cannot be combined with target_bpw"),
        ({"target_bpw": 4, "mode": "mxfp4"}, "mode cannot be combined with target_bpw"),
        ({"candidate_bits": "4,8"}, "candidate_bits has no effect without target_bpw"),
        ({"reference": "8"}, "reference has no effect without target_bpw"),
        ({"calibration_mix": "code"}, "calibration_mix has no effect"),
        ({"n_calibration": 5}, "n_calibration has no effect"),
        ({"rotation_seed": 5}, "rotation_seed has no effect without rotate_weights"),
        ({"embedding_bits": 5, "quantize_embeddings": False}, "embedding_bits cannot be combined"),
        ({"max_kl": 5, "proof": False}, "max_kl cannot be checked without the proof"),
        ({"fit": "6GB", "bits": 4}, "bits cannot be combined with fit"),
        ({"target_bpw": 4, "reference": "fp16"}, "reference must be bf16 or one of"),
        ({"target_bpw": 4, "candidate_bits": "4,7"}, "candidate_bits must be one of 2, 3, 4"),
        ({"target_bpw": 4, "candidate_bits": ["0000000045"]}, "candidate_bits must be one of"),
        ({"target_bpw": 4, "reference": "000000004" + "0" * 5000}, "reference must be bf16 or"),
        ({"target_bpw": 4, "reference": 10**5000}, "not int beyond all measure"),
        ({"override": ["a=" + "4" * 5000]}, "must be one of 2, 3, 4"),
        ({"bits": 7}, "affine does not support 7 bits"),
        ({"mode": "nvfp4", "group_size": 64}, "nvfp4 does not support groups of 64"),
        ({"override": "x"}, "override must be PATTERN=BITS"),
        ({"override": "x=9"}, "must be one of 2, 3, 4, 5, 6, 8"),
    ],
)
def test_fields_that_do_not_go_together(fields: dict[str, object], named: str) -> None:
    with pytest.raises(UsageProblem, match=named.replace("(", "\\(")):
        make_recipe(fields)
