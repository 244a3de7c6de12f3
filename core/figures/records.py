"""A benchmark run and its figures: plain records and the statistics of a list of samples."""

from __future__ import annotations

import statistics
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, get_args

if TYPE_CHECKING:
    from collections.abc import Iterable

FigureKind = Literal["prefill", "decode", "ttft_cold", "ttft_warm"]

KINDS: tuple[FigureKind, ...] = get_args(FigureKind)
UNITS: dict[FigureKind, str] = {
    "prefill": "tokens/s",
    "decode": "tokens/s",
    "ttft_cold": "s",
    "ttft_warm": "s",
}


@dataclass(frozen=True, kw_only=True)
class Figure:
    """One figure of a run: the same thing measured several times.

    `decode` counts the tokens of all rows together; `per_row` is what one of them gets.
    """

    kind: FigureKind
    """What was measured."""
    size: int
    """Prompt tokens of `prefill` and the TTFTs; rows that run together of `decode`."""
    unit: str
    """`tokens/s` or `s`."""
    median: float
    """Of the samples."""
    low: float
    """Their first quartile (inclusive method: linear between the samples)."""
    high: float
    """Their third quartile."""
    least: float
    """The smallest of them."""
    most: float
    """The largest of them."""
    samples: tuple[float, ...]
    """One a repeat, in the order they were measured; never empty."""

    @classmethod
    def of(cls, kind: FigureKind, size: int, samples: Iterable[float]) -> Figure:
        """Return the figure that samples make.

        Raises:
            ValueError: there are none.
        """
        taken = tuple(samples)
        if not taken:
            raise ValueError("a figure needs at least one sample")
        middle = statistics.median(taken)
        low, high = (middle, middle) if len(taken) == 1 else _quartiles(taken)
        return cls(
            kind=kind,
            size=size,
            unit=UNITS[kind],
            median=middle,
            low=low,
            high=high,
            least=min(taken),
            most=max(taken),
            samples=taken,
        )

    @property
    def order(self) -> tuple[int, int]:
        """Sorts figures by kind, then size."""
        return KINDS.index(self.kind), self.size

    @property
    def per_row(self) -> float:
        """The median that one row gets of `decode`; the median itself of anything else."""
        return self.median / self.size if self.kind == "decode" else self.median


@dataclass(frozen=True, kw_only=True)
class MachineIdentity:
    """What tells one machine from another, as far as speed goes."""

    processor: str
    """The chip's name for people."""
    cores: int
    """Processors that the process might use."""
    memory_bytes: int
    """RAM, or the container's limit where that is lower."""
    backend: str
    """`metal`, `cuda` or `cpu`."""


@dataclass(frozen=True, kw_only=True)
class RunSettings:
    """The settings that a figure depends on."""

    blas: str
    """The library that multiplied float32 on a CPU; `-` elsewhere."""
    loaded_as: str
    """The form of the weights in memory: `float32 (unpacked)`, `4-bit (group 32)`."""
    dequantize: str
    """What the user wished about that: `auto`, `on` or `off`."""
    prefill: str
    """`latency` or `throughput`."""
    batch: int
    """Rows that may run together."""
    tokens: int
    """Tokens that each row decoded."""


@dataclass(frozen=True, kw_only=True)
class Run:
    """One run of the benchmark."""

    model_id: str
    """Repo id, or the folder's name."""
    revision: str
    """The commit, or `files-` and a fingerprint; see `core.figures.identity.model_revision`."""
    machine: MachineIdentity
    """Where it ran."""
    settings: RunSettings
    """How it ran."""
    mlx: str
    """Version of MLX."""
    mlx_lm: str
    """Version of mlx-lm."""
    mlxbun: str
    """Version of mlxbun."""
    measured_at: str
    """When it ended: UTC, ISO 8601 to the second, `2026-11-29T10:00:00+00:00`."""
    figures: tuple[Figure, ...]
    """What was measured, each kind and size once, in their order."""
    complete: bool = True
    """False: it was interrupted, and figures or samples are missing."""
    run_id: int | None = None
    """Its number in the store; None while it is in none."""

    def figure(self, kind: FigureKind, size: int) -> Figure | None:
        """Return one figure, or None where it was not measured."""
        return next((f for f in self.figures if f.kind == kind and f.size == size), None)


@dataclass(frozen=True, kw_only=True)
class Evaluation:
    """One model measured against its original."""

    model_id: str
    """Repo id, or the folder's name."""
    revision: str
    """As `Run.revision`."""
    original_id: str
    """The original's repo id, or its folder's name."""
    original_revision: str
    """The original's revision."""
    machine: str
    """What `core.figures.identity.machine_key` returns."""
    heldout: str
    """Digest of the held-out text."""
    bits_per_weight: float
    """Bits of a weight, scales and norms included."""
    size_bytes: int
    """Bytes of the weights."""
    perplexity: float
    """On the held-out text."""
    original_perplexity: float
    """The original's."""
    kl: float
    """Mean KL(original || model) in nats a token."""
    agreement: float
    """Share of tokens with the same first choice, 0 to 1."""
    mlx: str
    """Version of MLX."""
    mlx_lm: str
    """Version of mlx-lm."""
    mlxbun: str
    """Version of mlxbun."""
    measured_at: str
    """When it ended: UTC, ISO 8601 to the second."""
    found: str
    """All that was found, as JSON."""
    evaluation_id: int | None = None
    """Its number in the store; None while it is in none."""


def _quartiles(samples: tuple[float, ...]) -> tuple[float, float]:
    low, _, high = statistics.quantiles(samples, n=4, method="inclusive")
    return low, high
