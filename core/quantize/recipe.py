"""The recipe of a quantization: one table of fields for options, files and JSON.

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
    """One quantization. Each field's meaning, unit and range are in its metadata."""

    model_id: str | None = choice(None, Text(), "The model: a folder, a repo id, or a part of one.")
    bits: int | None = choice(None, WholeNumber(2, 8), "Bits per quantized weight [4].")
    group_size: int | None = choice(
        None, WholeNumber(16, 128), "Group size: weights that share a scale [64 for affine]."
    )
    mode: str = choice("affine", Choice(MODES), "Number format: affine, mxfp4, nvfp4 or mxfp8.")
    target_bpw: float | None = choice(
        None,
        Number(1, 16),
        "Mixed precision: bits per weight of the whole model, including scales.",
    )
    candidate_bits: tuple[str, ...] = choice(
        ("2", "3", "4", "8"), Names(numbers=True), "Widths that mixed precision chooses from."
    )
    reference: str = choice(
        "bf16",
        Text(numbers=True),
        "Baseline of the sensitivity measurement: bf16, or a uniform width.",
    )
    calibration_mix: str = choice(
        "mlxbun", Text(), "Calibration text: the name of a mix, or a JSONL file."
    )
    n_calibration: int = choice(
        0, WholeNumber(0, 100_000), "Number of calibration rows; 0: the default."
    )
    rotate_weights: bool = choice(False, Switch(), "Rotate weights before quantizing them.")
    rotation_seed: int = choice(42, WholeNumber(0, 2**32 - 1), "Rotation seed.")
    rotation_form: str = choice(
        "residual",
        Choice(("residual", "values")),
        "Rotate the residual stream and values, or values only, which keeps a tied embedding tied.",
    )
    quantize_embeddings: bool = choice(True, Switch(), "Quantize token embeddings too.")
    embedding_bits: int | None = choice(
        None, WholeNumber(2, 8), "Bits of token embeddings [those of other weights]."
    )
    override: tuple[str, ...] = choice(
        (), Names(), "Set the bits of layers whose names match, or keep them unquantized."
    )
    fit: str | None = choice(
        None, Text(), "Choose the most bits that fit in this much memory, such as 6GB."
    )
    dequantize: bool = choice(False, Switch(), "Convert a quantized model to 16 bits instead.")
    allow_requantize: bool = choice(False, Switch(), "Accept a model that is already quantized.")
    text_only: bool = choice(
        False, Switch(), "Drop the tensors of vision, audio and multi-token prediction."
    )
    strict: bool = choice(
        False, Switch(), "Stop if the group size would leave a layer unquantized."
    )
    kv_config: bool = choice(
        False, Switch(), "Measure which KV caches tolerate 4 or 8 bits; write kv_config.json."
    )
    proof: bool = choice(True, Switch(), "Compare the written model with the original.")
    min_agreement: float | None = choice(
        None, Number(0, 1), "Fail below this top-1 agreement, 0 to 1."
    )
    max_kl: float | None = choice(
        None, Number(0, 100), "Fail above this mean KL divergence, in nats per token."
    )
    output: str | None = choice(
        None, Text(), "Write to this new folder instead of the Hugging Face cache."
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
            raise UsageProblem(f"{found[0]} {clash.problem}.", hint=clash.hint)
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
    problem: str
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
        "has no effect with dequantize",
    ),
    _Clash(
        lambda r: r.target_bpw is not None,
        ("bits", "mode", "fit"),
        "cannot be combined with target_bpw, which chooses the bits of each layer",
        "Omit one of them; candidate_bits are the widths to choose from.",
    ),
    _Clash(
        lambda r: r.fit is not None,
        ("bits", "mode"),
        "cannot be combined with fit, which chooses the bits",
        "Omit one of them.",
    ),
    _Clash(
        lambda r: r.target_bpw is None,
        ("candidate_bits", "reference"),
        "has no effect without target_bpw",
    ),
    _Clash(
        lambda r: not r.calibrates,
        ("calibration_mix", "n_calibration"),
        "has no effect without target_bpw or kv_config, which use calibration text",
    ),
    _Clash(
        lambda r: not r.rotate_weights,
        ("rotation_seed", "rotation_form"),
        "has no effect without rotate_weights",
    ),
    _Clash(
        lambda r: not r.quantize_embeddings,
        ("embedding_bits",),
        "cannot be combined with quantize_embeddings off",
        "Omit one of them.",
    ),
    _Clash(
        lambda r: not r.proof,
        ("min_agreement", "max_kl"),
        "cannot be checked without the proof",
        "Omit one of them.",
    ),
)  # fmt: skip
