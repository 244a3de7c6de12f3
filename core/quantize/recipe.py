"""All that can be chosen for a quantization: one table, read from options, files and JSON alike.

The names are those of `POST /api/quantize/submit`, and of `mlxbun quantize`. Imports no arrays.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from core.fields import FieldTable, choice
from core.quantize.form import MODES
from core.values import Choice, Names, Number, Switch, Text, WholeNumber

ROUTER_BITS = 8
"""Least width of routers and of the gates of shared experts, unless an override says otherwise."""


@dataclass(frozen=True, kw_only=True)
class Recipe:
    """One quantization. Each field's meaning, unit and range stand in its metadata."""

    model_id: str | None = choice(None, Text(), "The model: a folder, a repo id, or a part of one.")
    bits: int | None = choice(None, WholeNumber(2, 8), "Bits of every packed weight [4].")
    group_size: int | None = choice(
        None, WholeNumber(16, 128), "Weights that share a scale [64 for affine]."
    )
    mode: str = choice("affine", Choice(MODES), "How numbers are stored in their bits.")
    target_bpw: float | None = choice(
        None, Number(1, 16), "Mixed precision: bits per weight of the whole model, scales included."
    )
    candidate_bits: tuple[str, ...] = choice(
        ("2", "3", "4", "8"), Names(numbers=True), "Widths that mixed precision chooses from."
    )
    reference: str = choice(
        "bf16",
        Text(numbers=True),
        "What the sensitivity of layers is measured against: bf16, or a uniform width.",
    )
    calibration_mix: str = choice(
        "mlxbun", Text(), "The calibration text: the name of a mix, or a JSONL file."
    )
    n_calibration: int = choice(
        0, WholeNumber(0, 100_000), "Rows of calibration text; 0: the mix's own number."
    )
    rotate_weights: bool = choice(False, Switch(), "Rotate weights before they are packed.")
    rotation_seed: int = choice(42, WholeNumber(0, 2**32 - 1), "Seed of the rotation.")
    quantize_embeddings: bool = choice(True, Switch(), "Pack token embeddings as well.")
    embedding_bits: int | None = choice(
        None, WholeNumber(2, 8), "Bits of token embeddings [as the other weights]."
    )
    override: tuple[str, ...] = choice(
        (), Names(), "PATTERN=BITS or PATTERN=keep, for layers whose names match the pattern."
    )
    fit: str | None = choice(None, Text(), "Choose the width that fits this memory, such as 6GB.")
    dequantize: bool = choice(False, Switch(), "Unpack a quantized model to 16 bits instead.")
    allow_requantize: bool = choice(False, Switch(), "Accept a model that is quantized already.")
    text_only: bool = choice(
        False, Switch(), "Leave out the tensors of vision, audio and speculation."
    )
    strict: bool = choice(False, Switch(), "Stop where a tensor would be left unpacked.")
    kv_config: bool = choice(
        False, Switch(), "Measure which layers' KV stands 4 or 8 bits; write kv_config.json."
    )
    proof: bool = choice(True, Switch(), "Measure the written model against the original.")
    min_agreement: float | None = choice(
        None, Number(0, 1), "Fail below this share of tokens with the same first choice."
    )
    max_kl: float | None = choice(
        None, Number(0, 100), "Fail above this mean KL divergence, in nats a token."
    )
    output: str | None = choice(
        None, Text(), "A folder for the result instead of the Hugging Face cache."
    )


TABLE = FieldTable(Recipe, what="A quantization")


def make_recipe(*layers: Mapping[str, Any], where: tuple[str, ...] = ()) -> Recipe:
    """Merge raw values into one recipe, as `FieldTable.merged` does.

    Raises:
        UsageProblem: an unknown name, a value outside its range, or fields that do not go together.
    """
    return TABLE.merged(*layers, where=where)
