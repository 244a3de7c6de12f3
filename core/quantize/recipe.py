"""All that can be chosen for a quantization: one table, read from options, files and JSON alike.

The names are those of `POST /api/quantize/submit`, and of `mlxbun quantize`. Imports no arrays.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from core.errors import UsageProblem
from core.fields import FieldTable, choice, shown
from core.quantize.form import MODES, WIDTHS, Form, checked_form
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
    rotation_form: str = choice(
        "residual",
        Choice(("residual", "values")),
        "Rotate the residual stream and values, or values only, which keeps a tied embedding tied.",
    )
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

    @property
    def form(self) -> Form:
        """The form of weights without an override, an embedding or a router.

        Raises:
            UsageProblem: bits, group and mode do not go together.
        """
        return checked_form(bits=self.bits, group_size=self.group_size, mode=self.mode)

    @property
    def candidates(self) -> tuple[int, ...]:
        """The widths that mixed precision chooses from, in bits, ascending.

        Raises:
            UsageProblem: one of them is not a width of affine weights.
        """
        return tuple(sorted({_width(word, "candidate_bits") for word in self.candidate_bits}))

    @property
    def reference_bits(self) -> int | None:
        """The uniform width that sensitivity is measured against; None: the weights themselves.

        Raises:
            UsageProblem: it is something else.
        """
        return None if self.reference == "bf16" else _width(self.reference, "reference")

    @property
    def overrides(self) -> tuple[tuple[str, int | None], ...]:
        """Patterns of layer names, each with its bits, or None to keep them; later ones win.

        Raises:
            UsageProblem: one is not PATTERN=BITS or PATTERN=keep.
        """
        return tuple(map(_override, self.override))

    @property
    def calibrates(self) -> bool:
        """Whether the calibration text is used."""
        return self.target_bpw is not None or self.kv_config


TABLE = FieldTable(Recipe, what="A quantization")


def make_recipe(*layers: Mapping[str, Any], where: tuple[str, ...] = ()) -> Recipe:
    """Merge raw values into one recipe, as `FieldTable.merged` does.

    Raises:
        UsageProblem: an unknown name, a value outside its range, or fields that do not go together.
    """
    recipe = TABLE.merged(*layers, where=where)
    check_together(recipe)
    return recipe


def check_together(recipe: Recipe) -> None:
    """Refuse fields that do not go together, or have no effect beside each other.

    Raises:
        UsageProblem: it names them.
    """
    for clash in _CLASHES:
        if not clash.there(recipe):
            continue
        if found := [name for name in clash.names if _is_chosen(recipe, name)]:
            raise UsageProblem(f"{found[0]} {clash.told}.", hint=clash.hint)
    # Each raises what is wrong with its own fields.
    _ = (recipe.form, recipe.candidates, recipe.reference_bits, recipe.overrides)


def _is_chosen(recipe: Recipe, name: str) -> bool:
    return bool(getattr(recipe, name) != TABLE.default(name))


def _width(word: str, name: str) -> int:
    widths = WIDTHS["affine"]
    found = next((width for width in widths if word == str(width)), None)
    if found is None:
        other = "bf16 or " if name == "reference" else ""
        listed = ", ".join(map(str, widths))
        raise UsageProblem(f"{name} must be {other}one of {listed}, not {shown(word)}.")
    return found


def _override(text: str) -> tuple[str, int | None]:
    pattern, equals, word = text.rpartition("=")
    if not equals or not pattern or not (word == "keep" or word.isdigit()):
        raise UsageProblem(
            f"override must be PATTERN=BITS or PATTERN=keep, not {shown(text)}.",
            hint="For example: '*.down_proj=6', or 'lm_head=keep'.",
        )
    return pattern, None if word == "keep" else _width(word, f"The width in {shown(text)}")


@dataclass(frozen=True)
class _Clash:
    """Fields that cannot be chosen in some recipes."""

    there: Callable[[Recipe], bool]
    """Whether a recipe is one of those."""
    names: tuple[str, ...]
    """The fields."""
    told: str
    """What is wrong with choosing one."""
    hint: str | None = None
    """What to do."""


_CLASHES = (
    _Clash(
        lambda r: r.dequantize,
        (
            "bits", "group_size", "mode", "target_bpw", "candidate_bits", "reference",
            "calibration_mix", "n_calibration", "rotate_weights", "rotation_seed", "rotation_form",
            "quantize_embeddings", "embedding_bits", "override", "fit", "allow_requantize",
            "strict", "kv_config", "min_agreement", "max_kl",
        ),
        "has no effect with dequantize, which unpacks every weight",
    ),
    _Clash(
        lambda r: r.target_bpw is not None,
        ("bits", "mode", "fit"),
        "does not go with target_bpw, which chooses the bits of every layer",
        "Leave one of them out; candidate_bits are the widths to choose from.",
    ),
    _Clash(
        lambda r: r.fit is not None,
        ("bits", "mode"),
        "does not go with fit, which chooses the width",
        "Leave one of them out.",
    ),
    _Clash(
        lambda r: r.target_bpw is None,
        ("candidate_bits", "reference"),
        "has no effect without target_bpw",
    ),
    _Clash(
        lambda r: not r.calibrates,
        ("calibration_mix", "n_calibration"),
        "has no effect without target_bpw or kv_config: nothing is calibrated",
    ),
    _Clash(
        lambda r: not r.rotate_weights,
        ("rotation_seed", "rotation_form"),
        "has no effect without rotate_weights",
    ),
    _Clash(
        lambda r: not r.quantize_embeddings,
        ("embedding_bits",),
        "does not go with embeddings that stay as they are",
        "Leave one of them out.",
    ),
    _Clash(
        lambda r: not r.proof,
        ("min_agreement", "max_kl"),
        "cannot be checked without the proof",
        "Leave one of them out.",
    ),
)  # fmt: skip
