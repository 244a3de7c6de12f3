"""`fit --quantize`: what a quantization would make of a model, and what that takes here."""

from __future__ import annotations

import shutil
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from core.quantize.budget import bits_per_weight, making_of, packed_as
from core.units import format_bytes

if TYPE_CHECKING:
    from pathlib import Path

    from core.fit.candidate import ModelFiles
    from core.fit.quantized import Making
    from core.quantize.budget import Wanted


@dataclass(frozen=True, kw_only=True)
class Quantizing:
    """A quantization that is asked about."""

    form: str
    """What it packs weights in, for people: `4-bit`."""
    bits_per_weight: float
    """Of the whole model, scales included."""
    making: Making
    """What the quantization itself needs."""
    free_bytes: int
    """Room on the disk of the Hugging Face cache."""
    memory_bytes: int
    """Memory that may be used on this machine."""
    packed_already: bool
    """The model is quantized already."""

    @property
    def is_possible(self) -> bool:
        """Whether this machine has the disk and the memory for it."""
        memory = self.making.memory_bytes <= self.memory_bytes
        return memory and self.making.disk_bytes <= self.free_bytes


def quantized_files(
    files: ModelFiles, wanted: Wanted, *, hub_cache: Path, memory_bytes: int
) -> tuple[ModelFiles, Quantizing]:
    """Return what the files of a model would hold, and what it takes to make them.

    Args:
        files: of the model as it is.
        wanted: the form.
        hub_cache: where the result would be written.
        memory_bytes: memory that may be used on this machine.

    Raises:
        UsageProblem: the mean width is out of reach.
    """
    made = packed_as(files, wanted)
    place = next(path for path in (hub_cache, *hub_cache.parents) if path.exists())
    return made, Quantizing(
        form=str(wanted),
        bits_per_weight=bits_per_weight(made),
        making=making_of(files, made, wanted),
        free_bytes=shutil.disk_usage(place).free,
        memory_bytes=memory_bytes,
        packed_already=any(tensor.name.endswith(".scales") for tensor in files.tensors),
    )


def quantizing_words(found: Quantizing) -> dict[str, str]:
    """Return what to show of a quantization, by name."""
    making = found.making
    disk = f"{format_bytes(making.disk_bytes)} of disk ({format_bytes(found.free_bytes)} free)"
    memory = f"about {format_bytes(making.memory_bytes)} of memory"
    lacking = "" if found.is_possible else ": too much for this machine"
    form = "mixed precision" if found.form.endswith("bpw") else found.form
    again = "; needs --allow-requantize" if found.packed_already else ""
    return {
        "quantized": f"{form}, {found.bits_per_weight:.2f} bits per weight",
        "quantizing": f"{disk}, {memory}{lacking}{again}",
    }


def quantizing_as_json(found: Quantizing) -> dict[str, Any]:
    """Return a quantization as plain values."""
    return {
        "form": found.form,
        "bits_per_weight": found.bits_per_weight,
        "disk_bytes": found.making.disk_bytes,
        "memory_bytes": found.making.memory_bytes,
        "free_disk_bytes": found.free_bytes,
        "possible": found.is_possible,
        "packed_already": found.packed_already,
    }
