"""Which rank each layer gets, and the file that tells what quantization cost."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from core.errors import UsageProblem
from core.train.events import Note, TrainEvent
from core.train.ranks import KL_FILE, read_kl, scaled_ranks, without_kl
from core.train.shelf import read_card
from tests.core.train.runs import config_of, run, sums, write_rows
from tests.tiny import make_model

BITS = {"a": 4.0, "b": 8.0, "c": 2.0}


def test_by_bits() -> None:
    assert scaled_ranks("constant", 6, bits=BITS, kl={}) == {"a": 6, "b": 6, "c": 6}
    assert scaled_ranks("by_bits", 6, bits=BITS, kl={}) == {"a": 6, "b": 12, "c": 3}
    assert scaled_ranks("by_bits", 1, bits=BITS, kl={}) == {"a": 2, "b": 2, "c": 2}
    assert scaled_ranks("by_bits", 6, bits={"a": 3.0}, kl={}) == {"a": 5}


def test_by_kl_follows_the_median_within_half_and_twice() -> None:
    kl = {"a": 0.1, "b": 0.3, "c": 0.2}
    assert scaled_ranks("by_kl", 6, bits=BITS, kl=kl) == {"a": 3, "b": 9, "c": 6}
    wide = {"a": 0.0, "b": 9.0, "c": 0.2}
    assert scaled_ranks("by_kl", 6, bits=BITS, kl=wide) == {"a": 3, "b": 12, "c": 6}
    assert scaled_ranks("by_kl", 6, bits=BITS, kl=dict.fromkeys("abc", 0.0)) == {
        "a": 6,
        "b": 6,
        "c": 6,
    }


def test_layers_whose_kl_is_not_known_keep_the_rank() -> None:
    kl = {"a": 0.1, "b": 0.4, "x": 0.2}
    assert scaled_ranks("by_kl", 6, bits=BITS, kl=kl) == {"a": 3, "b": 12, "c": 6}
    assert without_kl(BITS, kl) == ["c"]
    with pytest.raises(UsageProblem, match="tells the KL of no layer that is trained"):
        scaled_ranks("by_kl", 6, bits=BITS, kl={"x": 1.0})


def test_a_wrapped_model_s_names_are_the_same() -> None:
    kl = {"language_model.model.a": 1.0, "model.b": 2.0}
    bits = {"model.a": 4.0, "language_model.model.b": 4.0}
    assert without_kl(bits, kl) == []
    assert scaled_ranks("by_kl", 8, bits=bits, kl=kl) == {
        "model.a": 4,
        "language_model.model.b": 8,
    }


@pytest.mark.parametrize(
    "content",
    [
        {"method": "x", "per_layer": {"a": {"bits": 4, "kl": 0.5}, "b": {"bits": 8, "kl": 1}}},
        {"optimization": {"per_layer": {"a": {"kl": 0.5}, "b": {"kl": 1}, "c": {"bits": 4}}}},
        {"per_layer": {"a": {"kl": 0.5}, "b": {"kl": 1}, "c": {"kl": "x"}, "d": {"kl": -1}}},
        {"per_layer": {"a": {"kl": 0.5}, "b": {"kl": 1}, "c": 7, "d": {"kl": True}}},
    ],
    ids=["of today", "of before", "broken values", "broken layers"],
)
def test_the_file_beside_the_model(tmp_path: Path, content: Any) -> None:
    (tmp_path / KL_FILE).write_text(json.dumps(content))
    assert read_kl(tmp_path) == {"a": 0.5, "b": 1.0}


@pytest.mark.parametrize("content", [None, "{", "[]", "{}", '{"per_layer": {"a": {"bits": 4}}}'])
def test_without_any_kl_it_says_so(tmp_path: Path, content: str | None) -> None:
    if content is not None:
        (tmp_path / KL_FILE).write_text(content)
    with pytest.raises(UsageProblem, match=f"by_kl needs {KL_FILE} beside the model") as told:
        read_kl(tmp_path)
    assert told.value.hint == "Use by_bits or constant."


def test_a_training_by_kl(tmp_path: Path) -> None:
    make_model(tmp_path / "model", bits=4)
    write_rows(tmp_path / "data", sums(4))
    layers = {
        f"model.layers.{n}.self_attn.{name}": {"bits": 4, "kl": kl}
        for n in (0, 1)
        for name, kl in (("q_proj", 0.1), ("k_proj", 0.2), ("v_proj", 0.8))
    }
    (tmp_path / "model" / KL_FILE).write_text(json.dumps({"per_layer": layers}))
    told: list[TrainEvent] = []
    asked = ["q_proj", "v_proj", "o_proj"]
    config = config_of(tmp_path, rank_scaling="by_kl", target_modules=asked, iters=1)
    run(config, tmp_path / "home", events=told)
    notes = [event.line for event in told if isinstance(event, Note)]
    assert any("tells no KL of 2 of the 6 layers" in note for note in notes)
    # The largest rank of all, and less for layers that lost less: the rest of them is zeros.
    assert read_card(tmp_path / "out").rank == 8
