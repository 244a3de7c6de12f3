"""The record of a quantization: `quantization.json` beside the weights, and with them on the Hub.

It says what the model was made from and how, and what was measured of it, so that `mlxbun eval
--verify` can measure it again. Its form is documented in docs/eval.md. Foreign input when it is
read: a folder may come from anywhere. Imports no arrays.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import msgspec

from core.errors import BadModelFiles
from core.evals.table import Entry, ProofTable
from core.paths import atomic_write
from core.provenance import EvalFigure
from core.registry.files import read_json

FILE = "quantization.json"
SCHEMA = 1


@dataclass(frozen=True, kw_only=True)
class Source:
    """The model that a quantization was made from."""

    model_id: str
    """Repo id, or the folder's name."""
    revision: str
    """As `core.figures.model_revision`: the commit, or a fingerprint of the files."""


@dataclass(frozen=True, kw_only=True)
class Record:
    """How a model was quantized, and what that costs."""

    schema: int = SCHEMA
    """Version of this form."""
    source: Source
    """The original."""
    recipe: Mapping[str, Any]
    """Every choice, as `core.quantize.recipe.TABLE.as_json` writes it."""
    calibration: str | None
    """Digest of the calibration text; None: none was used."""
    table: ProofTable | None
    """What was measured; it holds the digest of the held-out text. None: `--no-proof`."""
    baseline: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    """The uniform baseline: paths of packed layers to `bits`, `group_size` and `mode`."""
    sweep: Mapping[str, Any] | None = None
    """Sensitivities that the widths were chosen by; None: there was no choice."""
    notes: tuple[str, ...] = ()
    """What was done otherwise than usual, one sentence each."""
    versions: Mapping[str, str] = field(default_factory=dict)
    """Programs that made it, to their versions."""


def read_record(folder: Path) -> Record | None:
    """Return a folder's record; None: there is none.

    Raises:
        BadModelFiles: it cannot be read, or is not of the documented form.
    """
    file = folder / FILE
    try:
        content = read_json(file)
    except FileNotFoundError:
        return None
    except OSError as problem:
        raise _broken(file, problem.strerror or str(problem)) from None
    if content is None:
        raise _broken(file, "it is not a JSON object")
    if isinstance(content.get("schema"), int) and content["schema"] > SCHEMA:
        raise _broken(file, "a newer mlxbun has written it")
    try:
        return msgspec.convert(content, Record)
    except msgspec.ValidationError as problem:
        raise _broken(file, str(problem)) from None


def write_record(folder: Path, record: Record) -> None:
    """Write a folder's record, whole or not at all.

    Raises:
        OSError: the folder cannot be written, or the disk is full.
    """
    with atomic_write(folder / FILE) as file:
        file.write(msgspec.json.format(msgspec.json.encode(record), indent=2) + b"\n")


def table_as_json(table: ProofTable) -> dict[str, Any]:
    """Return a table as plain values."""
    plain: dict[str, Any] = msgspec.to_builtins(table)
    return plain


def figures_of(table: ProofTable) -> tuple[EvalFigure, ...]:
    """Return a table as the figures of a model card."""
    ours = table.entry("quantized") or table.entry("uniform")
    uniform = table.entry("uniform") if table.entry("quantized") else None
    if ours is None:
        return ()
    return (*_whole(table, ours, uniform), *_by_domain(table, ours, uniform))


def _whole(table: ProofTable, ours: Entry, uniform: Entry | None) -> Iterator[EvalFigure]:
    """Yield the figures of all tokens together."""
    base = table.original
    data = f"{ours.overall.tokens} held-out tokens, {table.heldout[:12]}"
    for name, unit, read in (
        ("bits per weight", None, lambda entry: entry.bits_per_weight),
        ("size", "bytes", lambda entry: float(entry.size_bytes)),
    ):
        yield EvalFigure(
            name=name,
            unit=unit,
            value=read(ours),
            base_value=read(base),
            uniform_value=read(uniform) if uniform else None,
        )
    for name, unit, key, error in (
        ("perplexity", None, "perplexity", "perplexity_se"),
        ("KL divergence, mean", "nats", "kl", "kl_se"),
        ("KL divergence, median", "nats", "kl_median", None),
        ("KL divergence, 99th percentile", "nats", "kl_p99", None),
        ("KL divergence, maximum", "nats", "kl_max", None),
        ("top-1 agreement", None, "agreement", "agreement_se"),
    ):
        yield EvalFigure(
            name=name,
            unit=unit,
            data=data,
            value=getattr(ours.overall, key),
            error=getattr(ours.overall, error) if error else None,
            base_value=base.overall.perplexity if key == "perplexity" else None,
            uniform_value=getattr(uniform.overall, key) if uniform else None,
        )


def _by_domain(table: ProofTable, ours: Entry, uniform: Entry | None) -> Iterator[EvalFigure]:
    """Yield perplexity, KL and agreement of every domain."""
    for domain, found in ours.domains.items():
        theirs = uniform.domains.get(domain) if uniform else None
        base = table.original.domains.get(domain)
        for name, unit, key in (
            ("perplexity", None, "perplexity"),
            ("KL divergence, mean", "nats", "kl"),
            ("top-1 agreement", None, "agreement"),
        ):
            yield EvalFigure(
                name=name,
                unit=unit,
                data=domain,
                value=getattr(found, key),
                error=getattr(found, f"{key}_se"),
                base_value=base.perplexity if base and key == "perplexity" else None,
                uniform_value=getattr(theirs, key) if theirs else None,
            )


def _broken(file: Path, reason: str) -> BadModelFiles:
    return BadModelFiles(
        f"{file} cannot be used: {reason}.",
        hint="Its form is described in docs/eval.md; remove the file to do without it.",
    )
