"""The forms that weights can be packed in. Imports no arrays.

MLX packs the numbers of a row in groups that share a scale: `affine` w = scale * q + bias with
scale and bias in the model's 16-bit type; the block formats hold E2M1 or E4M3 numbers with 8-bit
scales (OCP Microscaling Formats 1.0; NVFP4).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal, get_args

from core.errors import UsageProblem

Mode = Literal["affine", "mxfp4", "nvfp4", "mxfp8"]
MODES: tuple[str, ...] = get_args(Mode)
WIDTHS: dict[str, tuple[int, ...]] = {
    "affine": (2, 3, 4, 5, 6, 8),
    "mxfp4": (4,),
    "nvfp4": (4,),
    "mxfp8": (8,),
}
"""The widths that each mode has, in bits; the first entries are those of this MLX."""
GROUPS: dict[str, tuple[int, ...]] = {
    "affine": (32, 64, 128),
    "mxfp4": (32,),
    "nvfp4": (16,),
    "mxfp8": (32,),
}
"""How many numbers can share a scale in each mode."""
_DEFAULTS = {"affine": (4, 64), "mxfp4": (4, 32), "nvfp4": (4, 16), "mxfp8": (8, 32)}
_SCALE_BITS = {"affine": 32, "mxfp4": 8, "nvfp4": 8, "mxfp8": 8}


@dataclass(frozen=True, kw_only=True)
class Form:
    """How one tensor is packed."""

    bits: int
    """Bits of a number."""
    group_size: int
    """Numbers of a row that share a scale."""
    mode: Mode = "affine"
    """How numbers are read from their bits."""

    @property
    def bits_per_weight(self) -> float:
        """Bits of a number with its share of the scales (16-bit ones, where they are affine)."""
        return self.bits + _SCALE_BITS[self.mode] / self.group_size

    def as_config(self) -> dict[str, Any]:
        """Return the form as config.json says it (`quantization`)."""
        return {"group_size": self.group_size, "bits": self.bits, "mode": self.mode}


def checked_form(*, bits: int | None, group_size: int | None, mode: str = "affine") -> Form:
    """Return a form; what is None is the mode's default.

    Raises:
        UsageProblem: there is no such mode, or it has no such width or group.
    """
    if mode not in MODES:
        raise UsageProblem(f"There is no mode {mode}.", hint=f"Use one of {', '.join(MODES)}.")
    default_bits, default_group = _DEFAULTS[mode]
    bits = default_bits if bits is None else bits
    group_size = default_group if group_size is None else group_size
    for what, value, known in (
        (f"{bits} bits", bits, WIDTHS[mode]),
        (f"groups of {group_size}", group_size, GROUPS[mode]),
    ):
        if value not in known:
            numbers = ", ".join(map(str, known))
            raise UsageProblem(
                f"Mode {mode} does not support {what}.",
                hint=f"Possible: {numbers}.",
            )
    return Form(bits=bits, group_size=group_size, mode=mode)  # type: ignore[arg-type]
