"""Sensitivity sweeps: what they hold, and where they are kept. Imports no arrays.

A sweep is kept as a list of facts, one JSON object per line: a line is written as soon as its
measurement is done, so a sweep that was killed continues where it stopped, and a later sweep of the
same weights with other candidate widths measures only what is new. The target size is not part of
the key: one sweep serves every target.
"""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any

from core.errors import MlxbunError
from core.paths import atomic_write
from core.quantize.form import Form, checked_form

if TYPE_CHECKING:
    from pathlib import Path

METHOD = 1
"""Version of the method; raise it when the same weights would give other numbers."""

Spot = tuple[str, Form]
"""A tensor's path and a form that it can take."""


@dataclass(frozen=True, kw_only=True)
class SweepKey:
    """What decides the numbers of a sweep, except for the candidates."""

    weights: str
    """What tells the original weights from others: `core.quantize.resume.Key.source`."""
    mix: str
    """Digest of the calibration rows."""
    reference: Form | None = None
    """The form of all other tensors while one is measured; None: original weights."""
    prepared: str = ""
    """What was done to the weights before: for example `rotated by seed 42`."""
    method: int = METHOD
    """Version of the method."""

    @property
    def digest(self) -> str:
        """Name of the sweep's file, 40 hexadecimal digits."""
        text = json.dumps(asdict(self), sort_keys=True)
        return hashlib.sha256(text.encode()).hexdigest()[:40]


@dataclass(frozen=True, kw_only=True)
class Fact:
    """What is known of one tensor in one form."""

    noise: float
    """Squared error of the tensor's outputs relative to their squared size; outside the layers that
    of its weights."""
    kl: float | None = None
    """Measured KL divergence in nats per token, above `base_kl`; None: not measured."""
    error: float | None = None
    """Standard error of `kl` over calibration rows; None: not measured, or a single row."""


@dataclass(frozen=True, kw_only=True)
class Entry:
    """Sensitivity of the output to one tensor in one form."""

    path: str
    """Path of the tensor's module."""
    form: Form
    """How it is packed."""
    kl: float
    """KL(reference || reference with this tensor packed) in nats per token, above `base_kl`."""
    error: float | None
    """Standard error of a measured value over rows; None: estimated, or a single row."""
    measured: bool
    """Whether the value was measured on the model's output; otherwise it is scaled from a measured
    width of the same tensor."""
    noise: float
    """Squared error of the tensor's outputs relative to their squared size; outside the layers that
    of its weights."""


@dataclass(frozen=True, kw_only=True)
class Sweep:
    """Sensitivity of a model's output to each tensor at each candidate width."""

    key: SweepKey
    """What it was measured on."""
    tokens: int
    """Calibration tokens."""
    base_kl: float
    """KL divergence of the baseline from the original in nats per token; 0 for `bf16`."""
    entries: tuple[Entry, ...]
    """One per tensor and form, tensors in the order of the model."""

    def curve(self, path: str) -> dict[Form, float]:
        """Return the KL of a tensor's forms; empty: it was not measured."""
        return self.curves.get(path, {})

    @property
    def curves(self) -> dict[str, dict[Form, float]]:
        """The KL of every tensor's forms."""
        found: dict[str, dict[Form, float]] = {}
        for entry in self.entries:
            found.setdefault(entry.path, {})[entry.form] = entry.kl
        return found

    def as_json(self) -> dict[str, Any]:
        """Return the sweep as a JSON object, as it travels with a model."""
        return asdict(self)

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> Sweep:
        """Read what `as_json` returned.

        Raises:
            ValueError: it is not a sweep.
        """
        try:
            return cls(
                key=_read_key(value["key"]),
                tokens=int(value["tokens"]),
                base_kl=_finite(value["base_kl"]),
                entries=tuple(_read_entry(entry) for entry in value["entries"]),
            )
        except (KeyError, TypeError, AttributeError) as problem:
            raise ValueError(f"not a sweep: {problem!r}") from problem


@dataclass(kw_only=True)
class Record:
    """The facts of one sweep, and the file that they are kept in. For one thread."""

    file: Path | None = None
    """Facts are appended here; None: they are only held in memory."""
    facts: dict[Spot, Fact] = field(default_factory=dict)
    """What is known."""
    base_kl: float | None = None
    """KL divergence of the baseline in nats per token; None: not measured yet."""
    tokens: int = 0
    """Calibration tokens; 0: not measured yet."""

    def add(self, spot: Spot, fact: Fact) -> None:
        """Take a fact and keep it.

        Raises:
            OSError: it cannot be written.
        """
        self.facts[spot] = fact
        self._append(_fact_line(spot, fact))

    def set_base(self, kl: float, tokens: int) -> None:
        """Take the baseline's KL divergence and the number of tokens, and keep them.

        Raises:
            OSError: it cannot be written.
        """
        self.base_kl, self.tokens = kl, tokens
        self._append(_base_line(self))

    def _append(self, line: str) -> None:
        if self.file is not None:
            with self.file.open("ab") as file:
                file.write(f"{line}\n".encode())


class SweepStore:
    """The sweeps in our cache folder. Each can be measured again."""

    def __init__(self, folder: Path) -> None:
        """Take the folder; it need not exist."""
        self._folder = folder

    @classmethod
    def in_cache(cls, cache: Path) -> SweepStore:
        """Return the store in our cache folder."""
        return cls(cache / "sweeps")

    def open(self, key: SweepKey) -> tuple[Record, list[str]]:
        """Return what is known of a sweep, and notes about damage, one sentence each.

        Damaged lines are dropped and measured again.

        Raises:
            OSError: the file cannot be written.
        """
        place = self.place(key)
        head = json.dumps({"key": asdict(key)}, sort_keys=True)
        try:
            lines = place.read_text(encoding="utf-8", errors="replace").split("\n")
        except FileNotFoundError:
            lines = []
        record, lost = _read_lines(lines, head)
        if lost or not lines:
            _write_lines(place, head, record)
        record.file = place
        notes = []
        if lost:
            notes = [
                f"The stored sweep {place.name} is damaged; what is missing is measured again."
            ]
        return record, notes

    def place(self, key: SweepKey) -> Path:
        """Return the file of a sweep."""
        return self._folder / f"{key.digest}.jsonl"


def _fact_line(spot: Spot, fact: Fact) -> str:
    path, form = spot
    return json.dumps({"path": path, **asdict(form), **asdict(fact)})


def _base_line(record: Record) -> str:
    return json.dumps({"base_kl": record.base_kl, "tokens": record.tokens})


def _read_lines(lines: Sequence[str], head: str) -> tuple[Record, bool]:
    """Return the facts in a file's lines, and whether some were lost."""
    record = Record()
    if not lines:
        return record, False
    if lines[0] != head:
        return record, True
    lost = bool(lines[-1])  # a line without its end: the writer was killed
    for line in lines[1:]:
        lost |= bool(line) and not _read_fact(line, record)
    return record, lost


def _read_fact(line: str, record: Record) -> bool:
    try:
        value = json.loads(line)
        if "base_kl" in value:
            record.base_kl, record.tokens = _finite(value["base_kl"]), int(value["tokens"])
            return True
        record.facts[str(value["path"]), _read_form(value)] = Fact(
            noise=_finite(value["noise"]),
            kl=None if value["kl"] is None else _finite(value["kl"]),
            error=None if value["error"] is None else _finite(value["error"]),
        )
    except (ValueError, TypeError, KeyError, RecursionError):
        return False
    return True


def _write_lines(place: Path, head: str, record: Record) -> None:
    base = [] if record.base_kl is None else [_base_line(record)]
    facts = [_fact_line(spot, fact) for spot, fact in record.facts.items()]
    with atomic_write(place) as file:
        file.write("".join(f"{line}\n" for line in (head, *base, *facts)).encode())


def _read_entry(value: Mapping[str, Any]) -> Entry:
    return Entry(
        path=str(value["path"]),
        form=_read_form(value["form"]),
        kl=_finite(value["kl"]),
        error=None if value["error"] is None else _finite(value["error"]),
        measured=bool(value["measured"]),
        noise=_finite(value["noise"]),
    )


def _read_key(value: Mapping[str, Any]) -> SweepKey:
    return SweepKey(
        weights=str(value["weights"]),
        mix=str(value["mix"]),
        reference=None if value["reference"] is None else _read_form(value["reference"]),
        prepared=str(value["prepared"]),
        method=int(value["method"]),
    )


def _read_form(value: Mapping[str, Any]) -> Form:
    try:
        return checked_form(
            bits=value["bits"], group_size=value["group_size"], mode=str(value["mode"])
        )
    except MlxbunError as problem:
        raise ValueError(problem.message) from problem


def _finite(value: Any) -> float:
    number = float(value)
    if not math.isfinite(number):
        raise ValueError(f"{value!r} is not a finite number")
    return number
