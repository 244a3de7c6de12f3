"""The mathematics of training against float64 NumPy, to 1e-5, and against itself."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import mlx.core as mx
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from mlx.utils import tree_flatten
from mlx_lm.utils import load_model

from core.engine.split import split_model
from core.errors import UsageProblem
from core.train.arrays import number
from core.train.batches import BatchOrder, in_order
from core.train.config import TrainConfig, make_config
from core.train.encode import Encoded, EncodedPair, Item
from core.train.lora import (
    Arrays,
    adapters_of,
    find_targets,
    mount,
    seed_dropout,
    set_trainable,
    trainable,
)
from core.train.losses import log_one_minus_exp, log_sigmoid
from core.train.schedule import learning_rate
from core.train.step import Optimizer, Stepper, apply, clip
from tests.core.train import reference
from tests.tiny import llama_config, make_model

_ALL = ("q_proj", "k_proj", "v_proj", "o_proj", "gate_proj", "up_proj", "down_proj")
NEAR = 1e-5


@dataclass
class Rig:
    """A tiny model with random adapters, twice."""

    model: Any
    numpy: reference.Llama

    def stepper(self, **fields: Any) -> Stepper:
        return Stepper(config(**fields), self.model, split_model(self.model))


def config(**fields: Any) -> TrainConfig:
    return make_config({"rank": 3, "scale": 2.0} | fields)


def make_rig(
    folder: Path, *, rs_lora: bool = False, dropout: float = 0.0, bits: int | None = None
) -> Rig:
    make_model(folder, bits=bits)
    model, _ = load_model(folder)
    weights = {n: np.array(v) for n, v in tree_flatten(model.parameters())} if not bits else {}
    targets = find_targets(model, _ALL, 0)
    ranks = {target.path: 3 + index % 2 for index, target in enumerate(targets)}
    mount(model, ranks, scale=2.0, rs_lora=rs_lora, dropout=dropout, seed=1)
    dice = np.random.default_rng(0)
    set_trainable(
        model,
        {
            name: value + mx.array(0.05 * dice.standard_normal(value.shape), dtype=mx.float32)
            for name, value in trainable(model).items()
        },
    )
    twin = reference.Llama(weights, llama_config())
    twin.adapters = {n: np.array(v, np.float64) for n, v in trainable(model).items()}
    twin.scales = {p: 2.0 / math.sqrt(r) if rs_lora else 2.0 for p, r in ranks.items()}
    return Rig(model=model, numpy=twin)


@pytest.fixture(scope="module")
def rig(tmp_path_factory: pytest.TempPathFactory) -> Rig:
    return make_rig(tmp_path_factory.mktemp("rig") / "m")


def row(seed: int, length: int, answer: int) -> Encoded:
    dice = np.random.default_rng(seed)
    tokens = tuple(int(t) for t in dice.integers(0, 256, length))
    return Encoded(tokens=tokens, response=bytes(length - answer) + b"\1" * answer)


ROWS: tuple[Item, ...] = (row(1, 9, 4), row(2, 14, 7), row(3, 6, 2), row(4, 11, 5))


def _pair(seed: int, prompt: int, chosen: int, rejected: int) -> EncodedPair:
    start = row(seed, prompt, 0).tokens
    ends = [row(seed + n, length, length) for n, length in ((50, chosen), (90, rejected))]
    made = [
        Encoded(tokens=(*start, *end.tokens), response=bytes(prompt) + end.response) for end in ends
    ]
    return EncodedPair(chosen=made[0], rejected=made[1])


PAIRS: tuple[Item, ...] = (_pair(1, 4, 5, 3), _pair(2, 6, 2, 7), _pair(3, 3, 4, 4))


def plain(item: Encoded, *, full: bool = False) -> tuple[list[int], list[int]]:
    return list(item.tokens), list(item.everything if full else item.response)


def pairs_of(items: tuple[Item, ...]) -> list[Any]:
    return [(plain(i.chosen), plain(i.rejected)) for i in items if isinstance(i, EncodedPair)]


def rows_of(items: tuple[Item, ...], *, full: bool) -> list[Any]:
    return [plain(item, full=full) for item in items if isinstance(item, Encoded)]


Loss = Callable[[reference.Llama], float]
CASES: dict[str, tuple[dict[str, Any], tuple[Item, ...], Loss]] = {
    "sft response": ({}, ROWS, lambda m: reference.sft(m, rows_of(ROWS, full=False))),
    "sft full": ({"sft_scope": "full"}, ROWS, lambda m: reference.sft(m, rows_of(ROWS, full=True))),
    "dpo": (
        {"method": "dpo", "dpo_beta": 0.3},
        PAIRS,
        lambda m: reference.dpo(m, pairs_of(PAIRS), 0.3),
    ),
    "orpo full": (
        {"method": "orpo", "orpo_lambda": 0.7},
        PAIRS,
        lambda m: reference.orpo(m, pairs_of(PAIRS), 0.7, full=True),
    ),
    "orpo response": (
        {"method": "orpo", "orpo_lambda": 0.7, "sft_scope": "response"},
        PAIRS,
        lambda m: reference.orpo(m, pairs_of(PAIRS), 0.7, full=False),
    ),
}


def everything(items: tuple[Item, ...]) -> list[tuple[int, ...]]:
    return [tuple(range(len(items)))]


def largest_difference(left: Arrays, right: Arrays) -> float:
    assert left.keys() == right.keys()
    return max(number(mx.abs(left[name] - right[name]).max()) for name in left)


@pytest.mark.parametrize("name", CASES)
def test_losses_and_gradients_are_those_of_the_papers(rig: Rig, name: str) -> None:
    fields, items, loss = CASES[name]
    stepper = rig.stepper(**fields)
    result, grads = stepper.gradients(items, everything(items), 1)
    assert result.loss == pytest.approx(loss(rig.numpy), abs=NEAR)
    assert stepper.measure(items, in_order([1] * len(items), 2)).loss == pytest.approx(
        result.loss, abs=NEAR
    )
    dice = np.random.default_rng(5)
    for path in dice.choice(sorted(grads), 6, replace=False):
        array = rig.numpy.adapters[path]
        index = tuple(int(dice.integers(0, size)) for size in array.shape)
        wanted = reference.slope(lambda: loss(rig.numpy), array, index)
        assert number(grads[path][index]) == pytest.approx(wanted, abs=NEAR)


def test_rs_lora_divides_by_the_root_of_the_rank(tmp_path: Path) -> None:
    rig = make_rig(tmp_path / "m", rs_lora=True)
    result, _ = rig.stepper().gradients(ROWS, everything(ROWS), 1)
    wanted = reference.sft(rig.numpy, rows_of(ROWS, full=False))
    assert result.loss == pytest.approx(wanted, abs=NEAR)


@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize(
    "way",
    [
        {"chunk_size": 3},
        {"grad_checkpoint": True},
        {"segment_size": 1},
        {"segment_size": 2, "chunk_size": 4},
        {"mlp_split": True},
    ],
    ids=str,
)
def test_less_memory_gives_the_same_gradients(rig: Rig, name: str, way: dict[str, Any]) -> None:
    fields, items, _ = CASES[name]
    _, wanted = rig.stepper(**fields).gradients(items, everything(items), 1)
    _, grads = rig.stepper(**fields, **way).gradients(items, everything(items), 1)
    assert largest_difference(grads, wanted) < NEAR


def test_layers_that_are_no_plain_row_are_checkpointed_by_mlx(rig: Rig) -> None:
    split = split_model(rig.model)

    def twice(tokens: Any) -> Any:  # whoever stands for a layer hears of two passes
        split.body(tokens)
        return split.body(tokens)

    other = replace(split, body=twice)
    fields = {"grad_checkpoint": True}
    _, wanted = rig.stepper().gradients(ROWS, everything(ROWS), 1)
    found = Stepper(config(**fields), rig.model, other).gradients(ROWS, everything(ROWS), 1)
    assert largest_difference(found[1], wanted) < NEAR
    with pytest.raises(UsageProblem, match="does not work with this architecture"):
        Stepper(config(segment_size=1), rig.model, other).gradients(ROWS, everything(ROWS), 1)


@pytest.mark.parametrize(
    "way",
    [
        {"orpo_fused_ce": False},
        {"orpo_flash_ce": False},
        {"orpo_chunk_size": 2},
        {"orpo_prefix_shared": False},
        {"orpo_prefix_shared": False, "orpo_fused_ce": False, "sft_scope": "full"},
    ],
    ids=str,
)
def test_every_cross_entropy_of_orpo_is_the_same(rig: Rig, way: dict[str, Any]) -> None:
    wanted = rig.stepper(method="orpo").gradients(PAIRS, everything(PAIRS), 1)
    found = rig.stepper(method="orpo", **way).gradients(PAIRS, everything(PAIRS), 1)
    assert found[0].loss == pytest.approx(wanted[0].loss, abs=NEAR)
    assert largest_difference(found[1], wanted[1]) < NEAR


def test_prompts_are_shared_and_where_they_cannot_be_it_is_said(rig: Rig) -> None:
    calls: list[tuple[int, ...]] = []
    split = split_model(rig.model)

    def counting(tokens: Any, **more: Any) -> Any:
        calls.append(tuple(tokens.shape))
        return split.body(tokens, **more)

    stepper = Stepper(config(method="orpo"), rig.model, replace(split, body=counting))
    calls.clear()
    stepper.gradients(PAIRS, everything(PAIRS), 1)
    # Prompts of 4, 6 and 3 tokens once each, and the longer of two answers without its last token.
    assert calls == [(1, 4), (2, 4), (1, 6), (2, 6), (1, 3), (2, 3)]
    assert stepper.note is None
    told = rig.stepper(method="orpo", segment_size=1).note
    assert told is not None
    assert "computed for each answer" in told


@pytest.mark.parametrize("name", CASES)
def test_accumulated_batches_are_the_large_batch(rig: Rig, name: str) -> None:
    fields, items, _ = CASES[name]
    whole = rig.stepper(**fields).gradients(items, everything(items), 1)
    single = rig.stepper(**fields).gradients(items, [(n,) for n in range(len(items))], 1)
    assert single[0].loss == pytest.approx(whole[0].loss, abs=NEAR)
    assert largest_difference(single[1], whole[1]) < NEAR


def test_a_recomputed_backward_drops_the_same(tmp_path: Path) -> None:
    rig = make_rig(tmp_path / "m", dropout=0.5)
    wanted = rig.stepper().gradients(ROWS, everything(ROWS), 3)
    for way in ({"grad_checkpoint": True}, {"segment_size": 1}):
        found = rig.stepper(**way).gradients(ROWS, everything(ROWS), 3)
        assert largest_difference(found[1], wanted[1]) < NEAR
    other = rig.stepper().gradients(ROWS, everything(ROWS), 4)
    assert other[0].loss != wanted[0].loss
    measured = rig.stepper().measure(ROWS, everything(ROWS))
    assert measured.loss == pytest.approx(
        reference.sft(rig.numpy, rows_of(ROWS, full=False)), abs=NEAR
    )


def test_dropout_keeps_its_share_and_the_mean(tmp_path: Path) -> None:
    rig = make_rig(tmp_path / "m", dropout=0.25)
    seed_dropout(rig.model, 0, 1, 0)
    adapter = next(iter(adapters_of(rig.model).values()))
    dropped = np.array(adapter._dropped(mx.ones((200, 64))))
    assert set(np.unique(dropped)) == {0.0, np.float32(1 / 0.75)}
    assert (dropped == 0).mean() == pytest.approx(0.25, abs=0.02)


def test_a_quantized_base_has_gradients_too(tmp_path: Path) -> None:
    rig = make_rig(tmp_path / "m", bits=4)
    _, wanted = rig.stepper().gradients(ROWS, everything(ROWS), 1)
    _, grads = rig.stepper(segment_size=1, chunk_size=2).gradients(ROWS, everything(ROWS), 1)
    assert largest_difference(grads, wanted) < NEAR
    assert max(number(mx.abs(g).max()) for g in grads.values()) > 0


def test_adamw_and_lora_plus(rig: Rig) -> None:
    dice = np.random.default_rng(2)
    start = {"x.lora_a": dice.standard_normal((3, 2)), "x.lora_b": dice.standard_normal((2, 3))}
    grads = [{name: dice.standard_normal(w.shape) for name, w in start.items()} for _ in range(4)]
    rates = [1e-2, 2e-2, 5e-3, 1e-2]
    values = {name: mx.array(w, dtype=mx.float32) for name, w in start.items()}
    optimizer = Optimizer(config(lora_plus_ratio=8, weight_decay=0.1), values)
    for g, rate in zip(grads, rates, strict=True):
        values = optimizer.update(
            values, {n: mx.array(a, dtype=mx.float32) for n, a in g.items()}, rate
        )
    for name, ratio in (("x.lora_a", 1), ("x.lora_b", 8)):
        wanted = reference.adamw(
            start[name], [g[name] for g in grads], [ratio * rate for rate in rates], 0.1
        )
        assert np.abs(np.array(values[name]) - wanted).max() < NEAR


def test_the_optimizer_goes_on_from_its_arrays() -> None:
    dice = np.random.default_rng(2)
    values = {"x.lora_a": mx.array(dice.standard_normal((3, 2)), dtype=mx.float32)}
    values |= {"x.lora_b": mx.array(dice.standard_normal((2, 3)), dtype=mx.float32)}
    grads = {name: mx.ones(v.shape) for name, v in values.items()}
    first, second = Optimizer(config(), values), Optimizer(config(), values)
    values = first.update(values, grads, 0.1)
    second.restore(first.arrays)
    one, other = first.update(values, grads, 0.1), second.update(values, grads, 0.1)
    assert all(mx.array_equal(one[name], other[name]) for name in one)


def test_clipping() -> None:
    grads = {"a": mx.array([3.0, 0.0]), "b": mx.array([4.0])}
    clipped, norm = clip(grads, 1.0)
    assert number(norm) == pytest.approx(5.0, abs=NEAR)
    total = sum(number(mx.square(g).sum()) for g in clipped.values())
    assert math.sqrt(total) == pytest.approx(1.0, abs=NEAR)
    same, _ = clip(grads, 10.0)
    assert mx.array_equal(same["a"], grads["a"])


def test_learning_lowers_the_loss(tmp_path: Path) -> None:
    rig = make_rig(tmp_path / "m")
    stepper = rig.stepper()
    optimizer = Optimizer(config(), trainable(rig.model))
    losses = []
    for step in range(1, 11):
        result, grads = stepper.gradients(ROWS, everything(ROWS), step)
        apply(rig.model, optimizer, grads, 1e-2)
        losses.append(result.loss)
    assert losses[-1] < 0.7 * losses[0]


@given(
    st.integers(1, 50),
    st.integers(0, 40),
    st.sampled_from(["constant", "cosine"]),
    st.integers(1, 90),
)
def test_schedule(step: int, warmup: int, schedule: str, steps: int) -> None:
    steps = max(steps, step, warmup + 1)
    rate = learning_rate(step, peak=1.0, steps=steps, warmup=warmup, schedule=schedule)
    if step <= warmup:
        wanted = step / warmup
    elif schedule == "constant":
        wanted = 1.0
    else:
        share = (step - 1 - warmup) / (steps - warmup)
        wanted = 0.5 * (1 + np.cos(np.pi * share))
    assert rate == pytest.approx(wanted, abs=1e-12)
    assert rate > 0


def test_cosine_would_reach_zero_behind_the_last_step() -> None:
    steps = (2, 3, 7, 10, 11)
    rates = [learning_rate(s, peak=2.0, steps=10, warmup=2, schedule="cosine") for s in steps]
    last = 1 + np.cos(np.pi * 7 / 8)
    assert rates == pytest.approx([2.0, 2.0, 1.0, last, 0.0])


@given(st.floats(-60, -1e-4))
def test_log_one_minus_exp(x: float) -> None:
    found = number(log_one_minus_exp(mx.array(x)))
    assert found == pytest.approx(math.log(-math.expm1(x)), abs=1e-5, rel=1e-5)


@given(st.floats(-200, 200))
def test_log_sigmoid(x: float) -> None:
    assert number(log_sigmoid(mx.array(x))) == pytest.approx(
        -reference.softplus(-x), abs=1e-5, rel=1e-6
    )


def test_a_certain_answer_has_finite_odds() -> None:
    value, grad = mx.value_and_grad(log_one_minus_exp)(mx.array(0.0))
    assert math.isfinite(number(value))
    assert math.isfinite(number(grad))


def test_names_that_no_layer_has(rig: Rig) -> None:
    with pytest.raises(UsageProblem, match="'w_proj', which no layer of this model has"):
        find_targets(rig.model, ("w_proj",), 0)


@given(st.lists(st.integers(1, 100), min_size=1, max_size=40), st.integers(1, 7), st.integers(0, 9))
@settings(max_examples=50)
def test_an_epoch_holds_every_row_once(lengths: list[int], size: int, seed: int) -> None:
    order = BatchOrder(lengths=tuple(lengths), size=size, seed=seed)
    for epoch in (0, 1):
        batches = [order.batch(epoch * order.per_epoch + n) for n in range(order.per_epoch)]
        assert sorted(index for batch in batches for index in batch) == list(range(len(lengths)))
        spans = sorted((min(lengths[i] for i in b), max(lengths[i] for i in b)) for b in batches)
        assert all(one[1] <= two[0] for one, two in itertools.pairwise(spans))


def test_order_is_a_function_of_position() -> None:
    order = BatchOrder(lengths=tuple(range(1, 20)), size=3, seed=4)
    again = BatchOrder(lengths=tuple(range(1, 20)), size=3, seed=4)
    run = [order.step(step, 2) for step in range(1, 9)]
    assert [again.step(step, 2) for step in range(8, 0, -1)] == run[::-1]
    assert run[0] != run[4]
