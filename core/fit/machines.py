"""The Macs that there are, and how much of a machine's memory a model may use.

`machines.toml` beside this module holds the figures and says where each was read.
"""

from __future__ import annotations

import difflib
import re
import subprocess
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import TYPE_CHECKING, Any

from core.errors import UsageProblem
from core.units import GIB

if TYPE_CHECKING:
    from collections.abc import Sequence

    from core.machine.probe import Machine

# Shares of RAM that Metal recommends to use at most, up to macOS 15; later ones recommend more.
# See `working_set` in machines.toml.
_SMALL_SHARE, _LARGE_SHARE = 2 / 3, 3 / 4
_LARGE = 36 * GIB


@dataclass(frozen=True, kw_only=True)
class Sku:
    """One Mac: a chip with its memory."""

    chip: str
    """`M4 Pro`."""
    gpu_cores: int
    """Cores of its GPU."""
    memory_bytes: int
    """Its unified memory."""
    bandwidth: float
    """Bytes a second that its memory delivers."""
    fp16: float
    """Operations a second in half precision."""
    unconfirmed: tuple[str, ...]
    """Which of `bandwidth` and `fp16` no text of Apple's gives."""

    @property
    def speed(self) -> Speed:
        """How fast it reads and multiplies."""
        return Speed(
            bandwidth=self.bandwidth, fp16=self.fp16, expert_layer=_expert_layer(self.chip)
        )

    @property
    def name(self) -> str:
        """For people and for `--sku`: `M4 Pro 48 GB (20-core GPU)`."""
        return f"{self.chip} {self.memory_bytes // GIB} GB ({self.gpu_cores}-core GPU)"

    @property
    def usable_bytes(self) -> int:
        """What Metal recommends to use at most."""
        return working_set_bytes(self.memory_bytes)


@dataclass(frozen=True, kw_only=True)
class Speed:
    """How fast a machine reads and multiplies; None: unknown."""

    bandwidth: float | None
    """Bytes a second."""
    fp16: float | None
    """Operations a second in half precision."""
    expert_layer: float = 0.0
    """Seconds that a layer of experts takes in a decode step, beside the reads."""


def working_set_bytes(memory_bytes: int) -> int:
    """Return what Metal recommends to use at most of a Mac's memory."""
    return int((_LARGE_SHARE if memory_bytes >= _LARGE else _SMALL_SHARE) * memory_bytes)


def wired_limit_bytes() -> int | None:
    """Return the limit that the user of this Mac has set (`iogpu.wired_limit_mb`), or None."""
    command = ["/usr/sbin/sysctl", "-n", "iogpu.wired_limit_mb"]
    try:
        answer = subprocess.run(command, capture_output=True, text=True, timeout=5, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return None
    text = answer.stdout.strip()
    return int(text) * 2**20 if text.isdigit() and int(text) > 0 else None


@cache
def load_skus() -> tuple[Sku, ...]:
    """Return every Mac of the data file, in its order, by memory."""
    return tuple(sku for entry in _data()["chip"] for sku in _skus_of(entry))


def find_skus(name: str) -> list[Sku]:
    """Return the Macs that a name means: `M4 Max`, `m4 max 64`, `M3 Max 36GB (30-core GPU)`.

    Raises:
        UsageProblem: it means none; the hint holds near misses.
    """
    wanted = _words(name)
    chip = " ".join(word for word in wanted if not word.isdigit())
    numbers = [int(word[:9]) for word in wanted if word.isdigit()]
    mine = [sku for sku in load_skus() if sku.chip.lower() == chip]
    # `M1 8` is the one with 8 GB, not every one with 8 cores.
    for given in (numbers, numbers[::-1], [None, *numbers]):
        if found := [sku for sku in mine if _has(sku, given)]:
            return found
    raise _unknown(name)


def _has(sku: Sku, given: Sequence[int | None]) -> bool:
    """Return whether a Mac has a memory in GB, and cores of the GPU, where they are given."""
    own = (sku.memory_bytes // GIB, sku.gpu_cores)
    return len(given) <= len(own) and all(
        wanted in (None, number) for wanted, number in zip(given, own, strict=False)
    )


def speed_of(machine: Machine) -> Speed:
    """Return how fast this machine is, as far as the data file knows its chip.

    Macs of one chip differ by their GPU; memory tells most of them apart, and where it does not,
    the slower one counts.
    """
    chip = machine.processor.removeprefix("Apple ").strip()
    mine = [sku for sku in load_skus() if sku.chip == chip]
    same = [sku for sku in mine if sku.memory_bytes == machine.memory_bytes] or mine
    if machine.backend != "metal" or not same:
        return Speed(bandwidth=None, fp16=None)
    return Speed(
        bandwidth=min(sku.bandwidth for sku in same),
        fp16=min(sku.fp16 for sku in same),
        expert_layer=_expert_layer(chip),
    )


def _expert_layer(chip: str) -> float:
    """Return the seconds that a layer of experts takes beside the reads.

    Args:
        chip: like `M4 Pro`.
    """
    known = _data()["expert_layer"]
    microseconds: float = known.get(chip.partition(" ")[0], known["later"])
    return microseconds * 1e-6


def data_checked_on() -> str:
    """Return the day on which the data file was last checked."""
    text = files("core.fit").joinpath("machines.toml").read_text(encoding="utf-8")
    found = re.search(r"Checked on (\S+?)\.", text)
    return found[1] if found else "unknown"


@cache
def _data() -> dict[str, Any]:
    import tomllib

    return tomllib.loads(files("core.fit").joinpath("machines.toml").read_text(encoding="utf-8"))


def _skus_of(entry: dict[str, Any]) -> list[Sku]:
    return [
        Sku(
            chip=entry["name"],
            gpu_cores=entry["gpu_cores"],
            memory_bytes=memory * GIB,
            bandwidth=entry["bandwidth"] * 1e9,
            fp16=entry["fp16"] * 1e12,
            unconfirmed=tuple(entry.get("unconfirmed", ())),
        )
        for memory in entry["memory"]
    ]


def _words(name: str) -> list[str]:
    text = re.sub(r"(\d+)\s*(?:gib|gb|g)\b", r"\1", name.lower())
    text = re.sub(r"(\d+)-core(?:\s+gpu)?", r"\1", text)
    return re.findall(r"m\d+|pro|max|ultra|\d+|[a-z]+", text.replace("apple", " "))


def _unknown(name: str) -> UsageProblem:
    shown = name if len(name) < 60 else name[:57] + "..."
    names = [f"{sku.chip} {sku.memory_bytes // GIB}" for sku in load_skus()]
    near = difflib.get_close_matches(name.lower(), [each.lower() for each in names], n=3)
    close = [each for each in dict.fromkeys(names) if each.lower() in near]
    hint = f"Did you mean {' or '.join(close)}?" if close else "`--skus` lists them all."
    return UsageProblem(f"There is no Mac {shown!r} in our list.", hint=hint)
